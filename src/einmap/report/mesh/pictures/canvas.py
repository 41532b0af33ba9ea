"""Shapes, lines and texts at their places, as they are collected for a picture."""

from __future__ import annotations

from collections.abc import Sequence

from einmap.report.drawing.font import words
from einmap.report.drawing.shapes import Box, Edge, Kind, Line, Picture, Placed, Point, Shape, Text
from einmap.report.drawing.theme import Theme

MARGIN = 20.0


class Canvas:
    """Parts of a picture, as far as they are known. Sizes are in pixels, from the upper left corner."""

    def __init__(self, theme: Theme) -> None:
        self.theme = theme
        self._shapes: list[Placed] = []
        self._edges: list[Edge] = []
        self._texts: list[Text] = []

    def box(self, box: Box, hue: str | None, label: Line | None = None, *, tip: str = "", kind: Kind = "box") -> None:
        """A box of a hue, its label in its middle."""
        lines = (label,) if label is not None else ()
        shape = Shape(kind, lines, self.theme.paint(hue), tip)
        # the text is centred in the box, whose size need not be the one that the text asks for
        free = (box.height - shape.text_size[1]) / 2 - shape.text_top
        self._shapes.append(Placed(Shape(kind, (), shape.paint, tip), box))
        if label is not None:
            self._texts.append(Text(label, box.middle - label.width / 2, box.y + shape.text_top + free))

    def line(self, points: Sequence[Point], *, ends: bool = False, start: bool = False) -> None:
        """A line of horizontal and vertical parts, with an arrow at its end and perhaps at its start."""
        number = len(self._edges)
        self._edges.append(Edge(number, number, tuple(points), ends))
        if start:
            self._edges.append(Edge(number + 1, number + 1, (points[1], points[0]), arrow=True))

    def text(self, line: Line, x: float, y: float) -> float:
        """A line of text with its left end at `x`, its top at `y`; gives the top of the next one."""
        self._texts.append(Text(line, x, y))
        return y + line.height

    def wrapped(self, text: str, x: float, y: float, width: float, like: Line) -> float:
        """A text in lines of at most `width` pixels; gives the top of what comes next."""
        for part in words(text, width, like.size, bold=like.bold):
            y = self.text(Line(part, like.size, like.bold, like.muted), x, y)
        return y

    def picture(self, title: str, description: str) -> Picture:
        """The picture, as large as what it holds."""
        boxes, texts = [placed.box for placed in self._shapes], self._texts
        points = [point for edge in self._edges for point in edge.points]
        right = [box.right for box in boxes] + [t.x + t.line.width for t in texts] + [x for x, _ in points]
        bottom = [box.bottom for box in boxes] + [t.y + t.line.height for t in texts] + [y for _, y in points]
        size = round(max(right, default=0.0) + MARGIN), round(max(bottom, default=0.0) + MARGIN)
        edges = tuple(self._edges)
        return Picture(*size, tuple(self._shapes), edges, self.theme, tuple(texts), (), title, description)
