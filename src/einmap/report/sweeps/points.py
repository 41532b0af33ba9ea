"""Reports of points: the best ones, what each axis changes, failures; and how values are written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from einmap.report.text.formatting import quantity, title
from einmap.report.text.layout import Table
from einmap.sweep.definition.points.axes import Value
from einmap.sweep.outcome import Outcome
from einmap.sweep.result import PointResult
from einmap.sweep.store.store import KeptSweep


@dataclass(frozen=True, slots=True)
class Effect:
    """Effect of one axis: `ratio`, the largest of the least values of `objective` over the smallest one.

    `best`: the least value of the objective for each value of the axis, over all other axes.
    """

    axis: str
    objective: str
    ratio: float
    best: Mapping[Value, float]


def effects(points: Sequence[PointResult]) -> tuple[Effect, ...]:
    """How far each axis changes the best that can be had of each objective; what it does not change is left out.

    Points without a cost, and those that a bound rules out, do not count.
    """
    done = [(point, values) for point in points if (values := point.objective_values) is not None]
    rows = []
    for axis in points[0].values if points else ():
        for place, objective in enumerate(points[0].objectives):
            best: dict[Value, float] = {}
            for point, values in done:
                key = point.values[axis]
                best[key] = min(values[place], best.get(key, values[place]))
            if best and max(best.values()) > min(best.values()) > 0:
                rows.append(Effect(axis, objective, max(best.values()) / min(best.values()), best))
    return tuple(rows)


def best_points(points: Sequence[PointResult]) -> dict[str, PointResult]:
    """The point with the least value of each objective; of equal ones the first."""
    done = [point for point in points if point.status == "done"]
    if not done:
        return {}
    return {
        name: min(done, key=lambda point: (point.value(name) or 0.0, point.number)) for name in done[0].objectives
    }  # fmt: skip


def breakdown(outcome: Outcome) -> tuple[str, list[tuple[str, float]]]:
    """An objective, and its parts, the largest first: of a mapping J by component, of a plan s by step without those
    that take none.
    """
    objective, parts = "energy", outcome.energy_by_component
    if outcome.seconds_by_step:
        objective, parts = "latency", {step: value for step, value in outcome.seconds_by_step.items() if value}
    return objective, sorted(parts.items(), key=lambda item: (-item[1], item[0]))


def axis_text(value: Value) -> str:
    """A value of an axis."""
    if isinstance(value, bool | str):
        return str(value)
    return f"{value:,}" if isinstance(value, int) else re.sub(r"e\+?(-?)0*", r"e\1", f"{value:g}")


def failures(points: Sequence[PointResult]) -> list[tuple[str, int]]:
    """The first lines of reasons of failed points, each with its number of points, the most frequent first."""
    reasons = Counter(point.reason.partition("\n")[0] for point in points if point.status == "failed")
    return sorted(reasons.items(), key=lambda item: (-item[1], item[0]))


def summary(kept: KeptSweep, points: Sequence[PointResult]) -> str:
    """How many points there are of each status, in one line."""
    counts = Counter(point.status for point in points)
    counts["missing"] += kept.total - len(points)
    words = [f"{counts[status]:,} {status}" for status in ("done", "failed", "ruled out", "missing") if counts[status]]
    return f"{kept.outline.name}: {kept.total:,} points, {', '.join(words)}"


# tables


def points_table(points: Sequence[PointResult]) -> Table:
    """The points with their values and objectives."""
    texts = [
        (str(p.number), *map(axis_text, p.values.values()), *(quantity(p.value(name), name) for name in p.objectives))
        for p in points
    ]
    return Table(("point", *points[0].values, *map(title, points[0].objectives)), texts, left=())


def best_table(points: Sequence[PointResult]) -> Table:
    """The best point for each objective."""
    texts = [
        (title(name), quantity(p.value(name), name), str(p.number), *map(axis_text, p.values.values()))
        for name, p in best_points(points).items()
    ]
    return Table(("least", "", "point", *points[0].values), texts)


def effects_table(rows: Sequence[Effect]) -> Table:
    """Effects of the axes, the largest ratio first."""
    texts = []
    for row in sorted(rows, key=lambda row: -row.ratio):
        at = min(row.best, key=lambda value: row.best[value])
        texts.append((row.axis, title(row.objective), f"{row.ratio:.3g} x", axis_text(at)))
    return Table(("axis", "objective", "worst / best", "best at"), texts, left=(0, 1))


def failures_table(points: Sequence[PointResult], most: int) -> Table:
    """Why points failed, the most frequent reason first."""
    texts = [(f"{count:,}", reason) for reason, count in failures(points)[:most]]
    return Table(("points", "reason of failure"), texts, left=(1,))
