"""The terminal report of a sweep and of one point."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.report.sweeps.points import (
    Effect,
    axis_text,
    best_points,
    breakdown,
    effects,
    failures,
    shown,
    summary,
    title,
)
from einmap.report.text.formatting import NONE, percent
from einmap.report.text.layout import new_table, section_title
from einmap.sweep.definition.definition import OBJECTIVES
from einmap.sweep.result import PointResult, front_of
from einmap.sweep.store.store import KeptSweep

MOST_SHOWN = 20
"""Points of the front, and kinds of failures, that are listed."""


def sweep_report(kept: KeptSweep, points: Sequence[PointResult]) -> RenderableType:
    """Everything about a sweep as far as it got."""
    parts: list[RenderableType] = [Text(summary(kept, points))]
    front = front_of(points)
    if front:
        parts += [Text(""), section_title("Pareto front"), points_table(front[:MOST_SHOWN])]
        if len(front) > MOST_SHOWN:
            parts.append(Text(f"... and {len(front) - MOST_SHOWN:,} more (--csv has them all)"))
        parts += [Text(""), section_title("Best points"), _best_table(points)]
    rows = effects(points)
    if rows:
        parts += [Text(""), section_title("What each axis changes"), effects_table(rows)]
    failed = failures(points)
    if failed:
        table = new_table("points", "reason of failure", left=(1,))
        for reason, count in failed[:MOST_SHOWN]:
            table.add_row(f"{count:,}", Text(reason))
        parts += [Text(""), section_title("Failed points"), table]
    return Group(*parts)


def points_table(points: Sequence[PointResult]) -> RenderableType:
    """The points with their values and objectives."""
    axes, objectives = tuple(points[0].values), points[0].objectives
    table = new_table("point", *axes, *(title(name) for name in objectives), left=())
    for point in points:
        values = (Text(axis_text(value)) for value in point.values.values())
        table.add_row(str(point.number), *values, *(shown(point.value(name), name) for name in objectives))
    return table


def _best_table(points: Sequence[PointResult]) -> RenderableType:
    best = best_points(points)
    axes = tuple(points[0].values)
    table = new_table("least", "", "point", *axes, left=(0,))
    for name, point in best.items():
        values = (Text(axis_text(value)) for value in point.values.values())
        table.add_row(title(name), shown(point.value(name), name), str(point.number), *values)
    return table


def effects_table(rows: Sequence[Effect]) -> RenderableType:
    """What each axis changes, the largest ratio first."""
    table = new_table("axis", "objective", "worst / best", "best at", left=(0, 1))
    for row in sorted(rows, key=lambda row: -row.ratio):
        at = min(row.best, key=lambda value: row.best[value])
        table.add_row(Text(row.axis), title(row.objective), f"{row.ratio:.3g} x", Text(axis_text(at)))
    return table


def point_report(point: PointResult) -> RenderableType:
    """One point: its values, and for each workload the cost with its parts, and the mapping."""
    parts: list[RenderableType] = [Text(f"point {point.number}: {point.status}")]
    if point.reason:
        parts.append(Text(point.reason))
    parts.append(Text(", ".join(f"{name} {axis_text(value)}" for name, value in point.values.items())))
    if point.status == "done":
        known = [name for name in OBJECTIVES if point.value(name) is not None]
        parts.append(Text(", ".join(f"{title(name)} {shown(point.value(name), name)}" for name in known)))
    for name, outcome in point.outcomes.items():
        if not outcome.done:
            continue
        weight = point.weights[name]
        times = f" ({weight:g} times)" if weight != 1 else ""
        energy, latency = shown(outcome.energy, "energy"), shown(outcome.latency, "latency")
        parts += [Text(""), section_title(f"{name}{times}"), Text(f"energy {energy}, latency {latency}")]
        _, rows = breakdown(outcome)
        total = sum(value for _, value in rows)
        shares = (f"{part} {percent(value / total) if total else NONE}" for part, value in rows)
        parts += [Text(", ".join(shares)), Text(outcome.reason), Text(outcome.mapping.rstrip())]
    return Group(*parts)
