"""Layout of trees: chains run straight down, branches stand side by side, as close as they fit.

A chain is centred over its branches. Siblings are moved together until their outlines are GAP apart, so that a short
branch may stand beside the narrow top of a long one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from einmap.report.drawing.shapes import Box, Edge, Placed, Point, Shape

GAP = 24.0
"""Between the outlines of two branches."""
STEP = 18.0
"""Between two shapes of a chain."""
FORK = 34.0
"""Between a chain and its branches."""
_ROW = 6.0
"""Outlines are kept for rows of this height."""


@dataclass(frozen=True, slots=True)
class Chain:
    """Shapes below one another, and what hangs below the last one."""

    shapes: tuple[Shape, ...]
    branches: tuple[Chain, ...] = ()


@dataclass(frozen=True, slots=True)
class Layout:
    """Placed shapes, parents before children, and their edges; the upper left corner is at 0, 0."""

    shapes: tuple[Placed, ...]
    edges: tuple[Edge, ...]

    @property
    def width(self) -> float:
        """The right side of the rightmost shape."""
        return max(placed.box.right for placed in self.shapes)

    @property
    def height(self) -> float:
        """The lower side of the lowest shape."""
        return max(placed.box.bottom for placed in self.shapes)


@dataclass(frozen=True, slots=True)
class _Part:
    """A laid out chain with its branches; x = 0 is the middle of the chain, y = 0 its top.

    `left` and `right`: the outline, row by row.
    """

    chain: Chain
    tops: tuple[float, ...]
    branches: tuple[tuple[_Part, float], ...]
    branch_top: float
    left: tuple[float, ...]
    right: tuple[float, ...]


def tree_layout(chain: Chain) -> Layout:
    """Where everything stands."""
    part = _laid_out(chain)
    shapes: list[Placed] = []
    edges: list[Edge] = []
    _place(part, -min(part.left), 0.0, None, shapes, edges)
    return Layout(tuple(shapes), tuple(edges))


def _laid_out(chain: Chain) -> _Part:
    tops: list[float] = []
    y = 0.0
    for shape in chain.shapes:
        tops.append(y)
        y += shape.size[1] + STEP
    end = y - STEP
    branch_top = _ROW * math.ceil((end + FORK) / _ROW)
    rows = math.ceil((branch_top if chain.branches else end) / _ROW)
    parts = [_laid_out(branch) for branch in chain.branches]
    offsets, left, right = _side_by_side(parts)
    # the line from which the branches hang is part of the outline too
    half = [0.0 if row * _ROW < end else max(offsets, default=0.0) for row in range(rows)]
    for shape, top in zip(chain.shapes, tops, strict=True):
        width, height = shape.size
        for row in range(int(top / _ROW), min(rows, math.ceil((top + height) / _ROW))):
            half[row] = max(half[row], width / 2)
    return _Part(
        chain,
        tuple(tops),
        tuple(zip(parts, offsets, strict=True)),
        branch_top,
        (*(-value for value in half), *left),
        (*half, *right),
    )


def _side_by_side(parts: list[_Part]) -> tuple[list[float], list[float], list[float]]:
    """The middle of each part relative to the parent's, and the outline of all together."""
    offsets: list[float] = []
    left: list[float] = []
    right: list[float] = []
    for part in parts:
        shared = min(len(right), len(part.left))
        needed = max((right[row] - part.left[row] + GAP for row in range(shared)), default=0.0)
        offset = math.ceil(max(needed, offsets[-1] + GAP)) if offsets else 0.0
        offsets.append(float(offset))
        left += [value + offset for value in part.left[len(left) :]]
        right[:shared] = [part.right[row] + offset for row in range(shared)]
        right += [value + offset for value in part.right[len(right) :]]
    middle = (offsets[0] + offsets[-1]) / 2 if offsets else 0.0
    return (
        [offset - middle for offset in offsets],
        [value - middle for value in left],
        [value - middle for value in right],
    )


def _place(part: _Part, x: float, y: float, parent: int | None, shapes: list[Placed], edges: list[Edge]) -> None:
    for shape, top in zip(part.chain.shapes, part.tops, strict=True):
        width, height = shape.size
        shapes.append(Placed(shape, Box(x - width / 2, y + top, width, height)))
        if parent is not None:
            edges.append(Edge(parent, len(shapes) - 1, _route(shapes[parent].box, shapes[-1].box)))
        parent = len(shapes) - 1
    for branch, offset in part.branches:
        _place(branch, x + offset, y + part.branch_top, parent, shapes, edges)


def _route(above: Box, below: Box) -> tuple[Point, ...]:
    """From the lower side of one box down to the upper side of the other."""
    start, end = (above.middle, above.bottom), (below.middle, below.y)
    if above.middle == below.middle:
        return start, end
    bend = below.y - FORK / 2
    return start, (above.middle, bend), (below.middle, bend), end
