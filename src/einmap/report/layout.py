"""Titles and tables of reports on the terminal."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from rich.table import Table
from rich.text import Text


def section_title(text: str) -> Text:
    """The title of a section."""
    return Text(text, style="bold")


def new_table(*headers: str, left: Collection[int] = (0,), whole: Collection[int] = (), gap: int = 2) -> Table:
    """A table without lines: columns of numbers to the right, those in `left` to the left.

    Columns in `whole` do not wrap; `gap`: characters between columns.
    """
    rows = Table(box=None, header_style="dim", pad_edge=True, padding=(0, 0, 0, gap))
    for index, header in enumerate(headers):
        side: Literal["left", "right"] = "left" if index in left else "right"
        rows.add_column(header, justify=side, no_wrap=index in whole, overflow="fold")
    return rows
