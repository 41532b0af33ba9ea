"""The page of `einmap sweep`: the front with mappings, all points across their axes, and what each axis changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from einmap.report.html.charts import IS_CHOSEN, choosable, colour, named, spread_number, tooltip
from einmap.report.html.parts import Choices, Code, Figure, Folded, Option, Page, Part, Section, Tile, Tiles
from einmap.report.sweeps.points import (
    Effect,
    axis_text,
    best_points,
    breakdown,
    effects,
    effects_table,
    failures_table,
    points_table,
    summary,
)
from einmap.report.text.formatting import Scale, percent, quantity, title
from einmap.report.text.layout import Table, Tone
from einmap.sweep.definition.definition import OBJECTIVES
from einmap.sweep.definition.points.axes import Value
from einmap.sweep.result import PointResult, front_of
from einmap.sweep.store.store import KeptSweep

MOST_CHOSEN = 200
"""Points that can be chosen, those of the front first."""
MOST_DRAWN = 5_000
"""Points of a plot; of more every so many are drawn, and all of the front."""
MOST_LINES = 1_000
"""Lines of the plot with an axis for each parameter, those of the front among them."""
MOST_CURVES = 8
"""Plots of what an axis does to an objective, those with the largest effects."""
MOST_ROWS = 200
"""Rows of the table of points."""
_WIDE = 10
"""Values of which the largest is so many times the least are shown by powers of ten."""


def sweep_page(kept: KeptSweep, points: Sequence[PointResult]) -> Page:
    """Everything about a sweep as far as it got; `points` with their mappings."""
    front = front_of(points)
    done = [point for point in points if point.status == "done"]
    sections = [
        Section("summary", "Summary", _summary(kept, points, front)),
        _front(front, done),
        _axes(kept, front, done),
        _effects(points),
        _table(points, front),
        _failed(points),
    ]
    outline = kept.outline
    what = "of given mappings" if outline.action == "evaluate" else f"searched for {title(outline.metric)}"
    subtitle = f"{', '.join(outline.axes)}; workloads {', '.join(outline.workloads)}; {what}"
    return Page.of(f"Sweep {outline.name}", subtitle, sections)


def _summary(kept: KeptSweep, points: Sequence[PointResult], front: Sequence[PointResult]) -> tuple[Part, ...]:
    tiles = [
        Tile(f"least {title(name)}", quantity(point.value(name), name), f"point {point.number}: {_values_text(point)}")
        for name, point in best_points(points).items()
    ]
    text = summary(kept, points).partition(": ")[2]
    is_whole = kept.total == sum(point.status != "missing" for point in points)
    state = Tile("points", f"{kept.total:,}", text, "plain" if is_whole else "warning")
    return (Tiles((state, Tile("on the front", f"{len(front):,}"), *tiles)),)


def _values_text(point: PointResult) -> str:
    return ", ".join(f"{name} {axis_text(value)}" for name, value in point.values.items())


def _label(point: PointResult) -> str:
    objectives = ", ".join(f"{title(name)} {quantity(point.value(name), name)}" for name in point.objectives)
    return f"{point.number}: {_values_text(point)}; {objectives}"


# the front


def _front(front: Sequence[PointResult], done: Sequence[PointResult]) -> Section | None:
    if not front:
        return None
    on_front = {point.number for point in front}
    chosen = [*front, *(point for point in done if point.number not in on_front)][:MOST_CHOSEN]
    options = tuple(Option(_label(point), _point_parts(point)) for point in chosen)
    lead = "No point is better than a coloured one in all objectives. Click a mark, or choose from the list."
    if len(chosen) < len(done):
        lead += f" {len(chosen):,} of {len(done):,} points can be chosen, those of the front first."
    return Section("front", "Pareto front", (Choices("point", _scatter(chosen, front, done), options),), lead)


def _point_parts(point: PointResult) -> tuple[Part, ...]:
    tiles = tuple(
        Tile(title(name), quantity(point.value(name), name)) for name in OBJECTIVES if point.value(name) is not None
    )
    parts: list[Part] = [Tiles(tiles)]
    for name, outcome in point.outcomes.items():
        objective, ordered = breakdown(outcome)
        total = sum(value for _, value in ordered)
        shares = [value / total if total else 0.0 for _, value in ordered]
        rows = [
            (part, quantity(value, objective), percent(share))
            for (part, value), share in zip(ordered, shares, strict=True)
        ]
        caption = f"{name}: {quantity(outcome.energy, 'energy')}, {quantity(outcome.latency, 'latency')}"
        parts.append(Table((name, title(objective), "part"), rows, bars={2: shares}, caption=caption))
        what = "plan" if outcome.seconds_by_step else "mapping"
        parts.append(Folded(f"{what} of {name}", (Code(outcome.mapping),)))
    return tuple(parts)


def _scatter(chosen: Sequence[PointResult], front: Sequence[PointResult], done: Sequence[PointResult]) -> Figure:
    """The first two objectives, or the objective over the first axis; the front stands out."""
    objectives = done[0].objectives[:2]
    places = {point.number: index for index, point in enumerate(chosen)}
    on_front = {point.number for point in front}
    drawn = _thinned(done, on_front, MOST_DRAWN)
    scales = {name: _scale(name, [point.value(name) or 0.0 for point in drawn]) for name in objectives}
    axis = next(iter(done[0].values))
    rows: list[dict[str, Any]] = []
    for point in drawn:
        *x, y = ((point.value(name) or 0.0) / scales[name].factor for name in objectives)
        row = {"x": x[0] if x else axis_text(point.values[axis]), "y": y, "label": _label(point)}
        rows.append({**row, "index": places.get(point.number), "front": point.number in on_front})
    titles = [named(title(name), scales[name]) for name in objectives]
    across = {"field": "x", "type": "ordinal", "sort": None, "axis": {"title": axis, "labelAngle": 0}}
    if len(objectives) > 1:
        across = spread_number("x", titles[0], [row["x"] for row in rows], _WIDE)
        rows.sort(key=lambda row: bool(row["front"]))
    fills = [{**IS_CHOSEN, "value": colour(5)}, {"test": "datum.front", "value": colour(0)}]
    encoding = {
        "x": across,
        "y": spread_number("y", titles[-1], [row["y"] for row in rows], _WIDE),
        "color": {"condition": fills, "value": "var(--muted)"},
        "opacity": {"condition": {"test": "datum.front", "value": 1}, "value": 0.35},
        "tooltip": tooltip(label="point"),
    }
    plot = choosable(rows, 340, 0, encoding, size=90)
    text = f"{len(done):,} points by {' and '.join(map(title, objectives))}, {len(front):,} on the front."
    text += f" {len(drawn):,} of them are drawn." if len(drawn) < len(done) else ""
    return Figure("sweep-front", "All points and the front", plot, text, text)


def _scale(objective: str, values: Iterable[float]) -> Scale:
    if objective == "area":
        return Scale(1e-6, "mm^2", 2)
    unit = OBJECTIVES[objective]
    return Scale.of(values, unit) if unit else Scale(1.0, "", 0)


def _thinned(points: Sequence[PointResult], always: set[int], most: int) -> list[PointResult]:
    """All points, or as many as may be drawn: those that always are, and every so many of the others."""
    if len(points) <= most:
        return list(points)
    step = math.ceil(len(points) / most)
    return [point for index, point in enumerate(points) if point.number in always or index % step == 0]


# parallel coordinates


def _axes(kept: KeptSweep, front: Sequence[PointResult], done: Sequence[PointResult]) -> Section | None:
    """A line for each point across an axis for each parameter and objective."""
    if len(done) < 2:
        return None
    on_front = {point.number for point in front}
    drawn = _thinned(done, on_front, MOST_LINES)
    columns: dict[str, tuple[list[float], str, str]] = {}
    for name in kept.outline.axes:
        columns[name] = _places([point.values[name] for point in drawn])
    for name in kept.outline.objectives:
        values = [point.value(name) or 0.0 for point in drawn]
        columns[f"{title(name)} "] = (_shares(values), quantity(min(values), name), quantity(max(values), name))
    rows = [
        {"point": point.number, "axis": name, "at": places[index], "label": _label(point),
         "front": "on the front" if point.number in on_front else "others"}
        for name, (places, _, _) in columns.items()
        for index, point in enumerate(drawn)
    ]  # fmt: skip
    ends = [{"axis": name, "low": low, "high": high, "zero": 0, "one": 1} for name, (_, low, high) in columns.items()]
    text = (
        "Each line is a point: its parameters, then its objectives, each from its least value (below) to its largest."
    )
    figure = Figure("sweep-axes", "Points across all axes", _parallel(rows, ends, list(columns)), text, text)
    return Section("axes", "Parallel coordinates", (figure,))


def _parallel(rows: list[dict[str, Any]], ends: list[dict[str, Any]], names: list[str]) -> dict[str, Any]:
    across = {
        "field": "axis", "type": "nominal", "sort": names, "scale": {"type": "point"},
        "axis": {"title": None, "labelAngle": 0, "grid": True, "domain": False, "ticks": False, "labelPadding": 24},
    }  # fmt: skip
    upright = {"field": "at", "type": "quantitative", "axis": None, "scale": {"domain": [-0.08, 1.08]}}
    labels = [
        {
            "data": {"values": ends},
            "mark": {"type": "text", "dy": dy, "fontSize": 11},
            "encoding": {"x": across, "y": {**upright, "field": place}, "text": {"field": text}},
        }
        for text, place, dy in (("low", "zero", 14), ("high", "one", -10))
    ]
    is_front = {"test": "datum.front === 'on the front'"}
    lines = {
        "data": {"values": sorted(rows, key=lambda row: row["front"] == "on the front")},
        "mark": {"type": "line"},
        "encoding": {
            "x": across,
            "y": upright,
            "detail": {"field": "point", "type": "nominal"},
            "color": {
                "field": "front",
                "type": "nominal",
                "scale": {"domain": ["on the front", "others"], "range": [colour(0), "var(--muted)"]},
                "legend": {"title": None},
            },
            "opacity": {"condition": {**is_front, "value": 0.9}, "value": 0.3},
            "tooltip": tooltip(label="point"),
        },
    }
    return {"height": 320, "layer": [lines, *labels]}


def _places(values: list[Value]) -> tuple[list[float], str, str]:
    """Where the values of a parameter stand, from 0 to 1, in their order; and the ends in words."""
    numbers = [float(value) for value in values if not isinstance(value, str)]
    if len(numbers) == len(values):
        ordered: list[Value] = sorted(set(values), key=float)
    else:
        ordered = list(dict.fromkeys(values))
    place = {value: index / max(len(ordered) - 1, 1) for index, value in enumerate(ordered)}
    return [place[value] for value in values], axis_text(ordered[0]), axis_text(ordered[-1])


def _shares(values: list[float]) -> list[float]:
    """Where numbers stand between the least and the largest, by powers of ten where they are far apart."""
    least, most = min(values), max(values)
    if least > 0 and most > _WIDE * least:
        return _shares([math.log(value) for value in values])
    return [(value - least) / (most - least) if most > least else 0.5 for value in values]


# tables


def _effects(points: Sequence[PointResult]) -> Section | None:
    rows = sorted(effects(points), key=lambda effect: -effect.ratio)
    if not rows:
        return None
    lead = "For each value of an axis the best point that has it: how far these are apart."
    plots = [_curve(effect, number) for number, effect in enumerate(rows[:MOST_CURVES], start=1)]
    return Section("sensitivity", "Sensitivity", (effects_table(rows), *plots), lead)


def _curve(effect: Effect, number: int) -> Figure:
    """The least value of an objective for each value of an axis."""
    scale, name = _scale(effect.objective, effect.best.values()), title(effect.objective)
    rows: list[dict[str, Any]] = [
        {"x": axis_text(value), "y": least / scale.factor}
        | {"label": f"{axis_text(value)}: {quantity(least, effect.objective)}"}
        for value, least in effect.best.items()
    ]
    plot = {
        "data": {"values": rows},
        "height": 220,
        "mark": {"type": "line", "point": {"size": 60}, "color": colour(0)},
        "encoding": {
            "x": {"field": "x", "type": "ordinal", "sort": None, "axis": {"title": effect.axis, "labelOverlap": True}},
            "y": spread_number("y", named(f"least {name}", scale), [row["y"] for row in rows], _WIDE),
            "tooltip": tooltip(label="least"),
        },
    }
    text = f"The least {name} for each value of {effect.axis}."
    return Figure(f"sensitivity-{number}", f"{name} by {effect.axis}", plot, text, text)


def _table(points: Sequence[PointResult], front: Sequence[PointResult]) -> Section | None:
    if not points:
        return None
    on_front = {point.number for point in front}
    shown = [*front, *(point for point in points if point.number not in on_front)][:MOST_ROWS]
    shown.sort(key=lambda point: point.number)
    table = points_table(shown)
    status = ["on the front" if point.number in on_front else point.status for point in shown]
    rows = [(*row, state) for row, state in zip(table.rows, status, strict=True)]
    tones: dict[int, Tone] = {n: "strong" for n, point in enumerate(shown) if point.number in on_front}
    caption = "" if len(shown) == len(points) else f"{len(shown):,} of {len(points):,}; --csv has them all."
    columns = (*table.columns, "status")
    whole = replace(table, columns=columns, rows=rows, left=(0, len(columns) - 1), tones=tones, caption=caption)
    return Section("points", "Points", (whole,))


def _failed(points: Sequence[PointResult]) -> Section | None:
    table = failures_table(points, MOST_ROWS)
    return Section("failed", "Failed points", (table,)) if table.rows else None
