"""Titles and tables of reports on the terminal."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Literal

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text


def section_title(text: str) -> Text:
    """The title of a section."""
    return Text(text, style="bold")


def new_table(*headers: str, left: Collection[int] = (0,), whole: Collection[int] = (), gap: int = 2) -> Table:
    """A table without lines: columns of numbers to the right, those in `left` to the left.

    Columns in `whole` do not wrap; `gap`: characters between columns. Words are broken only where the longest ones of
    all columns have no room side by side.
    """
    rows = _WordTable(box=None, header_style="dim", pad_edge=True, padding=(0, 0, 0, gap))
    for index, header in enumerate(headers):
        side: Literal["left", "right"] = "left" if index in left else "right"
        rows.add_column(header, justify=side, no_wrap=index in whole, overflow="fold")
    return rows


class _WordTable(Table):
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
