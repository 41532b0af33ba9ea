"""A frame as a table of texts, which terminal, HTML pages and notebooks show: cells in the units that columns name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any

from einmap.report.frames.frame import Cell, Column, Frame
from einmap.report.text.formatting import NONE, Scale, in_unit, quantity
from einmap.report.text.layout import Table, Tone
from einmap.visible import cut

LONGEST = 300
"""Characters of a cell that are shown."""
_LARGE = 10**12
"""Whole numbers from here on are rounded."""
_UNITS = ("J", "s", "J*s", "W", "flop/s", "m^2", "bits", "bytes")
_BY_ROW = ("before", "after", "difference", "value", "lower bound")
"""Columns whose unit stands in the column `unit` of the same row."""
_PARTS = ("usage", "share", "[part]", "part of peak", "full lines")


def shown(
    frame: Frame,
    most: int | None = None,
    titles: Mapping[str, str] | None = None,
    *,
    scaled: Collection[str] = (),
    bars: Collection[str] = (),
    formats: Mapping[str, Callable[[Any], str]] | None = None,
    quiet: Mapping[str, Cell] | None = None,
    tones: Mapping[int, Tone] | None = None,
) -> Table:
    """The first rows of a frame, without columns of no value.

    `titles`: of the only columns that are shown. `scaled`: columns with one unit, below their title, and `bars`: parts
    of a whole with bars, by name. `formats`: how cells of a column are written otherwise. `quiet`: columns that are
    left out where all cells are this one. `tones`: of rows.
    """
    names = frame.column_names if titles is None else tuple(titles)
    rows = frame.rows[:most]
    nothing = [(quiet or {}).get(name) for name in frame.column_names]
    used = [n for n in map(frame.column_names.index, names) if not rows or any(row[n] != nothing[n] for row in rows)]
    columns = [frame.columns[n] for n in used]
    head = [_title(column) if titles is None else titles[column.name] for column in columns]
    units = frame.column("unit") if "unit" in frame.column_names else ()
    cells = []
    for place, (n, column) in enumerate(zip(used, columns, strict=True)):
        values = [row[n] for row in rows]
        if column.name in scaled:
            scale = Scale.of((float(value) for value in values if value is not None), _unit(column))
            head[place] = f"{head[place]}\n{scale.unit}".strip()
            cells.append([NONE if value is None else scale.show(float(value)) for value in values])
        elif column.name in (formats or {}):
            cells.append([NONE if value is None else (formats or {})[column.name](value) for value in values])
        else:
            by_row = units if column.name in _BY_ROW and units else [_unit(column)] * len(values)
            cells.append([_text(value, column, str(unit)) for value, unit in zip(values, by_row, strict=False)])
    words = [place for place, column in enumerate(columns) if column.kind in ("text", "truth")]
    rest = len(frame.rows) - len(rows)
    return Table(
        head,
        list(zip(*cells, strict=True)),
        left=words,
        # a number stays beside its unit; titles without units may be broken
        whole=[p for p, texts in enumerate(cells) if p not in words and any(" " in text for text in texts)],
        bars={p: [float(row[n] or 0.0) for row in rows] for p, n in enumerate(used) if columns[p].name in bars},
        tones=tones or {},
        caption=f"... and {rest:,} more; einmap.to_frame, --csv and --json have them all" if rest else "",
    )


def facts(frame: Frame) -> Table:
    """The only row of a frame as lines of names and values."""
    made = shown(frame)
    return Table(("", ""), list(zip(made.columns, made.rows[0], strict=True)), left=(0, 1))


def toned(cells: Iterable[Cell], tones: Mapping[Cell, Tone]) -> dict[int, Tone]:
    """The tone of each row by its cell in a column."""
    return {number: tones[cell] for number, cell in enumerate(cells) if cell in tones}


def _unit(column: Column) -> str:
    unit = column.name.rpartition(" [")[2].rstrip("]")
    return unit if unit in _UNITS else ""


def _title(column: Column) -> str:
    """The name of a column without a unit that stands with each number."""
    return column.name.removesuffix(f" [{_unit(column)}]")


def _text(cell: Cell, column: Column, unit: str) -> str:
    """A value in its unit, a part of a whole in percent; what is missing is a dash."""
    if cell is None:
        return NONE
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    if isinstance(cell, str):
        return cut(cell, LONGEST)
    if column.kind == "integer" and not unit and abs(cell) < _LARGE:
        return f"{cell:,}"
    return quantity(cell, "usage") if column.name.endswith(_PARTS) or unit == "part" else in_unit(cell, unit)
