"""The page of `einmap tokens`: throughput against latency, rooflines, plans, memory, of one machine or several."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import isfinite
from typing import Any

from einmap.model.roofline import Point, Roofline
from einmap.report.html.charts import Amount, colours_of, legend, spread_number, stacked, tooltip
from einmap.report.html.parts import Figure, Folded, Option, Page, Part, Section, Tabs, Tile, Tiles
from einmap.report.html.sections.roofline import roofline_figure
from einmap.report.serving.tables import (
    MOST_WAYS,
    has_ways,
    memory_table,
    memory_title,
    names_of,
    parts_table,
    roof_points,
    roof_table,
    side_by_side,
    times_table,
    title_of,
    together,
    ways_table,
)
from einmap.report.text.formatting import Scale, data_unit, hyphened
from einmap.serving.tokens import TokenCosts, TokenPoint
from einmap.units import format_bytes, format_count, format_si

_WIDE = 30
"""Rates of which the largest is so many times the least are shown by powers of ten."""


def tokens_page(several: Sequence[TokenCosts], model: str = "") -> Page:
    """Page on tokens of a model on some machines. `model`: its name, for the title; that of its kind without one."""
    compared = len(several) > 1
    made = [
        Section("summary", "Summary", (_compared_tiles(several) if compared else _tiles(several[0]),)),
        _front(several),
        _side_by_side(several) if compared else None,
        _each("times", "Times and rates", several, lambda costs: (times_table(costs),), _TIMES),
        _each("spent", "What a token's time goes to", several, _spent),
        _each("plans", "Plans", several, _plans, _PLANS),
        _each("roofline", "Roofline", several, _roofline, _ROOFLINE),
        _each("memory", "Memory", several, _memory),
        _each("parts", "What limits each part", several, lambda costs: (parts_table(costs),)),
    ]
    subtitle = together(several) if compared else f"{title_of(several[0])}, {several[0].machine}"
    notes = dict.fromkeys(note for costs in several for note in costs.notes)
    return Page.of(
        f"Tokens: {', '.join([model or several[0].architecture, *names_of(several)])}", subtitle, made, notes
    )


_TIMES = (
    "Each token: a step that gives each sequence one. First token: a prompt alone on the machine. Front: no other "
    "point of that context has more tokens/s of a device and of a user."
)
_PLANS = "The best plan of each way to divide devices, what of it are collectives, and what makes it dearer."
_ROOFLINE = (
    "Operations of a part of the model for each byte that the memory of a device moves, and for each second. Left of "
    "the ridge memory limits, right of it operations do; launches and links keep a part below both."
)


def _each(
    key: str, title: str, several: Sequence[TokenCosts], make: Callable[[TokenCosts], tuple[Part, ...]], lead: str = ""
) -> Section | None:
    """A section of each machine, in tabs where there are several."""
    made = [Option(name, make(costs)) for costs, name in zip(several, names_of(several), strict=True)]
    options = [option for option in made if option.parts]
    if not options:
        return None
    return Section(key, title, options[0].parts if len(several) == 1 else (Tabs(tuple(options)),), lead)


def _tiles(costs: TokenCosts) -> Tiles:
    quickest, busiest = _ends(costs)
    least, memory = min(point.held.total for point in costs.points), costs.points[0].held.memory
    of = f"of {format_bytes(memory)}" if isfinite(memory) else "without a limit"
    tiles = [
        Tile("each token", format_si(quickest.best.each_token, "s"), f"at least, {_at(quickest)}"),
        Tile("tokens/s of a device", format_count(busiest.rate), f"at most, {_at(busiest)}"),
        Tile("held by a device", format_bytes(least), f"at least, {of}"),
    ]
    limit = f"limited by {busiest.limited_by}"
    plan = Tile("plan", str(busiest.plan), f"{_at(busiest)}; {limit}")
    return Tiles(
        (*tiles[:2], plan if busiest.devices > 1 else Tile("limit", busiest.limited_by, _at(busiest)), tiles[2])
    )


def _compared_tiles(several: Sequence[TokenCosts]) -> Tiles:
    made = []
    for costs, name in zip(several, names_of(several), strict=True):
        quickest, busiest = _ends(costs)
        note = f"each token at least; at most {format_count(busiest.rate)} tokens/s of a device"
        made.append(Tile(name, format_si(quickest.best.each_token, "s"), note))
    return Tiles(tuple(made))


def _ends(costs: TokenCosts) -> tuple[TokenPoint, TokenPoint]:
    """The points with the quickest tokens and with most of them, of those that fit, if any does."""
    fitting = [point for point in costs.points if point.held.fits] or list(costs.points)
    return min(fitting, key=lambda point: point.best.each_token), max(fitting, key=lambda point: point.rate)


def _at(point: TokenPoint) -> str:
    return f"batch {point.batch:,}, context {point.context:,}"


def _front(several: Sequence[TokenCosts]) -> Section | None:
    """Tokens/s of a device against those of a user: a line for each context, of several machines for each of them."""
    contexts = list(dict.fromkeys(point.context for costs in several for point in costs.points))
    shown = [contexts] if len(several) == 1 else [[context] for context in contexts]
    options = []
    for some in shown:
        rows = list(_rates(several, some))
        if len(rows) > 1:
            options.append(Option(f"context {some[0]:,}", (_front_figure(rows),)))
    if not options:
        return None
    lead = "To the right a token comes sooner, upwards a device gives more of them; points without room are left out."
    parts = options[0].parts if len(options) == 1 else (Tabs(tuple(options)),)
    return Section("front", "Throughput and latency", parts, lead)


def _front_figure(rows: Sequence[dict[str, Any]]) -> Figure:
    axes = {
        "x": spread_number("x", "tokens/s of a user", [row["x"] for row in rows], _WIDE),
        "y": spread_number("y", "tokens/s of a device", [row["y"] for row in rows], _WIDE),
        "color": legend(colours_of([row["series"] for row in rows]), {row["series"] for row in rows}, "series"),
    }
    if axes["color"]["legend"]:
        axes["color"]["legend"]["symbolOpacity"] = 1
    told = {"tooltip": tooltip(series="", at="at", plan="plan", y_text="tokens/s of a device", x_text="of a user")}
    best, others = ([row for row in rows if row["best"] is wanted] for wanted in (True, False))
    size = {"condition": {"test": "datum.front", "value": 110}, "value": 35}
    mark = {"type": "point", "filled": True}
    layers = [
        {"data": {"values": others}, "mark": {**mark, "size": 25, "opacity": 0.35}, "encoding": {**axes, **told}},
        {
            "data": {"values": best},
            "mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.6},
            "encoding": {**axes, "order": {"field": "batch", "type": "quantitative"}},
        },
        {
            "data": {"values": best},
            "mark": {**mark, "stroke": "var(--paper)", "strokeWidth": 1},
            "encoding": {**axes, **told, "size": size},
        },
    ]
    text = "Large points are on the front."
    if others:
        text = "Large points are on the front; faint ones are the best plans of other ways to divide the devices."
    plot = {"height": 340, "layer": layers if others else layers[1:]}
    return Figure("front", "Throughput against latency", plot, text, text)


def _rates(several: Sequence[TokenCosts], contexts: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Points of some contexts that fit, and those of other plans."""
    for costs, machine in zip(several, names_of(several), strict=True):
        front = {*costs.front}
        for point in costs.points:
            if point.context not in contexts:
                continue
            name = machine if len(contexts) == 1 else f"context {point.context:,}"
            for way in point.ways:
                if way.held.fits:
                    user, best = 1 / way.each_token, way is point.best
                    rate = point.batch * user / point.devices
                    yield {"x": user, "y": rate, "x_text": format_count(user), "y_text": format_count(rate)} | {
                        "series": name, "at": _at(point), "batch": point.batch, "plan": str(way.plan),
                        "best": best, "front": best and point in front,
                    }  # fmt: skip


def _side_by_side(several: Sequence[TokenCosts]) -> Section:
    tables = tuple(Option(title, (table,)) for title, table in side_by_side(several))
    return Section("compared", "Side by side", (Tabs(tables),), "In brackets: against the first machine.")


def _spent(costs: TokenCosts) -> tuple[Part, ...]:
    scale = Scale.of([point.seconds for point in costs.points], "s")
    amounts = [
        Amount(_at(point), hyphened(what), seconds / scale.factor, seconds / point.seconds)
        for point in costs.points
        for what, seconds in point.best.spent.items()
    ]
    plot = stacked(amounts, scale.unit, "time", "is for")
    text = "Time of one step at each point, by what it goes to."
    return (Figure("spent", "Time of a step", plot, text),)


def _plans(costs: TokenCosts) -> tuple[Part, ...]:
    if not has_ways(costs):
        return ()
    most = max(len(point.ways) for point in costs.points)
    every = (Folded(f"all {most} ways", (ways_table(costs),)),) if most > MOST_WAYS else ()
    return ways_table(costs, MOST_WAYS), *every


def _roofline(costs: TokenCosts) -> tuple[Part, ...]:
    table = roof_table(costs)
    if table is None:
        return ()
    memory = costs.bandwidths[0].component
    options = []
    for context in dict.fromkeys(point.context for point in costs.points):
        points = tuple(
            Point(one.of, one.part.name, one.intensity, one.rate)
            for one in roof_points(costs)
            if one.point.context == context
        )
        colours = colours_of([memory, *(point.memory for point in points)])
        figure = roofline_figure(Roofline(costs.peaks, costs.bandwidths, points), colours, "each part", "part")
        if figure is not None:
            options.append(Option(f"context {context:,}", (figure,)))
    figures = options[0].parts if len(options) == 1 else (Tabs(tuple(options)),) if options else ()
    return *figures, table


def _memory(costs: TokenCosts) -> tuple[Part, ...]:
    size, unit = data_unit(8 * max(point.held.total for point in costs.points))
    amounts = [
        Amount(_at(point), what, 8 * held / size, held / point.held.total)
        for point in costs.points
        for what, held in (
            ("weights", point.held.weights), ("cache", point.held.cache), ("activations", point.held.activations),
        )
    ]  # fmt: skip
    text = f"{memory_title(costs)}, at each point."
    return Figure("memory", "What a device holds", stacked(amounts, unit, "held", "is"), text, text), memory_table(
        costs
    )
