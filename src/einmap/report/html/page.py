"""A page as one HTML file: offline, without a request, in light and dark, for screens of any width and for paper.

Whatever stands in a specification is text here: escaped by the template, made visible (`einmap.visible`), and no
script runs but the two whose hashes the page's Content-Security-Policy lists.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import Any

from einmap.report.drawing.svg import MARK, size_of
from einmap.report.drawing.theme import DARK, LIGHT
from einmap.report.html import vega
from einmap.report.html.colours import ON_PAGE, declarations
from einmap.report.html.parts import Drawing, Figure, Page, Part, pictures
from einmap.visible import visible

LARGE = 250_000
"""Characters of a drawing that the browser lays out when it is asked for, and not before."""


def to_html(page: Page) -> str:
    """The text of the file; the same page always gives the same text. Raises SpecError when vl-convert is missing."""
    from markupsafe import Markup

    scripts = [vega.library(), _asset("page.js")] if any(isinstance(p, Figure) for p in pictures(page)) else []
    policy = {
        "default-src": "'none'",
        "script-src": " ".join(f"'sha256-{_sha256(script)}'" for script in scripts) or "'none'",
        "style-src": "'unsafe-inline'",
        "img-src": "data: blob:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return str(
        _template("parts.html.jinja", "page.html.jinja").render(
            page=page,
            policy="; ".join(f"{name} {value}" for name, value in policy.items()),
            style=Markup(_style()),
            settings=_json({"config": vega.config()}),
            scripts=[Markup(script) for script in scripts],
            **_WRITERS,
            drawing=_drawing,
            inline=False,
        )
    )


def fragment(parts: Iterable[Part]) -> str:
    """Parts without plots as one element for notebooks: no style sheet, no script, drawings in light colours."""
    module = _template("parts.html.jinja").make_module({**_WRITERS, "drawing": _light_drawing, "inline": True})
    return f"<div>{str(module.all(tuple(parts))).strip()}</div>"


@cache
def _template(*assets: str) -> Any:
    from jinja2 import Environment, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=lambda value: value if isinstance(value, Markup) else visible(str(value)),
    )
    return environment.from_string("".join(map(_asset, assets)))


def _style() -> str:
    return "\n".join((themes(":root"), _asset("page.css")))


def themes(root: str) -> str:
    """Colours of both themes below `root`; light is for paper, and for those who asked for nothing."""
    light, dark = declarations(LIGHT), declarations(DARK)
    return "\n".join(
        (
            f"{root}{{color-scheme:light;{light}}}",
            f"@media screen and (prefers-color-scheme:dark)"
            f"{{{root}:not([data-theme=light]){{color-scheme:dark;{dark}}}}}",
            f"@media screen{{{root}[data-theme=dark]{{color-scheme:dark;{dark}}}}}",
        )
    )


def _plot(figure: Figure) -> Any:
    return _json({"name": visible(figure.name), "spec": vega.on_page(figure.plot)})


_WRITERS = {"kind": lambda part: type(part).__name__, "plot": _plot}


def _light_drawing(drawing: Drawing) -> Any:
    """The SVG in its own size; what does not fit is scrolled."""
    from markupsafe import Markup

    return Markup(f'<div style="overflow:auto;max-height:40em">{drawing.draw(LIGHT).replace(f"{MARK}\n", "")}</div>')


def _drawing(drawing: Drawing) -> Any:
    """The SVG inside of the page, in a box that scrolls. Its text is escaped where it is drawn."""
    from markupsafe import Markup, escape

    svg = drawing.draw(ON_PAGE).replace(f"{MARK}\n", "")
    width, height = size_of(svg)
    name = escape(visible(drawing.name))
    box = f'<div class="picture" tabindex="0" data-name="{name}" style="--width:{width:g}">{svg}</div>'
    if len(svg) <= LARGE:
        return Markup(box)
    label = escape(f"show the drawing ({width:,.0f} x {height:,.0f} pixels)")
    return Markup(f'<details><summary>{label}</summary><template class="late">{box}</template></details>')


def _json(value: object) -> Any:
    """JSON within a script element: no `<`, so that nothing ends the element."""
    from markupsafe import Markup

    text = json.dumps(value, allow_nan=False, separators=(",", ":"), ensure_ascii=True)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _sha256(script: str) -> str:
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()


@cache
def _asset(name: str) -> str:
    return (resources.files("einmap.report.html") / "assets" / name).read_text(encoding="utf-8").strip()
