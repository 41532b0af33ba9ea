"""Kinds of plots that several sections use, as Vega-Lite specifications with data in rows.

Names of a specification are values in rows, never fields or expressions of the plot.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from einmap.report.html.colours import SERIES
from einmap.report.text.formatting import Scale

MOST_SERIES = len(SERIES) - 1
"""Most parts with a colour of their own; the rest is one more colour together."""
MOST_ROWS = 40
"""Bars with a name each; more of them are thin columns in order."""
STEP = 26
"""Pixels of a bar with the space to the next one."""


@dataclass(frozen=True, slots=True)
class Amount:
    """Amount of `part` (a colour) in `row` (a bar), in the unit of the plot; `note`: more for the tooltip."""

    row: str
    part: str
    value: float
    share: float = 0.0
    note: str = ""


def colour(number: int) -> str:
    """The name of the colour of a series."""
    return f"var(--series-{number % len(SERIES)})"


def colours_of(names: Sequence[str]) -> dict[str, str]:
    """A colour for each name, by its place; they repeat after `MOST_SERIES`."""
    return {name: colour(place % MOST_SERIES) for place, name in enumerate(dict.fromkeys(names))}


def grouped(totals: Mapping[str, float], rest: str, most: int = MOST_SERIES) -> dict[str, str]:
    """For each name itself, or the name of the rest for all but the `most` largest of too many.

    >>> grouped({"A": 3.0, "B": 1.0, "C": 2.0}, "others", most=2)
    {'A': 'A', 'B': 'others', 'C': 'C'}
    """
    if len(totals) <= most:
        return {name: name for name in totals}
    kept = set(sorted(totals, key=lambda name: -totals[name])[:most])
    return {name: name if name in kept else rest for name in totals}


def stacked(
    amounts: Iterable[Amount], unit: str, what: str, part: str, colours: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Bars, one below the other, each in the colours of its parts; thin columns where there are many.

    `what`: the title of the axis; `part`: what a colour stands for, in tooltips; `colours`: by part, in their order.
    """
    rows: list[dict[str, Any]] = [
        {"row": a.row, "part": a.part, "value": a.value, "share": a.share, "note": a.note} for a in amounts if a.value
    ]
    names = list(dict.fromkeys(str(row["row"]) for row in rows))
    palette = colours if colours is not None else colours_of([str(row["part"]) for row in rows])
    order = {name: place for place, name in enumerate(palette)}
    for row in rows:
        row["order"] = order[str(row["part"])]
    shown = tooltip(row="of", part=part)
    shown += [
        quantitative("value", f"{what} ({unit})", format=",.4g"),
        quantitative("share", "part of all", format=".1%"),
    ]
    shown += tooltip(note="more") if any(row["note"] for row in rows) else []
    encoding: dict[str, Any] = {
        "color": legend(palette, {str(row["part"]) for row in rows}),
        "order": {"field": "order", "type": "ordinal"},
        "tooltip": shown,
    }
    amount = {**number("value", f"{what} ({unit})"), "stack": "zero"}
    return {"data": {"values": rows}, **_along(names, amount, encoding)}


def _along(names: Sequence[str], amount: dict[str, Any], encoding: dict[str, Any]) -> dict[str, Any]:
    """Few names: rows with labels. Many: columns in their order, without labels."""
    if len(names) <= MOST_ROWS:
        encoding |= {"y": name("row"), "x": amount}
        bar = {"type": "bar", "height": {"band": 0.72}}
        return {"height": STEP * max(1, len(names)), "mark": bar, "encoding": encoding}
    encoding |= {
        "x": name("row", title=f"{len(names):,} in order of execution", labels=False, domain=True),
        "y": amount,
    }
    return {"height": 260, "mark": {"type": "bar", "width": {"band": 1}}, "encoding": encoding}


def tooltip(**titles: str) -> list[dict[str, Any]]:
    """Fields in the tooltip of a mark: the title of each."""
    return [{"field": field, "title": title} for field, title in titles.items()]


def quantitative(field: str, title: str, **looks: Any) -> dict[str, Any]:
    """A number of a tooltip."""
    return {"field": field, "type": "quantitative", "title": title, **looks}


def number(field: str, title: str, scale: Mapping[str, Any] | None = None, **looks: Any) -> dict[str, Any]:
    """An axis of numbers; `looks`: of the axis."""
    axis = {"title": title, "format": ",.4~g", **looks}
    return {"field": field, "type": "quantitative", "axis": axis, **({"scale": scale} if scale else {})}


def name(field: str, **looks: Any) -> dict[str, Any]:
    """An axis of names in the order of the rows, without lines; `looks`: of the axis."""
    axis = {"title": None, "grid": False, "ticks": False, "domain": False, "labelPadding": 8, **looks}
    return {"field": field, "type": "nominal", "sort": None, "axis": axis}


def spread_number(field: str, title: str, values: Sequence[float], wide: float) -> dict[str, Any]:
    """An axis of numbers, by powers of ten where the largest is more than `wide` times the least."""
    least, most = min(values), max(values)
    if least > 0 and most > wide * least:
        return logarithmic(field, title, least / 1.5, most * 1.5)
    return number(field, title, {"zero": False, "padding": 18})


def logarithmic(field: str, title: str, least: float, most: float, **looks: Any) -> dict[str, Any]:
    """An axis by powers of ten from `least` to `most`."""
    scale = {"type": "log", "domain": [least, most], "nice": False}
    return number(field, title, scale, values=log_ticks(least, most), **looks)


def named(title: str, scale: Scale) -> str:
    """`energy (µJ)`: the title of an axis."""
    return f"{title} ({scale.unit})" if scale.unit else title


def dashed_line(field: str, value: float) -> dict[str, Any]:
    """A layer with a line across the plot, such as a capacity."""
    return {
        "data": {"values": [{field: value}]},
        "mark": {"type": "rule", "strokeDash": [6, 4], "strokeWidth": 1.5, "color": "var(--bad)"},
        "encoding": {"y": {"field": field, "type": "quantitative"}},
    }


def log_ticks(least: float, most: float) -> list[float]:
    """Where an axis by powers of ten has lines: at these; where they are few, also at 2 and 5 times those."""
    powers = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    tens = [float(f"1e{power}") for power in powers]
    ticks = tens if len(tens) > 5 else [factor * ten for ten in tens for factor in (1, 2, 5)]
    return [value for value in ticks if least <= value <= most]


def legend(colours: Mapping[str, str], used: Iterable[str], field: str = "part") -> dict[str, Any]:
    """The channel of colours; what is not `used` is left out of the legend, and one name alone needs none."""
    shown = [name for name in colours if name in set(used)]
    scale = {"domain": list(colours), "range": list(colours.values())}
    legend = None if len(shown) < 2 else {"values": shown}
    return {"field": field, "type": "nominal", "scale": scale, "legend": legend}


def choosable(
    rows: Sequence[Mapping[str, Any]], height: int, rim: int, encoding: Mapping[str, Any], **looks: Any
) -> dict[str, Any]:
    """Points of which one is chosen by its `index`; `rim`: of those that are not, `encoding`: all but the rim."""
    widths = {"condition": {**IS_CHOSEN, "value": 3}, "value": rim}
    return {
        "data": {"values": rows},
        "height": height,
        "params": [{"name": "chosen", "value": 0}],
        "mark": {"type": "point", "filled": True, "stroke": "var(--ink)", "cursor": "pointer", **looks},
        "encoding": {**encoding, "strokeWidth": widths},
    }


IS_CHOSEN = {"test": "datum.index !== null && datum.index === chosen"}


def bars(rows: Sequence[Mapping[str, Any]], axis: str, domain: float | None = None, **titles: str) -> dict[str, Any]:
    """Bars with a name (`row`), a `value`, a `text` at their ends, and whether they stand out (`marked`).

    `domain`: where the axis ends; `titles`: those of fields in tooltips.
    """
    colours = {"condition": {"test": "datum.marked", "value": colour(5)}, "value": colour(0)}
    return {
        "data": {"values": [dict(row) for row in rows]},
        "height": STEP * len(rows),
        "encoding": {
            "y": name("row"),
            "x": number("value", axis, None if domain is None else {"domain": [0, domain]}),
            "tooltip": tooltip(**titles),
        },
        "layer": [
            {"mark": {"type": "bar", "height": {"band": 0.72}}, "encoding": {"color": colours}},
            {
                "mark": {"type": "text", "align": "left", "dx": 5, "baseline": "middle"},
                "encoding": {"text": {"field": "text"}},
            },
        ],
    }
