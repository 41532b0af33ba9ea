"""The page of `einmap plan`: the best plan, who holds what, what moves when, and why other plans lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from einmap.distribute.costs.cost_model import PlanMetric
from einmap.distribute.planner.chosen import ChosenPlan
from einmap.distribute.planner.differences import turns_in_words, what_differs, why_dearer
from einmap.distribute.planner.document import distribution_text
from einmap.distribute.planner.planner import Planned
from einmap.frontends.yaml.spec import dump
from einmap.report.html.charts import bars, colour, dashed_line, number, tooltip
from einmap.report.html.parts import Code, Drawing, Figure, Folded, Page, Paragraph, Part, Section, Tile, Tiles
from einmap.report.html.sections.drawings import workload_section
from einmap.report.mesh.distribution import mesh_text
from einmap.report.mesh.pictures.holders import holders_svg
from einmap.report.mesh.pictures.lanes import lanes_svg
from einmap.report.mesh.planned import amount, change_lines, known_of, named_lines, placements_table, steps_of
from einmap.report.mesh.steps import ShownStep
from einmap.report.text.formatting import NONE, data_unit
from einmap.report.text.layout import Table
from einmap.spec.spec import Spec
from einmap.units import counted, format_bytes, format_si
from einmap.visible import listed

_MOST_PARTS = 20
"""Steps whose cost is drawn, the dearest."""
_MOST_ROWS = 400
"""Steps that the table lists."""


def plan_page(planned: Planned, spec: Spec, names: Sequence[str] = ()) -> Page:
    """Page on the plan of a workload on a mesh. `names`: of the files that it was made from, for the title."""
    steps, workload = steps_of(planned), planned.best.plan.workload
    plan = Folded("the plan as YAML", (Code(distribution_text(planned.best)),))
    sections = (
        _summary(planned, steps),
        _placements(planned.best),
        _holders(planned, steps),
        _timeline(planned, steps),
        _memory(planned, steps),
        _others(planned),
        _changes(planned),
        _steps(steps),
        workload_section(workload),
        Section("inputs", "Inputs", (plan, Folded("specification", (Code(dump(spec)),)))),
    )
    head = f"Plan: {', '.join(names) or ', '.join(workload.by_name)}"
    subtitle = f"{mesh_text(planned.request.mesh)}, least {planned.request.metric}"
    return Page.of(head, subtitle, sections, spec.distribution_notes)


def _summary(planned: Planned, steps: Sequence[ShownStep]) -> Section:
    best, metric = planned.best, planned.request.metric
    turns = "" if best.turns is None else f"In turns {turns_in_words(best.turns)}: "
    known = f"{turns}{known_of(planned)}."
    verdict = Paragraph(known[0].upper() + known[1:], "good" if best.proven and not turns else "warning")
    limit = f"of {format_bytes(planned.memory)}" if planned.memory is not None else "at most, no limit"
    together = max((step.end for step in steps), default=0.0)
    tiles = Tiles(
        (
            Tile("cost", amount(best.cost, metric), f"least {metric}"),
            Tile("time", format_si(together, "s"), "where steps run as soon as they may"),
            Tile("sent by each PE", format_bytes(best.sent_bytes), "in all moves"),
            Tile("held by each PE", format_bytes(best.peak.bytes), limit),
        )
    )
    return Section("summary", "Summary", (verdict, tiles, *map(Paragraph, named_lines(planned))))


def _placements(best: ChosenPlan) -> Section:
    lead = "Where each tensor is kept, and how the Einsum that writes it is spread over the PEs."
    return Section("placements", "Placements", (placements_table(best),), lead)


def _holders(planned: Planned, steps: Sequence[ShownStep]) -> Section:
    plan, bits = planned.best.plan, planned.best.bits
    drawing = Drawing(
        "holders", "Who holds what, and what moves when", lambda theme: holders_svg(plan.mesh, steps, bits, theme=theme)
    )
    lead = "Each step with what it reads and what it writes; a PE has the colour of the block that it holds."
    return Section("holders", "Who holds what", (drawing,), lead)


def _timeline(planned: Planned, steps: Sequence[ShownStep]) -> Section:
    mesh = planned.best.plan.mesh
    parts: list[Part] = [Drawing("timeline", "When each step runs", lambda theme: lanes_svg(mesh, steps, theme=theme))]
    metric = planned.request.metric
    dear = sorted((part for part in planned.best.parts if part.cost > 0), key=lambda part: -part.cost)[:_MOST_PARTS]
    if dear:
        whole = sum(part.cost for part in planned.best.parts)
        rows = [
            {"row": f"{number}: {part.what}", "value": part.cost / whole, "marked": part.sent > 0}
            | {"text": amount(part.cost, metric), "sent": format_bytes(part.sent) if part.sent else "nothing"}
            for number, part in enumerate(dear, start=1)
        ]
        titles = {"row": "step", "text": "costs", "sent": "sent by each PE"}
        plot = bars(rows, "part of the cost", 1.15 * dear[0].cost / whole, **titles)
        text = f"The {len(dear)} dearest steps; moves stand out."
        parts.append(Figure("cost-by-step", "What costs most", plot, text, text))
    return Section("timeline", "When", tuple(parts), "Einsums run one after another, and so do moves along each axis.")


def _memory(planned: Planned, steps: Sequence[ShownStep]) -> Section | None:
    if not steps:
        return None
    most = max(step.held for step in steps)
    size, unit = data_unit(8 * max(most, planned.memory or 0.0))
    rows = [
        {"step": step.position + 1, "end": step.position + 2, "held": 8 * step.held / size, "what": step.title}
        | {"text": format_bytes(step.held)}
        for step in steps
    ]
    held: dict[str, Any] = {
        "mark": {"type": "rect"},
        "data": {"values": rows},
        "encoding": {
            "x": number("step", "step", tickMinStep=1),
            "x2": {"field": "end"},
            "y": number("held", f"held by each PE ({unit})", {"zero": True}),
            "y2": {"datum": 0},
            "color": {"value": colour(0)},
            "tooltip": tooltip(step="step", what="does", text="held"),
        },
    }
    limit = [] if planned.memory is None else [dashed_line("limit", 8 * planned.memory / size)]
    layers = [held, *limit]
    peak = planned.best.peak
    tensors = dict.fromkeys(planned.best.plan.by_name[name].tensor for name in peak.buffers)
    text = (
        f"Bytes that each PE holds at each step, graph inputs always. The most, {format_bytes(peak.bytes)}, at step "
        f"{peak.step + 1}: {listed(tensors, most=12)}."
    )
    text += " The dashed line is the memory of a PE." if planned.memory is not None else ""
    figure = Figure("memory", "Memory of a PE, step by step", {"height": 220, "layer": layers}, text, text)
    return Section("memory", "Memory", (figure,))


def _others(planned: Planned) -> Section | None:
    best, metric = planned.best, planned.request.metric
    plans = [(what_differs(best, other), other) for other in planned.others]
    if planned.unlimited is not None:
        plans.append(("without the limit on memory", planned.unlimited))
    if not plans:
        return None
    rows = [("the best plan", *_figures(best, metric), NONE)]
    for what, other in plans:
        why = why_dearer(best, other, lambda cost: amount(cost, metric))
        rows.append((what or "other moves", *_figures(other, metric), why))
    head = ("plan", "cost", "sent by each PE", "held by each PE", "against the best")
    lead = "The best plans that spread one of the heaviest Einsums in another way, and why they lose."
    return Section("others", "Other plans", (Table(head, rows, left=(0, 4), tones={0: "strong"}),), lead)


def _figures(plan: ChosenPlan, metric: PlanMetric) -> tuple[str, str, str]:
    return amount(plan.cost, metric), format_bytes(plan.sent_bytes), format_bytes(plan.peak.bytes)


def _changes(planned: Planned) -> Section | None:
    if not planned.changes:
        return None
    rows = tuple(
        (change.what, line.removeprefix(f"{change.what}: "))
        for change, line in zip(planned.changes, change_lines(planned), strict=True)
    )
    table = Table(("change", "then"), rows, left=(0, 1))
    return Section("what-if", "What one change would alter", (table,), "The workload planned again for each.")


def _steps(steps: Sequence[ShownStep]) -> Section:
    rows = [
        (
            f"{step.position + 1}", step.name, step.how, format_si(step.start, "s"),
            format_si(step.end - step.start, "s") if step.end > step.start else NONE,
            format_bytes(step.sent) if step.sent else NONE, format_bytes(step.held),
        )
        for step in steps[:_MOST_ROWS]
    ]  # fmt: skip
    head = ("step", "does", "how", "begins", "takes", "sent by each PE", "held by each PE")
    more = f"The first {_MOST_ROWS:,} of {len(steps):,} steps." if len(steps) > _MOST_ROWS else ""
    table = Table(head, rows, left=(0, 1, 2), caption=more)
    return Section("steps", "Steps", (Folded(counted(len(steps), "step"), (table,)),))
