"""Checksums of a store's rows: a row that a flipped bit has changed is found, named and left out."""

from __future__ import annotations

import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

KEYS: Mapping[str, tuple[str, ...]] = {
    "sweeps": ("id",),
    "points": ("sweep", "number"),
    "cases": ("sweep", "number", "workload"),
    "outcomes": ("key",),
    "documents": ("key",),
    "bases": ("key",),
}
"""The tables, and what tells their rows apart."""
_SHOWN = 4
"""Damaged rows that are named; others are counted."""


def checksum(values: Sequence[object]) -> int:
    """CRC-32 of the values of a row as SQLite gives them back, all but the checksum itself.

    It differs for any change of up to 32 bits in a row, and else in all but one of 4 billion cases.
    """
    return zlib.crc32(repr(tuple(values)).encode())


def with_checksum(values: Sequence[object]) -> tuple[object, ...]:
    """The values of a row with its checksum behind them."""
    return (*values, checksum(values))


def real(value: float | None) -> float | None:
    """A number as SQLite gives it back from a column of reals: a float, no NaN and no negative zero."""
    return None if value is None or value != value else float(value) + 0.0  # noqa: PLR0124


def leave_out_damaged(connection: sqlite3.Connection, *, remove: bool) -> tuple[str, ...]:
    """Hide rows whose checksum is another one from this connection, or `remove` them; gives their names.

    Outcomes go with their documents, and points with their sweep. What is gone is computed again by the sweep.
    """
    damaged = {table: keys for table in KEYS if (keys := list(_damaged(connection, table)))}
    if not damaged:
        return ()
    names = [name for table, keys in damaged.items() for key in keys for name in _names(connection, table, key)]
    both = [*damaged.get("outcomes", ()), *damaged.get("documents", ())]
    if both:
        damaged |= {"outcomes": both, "documents": both}
    connection.execute("BEGIN IMMEDIATE" if remove else "BEGIN")
    for table, keys in damaged.items():
        columns = ", ".join(KEYS[table])
        connection.execute(f"CREATE TEMP TABLE damaged_{table} ({columns})")
        values = ", ".join([_TEXT] * len(KEYS[table]))
        connection.executemany(f"INSERT INTO damaged_{table} VALUES ({values})", map(_bound, keys))
        which = f"({columns}) IN (SELECT * FROM damaged_{table})"
        if remove:
            connection.execute(f"DELETE FROM {table} WHERE {which}")
        else:
            connection.execute(f"CREATE TEMP VIEW {table} AS SELECT * FROM main.{table} WHERE NOT {which}")
    if remove and "sweeps" in damaged:  # another sweep may get the number of one that is gone
        for table in ("points", "cases"):
            connection.execute(f"DELETE FROM {table} WHERE sweep NOT IN (SELECT id FROM sweeps)")
    if any(True for table in damaged for _ in _damaged(connection, table)):
        raise sqlite3.DatabaseError("a damaged row cannot be left out")
    connection.execute("COMMIT")
    return tuple(dict.fromkeys(names))


def told(names: Sequence[str]) -> str:
    """One sentence on what is left out."""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"the store is damaged, left out: {', '.join(names[:_SHOWN])}{more}"


def _damaged(connection: sqlite3.Connection, table: str) -> Iterator[tuple[object, ...]]:
    width = len(KEYS[table])
    columns = ", ".join(f"{table}.{name}" for name in KEYS[table])
    for row in connection.execute(f"SELECT {columns}, * FROM {table}"):
        if row[-1] != zlib.crc32(repr(row[width:-1]).encode()):
            yield row[:width]


_TEXT = "iif(typeof(?) = 'blob', CAST(? AS TEXT), ?)"
"""A value of a key: text that is not UTF-8 is bound as bytes."""


def _bound(key: tuple[Any, ...]) -> tuple[Any, ...]:
    values = (v.encode(errors="surrogateescape") if isinstance(v, str) else v for v in key)
    return tuple(value for value in values for _ in range(3))


def _names(connection: sqlite3.Connection, table: str, key: tuple[Any, ...]) -> list[str]:
    if table == "sweeps":
        return [f"sweep number {key[0]}"]
    if table == "points":
        return [f"point {key[1]}"]
    if table == "cases":
        return [f"the results of point {key[1]}"]
    what = "the specification" if table == "bases" else "the results"
    column = "base" if table == "bases" else "key"
    text = f"SELECT number FROM cases WHERE {column} IS {_TEXT} LIMIT {_SHOWN + 1}"
    users = connection.execute(text, _bound(key)).fetchall()
    return [f"{what} of point {number}" for (number,) in users] or [f"{what} of no point"]
