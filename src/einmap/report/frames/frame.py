"""A tidy table as a value, and how one is made of a result."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from einmap.visible import brief

type Cell = str | int | float | bool | None
type Kind = Literal["text", "integer", "number", "truth"]
type Row = tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Column:
    """A column: `name` with the unit of its quantity in brackets, as in `energy [J]`; counts and ratios have none."""

    name: str
    kind: Kind


@dataclass(frozen=True)
class Frame:
    """A tidy table: one row for each observation. A cell is None where there is no value."""

    __repr__ = brief

    name: str
    columns: tuple[Column, ...]
    rows: tuple[Row, ...]

    @property
    def column_names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)

    def column(self, name: str) -> tuple[Cell, ...]:
        """All cells of a column. Raises ValueError for a name that is not a column's."""
        at = self.column_names.index(name)
        return tuple(row[at] for row in self.rows)

    def only(self, name: str, cell: Cell) -> Frame:
        """The rows that have a cell in a column. Raises ValueError for a name that is not a column's."""
        at = self.column_names.index(name)
        return replace(self, rows=tuple(row for row in self.rows if row[at] == cell))


@dataclass(frozen=True, slots=True)
class Table:
    """One table of a kind of result: `rows` gives the cells of each row, in the order of `columns`."""

    name: str
    columns: tuple[Column, ...]
    rows: Callable[[Any], Iterable[Row]]

    @staticmethod
    def written(name: str, written: str, rows: Callable[[Any], Iterable[Row]]) -> Table:
        """A table with its columns in words, see `columns`."""
        return Table(name, columns(written), rows)

    def of(self, result: Any) -> Frame:
        """The table of a result."""
        return Frame(self.name, self.columns, tuple(self.rows(result)))

    def of_each(self, first: Column, parts: Callable[[Any], Iterable[tuple[Cell, Any]]]) -> Table:
        """The table of several results below one another, told apart by the column `first`.

        `parts`: the results with their cells of that column.
        """

        def rows(result: Any) -> Iterable[Row]:
            return ((cell, *row) for cell, part in parts(result) for row in self.rows(part))

        return Table(self.name, (first, *self.columns), rows)


def columns(written: str) -> tuple[Column, ...]:
    """Columns, by kind: `text einsum | component; number energy [J]; integer tiles; truth fits`."""
    kinds = (group.strip().partition(" ") for group in written.split(";"))
    return tuple(Column(name.strip(), _KINDS[kind]) for kind, _, names in kinds for name in names.split("|"))


_KINDS: dict[str, Kind] = {"text": "text", "integer": "integer", "number": "number", "truth": "truth"}
