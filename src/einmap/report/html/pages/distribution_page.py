"""The page of `einmap run`: who holds what, what is exchanged, and whether results are right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from einmap.distribute.backends.base import Run
from einmap.distribute.backends.compare import matches
from einmap.distribute.costs.cost import communication, plan_cost
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import held
from einmap.distribute.plans.collectives import Traffic
from einmap.distribute.plans.plan import Buffer, Plan
from einmap.frontends.yaml.spec import dump
from einmap.report.frames.kinds import frame_of
from einmap.report.frames.shown import shown
from einmap.report.html.charts import STEP, bars, colours_of, legend, name, number, tooltip
from einmap.report.html.parts import Code, Figure, Folded, Option, Page, Paragraph, Part, Section, Tabs, Tile, Tiles
from einmap.report.html.sections.drawings import workload_section
from einmap.report.mesh.collectives import matches_table, traffic_table
from einmap.report.mesh.distribution import PlanRun, check_line, einsums_table, mesh_text, run_agrees
from einmap.report.text.formatting import data_unit, exact, hyphened
from einmap.spec.spec import Spec
from einmap.units import format_bytes

_MOST_PES = 32
"""PEs of which it is drawn what they hold."""
_MOST_TENSORS = 12


def distribution_page(outcome: PlanRun, spec: Spec, engine: str = "", names: Sequence[str] = ()) -> Page:
    """A plan, and what an engine found where it was run. `names`: of the files that it was made from."""
    plan, run = outcome.plan, outcome.run
    workload = plan.workload
    sections = [
        _summary(outcome, engine),
        _einsums(plan),
        _holders(plan),
        _communication(plan, run),
        workload_section(workload),
        Section("inputs", "Inputs", (Folded("specification", (Code(dump(spec)),)),)),
    ]
    head = f"Distribution: {', '.join(names) or ', '.join(e.name for e in workload.einsums)}"
    return Page.of(head, f"{mesh_text(plan.mesh)}, {plan.dtype}", sections, spec.distribution_notes)


def _summary(outcome: PlanRun, engine: str) -> Section:
    plan, run, checks = outcome.plan, outcome.run, outcome.checks
    cost = plan_cost(plan)
    verdict: list[Part] = [Paragraph("The plan was derived, and not run.")]
    if run is not None:
        agrees = run_agrees(plan, run, checks)
        text = "All outputs are equal to the unpartitioned ones"
        if outcome.extent:
            text = "Nothing that was checked differs" if checks else "The plan was run, its outputs were not checked"
        text = text if agrees else "Something differs from what was expected"
        if agrees and run.lowered is not None:
            text += ", and the program sends what was predicted"
        verdict = [Paragraph(f"{text}.", "good" if agrees else "bad")]
        verdict += [Paragraph(f"{outcome.extent}.", "warning")] if outcome.extent else []
        verdict += [Paragraph(check_line(check, engine), "plain" if check.agrees else "bad") for check in checks]
    tiles = Tiles(
        (
            Tile("processing elements", f"{plan.mesh.n_devices:,}", f"mesh {plan.mesh}"),
            Tile("sent by each PE", format_bytes(cost.sent_bytes), f"{exact(cost.sent_bytes)} bytes"),
            Tile("points of the busiest PE", exact(cost.points), f"{cost.mean_points:.4g} on average"),
            Tile("buffers of each PE", format_bytes(cost.buffer_bytes), f"{exact(cost.buffer_bytes)} bytes"),
        )
    )
    return Section("summary", "Summary", (*verdict, tiles))


def _einsums(plan: Plan) -> Section:
    lead = "What each PE does, step by step; PEs are told by their coordinates, a prime marks those of another PE."
    return Section("einsums", "Einsums of each PE", (einsums_table(plan),), lead)


def _holders(plan: Plan) -> Section:
    table = shown(frame_of(plan, "buffers"), bars=("share",))
    ends = dict.fromkeys(name for _, name in (*plan.inputs, *plan.outputs))
    split = [plan.by_name[name] for name in ends if plan.by_name[name].ranks][:_MOST_TENSORS]
    tabs = Tabs(tuple(Option(buffer.name, (_placed(plan.mesh, buffer),)) for buffer in split))
    return Section("placement", "Who holds what", (tabs, table) if split else (table,))


def _placed(mesh: Mesh, buffer: Buffer) -> Figure:
    """A bar for each PE and rank: the coordinates that it holds."""
    devices = range(min(mesh.n_devices, _MOST_PES))
    rows: list[dict[str, Any]] = []
    for device in devices:
        place = ", ".join(f"{axis}={at}" for axis, at in mesh.coordinates(device).items())
        for rank, size in buffer.sizes:
            span = held(size, buffer.placement.of(rank), mesh, device)
            if len(span):
                text = f"{span.start:,} to {span.stop - 1:,} of {size:,}"
                part = {"rank": rank, "from": span.start / size, "to": span.stop / size, "text": text}
                rows.append({"pe": f"PE {device}", "place": place, **part})
    plot = {
        "data": {"values": rows},
        "height": len(devices) * max(STEP, 11 * len(buffer.ranks)),
        "mark": {"type": "bar", "height": {"band": 0.8}},
        "encoding": {
            "y": {**name("pe"), "scale": {"paddingInner": 0.25}},
            "yOffset": {"field": "rank", "type": "nominal", "sort": None},
            "x": number("from", "part of the rank", {"domain": [0, 1]}, format=".0%"),
            "x2": {"field": "to"},
            "color": legend(colours_of(buffer.ranks), buffer.ranks, "rank"),
            "tooltip": tooltip(pe="PE", place="at", rank="rank", text="holds"),
        },
    }
    more = f" The first {_MOST_PES} of {mesh.n_devices:,} PEs." if mesh.n_devices > _MOST_PES else ""
    partial = buffer.placement.partial
    addends = f" Each PE holds addends over {', '.join(partial)}." if partial else ""
    if buffer.placement.on:
        addends += f" Only PEs at {', '.join(f'{axis} = {place}' for axis, place in buffer.placement.on)} hold it."
    text = f"Placement {buffer.placement}.{addends}{more}"
    return Figure(f"placement-{buffer.name}", f"The part of {buffer.name} that each PE holds", plot, text, text)


def _communication(plan: Plan, run: Run | None) -> Section:
    rows = communication(plan)
    if not rows:
        return Section("communication", "Communication", (Paragraph("Nothing is exchanged."),))
    parts: list[Part] = [_sent(rows), replace(traffic_table(rows), caption="Bytes of one PE.")]
    if run is not None and run.lowered is not None:
        caption = "What the program executes, per PE."
        parts.append(replace(matches_table(matches(rows, run.lowered)), caption=caption))
    lead = "What one PE sends in each step; rings are optimal in bandwidth."
    return Section("communication", "Communication", tuple(parts), lead)


def _sent(rows: Sequence[Traffic]) -> Figure:
    most = max(row.total_sent_bytes for row in rows)
    size, unit = (1, "bytes") if most < 1024 else data_unit(8 * most)
    factor = size / 8 if unit != "bytes" else 1
    values = [
        {"row": f"{place}: {hyphened(row.kind)} {row.tensor}", "value": row.total_sent_bytes / factor, "marked": False}
        | {"text": format_bytes(row.total_sent_bytes), "times": f"{row.count:,}"}
        for place, row in enumerate(rows, start=1)
    ]
    titles = {"row": "step", "text": "sent", "times": "times"}
    plot = bars(values, f"sent by each PE ({unit})", most / factor * 1.2 or 1.0, **titles)
    text = f"Bytes that each PE sends in each of {len(rows)} collectives."
    return Figure("communication", "Sent by each PE, step by step", plot, text)
