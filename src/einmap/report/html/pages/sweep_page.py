"""The page of `einmap sweep`: the front with mappings, all points across their axes, and what each axis changes."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from einmap.report.html.charts import colour, log_ticks
from einmap.report.html.parts import Choices, Code, Figure, Folded, Option, Page, Part, Section, Table, Tile, Tiles
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
from einmap.report.text.formatting import NONE, Scale, percent
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
        _table(kept, points, front),
        _failed(points),
    ]
    outline = kept.outline
    what = "of given mappings" if outline.action == "evaluate" else f"searched for {title(outline.metric)}"
    subtitle = f"{', '.join(outline.axes)}; workloads {', '.join(outline.workloads)}; {what}"
    return Page(f"Sweep {outline.name}", subtitle, tuple(section for section in sections if section is not None))


def _summary(kept: KeptSweep, points: Sequence[PointResult], front: Sequence[PointResult]) -> tuple[Part, ...]:
    tiles = [
        Tile(f"least {title(name)}", shown(point.value(name), name), f"point {point.number}: {_values_text(point)}")
        for name, point in best_points(points).items()
    ]
    text = summary(kept, points).partition(": ")[2]
    is_whole = kept.total == sum(point.status != "missing" for point in points)
    state = Tile("points", f"{kept.total:,}", text, "plain" if is_whole else "warning")
    return (Tiles((state, Tile("on the front", f"{len(front):,}"), *tiles)),)


def _values_text(point: PointResult) -> str:
    return ", ".join(f"{name} {axis_text(value)}" for name, value in point.values.items())


def _label(point: PointResult) -> str:
    objectives = ", ".join(f"{title(name)} {shown(point.value(name), name)}" for name in point.objectives)
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
        Tile(title(name), shown(point.value(name), name)) for name in OBJECTIVES if point.value(name) is not None
    )
    parts: list[Part] = [Tiles(tiles)]
    for name, outcome in point.outcomes.items():
        objective, ordered = breakdown(outcome)
        total = sum(value for _, value in ordered)
        shares = tuple(value / total if total else 0.0 for _, value in ordered)
        rows = tuple(
            (part, shown(value, objective), percent(share))
            for (part, value), share in zip(ordered, shares, strict=True)
        )
        caption = f"{name}: {shown(outcome.energy, 'energy')}, {shown(outcome.latency, 'latency')}"
        bars = {2: tuple(min(max(share, 0.0), 1.0) for share in shares)}
        parts.append(Table((name, title(objective), "part"), rows, bars=bars, caption=caption))
        what = "plan" if outcome.seconds_by_step else "mapping"
        parts.append(Folded(f"{what} of {name}", (Code(outcome.mapping),)))
    return tuple(parts)


def _scatter(chosen: Sequence[PointResult], front: Sequence[PointResult], done: Sequence[PointResult]) -> Figure:
    """The first two objectives, or the objective over the first axis; the front stands out."""
    objectives = done[0].objectives
    first = objectives[0]
    second = objectives[1] if len(objectives) > 1 else None
    places = {point.number: index for index, point in enumerate(chosen)}
    on_front = {point.number for point in front}
    drawn = _thinned(done, on_front, MOST_DRAWN)
    scales = {name: _scale(name, drawn) for name in objectives[:2]}
    axis = next(iter(done[0].values))
    rows: list[dict[str, Any]] = []
    for point in drawn:
        y = second or first
        x: Any = (point.value(first) or 0.0) / scales[first].factor if second else axis_text(point.values[axis])
        row = {"x": x, "y": (point.value(y) or 0.0) / scales[y].factor, "label": _label(point)}
        rows.append({**row, "index": places.get(point.number, -1), "front": point.number in on_front})
    y = second or first
    across = (
        _quantity("x", _named(title(first), scales[first]), [row["x"] for row in rows])
        if second
        else {"field": "x", "type": "ordinal", "sort": None, "axis": {"title": axis, "labelAngle": 0}}
    )
    is_chosen = {"test": "datum.index >= 0 && datum.index === chosen"}
    plot = {
        "data": {"values": sorted(rows, key=lambda row: bool(row["front"])) if second else rows},
        "height": 340,
        "params": [{"name": "chosen", "value": 0}],
        "mark": {"type": "point", "filled": True, "stroke": "var(--ink)", "cursor": "pointer", "size": 90},
        "encoding": {
            "x": across,
            "y": _quantity("y", _named(title(y), scales[y]), [row["y"] for row in rows]),
            "color": {
                "condition": [{**is_chosen, "value": colour(5)}, {"test": "datum.front", "value": colour(0)}],
                "value": "var(--muted)",
            },
            "opacity": {"condition": {"test": "datum.front", "value": 1}, "value": 0.35},
            "strokeWidth": {"condition": {**is_chosen, "value": 3}, "value": 0},
            "tooltip": [{"field": "label", "title": "point"}],
        },
    }
    names = " and ".join(title(name) for name in objectives[:2])
    text = f"{len(done):,} points by {names}, {len(front):,} on the front."
    if len(drawn) < len(done):
        text += f" {len(drawn):,} of them are drawn."
    return Figure("sweep-front", "All points and the front", plot, text, text)


def _scale(objective: str, points: Sequence[PointResult]) -> Scale:
    return _scale_of(objective, (point.value(objective) or 0.0 for point in points))


def _scale_of(objective: str, values: Iterable[float]) -> Scale:
    if objective == "area":
        return Scale(1e-6, "mm^2", 2)
    unit = OBJECTIVES[objective]
    return Scale.of(values, unit) if unit else Scale(1.0, "", 0)


def _named(name: str, scale: Scale) -> str:
    return f"{name} ({scale.unit})" if scale.unit else name


def _thinned(points: Sequence[PointResult], always: set[int], most: int) -> list[PointResult]:
    """All points, or as many as may be drawn: those that always are, and every so many of the others."""
    if len(points) <= most:
        return list(points)
    step = math.ceil(len(points) / most)
    return [point for index, point in enumerate(points) if point.number in always or index % step == 0]


def _quantity(field: str, name: str, values: list[float]) -> dict[str, Any]:
    """An axis of numbers, by powers of ten where they are far apart."""
    axis: dict[str, Any] = {"title": name, "format": ",.4~g"}
    least, most = min(values), max(values)
    if least > 0 and most > _WIDE * least:
        ends = [least / 1.5, most * 1.5]
        axis["values"] = log_ticks(*ends)
        scale: dict[str, Any] = {"type": "log", "domain": ends, "nice": False}
    else:
        scale = {"zero": False, "padding": 18}
    return {"field": field, "type": "quantitative", "scale": scale, "axis": axis}


# parallel coordinates


def _axes(kept: KeptSweep, front: Sequence[PointResult], done: Sequence[PointResult]) -> Section | None:
    """A line for each point across an axis for each parameter and objective."""
    if len(done) < 2:
        return None
    on_front = {point.number for point in front}
    drawn = _thinned(done, on_front, MOST_LINES)
    columns: dict[str, tuple[list[float], str, str]] = {}
    for name in kept.outline.axes:
        places, low, high = _places([point.values[name] for point in drawn])
        columns[name] = (places, low, high)
    for name in kept.outline.objectives:
        values = [point.value(name) or 0.0 for point in drawn]
        places = _shares(values)
        columns[f"{title(name)} "] = (places, shown(min(values), name), shown(max(values), name))
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
            "tooltip": [{"field": "label", "title": "point"}],
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
    cells = []
    for effect in rows:
        at = min(effect.best, key=lambda value: effect.best[value])
        worst = max(effect.best, key=lambda value: effect.best[value])
        cells.append((effect.axis, title(effect.objective), f"{effect.ratio:.3g} x", axis_text(at), axis_text(worst)))
    head = ("axis", "objective", "worst / best", "best at", "worst at")
    lead = "For each value of an axis the best point that has it: how far these are apart."
    plots = [_curve(effect, number) for number, effect in enumerate(rows[:MOST_CURVES], start=1)]
    return Section("sensitivity", "Sensitivity", (Table(head, tuple(cells), left=(1,)), *plots), lead)


def _curve(effect: Effect, number: int) -> Figure:
    """The least value of an objective for each value of an axis."""
    scale = _scale_of(effect.objective, effect.best.values())
    rows = [
        {
            "x": axis_text(value),
            "y": least / scale.factor,
            "label": f"{axis_text(value)}: {shown(least, effect.objective)}",
        }
        for value, least in effect.best.items()
    ]
    name = title(effect.objective)
    across = {"field": "x", "type": "ordinal", "sort": None, "axis": {"title": effect.axis, "labelOverlap": True}}
    plot = {
        "data": {"values": rows},
        "height": 220,
        "mark": {"type": "line", "point": {"size": 60}, "color": colour(0)},
        "encoding": {
            "x": across,
            "y": _quantity("y", _named(f"least {name}", scale), [float(str(row["y"])) for row in rows]),
            "tooltip": [{"field": "label", "title": "least"}],
        },
    }
    text = f"The least {name} for each value of {effect.axis}."
    return Figure(f"sensitivity-{number}", f"{name} by {effect.axis}", plot, text, text)


def _table(kept: KeptSweep, points: Sequence[PointResult], front: Sequence[PointResult]) -> Section | None:
    if not points:
        return None
    on_front = {point.number for point in front}
    shown_points = [*front, *(point for point in points if point.number not in on_front)][:MOST_ROWS]
    shown_points.sort(key=lambda point: point.number)
    head = ("point", *kept.outline.axes, *(title(name) for name in kept.outline.objectives), "status")
    rows = tuple(
        (
            str(point.number),
            *(axis_text(value) for value in point.values.values()),
            *(shown(point.value(name), name) if point.status == "done" else NONE for name in kept.outline.objectives),
            "on the front" if point.number in on_front else point.status,
        )
        for point in shown_points
    )
    strong = tuple(index for index, point in enumerate(shown_points) if point.number in on_front)
    caption = (
        "" if len(shown_points) == len(points) else f"{len(shown_points):,} of {len(points):,}; --csv has them all."
    )
    return Section("points", "Points", (Table(head, rows, left=(len(head) - 1,), strong=strong, caption=caption),))


def _failed(points: Sequence[PointResult]) -> Section | None:
    rows = failures(points)[:MOST_ROWS]
    if not rows:
        return None
    cells = tuple((reason, f"{count:,}") for reason, count in rows)
    return Section("failed", "Failed points", (Table(("reason", "points"), cells),))
