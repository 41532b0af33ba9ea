"""A picture as SVG text: the same text for the same picture, valid XML whatever its names hold."""

from __future__ import annotations

import math
import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from xml.sax.saxutils import escape

from einmap.report.drawing.font import FAMILY
from einmap.report.drawing.shapes import CAP, INSET, SLANT, Box, Edge, Line, Picture, Placed, Point, Shape, Text
from einmap.report.drawing.theme import Theme
from einmap.visible import visible

MARK = "<!-- drawn by einmap -->"
"""The second line of every file."""

_BASELINE = 0.97
"""From the top of a line of text to its baseline, in font sizes."""
_ARROW = 7.0
_BRIDGE = 4.0
"""Radius of the arc with which a line goes over another one."""
_SIZE = re.compile(r'<svg xmlns="[^"]*" width="([\d.]+)" height="([\d.]+)"')
_NO_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def to_svg(picture: Picture) -> str:
    """The picture as an SVG document of its own."""
    return "\n".join(_lines(picture)) + "\n"


def size_of(svg: str) -> tuple[float, float]:
    """Width and height of what `to_svg` gave, in pixels."""
    found = _SIZE.match(svg)
    assert found is not None
    return float(found[1]), float(found[2])


def _lines(picture: Picture) -> Iterator[str]:
    width, height, theme = _n(picture.width), _n(picture.height), picture.theme
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" role="img" font-family="{FAMILY}">'
    )
    yield MARK
    yield f"<title>{_text(picture.title)}</title>"
    yield f"<desc>{_text(picture.description)}</desc>"
    yield f'<rect width="{width}" height="{height}" fill="{theme.background}"/>'
    yield f'<g fill="none" stroke="{theme.line}" stroke-width="1.4" stroke-linejoin="round">'
    yield from (f'<path d="{lines}"/>' for lines in _edges(picture.edges))
    yield "</g>"
    for placed in (*picture.shapes, *picture.samples):
        yield from _shape(placed, theme)
    yield from (_outside(text, theme) for text in picture.texts)
    yield "</svg>"


def _edges(edges: Sequence[Edge]) -> Iterable[str]:
    """One path for all lines from a shape: where they run together they are not drawn twice."""
    uprights = _uprights(edges)
    paths: dict[int, str] = {}
    for edge in edges:
        paths[edge.source] = paths.get(edge.source, "") + _edge(edge, uprights)
    return paths.values()


type _Upright = tuple[float, float, float, int]
"""Its x, upper and lower end, and the source of its edge."""


def _uprights(edges: Sequence[Edge]) -> list[_Upright]:
    """The vertical parts of edges, from left to right."""
    lines = {
        (a[0], min(a[1], b[1]), max(a[1], b[1]), edge.source)
        for edge in edges
        for a, b in pairwise(edge.points)
        if a[0] == b[0]
    }
    return sorted(lines)


def _edge(edge: Edge, uprights: Sequence[_Upright]) -> str:
    path = f"M{_n(edge.points[0][0])} {_n(edge.points[0][1])}"
    for start, end in pairwise(edge.points):
        path += _bridges(start, end, edge.source, uprights) + f"L{_n(end[0])} {_n(end[1])}"
    if not edge.arrow:
        return path
    return path + _path(_head(edge.points[-2], edge.points[-1]))


def _head(start: Point, end: Point) -> Sequence[Point]:
    """The tip of an arrow at the end of a vertical or horizontal line."""
    x, y = end
    if start[1] == y and start[0] != x:
        back = -_ARROW if x > start[0] else _ARROW
        return (x + back, y - _ARROW / 2), (x, y), (x + back, y + _ARROW / 2)
    back = -_ARROW if y >= start[1] else _ARROW
    return (x - _ARROW / 2, y + back), (x, y), (x + _ARROW / 2, y + back)


def _bridges(start: Point, end: Point, source: int, uprights: Sequence[_Upright]) -> str:
    """Where a horizontal part crosses lines of other shapes it goes over them in an arc: they do not meet."""
    low, high, y = min(start[0], end[0]), max(start[0], end[0]), start[1]
    if y != end[1] or high - low < 2 * _BRIDGE:
        return ""
    inside = uprights[bisect_left(uprights, (low + _BRIDGE,)) : bisect_right(uprights, (high - _BRIDGE, math.inf))]
    crossed = sorted({x for x, top, bottom, other in inside if other != source and top < y < bottom})
    # of lines that stand too close together the first has the arc
    apart = [x for n, x in enumerate(crossed) if not n or x - crossed[n - 1] >= 2 * _BRIDGE]
    step = 1.0 if end[0] > start[0] else -1.0
    arcs = ""
    for x in apart if step > 0 else reversed(apart):
        arc = f"A{_n(_BRIDGE)} {_n(_BRIDGE)} 0 0 {int(step > 0)}"
        arcs += f"L{_n(x - step * _BRIDGE)} {_n(y)}{arc} {_n(x + step * _BRIDGE)} {_n(y)}"
    return arcs


def _path(points: Sequence[Point]) -> str:
    return "".join(f"{'L' if index else 'M'}{_n(x)} {_n(y)}" for index, (x, y) in enumerate(points))


def _shape(placed: Placed, theme: Theme) -> Iterator[str]:
    shape, box = placed.shape, placed.box
    yield f'<g fill="{shape.paint.fill}" stroke="{shape.paint.stroke}" stroke-width="1.4">'
    if shape.tip:
        yield f"<title>{_text(shape.tip)}</title>"
    yield from _outline(shape, box)
    y = box.y + shape.text_top
    for line in shape.lines:
        yield _line(line, box.middle, y, "middle", theme)
        y += line.height
    yield "</g>"


def _outline(shape: Shape, box: Box) -> Iterator[str]:
    match shape.kind:
        case "box":
            yield _rectangle(box, 2)
        case "double box":
            inner = Box(box.x + INSET, box.y + INSET, box.width - 2 * INSET, box.height - 2 * INSET)
            yield _rectangle(box, 2)
            yield _rectangle(inner, 1, 'fill="none" ')
        case "pill" | "disc":
            yield _rectangle(box, box.height / 2)
        case "ellipse":
            middle = f'cx="{_n(box.middle)}" cy="{_n(box.y + box.height / 2)}"'
            yield f'<ellipse {middle} rx="{_n(box.width / 2)}" ry="{_n(box.height / 2)}"/>'
        case "hexagon":
            yield f'<path d="{_hexagon(box)}"/>'
        case "cylinder":
            yield from _cylinder(box)


def _rectangle(box: Box, radius: float, style: str = "") -> str:
    place = f'x="{_n(box.x)}" y="{_n(box.y)}" width="{_n(box.width)}" height="{_n(box.height)}"'
    return f'<rect {place} {style}rx="{_n(radius)}"/>'


def _hexagon(box: Box) -> str:
    slant, half = min(SLANT, box.width / 4), box.height / 2
    left, right, middle = box.x + slant, box.right - slant, box.y + half
    upper, lower = [(box.x, middle), (left, box.y), (right, box.y)], [(right, box.bottom), (left, box.bottom)]
    corners = [*upper, (box.right, middle), *lower]
    return _path(corners) + "Z"


def _cylinder(box: Box) -> Iterator[str]:
    arc = f"A{_n(box.width / 2)} {_n(CAP)} 0 0"
    left, right, top, bottom = _n(box.x), _n(box.right), _n(box.y + CAP), _n(box.bottom - CAP)
    yield f'<path d="M{left} {top}V{bottom}{arc} 0 {right} {bottom}V{top}{arc} 0 {left} {top}Z"/>'
    yield f'<path d="M{left} {top}{arc} 0 {right} {top}" fill="none"/>'


def _outside(text: Text, theme: Theme) -> str:
    return _line(text.line, text.x, text.y, "start", theme)


def _line(line: Line, x: float, y: float, anchor: str, theme: Theme) -> str:
    weight = ' font-weight="bold"' if line.bold else ""
    where = f'x="{_n(x)}" y="{_n(y + _BASELINE * line.size)}"'
    colour = theme.muted if line.muted else theme.text
    style = f'font-size="{_n(line.size)}"{weight} text-anchor="{anchor}" fill="{colour}" stroke="none"'
    return f"<text {where} {style}>{_text(line.text)}</text>"


def _text(text: str) -> str:
    """Made visible and escaped; characters that XML cannot hold are replaced, our own no-break spaces stay."""
    shown = "\N{NO-BREAK SPACE}".join(visible(part) for part in text.split("\N{NO-BREAK SPACE}"))
    return escape(_NO_XML.sub("\N{REPLACEMENT CHARACTER}", shown))


def _n(value: float) -> str:
    """At most two decimals."""
    return f"{value:.2f}".rstrip("0").rstrip(".")
