"""Pictures, timeline, trace and page of a plan over a mesh."""

import json
import re
import xml.etree.ElementTree as ET
from dataclasses import replace
from itertools import pairwise

import pytest

from einmap import Spec, load
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.costs.cost import plan_cost
from einmap.distribute.derive import distribute_workload
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import Placement, Split
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import PlanRequest
from einmap.distribute.planner.what_if import Change
from einmap.distribute.plans.lifetimes import held_in_time, peak_memory
from einmap.distribute.plans.plan import Buffer
from einmap.report.drawing.theme import LIGHT
from einmap.report.mesh.pictures.canvas import Canvas
from einmap.report.mesh.pictures.grid import Grid
from einmap.report.mesh.pictures.holders import MOST_STEPS, holders_svg
from einmap.report.mesh.pictures.lanes import lanes_svg
from einmap.report.mesh.planned import planned_document, steps_of
from einmap.report.mesh.steps import shown_steps
from einmap.report.mesh.trace import plan_trace

HOSTILE = "<script>alert('x')</script>"


def drawn_texts(svg):
    return [element.text or "" for element in ET.fromstring(svg).iter() if element.tag.endswith("text")]


def planned(mesh=(("x", 4),), **options):
    workload = load("feed_forward", define={"N_TOKENS": 8, "D_MODEL": 512, "D_FF": 2048, "BITS": 16}).workload
    mesh = Mesh(mesh)
    return plan_workload(workload, PlanRequest(mesh, flat_cluster(mesh, 1e12, 0.0, 1e12), **options))


@pytest.fixture(scope="module")
def row_parallel():
    """Weights in columns, then rows, the sum reduce-scattered."""
    return planned(placements={"X": "replicated", "W1": {"S": "x"}, "W2": {"S": "x"}, "Z": {"M": "x"}})


def buffer(splits=(), partial=(), sizes=(("M", 10), ("K", 6))):
    return Buffer("A", "A", sizes, Placement(tuple(splits), tuple(partial)))


def test_a_grid_has_a_number_for_the_block_of_each_pe():
    mesh = Mesh((("x", 2), ("y", 4)))
    grid = Grid(mesh, buffer([Split("M", ("y",), 4)]))
    canvas = Canvas(LIGHT)
    grid.draw(canvas, 0, 0)
    labels = [text.line.text for text in canvas.picture("", "").texts]
    # 10 coordinates in blocks of 4: the last PE along y has none
    assert [label for label in labels if label not in "xy"] == ["0", "1", "2", "-"] * 2


@pytest.mark.parametrize("axes", [(("x", 512),), (("x", 64), ("y", 64)), (("x", 8), ("y", 64), ("z", 8))])
def test_a_large_mesh_is_drawn_with_gaps(axes):
    grid = Grid(Mesh(axes), buffer([Split("M", (axes[-1][0],), 1)]))
    canvas = Canvas(LIGHT)
    grid.draw(canvas, 0, 0)
    picture = canvas.picture("", "")
    assert len(picture.shapes) <= 40
    assert "..." in [text.line.text for text in picture.texts]
    last = str(axes[-1][1] - 1)
    assert grid.block_of(grid.device(*[shown[-1] for shown in (grid.groups, grid.rows, grid.columns)])) == (int(last),)


def test_the_last_pe_of_the_drawing_is_the_last_of_the_mesh():
    mesh = Mesh((("w", 2), ("x", 3), ("one", 1), ("y", 4), ("z", 5)))
    grid = Grid(mesh, buffer())
    assert grid.device(grid.groups[-1], grid.rows[-1], grid.columns[-1]) == mesh.n_devices - 1
    assert grid.device(0, 1, 0) == 5


def test_steps_tell_what_moves_and_what_it_sends(row_parallel):
    steps = steps_of(row_parallel)
    assert [step.title for step in steps] == ["compute U, s: x", "compute Z, s: x", "reduce-scatter of Z, over x"]
    # 3/4 of 8 x 512 values of 2 bytes
    assert [step.sent for step in steps] == [0, 0, 0.75 * 8 * 512 * 2]
    assert max(step.held for step in steps) == row_parallel.best.peak.bytes
    cost = plan_cost(row_parallel.best.plan, row_parallel.request.cluster, row_parallel.best.bits)
    assert max(step.end for step in steps) == cost.overlapped_latency


def test_the_picture_has_every_step_with_what_it_reads_and_writes(row_parallel):
    best = row_parallel.best
    texts = drawn_texts(holders_svg(best.plan.mesh, steps_of(row_parallel), best.bits))
    assert "reduce-scatter of Z, over x" in texts
    assert [text for text in texts if text in ("W1", "X", "U", "W2", "Z")] == ["X", "W1", "U", "U", "W2", "Z", "Z", "Z"]
    assert any("each PE sends 6 KiB, 1 x 4 PEs" in text for text in texts)


def test_nothing_of_a_picture_overlaps_or_leaves_it(row_parallel):
    wide = planned((("z", 2), ("x", 4), ("y", 16)))
    for one in (row_parallel, wide):
        steps = steps_of(one)
        for svg in (holders_svg(one.request.mesh, steps, one.best.bits), lanes_svg(one.request.mesh, steps)):
            root = ET.fromstring(svg)
            width, height = float(root.get("width")), float(root.get("height"))
            boxes = [
                tuple(float(e.get(key)) for key in ("x", "y", "width", "height"))
                for e in root.iter()
                if e.tag.endswith("rect") and e.get("rx") == "2"
            ]
            assert all(x >= 0 and y >= 0 and x + w <= width and y + h <= height for x, y, w, h in boxes)
            texts = [(float(e.get("x")), float(e.get("y"))) for e in root.iter() if e.tag.endswith("text")]
            assert all(0 <= x < width and 0 <= y <= height for x, y in texts)
            apart = sorted(set(boxes))
            for (x, y, _, h), (x2, y2, _, _) in pairwise(apart):
                assert x2 != x or y2 + 0.01 >= y + h or y2 == y


def test_many_steps_are_elided():
    einsums = [f"X{n + 1}[m, d] = X{n}[m, d] * V[d]" for n in range(90)]
    spec = Spec.from_dict(workload={"rank_sizes": {"M": 8, "D": 4}, "bits_per_value": {"All": 8}, "einsums": einsums})
    mesh = Mesh((("x", 2),))
    plan = distribute_workload(spec.workload, mesh, {"X0": {"M": "x"}})
    steps = shown_steps(plan, flat_cluster(mesh, 1e9, 0.0, 1e12), dict.fromkeys(spec.workload.tensors, 8.0))
    svg = holders_svg(mesh, steps, dict.fromkeys(spec.workload.tensors, 8.0))
    assert f"... {len(steps) - MOST_STEPS:,} more steps ..." in drawn_texts(svg)
    assert "compute X90, m: x" in drawn_texts(svg)
    # on the timeline steps that are too narrow are drawn together
    assert len(lanes_svg(mesh, steps)) < 60_000


def test_the_trace_has_a_thread_for_each_lane_and_the_times_of_the_plan(row_parallel):
    best = row_parallel.best
    document = json.loads(b"".join(plan_trace(best.plan, steps_of(row_parallel), best.bits)))
    events = document["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert sorted(names.values()) == ["axis x", "compute"]
    spans = [event for event in events if event["ph"] == "X"]
    assert [(names[one["tid"]], one["name"]) for one in spans] == [
        ("compute", "compute U"), ("compute", "compute Z"), ("axis x", "reduce-scatter of Z")
    ]  # fmt: skip
    whole = max(one["ts"] + one["dur"] for one in spans)
    assert whole == pytest.approx(1e6 * document["otherData"]["latency [s]"])
    held = [event["args"]["bytes"] for event in events if event["ph"] == "C"]
    assert max(held) == best.peak.bytes


def test_memory_in_time_counts_what_runs_at_once():
    mesh = Mesh((("x", 2),))
    workload = load("matmul_chain").workload
    plan = distribute_workload(workload, mesh)
    one_by_one = [(float(i), i + 1.0) for i in range(len(plan.steps))]
    held = held_in_time(plan, one_by_one)
    assert max(size for _, size in held) >= peak_memory(plan).bytes
    at_once = held_in_time(plan, [(0.0, 1.0)] * len(plan.steps))
    assert at_once == ((0.0, sum(size for _, size in at_once)),)


def test_hostile_names_are_text_everywhere(row_parallel):
    from einmap.report.html.page import to_html
    from einmap.report.html.pages.plan_page import plan_page

    best, mesh = row_parallel.best, row_parallel.request.mesh

    def renamed(buffers):
        return tuple(replace(one, tensor=HOSTILE) for one in buffers)

    steps = [
        replace(step, name=f"compute {HOSTILE}", how=HOSTILE, reads=renamed(step.reads), writes=renamed(step.writes))
        for step in steps_of(row_parallel)
    ]
    bits = {**best.bits, HOSTILE: 16.0}
    for text in (holders_svg(mesh, steps, bits, title=HOSTILE), lanes_svg(mesh, steps, title=HOSTILE)):
        assert "<script" not in text
        assert HOSTILE in "".join(drawn_texts(text))
    trace = json.loads(b"".join(plan_trace(best.plan, steps, bits)))
    assert any(event["name"] == f"compute {HOSTILE}" for event in trace["traceEvents"])
    changed = replace(row_parallel, changes=(Change(HOSTILE, None, tried=True),))
    spec = load("feed_forward", define={"N_TOKENS": 8, "D_MODEL": 512, "D_FF": 2048, "BITS": 16})
    page = to_html(plan_page(changed, spec, [HOSTILE]))
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_the_page_has_all_sections_and_asks_nothing_of_the_network():
    from einmap.report.html.page import to_html
    from einmap.report.html.pages.plan_page import plan_page

    spec = load("feed_forward", define={"N_TOKENS": 8, "D_MODEL": 512, "D_FF": 2048, "BITS": 16})
    mesh = Mesh((("x", 4),))
    request = PlanRequest(mesh, flat_cluster(mesh, 1e12, 0.0, 1e12), memory=1.5e6)
    result = plan_workload(spec.workload, request, what_if=20.0)
    page = plan_page(result, spec, ["feed_forward"])
    keys = [section.key for section in page.sections]
    assert keys == [
        "summary", "placements", "holders", "timeline", "memory", "others", "what-if", "steps", "workload", "inputs"
    ]  # fmt: skip
    html = to_html(page)
    assert html == to_html(page)
    assert not re.search(r"<(?:link|img|iframe)[^>]+(?:href|src)=.https?:", html)
    document = planned_document(result)
    assert len(document["steps"]) == len(steps_of(result))
    assert {"what", "how", "reads", "writes", "start_seconds", "end_seconds", "sent_bytes", "held_bytes"} <= set(
        document["steps"][0]
    )
