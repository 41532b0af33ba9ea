"""Parts of a report, as plain values: sections, and in them tiles, tables, figures, drawings, code.

Nothing here knows HTML: `page` writes it. Texts are those of a specification or ours; they are escaped when written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any

from einmap.errors import Note
from einmap.report.drawing.theme import Theme
from einmap.report.text.layout import Table, Tone

MOST_NOTES = 200
"""Notes on a page; how many more there are stands below them."""

type Part = Paragraph | Tiles | Table | Figure | Drawing | Code | Tabs | Folded | Choices


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text; `tone` gives it the colour of good or bad news."""

    text: str
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Tile:
    """One number that matters: `energy`, `91.4 mJ`, and in small what is to be known of it."""

    label: str
    value: str
    note: str = ""
    tone: Tone = "plain"


@dataclass(frozen=True, slots=True)
class Tiles:
    """Numbers side by side."""

    tiles: tuple[Tile, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A plot. `name`: of its files; `plot`: the Vega-Lite specification, without size, colours and `$schema`.

    `description` says what is seen for those who do not see it; `caption` stands below.
    """

    name: str
    title: str
    plot: Mapping[str, Any]
    description: str
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Drawing:
    """A picture of `report.drawing`. `name`: of its files; `draw` gives its SVG text in a theme."""

    name: str
    title: str
    draw: Callable[[Theme], str]
    caption: str = ""


@dataclass(frozen=True, slots=True)
class Code:
    """Text in lines, as it is."""

    text: str


@dataclass(frozen=True, slots=True)
class Option:
    """Parts under a label, of which one is shown at a time."""

    label: str
    parts: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class Tabs:
    """Several views of one thing, side by side as tabs."""

    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Folded:
    """Parts that are shown when asked for, or from the beginning (`is_open`)."""

    label: str
    parts: tuple[Part, ...]
    is_open: bool = False


@dataclass(frozen=True, slots=True)
class Choices:
    """One of many things, chosen in a plot or a list. A mark of `figure` with the number `index` chooses that option.

    `label`: what is chosen, in words. Figures in the options would be drawn all at once: none may be there.
    """

    label: str
    figure: Figure
    options: tuple[Option, ...]


@dataclass(frozen=True, slots=True)
class Section:
    """A chapter of the page; `key` is its place in links: small letters and hyphens."""

    key: str
    title: str
    parts: tuple[Part, ...]
    lead: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A whole report. `command`: the words that make it again; `notes`: what the user should know, shown first."""

    title: str
    subtitle: str
    sections: tuple[Section, ...]
    command: str = ""
    version: str = ""
    notes: tuple[str, ...] = ()

    @staticmethod
    def of(title: str, subtitle: str, sections: Iterable[Section | None], notes: Iterable[Note] = ()) -> Page:
        """A page of those sections that there are. It is passed on: notes name files without their folders."""
        shown = tuple(section for section in sections if section is not None)
        texts = [_note_text(note) for note in notes]
        more = [f"... and {len(texts) - MOST_NOTES:,} more"] if len(texts) > MOST_NOTES else []
        return Page(title, subtitle, shown, notes=(*texts[:MOST_NOTES], *more))


def _note_text(note: Note) -> str:
    if note.at is None or note.at.file is None:
        return str(note)
    return str(replace(note, at=replace(note.at, file=PurePath(note.at.file).name)))


def inner(part: Part) -> tuple[Part, ...]:
    """The parts inside a part; of choices only the plot, since there may be hundreds of the others."""
    match part:
        case Tabs(options=options):
            return tuple(p for option in options for p in option.parts)
        case Choices(figure=figure):
            return (figure,)
        case Folded(parts=parts):
            return parts
        case _:
            return ()


def pictures(page: Page) -> tuple[Figure | Drawing, ...]:
    """All figures and drawings of a page, in order, those inside of other parts too."""
    shown: list[Figure | Drawing] = []
    waiting: list[Part] = [part for section in page.sections for part in section.parts]
    while waiting:
        part = waiting.pop(0)
        if isinstance(part, Figure | Drawing):
            shown.append(part)
        waiting[:0] = inner(part)
    return tuple(shown)
