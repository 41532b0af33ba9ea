"""Checksums of a store's rows: a row that a flipped bit has changed is found, named and left out."""

from __future__ import annotations

import json
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from einmap.sweep.definition.definition import OBJECTIVES

KEYS: Mapping[str, tuple[str, ...]] = {
    "sweeps": ("id",),
    "points": ("sweep", "number"),
    "cases": ("sweep", "number", "workload"),
    "outcomes": ("key",),
    "documents": ("key",),
    "bases": ("key",),
}
"""The tables, and what tells their rows apart."""
_TYPES: Mapping[str, type] = {"INTEGER": int, "REAL": float, "TEXT": str}
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


def add_checksums(connection: sqlite3.Connection) -> None:
    """Give each row of a store that has none a checksum. A row that nothing can be read from gets none."""
    for table, key in KEYS.items():
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        if not all(column[2] in _TYPES for column in columns):
            raise sqlite3.DatabaseError(f"the columns of {table} are not as they were made")
        rows = [row for row in connection.execute(f"SELECT * FROM {table}") if _is_readable(columns, row)]
        connection.execute(f"ALTER TABLE {table} ADD COLUMN checksum INTEGER")
        places = [[column[1] for column in columns].index(name) for name in key]
        where = " AND ".join(f"{name} IS ?" for name in key)
        connection.executemany(
            f"UPDATE {table} SET checksum = ? WHERE {where}",
            ((checksum(row), *(row[place] for place in places)) for row in rows),
        )


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
    """What is left out, in a sentence."""
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


def _is_readable(columns: Sequence[tuple[Any, ...]], row: Sequence[object]) -> bool:
    """Whether each value has the type of its column, and texts of JSON say what they should."""
    for (_, name, kind, is_set, _, is_key), value in zip(columns, row, strict=True):
        if not (isinstance(value, _TYPES[kind]) or (value is None and not is_set and not is_key)):
            return False
        check = _JSON.get(name)
        if check is not None:
            try:
                if not check(json.loads(str(value))):
                    return False
            except ValueError:
                return False
    return True


def _are_pairs(found: Any) -> bool:
    """Names and values of axes or settings."""
    return isinstance(found, list) and all(
        isinstance(pair, list) and len(pair) == 2 and isinstance(pair[0], str) and _is_value(pair[1]) for pair in found
    )


def _is_value(found: Any) -> bool:
    return isinstance(found, int | float | str) or (isinstance(found, dict) and isinstance(found.get("text"), str))


def _are_numbers(found: Any) -> bool:
    """Names and numbers."""
    return isinstance(found, dict) and all(isinstance(value, int | float) for value in found.values())


def _are_fields(found: Any) -> bool:
    """The fields of an outline."""
    texts = ("name", "action", "metric")
    return (
        isinstance(found, dict)
        and {*found} == {*texts, "axes", "weights", "objectives", "limits"}
        and all(isinstance(found[name], str) for name in texts)
        and all(_are_numbers(found[name]) for name in ("weights", "limits"))
        and all(isinstance(found[name], list) for name in ("axes", "objectives"))
        and all(isinstance(name, str) for name in found["axes"])
        and {*map(str, found["objectives"]), *found["limits"]} <= {*OBJECTIVES}
    )


_JSON = {
    "axis_values": _are_pairs,
    "settings": _are_pairs,
    "energy_by_component": _are_numbers,
    "seconds_by_step": _are_numbers,
    "outline": _are_fields,
}
"""Columns that hold JSON, and what it has to be."""
