"""The terminal report of a sweep and of one point."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from einmap.report.sweeps.points import (
    axis_text,
    best_table,
    breakdown,
    effects,
    effects_table,
    failures_table,
    points_table,
    summary,
)
from einmap.report.text.formatting import NONE, percent, quantity, title
from einmap.report.text.layout import filled, section, section_title, stacked
from einmap.sweep.definition.definition import OBJECTIVES
from einmap.sweep.result import PointResult, front_of
from einmap.sweep.store.store import KeptSweep

MOST_SHOWN = 20
"""Points of the front, and kinds of failures, that are listed."""


def sweep_report(kept: KeptSweep, points: Sequence[PointResult]) -> RenderableType:
    """Everything about a sweep as far as it got."""
    front, changed = front_of(points), effects(points)
    rest = [Text(f"... and {len(front) - MOST_SHOWN:,} more (--csv has them all)")] if len(front) > MOST_SHOWN else []
    return stacked(
        [
            Text(summary(kept, points)),
            section("Pareto front", points_table(front[:MOST_SHOWN]), *rest) if front else None,
            section("Best points", best_table(points)) if front else None,
            section("What each axis changes", effects_table(changed)) if changed else None,
            filled("Failed points", failures_table(points, MOST_SHOWN)),
        ]
    )


def point_report(point: PointResult) -> RenderableType:
    """One point: its values, and for each workload the cost with its parts, and the mapping."""
    parts: list[RenderableType] = [Text(f"point {point.number}: {point.status}")]
    if point.reason:
        parts.append(Text(point.reason))
    parts.append(Text(", ".join(f"{name} {axis_text(value)}" for name, value in point.values.items())))
    if point.status == "done":
        known = [name for name in OBJECTIVES if point.value(name) is not None]
        parts.append(Text(", ".join(f"{title(name)} {quantity(point.value(name), name)}" for name in known)))
    for name, outcome in point.outcomes.items():
        if not outcome.done:
            continue
        weight = point.weights[name]
        times = f" ({weight:g} times)" if weight != 1 else ""
        energy, latency = quantity(outcome.energy, "energy"), quantity(outcome.latency, "latency")
        parts += [Text(""), section_title(f"{name}{times}"), Text(f"energy {energy}, latency {latency}")]
        _, rows = breakdown(outcome)
        total = sum(value for _, value in rows)
        shares = (f"{part} {percent(value / total) if total else NONE}" for part, value in rows)
        parts += [Text(", ".join(shares)), Text(outcome.reason), Text(outcome.mapping.rstrip())]
    return Group(*parts)
