"""A frame as a table of texts: each cell in the unit that its column names."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.report.frames.frame import Cell, Column, Frame
from einmap.report.text.formatting import NONE, in_unit
from einmap.report.text.layout import Table
from einmap.visible import cut

LONGEST = 300
"""Characters of a cell that are shown."""
_UNITS = ("J", "s", "J*s", "W", "flop/s", "m^2", "bits", "bytes")


def shown(frame: Frame, most: int | None = None, titles: Mapping[str, str] | None = None) -> Table:
    """The first rows of a frame, without columns of no value. `titles`: of the only columns that are shown."""
    names = frame.column_names if titles is None else tuple(titles)
    used = [n for n in map(frame.column_names.index, names) if any(row[n] is not None for row in frame.rows)]
    columns = [frame.columns[n] for n in used]
    texts = [[cell_text(row[n], frame.columns[n]) for n in used] for row in frame.rows[:most]]
    head = [title_of(column) if titles is None else titles[column.name] for column in columns]
    words = [place for place, column in enumerate(columns) if column.kind in ("text", "truth")]
    return Table(head, texts, left=words, whole=[place for place in range(len(used)) if place not in words])


def title_of(column: Column) -> str:
    """The name of a column without a unit that stands with each number."""
    name, _, unit = column.name.rpartition(" [")
    return name if unit.rstrip("]") in _UNITS else column.name


def cell_text(cell: Cell, column: Column) -> str:
    """A value in the unit of its column; what is missing is a dash."""
    if cell is None:
        return NONE
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str):
        return cut(cell, LONGEST)
    unit = column.name.rpartition(" [")[2].rstrip("]")
    return in_unit(cell, unit if unit in _UNITS else "")
