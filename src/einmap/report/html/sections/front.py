"""The Pareto front: a mark for each mapping, and the chosen mapping with its figures and its LoopTree."""

from __future__ import annotations

from typing import Any

from einmap.mapper.metrics import METRICS
from einmap.mapper.result import Found, MapResult, objective
from einmap.report.formatting import Scale
from einmap.report.html.charts import colour, log_ticks
from einmap.report.html.parts import Choices, Code, Figure, Option, Part, Section
from einmap.report.html.sections.drawings import loop_tree_parts
from einmap.report.html.sections.summary import cost_tiles
from einmap.report.loop_tree import loop_tree_lines
from einmap.units import format_si

_LEAD = (
    "No mapping is better than another one of these in all metrics. Click a mark, or choose from the list, to see a "
    "mapping."
)
_MOST_NODES = 4_000
"""Nodes of all mappings together that are drawn; those of later mappings are shown as text."""
_WIDE = 30
"""Values of which the largest is so many times the least are shown by powers of ten."""
_MOST = 200
"""Mappings that can be chosen."""


def front_section(result: MapResult) -> Section | None:
    """The section, or None where one mapping is best."""
    if len(result.front) < 2:
        return None
    shown = result.front[:_MOST]
    more = len(result.front) - len(shown)
    figure = _figure(shown, result.metrics, more)
    nodes = 0
    options = []
    for number, solution in enumerate(shown, start=1):
        nodes += len(solution.mapping.placed)
        options.append(Option(_label(number, solution, result.metrics), _parts(solution, nodes <= _MOST_NODES, number)))
    return Section("front", "Pareto front", (Choices("mapping", figure, tuple(options)),), _LEAD)


def _parts(solution: Found, is_drawn: bool, number: int) -> tuple[Part, ...]:
    if is_drawn:
        return cost_tiles(solution.cost), *loop_tree_parts(
            solution.mapping, solution.spec, solution.cost, f"front-{number}"
        )
    return cost_tiles(solution.cost), Code("\n".join(loop_tree_lines(solution.mapping, solution.spec, 110)))


def _label(number: int, solution: Found, metrics: tuple[str, ...]) -> str:
    values = (f"{METRICS[name].title} {_shown(objective(solution.cost, name), name)}" for name in metrics)
    return f"{number}: {', '.join(values)}"


def _shown(value: float, metric: str) -> str:
    return format_si(value, METRICS[metric].unit) if METRICS[metric].unit else f"{value:.1%}"


def _figure(front: tuple[Found, ...], metrics: tuple[str, ...], more: int) -> Figure:
    """The first two metrics as axes; a third one as size."""
    first, second = metrics[0], metrics[1]
    scales = {name: _scale(front, name) for name in metrics}
    rows: list[dict[str, Any]] = [
        {
            "index": index,
            "x": objective(solution.cost, first) / scales[first].factor,
            "y": objective(solution.cost, second) / scales[second].factor,
            **({"z": objective(solution.cost, metrics[2]) / scales[metrics[2]].factor} if len(metrics) > 2 else {}),
            "label": _label(index + 1, solution, metrics),
        }
        for index, solution in enumerate(front)
    ]
    is_chosen = {"test": "datum.index === chosen"}
    encoding: dict[str, Any] = {
        "x": _axis("x", first, scales[first], [float(row["x"]) for row in rows]),
        "y": _axis("y", second, scales[second], [float(row["y"]) for row in rows]),
        "color": {"condition": {**is_chosen, "value": colour(5)}, "value": colour(0)},
        "opacity": {"condition": {**is_chosen, "value": 1}, "value": 0.8},
        "strokeWidth": {"condition": {**is_chosen, "value": 3}, "value": 1},
        "tooltip": [{"field": "label", "title": "mapping"}],
    }
    if len(metrics) > 2:
        title = f"{METRICS[metrics[2]].title} {_unit(scales[metrics[2]])}".rstrip()
        scale = {"range": [60, 500], "zero": False}
        encoding["size"] = {"field": "z", "type": "quantitative", "scale": scale, "legend": {"title": title}}
    size = {} if len(metrics) > 2 else {"size": 130}
    plot = {
        "data": {"values": rows},
        "height": 320,
        "params": [{"name": "chosen", "value": 0}],
        "mark": {"type": "point", "filled": True, "stroke": "var(--ink)", "cursor": "pointer", **size},
        "encoding": encoding,
    }
    others = f" (the first {len(front)}; {more:,} more are left out)" if more else ""
    text = f"{len(front) + more:,} mappings by {' and '.join(METRICS[name].title for name in metrics)}{others}."
    return Figure("front", "Best mappings", plot, text, text)


def _scale(front: tuple[Found, ...], metric: str) -> Scale:
    if not METRICS[metric].unit:
        return Scale(0.01, "%", 1)
    return Scale.of((objective(solution.cost, metric) for solution in front), METRICS[metric].unit)


def _unit(scale: Scale) -> str:
    return f"({scale.unit})" if scale.unit else ""


def _axis(field: str, metric: str, scale: Scale, values: list[float]) -> dict[str, Any]:
    """By powers of ten where the values are far apart."""
    axis: dict[str, Any] = {"title": f"{METRICS[metric].title} {_unit(scale)}".rstrip(), "format": ",.4~g"}
    least, most = min(values), max(values)
    if least > 0 and most > _WIDE * least:
        ends = [least / 1.5, most * 1.5]
        axis["values"] = log_ticks(*ends)
        return {
            "field": field,
            "type": "quantitative",
            "scale": {"type": "log", "domain": ends, "nice": False},
            "axis": axis,
        }
    return {"field": field, "type": "quantitative", "scale": {"zero": False, "padding": 18}, "axis": axis}
