"""Tables as values, which terminal and HTML show alike, and how a terminal shows them and the titles above them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from rich import table as rich_table
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.padding import Padding
from rich.text import Text

from einmap.report.text.formatting import NONE, Bar
from einmap.visible import visible

type Tone = Literal["plain", "good", "warning", "bad", "strong", "dim"]
STYLES: dict[Tone, str] = {
    "plain": "", "good": "green", "warning": "yellow", "bad": "bold red", "strong": "bold", "dim": "dim"
}  # fmt: skip
"""How a terminal shows tones."""


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under `columns`.

    `left`: the columns that are text, not numbers. `bars`: for columns that are parts of a whole (`71%`), what part,
    row by row; a terminal has a bar behind such a column, HTML behind its text. `marked`: rows whose bars have another
    colour. `tones`: of rows. `whole`: columns that a terminal does not wrap.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    left: Collection[int] = (0,)
    bars: Mapping[int, Sequence[float]] = field(default_factory=dict)
    marked: Collection[int] = ()
    tones: Mapping[int, Tone] = field(default_factory=dict)
    whole: Collection[int] = ()
    caption: str = ""


def laid_out(table: Table, bar: int = 12, gap: int = 2) -> rich_table.Table:
    """A table for a terminal; `bar`: the width of a whole bar, `gap`: characters between columns."""
    places = [(n, is_bar) for n in range(len(table.columns)) for is_bar in (False, True)[: 1 + (n in table.bars)]]
    made = new_table(
        *("" if is_bar else visible(table.columns[n]) for n, is_bar in places),
        left=[place for place, (n, is_bar) in enumerate(places) if is_bar or n in table.left],
        whole=[place for place, (n, is_bar) in enumerate(places) if not is_bar and n in table.whole],
        gap=gap,
    )
    # made visible before it is measured: escapes are longer than what they stand for
    for number, row in enumerate(table.rows):
        colour = "yellow" if number in table.marked else "cyan"
        cells = [
            Text(visible(row[n]))
            if not is_bar
            else Bar(table.bars[n][number], bar, colour)
            if row[n] not in ("", NONE)
            else ""
            for n, is_bar in places
        ]
        made.add_row(*cells, style=STYLES[table.tones.get(number, "plain")])
    return made


def section(title: str, *parts: RenderableType | Table) -> Group:
    """A section: its title, and its parts; tables as `laid_out` gives them, with their captions below."""
    shown: list[RenderableType] = [section_title(title)]
    for part in parts:
        shown.append(laid_out(part) if isinstance(part, Table) else part)
        shown += [indented(part.caption, style="dim")] if isinstance(part, Table) and part.caption else []
    return Group(*shown)


def filled(title: str, table: Table) -> Group | None:
    """The section of a table, or None where it has no row."""
    return section(title, table) if table.rows else None


def section_title(text: str) -> Text:
    """The title of a section."""
    return Text(text, style="bold")


def stacked(sections: Iterable[RenderableType | None]) -> Group:
    """Sections with an empty line between them; those that are None are left out."""
    shown = [section for section in sections if section is not None]
    return Group(*[part for section in shown for part in (section, Text(""))][:-1])


def indented(text: str, by: int = 2, style: str = "") -> Padding:
    """A text some characters to the right, all its lines."""
    return Padding(Text(text, style=style), (0, 0, 0, by))


def more(count: int, what: str = "") -> list[Text]:
    """`... and 3 more`, then `what`; nothing where nothing is left out."""
    return [Text(f"  ... and {count:,} more{what}")] if count > 0 else []


def new_table(
    *headers: str, left: Collection[int] = (0,), whole: Collection[int] = (), gap: int = 2
) -> rich_table.Table:
    """A table without lines: columns of numbers to the right, those in `left` to the left.

    Columns in `whole` do not wrap; `gap`: characters between columns. Words are broken only where the longest ones of
    all columns have no room side by side.
    """
    rows = _WordTable(box=None, header_style="dim", pad_edge=True, padding=(0, 0, 0, gap), show_header=any(headers))
    for index, header in enumerate(headers):
        side: Literal["left", "right"] = "left" if index in left else "right"
        rows.add_column(header, justify=side, no_wrap=index in whole, overflow="fold")
    return rows


class _WordTable(rich_table.Table):
    """A table that takes room from columns that can give it where others would have to break words."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        given = self._calculate_column_widths(console, options)
        for column, width in zip(self.columns, self._widths_for_words(console, options, given), strict=True):
            column.width = width
        yield from super().__rich_console__(console, options)
        for column in self.columns:
            column.width = None

    def _widths_for_words(self, console: Console, options: ConsoleOptions, given: Sequence[int]) -> list[int | None]:
        """The width of each column, where `given` ones would break words and others do not; else none."""
        ranges = [self._measure_column(console, options, column) for column in self.columns]
        widths = [r.maximum if c.no_wrap else r.minimum for r, c in zip(ranges, self.columns, strict=True)]
        room = options.max_width - sum(widths)
        if room < 0 or all(width >= least for width, least in zip(given, widths, strict=True)):
            return [None] * len(widths)
        wanted = [r.maximum - least for r, least in zip(ranges, widths, strict=True)]
        for i in sorted(range(len(widths)), key=lambda i: wanted[i]):
            more = min(room, wanted[i])
            widths[i], room = widths[i] + more, room - more
        return [width - self._get_padding_width(i) for i, width in enumerate(widths)]
