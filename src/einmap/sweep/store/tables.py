"""The tables of a store, and how they are opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from einmap.errors import At, SpecError
from einmap.frontends.files import check_target
from einmap.sweep.store.checksums import leave_out_damaged

APPLICATION = 0x65_69_6E_6D
"""Application id in SQLite's header of a store: `einm`."""
FORMAT = 4
"""Version of the tables."""
PATIENCE = 60.0
"""Seconds that one process waits for another that writes."""
_SCHEMA = """
CREATE TABLE sweeps (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, name TEXT NOT NULL, outline TEXT NOT NULL,
    total INTEGER NOT NULL, used INTEGER NOT NULL, checksum INTEGER);
CREATE TABLE points (sweep INTEGER NOT NULL, number INTEGER NOT NULL, axis_values TEXT NOT NULL, better INTEGER,
    beyond TEXT, checksum INTEGER, PRIMARY KEY (sweep, number)) WITHOUT ROWID;
CREATE TABLE cases (sweep INTEGER NOT NULL, number INTEGER NOT NULL, workload INTEGER NOT NULL, key TEXT NOT NULL,
    base TEXT NOT NULL, settings TEXT NOT NULL, checksum INTEGER,
    PRIMARY KEY (sweep, number, workload)) WITHOUT ROWID;
CREATE TABLE outcomes (key TEXT PRIMARY KEY, status TEXT NOT NULL, reason TEXT NOT NULL, energy REAL, latency REAL,
    leak_energy REAL, area REAL, optimal INTEGER, lower_bound REAL, sent_bytes REAL, peak_memory REAL,
    processing_elements INTEGER, seconds REAL NOT NULL, checksum INTEGER) WITHOUT ROWID;
CREATE TABLE documents (key TEXT PRIMARY KEY, energy_by_component TEXT NOT NULL, seconds_by_step TEXT NOT NULL,
    mapping TEXT NOT NULL, checksum INTEGER);
CREATE TABLE bases (key TEXT PRIMARY KEY, text TEXT NOT NULL, checksum INTEGER);
"""
_HINT = "the file is left as it is; name another one with --store"


def opened(path: Path | None, *, create: bool) -> tuple[sqlite3.Connection, tuple[str, ...]]:
    """The database in a file, made if there is none and `create`, or in memory; and which of its rows are damaged.

    Damaged rows are left out: removed where the store may be made, and so written, else hidden from this connection.
    Raises SpecError for a file that is not a store or whose structure is damaged, which is left untouched.
    """
    if path is None:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        _make(connection)
        return connection, ()
    if not path.exists() and not create:
        raise SpecError(
            "there is no such store", at=At(str(path)), hint="einmap sweep SWEEP.yaml --store FILE makes it"
        )
    check_target(path)
    with reported(path):
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        try:
            _prepare(connection, path)
            damaged = leave_out_damaged(connection, remove=create)
        except BaseException:
            connection.close()
            raise
    return connection, damaged


@contextmanager
def reported(path: Path | None) -> Iterator[None]:
    """Errors of SQLite become errors that say what is wrong with the store."""
    try:
        yield
    except sqlite3.OperationalError as error:
        hint = "what was finished before is kept; the same call goes on from there"
        raise SpecError(f"cannot use the store: {error}", at=At(str(path or "")), hint=hint) from error
    except (sqlite3.DatabaseError, UnicodeDecodeError) as error:  # damaged names stand in SQLite's own messages
        raise SpecError(
            f"this is not a store, or it is damaged: {error}", at=At(str(path or "")), hint=_HINT
        ) from error


def _prepare(connection: sqlite3.Connection, path: Path) -> None:
    # one process makes the tables, others wait; in a file of something else nothing is written
    at = At(str(path))
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (count,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if application not in (0, APPLICATION) or (application == 0 and count):
        raise SpecError("this is a database of something else", at=at, hint=_HINT)
    if application == 0:
        connection.execute("PRAGMA journal_mode=WAL")
        _make(connection)
    connection.text_factory = lambda found: found.decode(errors="surrogateescape")  # a flipped bit may end UTF-8
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        raise SpecError(f"this store has format {version}, this einmap reads {FORMAT}", at=at, hint=_HINT)
    # the structure, indices included; checksums tell of the values
    if (problem := connection.execute("PRAGMA integrity_check(1)").fetchone()[0]) != "ok":
        raise SpecError(f"the store is damaged: {problem}", at=at, hint=_HINT)
    connection.execute("PRAGMA synchronous=FULL")  # a finished point outlives a power cut


def _make(connection: sqlite3.Connection) -> None:
    connection.execute("BEGIN EXCLUSIVE")
    if connection.execute("PRAGMA application_id").fetchone()[0] == 0:
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA user_version={FORMAT}")
        connection.execute(f"PRAGMA application_id={APPLICATION}")
    connection.execute("COMMIT")
