"""Pictures of random mappings, architectures and workloads: nothing overlaps, sticks out or hangs loose."""

import random
import re
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.random_specs.cases import drawn_cases
from tests.report.drawing.geometry import crossings, problems, shared_lines, touches

from einmap import Spec, load, loads
from einmap.report.drawing.arch import arch_picture
from einmap.report.drawing.draw import draw
from einmap.report.drawing.layered import WIDEST, graph_layout, joined_parts, kept_apart
from einmap.report.drawing.looptree import looptree_picture
from einmap.report.drawing.shapes import Line, Picture, Shape
from einmap.report.drawing.svg import to_svg
from einmap.report.drawing.theme import LIGHT
from einmap.report.drawing.workload import workload_picture

KINDS = ("box", "double box", "cylinder", "ellipse", "hexagon", "pill", "disc")


@given(drawn_cases())
def test_a_looptree_has_every_node_once_and_nothing_overlaps(case):
    mapping = Spec.from_dict(case).mapping
    picture = looptree_picture(mapping)
    assert problems(picture) == []
    drawn = [placed.shape for placed in picture.shapes]
    assert sum(shape.kind == "pill" for shape in drawn) == sum(hasattr(p.node, "branches") for p in mapping.placed)
    assert sum(shape.kind not in ("disc",) for shape in drawn) == len(mapping.placed)
    assert len(picture.edges) == len(drawn) - 1


@given(drawn_cases())
@settings(max_examples=30)
def test_workloads_and_architectures_too(case):
    spec = Spec.from_dict(case)
    cascade = workload_picture(spec.workload)
    assert problems(cascade) == []
    assert len(cascade.shapes) == len(spec.workload.einsums) + len(spec.workload.tensors)
    assert problems(arch_picture(spec)) == []


def deep(rng, depth, tag=""):
    """Nested splits of uneven depth, as plain nodes."""
    loop = {"type": "Temporal", "rank_variable": f"m{tag}", "tile_shape": 2}
    nodes = [
        {"type": "Storage", "component": f"L{depth}", "tensors": [f"T{tag}_{i}" for i in range(rng.randint(1, 30))]}
    ]
    nodes += [loop] * rng.randint(0, 5)
    if depth < 5 and rng.random() < 0.7:
        branches = [{"type": "Nested", "nodes": deep(rng, depth + 1, f"{tag}{i}")} for i in range(rng.randint(1, 4))]
        return [*nodes, {"type": "Sequential", "nodes": branches}]
    return [*nodes, {"type": "Compute", "einsum": f"E{tag}", "component": "MAC"}]


@pytest.mark.parametrize("seed", range(15))
def test_deep_and_uneven_trees_do_not_overlap(seed):
    spec = Spec.from_dict({"mapping": {"nodes": deep(random.Random(seed), 0)}})
    assert problems(looptree_picture(spec.mapping)) == []


def test_two_thousand_loops_below_each_other_are_drawn():
    loops = [{"type": "Temporal", "rank_variable": "m", "tile_shape": 2}] * 2000
    compute = {"type": "Compute", "einsum": "Z", "component": "MAC"}
    picture = looptree_picture(Spec.from_dict({"mapping": {"nodes": [*loops, compute]}}).mapping)
    assert len(picture.shapes) == 2001
    assert problems(picture) == []


def chance_graph(rng):
    count = rng.randint(1, 25)
    edges = [(a, b) for a in range(count) for b in range(a + 1, count) if rng.random() < 2.2 / count]
    lines = [tuple(Line("x" * rng.randint(1, 40)) for _ in range(rng.randint(1, 4))) for _ in range(count)]
    kinds = [rng.choice(("box", "pill", "ellipse")) for _ in range(count)]
    return [Shape(kind, text, LIGHT.paint(None)) for kind, text in zip(kinds, lines, strict=True)], edges


@given(st.randoms(use_true_random=False))
@settings(max_examples=80)
def test_graphs_do_not_overlap_and_their_edges_go_around_nodes(rng):
    shapes, edges = chance_graph(rng)
    layout = graph_layout(shapes, edges)
    picture = Picture(layout.width, layout.height, layout.shapes, layout.edges, LIGHT)
    assert problems(picture) == []
    assert [(edge.source, edge.target) for edge in layout.edges] == edges


def test_lines_of_different_shapes_do_not_touch():
    for seed in range(60):
        layout = graph_layout(*chance_graph(random.Random(seed)))
        picture = Picture(layout.width, layout.height, layout.shapes, layout.edges, LIGHT)
        assert touches(picture) == set(), seed


def test_a_narrow_shape_is_wide_enough_for_all_that_enters_it():
    names = [Shape("pill", (Line("x"),), LIGHT.paint(None)) for _ in range(20)]
    layout = graph_layout(names, [(source, 19) for source in range(19)])
    picture = Picture(layout.width, layout.height, layout.shapes, layout.edges, LIGHT)
    assert problems(picture) == []
    assert shared_lines(picture) == []
    ends = sorted(edge.points[-1][0] for edge in layout.edges)
    assert min(b - a for a, b in pairwise(ends)) >= 5.9


@pytest.mark.parametrize("name", ["gpt3_6.7b", "gpt3_6.7b_decode", "conv", "two_matvecs", "matmul_chain"])
def test_the_lines_of_different_tensors_can_be_told_apart(name):
    picture = workload_picture(load(name).workload)
    assert problems(picture) == []
    assert shared_lines(picture) == []
    assert touches(picture) == set()


@pytest.mark.parametrize("name", ["gpt3_6.7b", "attention", "llama3_8b"])
def test_lines_go_over_those_that_they_cross_in_an_arc(name):
    """So that none seems to lead to the arrow of another: I, which V, K and Q read, passes the arrow from WK to K."""
    picture = workload_picture(load(name).workload)
    drawn = re.findall(r"A4 4 0 0 [01] (\S+) (\S+?)[LM\"]", to_svg(picture))
    crossed = crossings(picture)
    assert crossed
    assert len(drawn) >= len(crossed)
    for _, x, y in crossed:
        assert {(f"{x + 4:g}", f"{y:g}"), (f"{x - 4:g}", f"{y:g}")} & {*drawn}


def test_einsums_that_share_nothing_stand_in_rows():
    picture = workload_picture(load("resnet50").workload)
    assert picture.width < WIDEST + 100
    assert problems(picture) == []
    einsums = [p.box for p in picture.shapes if p.shape.kind == "box"]
    assert len({box.y for box in einsums}) >= len(einsums) // 5
    assert [box.middle for box in einsums[:3]] == sorted(box.middle for box in einsums[:3])


def test_einsums_that_share_an_input_stand_in_rows_too():
    einsums = [f"Z{i}[m, n] = I[m, k] * W{i}[k, n]" for i in range(24)]
    workload = {"rank_sizes": {"M": 4, "N": 4, "K": 4}, "bits_per_value": {"All": 8}, "einsums": einsums}
    picture = workload_picture(Spec.from_dict(workload=workload).workload)
    assert picture.width < 1.4 * WIDEST
    assert problems(picture) == []
    assert shared_lines(picture) == []
    assert touches(picture) == set()


def test_parts_are_what_edges_join():
    assert joined_parts(6, [(4, 1), (5, 4), (0, 2)]) == [[0, 2], [1, 4, 5], [3]]
    assert graph_layout([], []).shapes == ()


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 20)), min_size=1, max_size=8))
def test_what_is_kept_apart_is_apart_and_centred_on_what_it_wants(pairs):
    wanted, apart = [float(w) for w, _ in pairs], [float(a) for _, a in pairs[1:]]
    places = kept_apart(wanted, apart)
    assert all(b - a >= gap - 1e-9 for a, b, gap in zip(places, places[1:], apart, strict=False))
    assert sum(places) == pytest.approx(sum(wanted))


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)


@given(st.sampled_from(KINDS), st.lists(names, min_size=1, max_size=5))
def test_names_of_any_characters_give_valid_xml(kind, texts):
    nodes = [
        {"type": "Storage", "component": texts[0], "tensors": texts},
        {"type": "Toll", "component": texts[-1], "tensors": texts},
        {"type": "Compute", "einsum": texts[0], "component": texts[-1]},
    ]
    spec = Spec.from_dict({"mapping": {"nodes": nodes}})
    assert problems(looptree_picture(spec.mapping)) == []
    root = ElementTree.fromstring(draw(spec, title=texts[0]))
    assert root.tag == "{http://www.w3.org/2000/svg}svg"


def test_markup_in_names_stays_text():
    nodes = [{"type": "Compute", "einsum": "</text><script>alert(1)</script>", "component": '"&<'}]
    root = ElementTree.fromstring(draw(Spec.from_dict({"mapping": {"nodes": nodes}})))
    tags = {element.tag.rpartition("}")[2] for element in root.iter()}
    assert tags <= {"svg", "title", "desc", "rect", "g", "path", "text", "ellipse"}
    assert "</text><script>alert(1)</script>" in "".join(root.itertext()).replace("\n", "")


def test_the_same_specification_gives_the_same_text():
    files = "simple", "two_matvecs", "simple_two_matvecs_fused"
    assert draw(load(files), costs=True) == draw(load(files), costs=True)


def test_readers_who_cannot_see_it_get_a_title_and_the_loop_nest():
    spec = load("simple", "matmul", "simple_matmul")
    root = ElementTree.fromstring(draw(spec, title="Z = A B"))
    space = "{http://www.w3.org/2000/svg}"
    assert root.get("role") == "img"
    assert root.find(f"{space}title").text == "Z = A B"
    assert "for k by 1" in root.find(f"{space}desc").text


def test_an_einsum_of_its_own_has_its_path_without_the_storage_of_others():
    spec = load("simple", "two_matvecs", "simple_two_matvecs_fused")
    one = looptree_picture(spec.mapping, spec, einsum="EinsumB")
    texts = [[line.text for line in placed.shape.lines] for placed in one.shapes]
    assert [" ".join(text) for text in texts] == [
        "MainMemory WB, B",
        "GlobalBuffer B",
        "for nA by 1",
        "GlobalBuffer A",
        "for nB by 1",
        "GlobalBuffer WB",
        "EinsumB MAC",
    ]


def test_a_loop_that_differs_between_einsums_says_for_which_it_is_what():
    loop = "!Temporal {rank_variable: {A: m, B: p, C: m}, tile_shape: {A: 16, B: 8, C: 16}}"
    leaves = ", ".join(f"!Nested {{nodes: [!Compute {{einsum: {e}, component: MAC}}]}}" for e in "ABC")
    spec = loads(f"mapping: {{nodes: [{loop}, !Sequential {{nodes: [{leaves}]}}]}}")
    shape = looptree_picture(spec.mapping).shapes[0].shape
    assert [line.text for line in shape.lines] == ["for m by 16", "A, C", "for p by 8", "B"]
