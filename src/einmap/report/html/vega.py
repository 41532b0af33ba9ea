"""Plots by Vega-Lite: what a page needs to draw them by itself, and pictures of them without a browser.

vl-convert-python brings Vega, Vega-Lite and Vega-Embed as JavaScript, and an engine that runs them.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from einmap.optional import require
from einmap.report.drawing.theme import LIGHT
from einmap.report.html.colours import values
from einmap.visible import visible

_SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
"""The version of Vega-Lite, as an address that nothing is fetched from."""
EXTRA = "html"
"""The extra of the package that brings vl-convert."""
WIDTH = 640
"""Pixels of a plot in a file; on a page it is as wide as there is room."""
SCALE = 2.0
"""Pixels of a PNG for each pixel of the drawing."""
_VARIABLE = re.compile(r"var\(--([\w-]+)\)")
_FONT = "system-ui, Helvetica, Arial, 'Liberation Sans', 'DejaVu Sans', sans-serif"


def check_html() -> None:
    """Raise SpecError when vl-convert is missing: before long work, not after it."""
    require("vl_convert", EXTRA)


@cache
def library() -> str:
    """JavaScript that gives a page `vegaEmbed`. Raises SpecError when vl-convert is missing."""
    return str(require("vl_convert", EXTRA).javascript_bundle("window.vegaEmbed=vegaEmbed;")).strip()


def config() -> dict[str, Any]:
    """How all plots look; colours are names, see `colours`."""
    text = {"labelColor": "var(--ink)", "titleColor": "var(--muted)", "labelFontSize": 12, "titleFontSize": 12}
    rules = dict.fromkeys(("domainColor", "gridColor", "tickColor"), "var(--rule)")
    legend = {
        "orient": "top", "symbolLimit": 40, "labelLimit": 150, "title": None, "symbolType": "square", "rowPadding": 4,
        "columns": 4,
    }  # fmt: skip
    return {
        "font": _FONT,
        "background": None,
        "view": {"stroke": None},
        "axis": {**rules, "titleFontWeight": "normal", "titlePadding": 8, **text},
        "axisX": {"tickCount": 6},
        "axisY": {"labelLimit": 190},
        "legend": legend | text,
        "bar": {"cornerRadiusEnd": 0},
        "text": {"color": "var(--ink)", "fontSize": 11},
        "rule": {"color": "var(--ink)"},
        "mark": {"color": "var(--series-0)"},
    }


def on_page(plot: Mapping[str, Any]) -> dict[str, Any]:
    """The whole specification of a plot as wide as the page has room."""
    autosize = {"type": "fit-x", "contains": "padding"}
    return {"$schema": _SCHEMA, "width": "container", "autosize": autosize, **_shown(plot)}


def svg(plot: Mapping[str, Any]) -> str:
    """The plot as the text of an SVG file, in light colours. Raises SpecError when vl-convert is missing."""
    return str(require("vl_convert", EXTRA).vegalite_to_svg(_in_file(plot)))


def png(plot: Mapping[str, Any]) -> bytes:
    """The plot as a PNG file, in light colours. Raises SpecError when vl-convert is missing."""
    return bytes(require("vl_convert", EXTRA).vegalite_to_png(_in_file(plot), scale=SCALE))


def drawn_png(text: str) -> bytes:
    """A PNG of the text of an SVG file. Raises SpecError when vl-convert is missing."""
    return bytes(require("vl_convert", EXTRA).svg_to_png(text, scale=SCALE))


def _in_file(plot: Mapping[str, Any]) -> dict[str, Any]:
    colours = values(LIGHT)
    whole = {"$schema": _SCHEMA, "width": WIDTH, **_shown(plot), "config": config() | {"background": "#ffffff"}}
    text = _VARIABLE.sub(lambda name: colours[name[1]], json.dumps(whole))
    specification: dict[str, Any] = json.loads(text)
    return specification


def _shown(value: Any) -> Any:
    """A copy in which no text deceives its reader (`einmap.visible`)."""
    match value:
        case str():
            return visible(value)
        case Mapping():
            return {key: _shown(inner) for key, inner in value.items()}
        case list() | tuple():
            return [_shown(inner) for inner in value]
        case _:
            return copy.copy(value)
