"""The Pareto front: a mark for each mapping, and the chosen mapping with its figures and its LoopTree."""

from __future__ import annotations

from typing import Any

from einmap.mapper.objective.metrics import METRICS
from einmap.mapper.result.result import Found, MapResult, objective
from einmap.report.html.charts import IS_CHOSEN, choosable, colour, named, spread_number, tooltip
from einmap.report.html.parts import Choices, Code, Figure, Option, Part, Section
from einmap.report.html.sections.drawings import loop_tree_parts
from einmap.report.html.sections.summary import cost_tiles
from einmap.report.text.formatting import Scale, quantity
from einmap.report.text.loop_tree import loop_tree_lines

_LEAD = (
    "No mapping is better than another one of these in all metrics. Click a mark, or choose from the list, to see a "
    "mapping."
)
_MOST_NODES = 2_500
"""Nodes of all mappings together that are drawn; where there are more, every second or third mapping, say, is."""
_MOST_MARKS = 5_000
_WIDE = 30
"""Values of which the largest is so many times the least are shown by powers of ten."""
_MOST = 200
"""Mappings that can be chosen; of more they lie at equal distances in the front, with both its ends."""


def front_section(result: MapResult) -> Section | None:
    """The section, or None where one mapping is best."""
    if len(result.front) < 2:
        return None
    chosen = spread(len(result.front), _MOST)
    nodes = sum(len(result.front[place].mapping.placed) for place in chosen)
    stride = -(-nodes // _MOST_NODES)
    options = tuple(
        Option(
            _label(place + 1, result.front[place], result.metrics),
            _parts(result.front[place], index % stride == 0, place + 1),
        )
        for index, place in enumerate(chosen)
    )
    figure = _figure(result.front, result.metrics, chosen)
    return Section("front", "Pareto front", (Choices("mapping", figure, options),), _LEAD)


def spread(count: int, most: int) -> tuple[int, ...]:
    """At most so many of the places 0, 1, ..., at equal distances, the first and the last one among them.

    >>> spread(3, 5), spread(10, 4)
    ((0, 1, 2), (0, 3, 6, 9))
    """
    return tuple(range(count)) if count <= most else tuple(round(i * (count - 1) / (most - 1)) for i in range(most))


def _parts(solution: Found, is_drawn: bool, number: int) -> tuple[Part, ...]:
    tiles = cost_tiles(solution.cost)
    if is_drawn:
        return tiles, *loop_tree_parts(solution.mapping, solution.spec, solution.cost, f"front-{number}")
    return tiles, Code("\n".join(loop_tree_lines(solution.mapping, solution.spec, 110)))


def _label(number: int, solution: Found, metrics: tuple[str, ...]) -> str:
    values = (f"{METRICS[name].title} {_shown(objective(solution.cost, name), name)}" for name in metrics)
    return f"{number}: {', '.join(values)}"


def _shown(value: float, metric: str) -> str:
    return quantity(value, metric) if METRICS[metric].unit else f"{value:.1%}"


def _figure(front: tuple[Found, ...], metrics: tuple[str, ...], chosen: tuple[int, ...]) -> Figure:
    """The first two metrics as axes; a third one as size. `chosen`: the places of mappings that can be looked at."""
    index_of = {place: index for index, place in enumerate(chosen)}
    shown = sorted({*chosen, *spread(len(front), _MOST_MARKS)})
    axes = dict(zip("xyz", metrics, strict=False))
    scales = {axis: _scale(front, name) for axis, name in axes.items()}
    rows: list[dict[str, Any]] = [
        {"index": index_of.get(place), "label": _label(place + 1, front[place], metrics)}
        | {axis: objective(front[place].cost, name) / scales[axis].factor for axis, name in axes.items()}
        for place in shown
    ]
    titles = {axis: named(METRICS[name].title, scales[axis]) for axis, name in axes.items()}
    encoding: dict[str, Any] = {
        axis: spread_number(axis, titles[axis], [float(row[axis]) for row in rows], _WIDE) for axis in "xy"
    } | {
        "color": {"condition": {**IS_CHOSEN, "value": colour(5)}, "value": colour(0)},
        "opacity": {
            "condition": [{**IS_CHOSEN, "value": 1}, {"test": "datum.index === null", "value": 0.25}],
            "value": 0.85,
        },
        "tooltip": tooltip(label="mapping"),
    }
    few = len(shown) <= _MOST
    if "z" in axes:
        legend = {"title": titles["z"], "symbolType": "circle", "titleFontWeight": "normal"}
        scale = {"range": [60, 500] if few else [15, 160], "zero": False}
        encoding["size"] = {"field": "z", "type": "quantitative", "scale": scale, "legend": legend}
    size: dict[str, Any] = {} if "z" in axes else {"size": 130 if few else 45}
    plot = choosable(rows, 320, 1, encoding, **size)
    others = f"; {len(chosen)} of them, in full colour, can be chosen" if len(chosen) < len(front) else ""
    text = f"{len(front):,} mappings by {' and '.join(METRICS[name].title for name in metrics)}{others}."
    return Figure("front", "Best mappings", plot, text, text)


def _scale(front: tuple[Found, ...], metric: str) -> Scale:
    if not METRICS[metric].unit:
        return Scale(0.01, "%", 1)
    return Scale.of((objective(solution.cost, metric) for solution in front), METRICS[metric].unit)
