"""A table as a pandas DataFrame, a CSV file or a Parquet file."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

from einmap.frontends.files import write_atomically, write_bytes_atomically
from einmap.optional import require
from einmap.report.frames.frame import Cell, Column, Frame
from einmap.report.frames.kinds import frame_of

if TYPE_CHECKING:
    import pandas

EXTRA = "tables"
"""The extra of the package that brings pandas and PyArrow."""
_MOST = 2**63 - 1
"""The largest whole number of a column of whole numbers."""


def to_frame(result: Any, table: str | None = None) -> pandas.DataFrame:
    """A table of a result as a pandas DataFrame: columns carry units, as in `energy [J]`; missing numbers are NaN.

    `result`: a Cost, MapResult, Execution, Plan, MatmulPlan, ... ; `table`: another one than the one that is asked for
    most, by its name. `frame_of` gives the same without pandas. Raises SpecError for what has no such table, and
    without pandas.
    """
    made: pandas.DataFrame = data_frame(frame_of(result, table))
    return made


def to_csv(result: Any, path: str | Path, table: str | None = None, *, force: bool = False) -> None:
    """Write a table of a result as CSV, with a header; missing values are empty.

    `force`: replace a file that exists. Raises SpecError for what has no such table, and where no file can be written.
    """
    write_atomically(path, csv_text(frame_of(result, table)), replace=force)


def to_parquet(result: Any, path: str | Path, table: str | None = None, *, force: bool = False) -> None:
    """Write a table of a result as Parquet, with types.

    `force`: replace a file that exists. Raises SpecError for what has no such table, where no file can be written, and
    without PyArrow.
    """
    write_bytes_atomically(path, parquet_bytes(frame_of(result, table)), replace=force)


def data_frame(frame: Frame) -> Any:
    """A pandas DataFrame with a dtype for each column: str, int64, float64, bool; object where truth is missing."""
    pandas: Any = require("pandas", EXTRA)
    columns = {
        column.name: pandas.Series(_cells(frame, column), dtype=_dtype(frame, column)) for column in frame.columns
    }
    return pandas.DataFrame(columns)


def csv_text(frame: Frame) -> str:
    """A header and one line for each row; numbers with all their digits."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(frame.column_names)
    writer.writerows(frame.rows)
    return text.getvalue()


def parquet_bytes(frame: Frame) -> bytes:
    """A Parquet file with types: string, int64, double, bool; missing values are null."""
    arrow: Any = require("pyarrow", EXTRA)
    parquet: Any = require("pyarrow.parquet", EXTRA)
    types = {"text": arrow.string(), "integer": arrow.int64(), "number": arrow.float64(), "truth": arrow.bool_()}
    arrays = [arrow.array(_cells(frame, c), types[_kind(frame, c)]) for c in frame.columns]
    content = io.BytesIO()
    parquet.write_table(arrow.table(dict(zip(frame.column_names, arrays, strict=True))), content)
    return content.getvalue()


def _kind(frame: Frame, column: Column) -> str:
    """The kind of a column; whole numbers that are too large for 64 bits are numbers."""
    if column.kind != "integer":
        return column.kind
    cells = frame.column(column.name)
    return "integer" if all(cell is None or abs(int(cell)) <= _MOST for cell in cells) else "number"


def _cells(frame: Frame, column: Column) -> list[Cell]:
    cells = frame.column(column.name)
    if _kind(frame, column) == "number":
        return [None if cell is None else float(cell) for cell in cells]
    return list(cells)


def _dtype(frame: Frame, column: Column) -> str:
    kind = _kind(frame, column)
    missing = any(cell is None for cell in frame.column(column.name))
    if missing and kind in ("integer", "truth"):
        return "float64" if kind == "integer" else "object"
    return {"text": "str", "integer": "int64", "number": "float64", "truth": "bool"}[kind]
