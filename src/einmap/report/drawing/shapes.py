"""Shapes with text inside that fits, lines between them, and the picture made of both. Sizes are in pixels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from einmap.report.drawing.font import text_width, words, wrapped
from einmap.report.drawing.theme import Paint, Theme

type Kind = Literal["box", "double box", "cylinder", "ellipse", "hexagon", "pill", "disc"]
type Point = tuple[float, float]

PAD_X, PAD_Y = 9.0, 6.0
CAP = 5.0
"""Height of a cylinder's lid, from its middle to its rim."""
SLANT = 12.0
"""How far the points of a hexagon stand out."""
INSET = 3.0
"""Between the two borders of a double box."""
LEADING = 1.32
"""Height of a line of text in font sizes."""
_STRETCHES = (1.2, 1.3, 1.4, 1.55, 1.7, 2.0, 2.5)
"""Widths of an ellipse in widths of its text; its height follows. The first that is flat enough is taken."""
_FLAT = 1.7


@dataclass(frozen=True, slots=True)
class Line:
    """One line of text."""

    text: str
    size: float = 12.0
    bold: bool = False
    muted: bool = False

    @property
    def width(self) -> float:
        """Pixels at most."""
        return text_width(self.text, self.size, bold=self.bold)

    @property
    def height(self) -> float:
        """Pixels, with the space to the next line."""
        return self.size * LEADING


def text_lines(
    text: str | Sequence[str], width: float, size: float = 12.0, *, bold: bool = False, muted: bool = False
) -> list[Line]:
    """A text in lines of at most `width` pixels, broken at blanks; several texts with commas between them."""
    broken = words(text, width, size, bold=bold) if isinstance(text, str) else wrapped(text, width, size, bold=bold)
    return [Line(part, size, bold, muted) for part in broken]


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle; y grows downwards."""

    x: float
    y: float
    width: float
    height: float

    @property
    def right(self) -> float:
        """The right side."""
        return self.x + self.width

    @property
    def bottom(self) -> float:
        """The lower side."""
        return self.y + self.height

    @property
    def middle(self) -> float:
        """Half way between left and right."""
        return self.x + self.width / 2

    def moved(self, dx: float, dy: float) -> Box:
        """The shape moved elsewhere."""
        return Box(self.x + dx, self.y + dy, self.width, self.height)


@dataclass(frozen=True, slots=True)
class Shape:
    """A shape around lines of text, as large as they need. `tip` says more when the mouse rests on it."""

    kind: Kind
    lines: tuple[Line, ...]
    paint: Paint
    tip: str = ""

    @property
    def text_size(self) -> tuple[float, float]:
        """Width and height of the text."""
        return max((line.width for line in self.lines), default=0.0), sum(line.height for line in self.lines)

    @property
    def size(self) -> tuple[float, float]:
        """Width and height of the whole shape, rounded up to even numbers so that middles are whole."""
        width, height = self.text_size
        extra_width, extra_height = 2 * PAD_X, 2 * PAD_Y
        match self.kind:
            case "double box":
                extra_width, extra_height = extra_width + 2 * INSET, extra_height + 2 * INSET
            case "cylinder":
                extra_height += 3 * CAP
            case "hexagon":
                extra_width += 2 * SLANT
            case "pill":
                extra_width += height / 2
            case "ellipse":
                return _around(width + 6, height + 6)
            case "disc":
                extra_width = extra_height = math.hypot(width, height) - width
                extra_height += width - height
            case _:
                pass
        return _even(width + extra_width), _even(height + extra_height)

    @property
    def text_top(self) -> float:
        """From the shape's upper side to the first line of text."""
        lid = CAP if self.kind == "cylinder" else 0.0
        return (self.size[1] - self.text_size[1]) / 2 + lid / 2


def _around(width: float, height: float) -> tuple[float, float]:
    """The ellipse around a rectangle."""
    size = (width, height)
    for stretch in _STRETCHES:
        size = _even(width * stretch), _even(height / math.sqrt(1 - stretch**-2))
        if size[0] >= _FLAT * size[1]:
            break
    return size


def _even(value: float) -> float:
    return float(2 * math.ceil(value / 2))


@dataclass(frozen=True, slots=True)
class Placed:
    """A shape and where it stands."""

    shape: Shape
    box: Box

    def moved(self, dx: float, dy: float) -> Placed:
        """The shape, moved to another place."""
        return Placed(self.shape, self.box.moved(dx, dy))


@dataclass(frozen=True, slots=True)
class Edge:
    """A line of horizontal and vertical parts from one shape (its place in the picture) to another."""

    source: int
    target: int
    points: tuple[Point, ...]
    arrow: bool = False

    def moved(self, dx: float, dy: float) -> Edge:
        """The line, moved to another place."""
        return replace(self, points=tuple((x + dx, y + dy) for x, y in self.points))


@dataclass(frozen=True, slots=True)
class Text:
    """Text outside of shapes; `x` is its left end, `y` the top of its line."""

    line: Line
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything of a drawing, placed. `description` is for readers who cannot see it."""

    width: float
    height: float
    shapes: tuple[Placed, ...]
    edges: tuple[Edge, ...]
    theme: Theme
    texts: tuple[Text, ...] = ()
    samples: tuple[Placed, ...] = ()
    """Shapes of the legend."""
    title: str = ""
    description: str = ""
