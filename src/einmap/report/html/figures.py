"""The figures of a page as files for papers: SVG and PNG, in light colours."""

from __future__ import annotations

import re
from collections.abc import Iterator

from einmap.report.drawing.svg import size_of
from einmap.report.drawing.theme import LIGHT
from einmap.report.html import vega
from einmap.report.html.parts import Figure, Page, pictures

_OTHER = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 60
_MOST_PIXELS = 16_000
"""Width and height of a drawing that is written as PNG; larger ones are SVG only."""


def figure_files(page: Page) -> Iterator[tuple[str, bytes]]:
    """Name and content of each file, one after the other. Raises SpecError when vl-convert is missing."""
    names: dict[str, int] = {}
    for picture in pictures(page):
        stem = _OTHER.sub("_", picture.name).strip("._")[:_LONGEST] or "figure"
        # case is no difference on some file systems
        names[stem.lower()] = names.get(stem.lower(), 0) + 1
        stem += f"-{names[stem.lower()]}" if names[stem.lower()] > 1 else ""
        if isinstance(picture, Figure):
            yield f"{stem}.svg", vega.svg(picture.plot).encode()
            yield f"{stem}.png", vega.png(picture.plot)
            continue
        svg = picture.draw(LIGHT)
        yield f"{stem}.svg", svg.encode()
        if max(size_of(svg)) * vega.SCALE <= _MOST_PIXELS:
            yield f"{stem}.png", vega.drawn_png(svg)
