"""The page of `einmap plan`: the best plan, who holds what, what moves when, and why other plans lose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from einmap.distribute.planner.chosen import ChosenPlan
from einmap.distribute.planner.differences import turns_in_words, what_differs, why_dearer
from einmap.distribute.planner.document import distribution_text
from einmap.distribute.planner.planner import Planned
from einmap.frontends.yaml.spec import dump
from einmap.report.drawing.workload import workload_svg
from einmap.report.html.charts import bars, colour
from einmap.report.html.notes import note_texts
from einmap.report.html.parts import (
    Code,
    Drawing,
    Figure,
    Folded,
    Page,
    Paragraph,
    Part,
    Section,
    Table,
    Tile,
    Tiles,
    Tone,
)
from einmap.report.html.sections.drawings import short_title
from einmap.report.mesh.pictures.holders import holders_svg
from einmap.report.mesh.pictures.lanes import lanes_svg
from einmap.report.mesh.planned import amount, change_lines, known_of, named_lines, steps_of
from einmap.report.mesh.steps import ShownStep
from einmap.report.text.formatting import NONE, data_unit
from einmap.spec.spec import Spec
from einmap.units import format_bytes, format_si

_MOST_PARTS = 20
"""Steps whose cost is drawn, the dearest."""
_MOST_ROWS = 400
"""Steps that the table lists."""


def plan_page(planned: Planned, spec: Spec, names: Sequence[str] = ()) -> Page:
    """What was chosen for a workload on a mesh. `names`: of the files that it was made from, for the title."""
    steps, mesh, workload = steps_of(planned), planned.request.mesh, planned.best.plan.workload
    title = short_title("Workload", list(workload.by_name))
    drawing = Drawing("workload", "Einsums and tensors", lambda theme: workload_svg(workload, title=title, theme=theme))
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
        Section("workload", "Workload", (drawing,)),
        Section("inputs", "Inputs", (plan, Folded("specification", (Code(dump(spec)),)))),
    )
    head = f"Plan: {', '.join(names) or ', '.join(workload.by_name)}"
    count = "1 PE" if mesh.n_devices == 1 else f"{mesh.n_devices:,} PEs"
    notes = note_texts(spec.distribution_notes)
    shown = tuple(section for section in sections if section is not None)
    return Page(head, f"mesh {mesh}: {count}, least {planned.request.metric}", shown, notes=notes)


def _summary(planned: Planned, steps: Sequence[ShownStep]) -> Section:
    best, metric = planned.best, planned.request.metric
    verdict, tone = "No plan costs less: it is proven.", _tone("good")
    if not best.proven:
        verdict = f"It is not proven that no plan costs less; none costs less than {amount(best.bound, metric)}."
        if best.turns is not None:
            verdict = f"In turns {turns_in_words(best.turns)}: {known_of(planned)}."
        tone = _tone("warning")
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
    return Section("summary", "Summary", (Paragraph(verdict, tone), tiles, *map(Paragraph, named_lines(planned))))


def _tone(tone: Tone) -> Tone:
    return tone


def _placements(best: ChosenPlan) -> Section:
    written = {t: name for name, einsum in best.plan.workload.by_name.items() for t in einsum.outputs}
    rows = []
    for tensor, homes in best.homes.items():
        einsum = written.get(tensor, "")
        spread = ", ".join(f"{variable}: {'*'.join(axes)}" for variable, axes in best.loops.get(einsum, {}).items())
        whole = "on every PE" if einsum else NONE
        rows.append((tensor, " and ".join(map(str, homes)), einsum or "graph input", spread or whole))
    table = Table(("tensor", "kept", "written by", "spread"), tuple(rows), left=(1, 2, 3))
    lead = "Where each tensor is kept, and how the Einsum that writes it is spread over the PEs."
    return Section("placements", "Placements", (table,), lead)


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
        tooltip = (("row", "step"), ("text", "costs"), ("sent", "sent by each PE"))
        plot = bars(rows, "part of the cost", tooltip=tooltip, domain=1.15 * dear[0].cost / whole)
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
            "x": {"field": "step", "type": "quantitative", "axis": {"title": "step", "tickMinStep": 1}},
            "x2": {"field": "end"},
            "y": {
                "field": "held",
                "type": "quantitative",
                "axis": {"title": f"held by each PE ({unit})"},
                "scale": {"zero": True},
            },
            "y2": {"datum": 0},
            "color": {"value": colour(0)},
            "tooltip": [
                {"field": "step", "title": "step"},
                {"field": "what", "title": "does"},
                {"field": "text", "title": "held"},
            ],
        },
    }
    layers = [held]
    if planned.memory is not None:
        rule = {"mark": {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 2}}
        limit = {"data": {"values": [{"limit": 8 * planned.memory / size}]}}
        layers.append({**rule, **limit, "encoding": {"y": {"field": "limit", "type": "quantitative"}}})
    peak = planned.best.peak
    tensors = dict.fromkeys(planned.best.plan.by_name[name].tensor for name in peak.buffers)
    text = (
        f"Bytes that each PE holds at each step, graph inputs always. The most, {format_bytes(peak.bytes)}, at step "
        f"{peak.step + 1}: {', '.join(list(tensors)[:12])}{' and more' if len(tensors) > 12 else ''}."
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
    rows = tuple(
        (
            what or "other moves",
            amount(other.cost, metric),
            format_bytes(other.sent_bytes),
            format_bytes(other.peak.bytes),
            why_dearer(best, other, lambda cost: amount(cost, metric)),
        )
        for what, other in plans
    )
    own = ("the best plan", amount(best.cost, metric), format_bytes(best.sent_bytes))
    first = (*own, format_bytes(best.peak.bytes), NONE)
    head = ("plan", "cost", "sent by each PE", "held by each PE", "against the best")
    lead = "The best plans that spread one of the heaviest Einsums in another way, and why they lose."
    return Section("others", "Other plans", (Table(head, (first, *rows), left=(4,), strong=(0,)),), lead)


def _changes(planned: Planned) -> Section | None:
    if not planned.changes:
        return None
    rows = tuple(
        (change.what, line.removeprefix(f"{change.what}: "))
        for change, line in zip(planned.changes, change_lines(planned), strict=True)
    )
    table = Table(("change", "then"), rows, left=(1,))
    return Section("what-if", "What one change would alter", (table,), "The workload planned again for each.")


def _steps(steps: Sequence[ShownStep]) -> Section:
    rows = tuple(
        (
            f"{step.position + 1}",
            step.name,
            step.how,
            format_si(step.start, "s"),
            format_si(step.end - step.start, "s") if step.end > step.start else NONE,
            format_bytes(step.sent) if step.sent else NONE,
            format_bytes(step.held),
        )
        for step in steps[:_MOST_ROWS]
    )
    head = ("step", "does", "how", "begins", "takes", "sent by each PE", "held by each PE")
    more = f"The first {_MOST_ROWS:,} of {len(steps):,} steps." if len(steps) > _MOST_ROWS else ""
    table = Table(head, rows, left=(1, 2), caption=more)
    count = f"{len(steps):,} step{'' if len(steps) == 1 else 's'}"
    return Section("steps", "Steps", (Folded(count, (table,)),))
