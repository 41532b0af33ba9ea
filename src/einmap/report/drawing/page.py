"""A page: a laid out drawing with its title above and its legend at the side or below."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from einmap.report.drawing.shapes import Box, Kind, Picture, Placed, Shape, Text, text_lines
from einmap.report.drawing.theme import Paint, Theme
from einmap.report.drawing.tidy import Layout

MARGIN = 20.0
_SAMPLE_WIDTH, _SAMPLE_HEIGHT = 30.0, 18.0
_ENTRY_GAP = 8.0
_COLUMN_GAP = 36.0
_TITLE_WIDTH = 640.0
_LABEL_WIDTH = 200.0


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a legend: a small shape and what it stands for."""

    kind: Kind
    paint: Paint
    label: str


@dataclass(frozen=True, slots=True)
class Heading:
    """Heading of a drawing, and its `description` for those who cannot see it."""

    title: str
    subtitle: str = ""
    description: str = ""


def page(layout: Layout, heading: Heading, legend: Sequence[Entry], theme: Theme) -> Picture:
    """The drawing on its page. Tall drawings have the legend at their right side, wide ones below."""
    head = _heading(heading)
    top = max((text.y + text.line.height for text in head), default=MARGIN - 14) + 14
    wide = layout.width > 0.8 * layout.height and layout.width > 500
    origin = (MARGIN, top + layout.height + 26) if wide else (MARGIN + layout.width + _COLUMN_GAP, top)
    samples, labels = _legend(legend, origin, layout.width if wide else 0.0)
    texts = (*head, *labels)
    right = [MARGIN + layout.width, *(text.x + text.line.width for text in texts)]
    bottom = [top + layout.height, *(sample.box.bottom for sample in samples), *(t.y + t.line.height for t in texts)]
    shapes = tuple(placed.moved(MARGIN, top) for placed in layout.shapes)
    edges = tuple(edge.moved(MARGIN, top) for edge in layout.edges)
    size = round(max(right) + MARGIN), round(max(bottom) + MARGIN)
    return Picture(*size, shapes, edges, theme, texts, samples, heading.title, heading.description)


def _heading(heading: Heading) -> list[Text]:
    lines = text_lines(heading.title, _TITLE_WIDTH, 16, bold=True)
    lines += text_lines(heading.subtitle, _TITLE_WIDTH, muted=True)
    texts: list[Text] = []
    y = MARGIN - 4
    for line in lines:
        texts.append(Text(line, MARGIN, y))
        y += line.height
    return texts


def _legend(
    entries: Sequence[Entry], origin: tuple[float, float], width: float
) -> tuple[tuple[Placed, ...], list[Text]]:
    """Entries in rows of at most `width` pixels, one to a row when that is 0."""
    x, y = origin
    row = 0.0
    samples: list[Placed] = []
    texts: list[Text] = []
    for entry in entries:
        lines = text_lines(entry.label, _LABEL_WIDTH)
        needed = _SAMPLE_WIDTH + _ENTRY_GAP + max((line.width for line in lines), default=0.0)
        if x > origin[0] and x + needed > origin[0] + width:
            x, y, row = origin[0], y + row + _ENTRY_GAP, 0.0
        samples.append(_sample(entry, x, y))
        for index, line in enumerate(lines):
            texts.append(Text(line, x + _SAMPLE_WIDTH + _ENTRY_GAP, y + 1 + index * line.height))
        row = max(row, _SAMPLE_HEIGHT, sum(line.height for line in lines))
        x += needed + 2 * _ENTRY_GAP
    return tuple(samples), texts


def _sample(entry: Entry, x: float, y: float) -> Placed:
    shape = Shape(entry.kind, (), entry.paint)
    if entry.kind == "disc":
        return Placed(shape, Box(x + (_SAMPLE_WIDTH - _SAMPLE_HEIGHT) / 2, y, _SAMPLE_HEIGHT, _SAMPLE_HEIGHT))
    return Placed(shape, Box(x, y, _SAMPLE_WIDTH, _SAMPLE_HEIGHT))
