"""The event stream of an execution as a file: CSV, or Parquet through PyArrow."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from einmap.errors import At, SpecError
from einmap.execute.results.result import Event
from einmap.optional import require

EXTRA = "trace"
"""The extra of the package that brings PyArrow."""
COLUMNS = ("step", "component", "instance", "tensor", "action", "count", "tile")
FORMATS = (".csv", ".parquet")


def check_format(path: Path) -> None:
    """Raise SpecError when events cannot be written as what the name of the file says."""
    if path.suffix.lower() not in FORMATS:
        raise SpecError(
            f"events are written as {' or '.join(FORMATS)}, not {path.suffix or 'a name without ending'!r}",
            at=At(str(path)),
            hint=f"name the file {path.stem}.csv",
        )
    if path.suffix.lower() == ".parquet":
        require("pyarrow.parquet", EXTRA)


def written_events(events: Iterable[Event], path: Path) -> str | bytes:
    """Content of a file of this name: CSV or Parquet, after its ending. Raises SpecError for another one."""
    check_format(path)
    return csv_of(events) if path.suffix.lower() == ".csv" else parquet_of(events)


def csv_of(events: Iterable[Event]) -> str:
    """One line for each event; lanes as `0 3`, the first and last index of each rank as `0..15 4..7`."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(COLUMNS)
    for e in events:
        tile = " ".join(f"{first}..{last}" for first, last in e.tile)
        writer.writerow((e.step, e.component, " ".join(map(str, e.instance)), e.tensor, e.action, e.count, tile))
    return text.getvalue()


def parquet_of(events: Iterable[Event]) -> bytes:
    """The columns of events with types: `instance` a list of lanes, `tile` a list of {first, last}."""
    arrow: Any = require("pyarrow", EXTRA)
    parquet: Any = require("pyarrow.parquet", EXTRA)
    name, whole = arrow.dictionary(arrow.int32(), arrow.string()), arrow.int64()
    indices = arrow.struct([("first", whole), ("last", whole)])
    types = (whole, name, arrow.list_(whole), name, name, whole, arrow.list_(indices))
    events = list(events)
    columns: list[list[Any]] = [[getattr(event, name) for event in events] for name in COLUMNS[:-1]]
    columns.append([[{"first": first, "last": last} for first, last in event.tile] for event in events])
    arrays = [arrow.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    content = io.BytesIO()
    parquet.write_table(arrow.table(dict(zip(COLUMNS, arrays, strict=True))), content)
    return content.getvalue()
