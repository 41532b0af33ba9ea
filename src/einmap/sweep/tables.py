"""The tables of a store, and how they are opened."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from einmap.errors import At, SpecError
from einmap.frontends.files import check_target

APPLICATION = 0x65_69_6E_6D
"""What SQLite's header says of a store: `einm`."""
FORMAT = 3
"""Version of the tables."""
PATIENCE = 60.0
"""Seconds that one process waits for another that writes."""
_SCHEMA = """
CREATE TABLE sweeps (id INTEGER PRIMARY KEY, key TEXT UNIQUE NOT NULL, name TEXT NOT NULL, outline TEXT NOT NULL,
    total INTEGER NOT NULL, used INTEGER NOT NULL);
CREATE TABLE points (sweep INTEGER NOT NULL, number INTEGER NOT NULL, axis_values TEXT NOT NULL, better INTEGER,
    beyond TEXT,    PRIMARY KEY (sweep, number)) WITHOUT ROWID;
CREATE TABLE cases (sweep INTEGER NOT NULL, number INTEGER NOT NULL, workload INTEGER NOT NULL, key TEXT NOT NULL,
    base TEXT NOT NULL, settings TEXT NOT NULL, PRIMARY KEY (sweep, number, workload)) WITHOUT ROWID;
CREATE TABLE outcomes (key TEXT PRIMARY KEY, status TEXT NOT NULL, reason TEXT NOT NULL, energy REAL, latency REAL,
    leak_energy REAL, area REAL, optimal INTEGER, lower_bound REAL, sent_bytes REAL, peak_memory REAL,
    processing_elements INTEGER, seconds REAL NOT NULL) WITHOUT ROWID;
CREATE TABLE documents (key TEXT PRIMARY KEY, energy_by_component TEXT NOT NULL, seconds_by_step TEXT NOT NULL,
    mapping TEXT NOT NULL);
CREATE TABLE bases (key TEXT PRIMARY KEY, text TEXT NOT NULL);
"""
_HINT = "the file is left as it is; name another one with --store"


def opened(path: Path | None, *, create: bool, check: bool = False) -> sqlite3.Connection:
    """The database in a file, made if there is none and `create`; in memory without a path. `check`: look for damage.

    Raises SpecError for a file that is not a store or is damaged, which is left untouched.
    """
    if path is None:
        connection = sqlite3.connect(":memory:", isolation_level=None)
        _make(connection)
        return connection
    if not path.exists() and not create:
        raise SpecError(
            "there is no such store", at=At(str(path)), hint="einmap sweep SWEEP.yaml --store FILE makes it"
        )
    check_target(path)
    with reported(path):
        connection = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None)
        try:
            _prepare(connection, path, check=check)
        except BaseException:
            connection.close()
            raise
    return connection


@contextmanager
def reported(path: Path | None) -> Iterator[None]:
    """Errors of SQLite become errors that say what is wrong with the store."""
    try:
        yield
    except sqlite3.OperationalError as error:
        hint = "what was finished before is kept; the same call goes on from there"
        raise SpecError(f"cannot use the store: {error}", at=At(str(path or "")), hint=hint) from error
    except sqlite3.DatabaseError as error:
        raise SpecError(
            f"this is not a store, or it is damaged: {error}", at=At(str(path or "")), hint=_HINT
        ) from error


def _prepare(connection: sqlite3.Connection, path: Path, *, check: bool) -> None:
    # one process makes the tables, others wait; in a file of something else nothing is written
    at = At(str(path))
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (count,) = connection.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    if application not in (0, APPLICATION) or (application == 0 and count):
        raise SpecError("this is a database of something else", at=at, hint=_HINT)
    if application == 0:
        connection.execute("PRAGMA journal_mode=WAL")
        _make(connection)
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version != FORMAT:
        raise SpecError(f"this store has format {version}, this einmap reads {FORMAT}", at=at, hint=_HINT)
    if check and (problem := connection.execute("PRAGMA quick_check(1)").fetchone()[0]) != "ok":
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
