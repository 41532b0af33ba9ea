"""Results in one SQLite file, for several sweeps and processes at a time.

What was committed outlives every process: SQLite's write-ahead log is played back when the file is next opened.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from einmap.errors import At, SpecError, did_you_mean
from einmap.spec.raw import LiteralString
from einmap.sweep.bases import Settings
from einmap.sweep.definition.points.axes import Value
from einmap.sweep.outcome import Outcome
from einmap.sweep.result import PointResult
from einmap.sweep.store.checksums import checksum, real, with_checksum
from einmap.sweep.store.tables import opened, reported
from einmap.visible import brief

_NUMBERS = (
    "status, reason, energy, latency, leak_energy, area, optimal, lower_bound, sent_bytes, peak_memory, "
    "processing_elements, seconds"
)
_NOT_REAL = ("status", "reason", "optimal", "processing_elements")
_DOCUMENTS = "energy_by_component, seconds_by_step, mapping"
_OF_OUTCOMES = ", ".join(f"o.{name}" for name in _NUMBERS.split(", "))
_RESULTS = f"""
SELECT p.number, p.axis_values, p.better, p.beyond, c.workload, {_OF_OUTCOMES}, {{more}}
FROM points p LEFT JOIN cases c ON c.sweep = p.sweep AND c.number = p.number LEFT JOIN outcomes o ON o.key = c.key
{{join}} WHERE p.sweep = ? {{which}} ORDER BY p.number, c.workload
"""


@dataclass(frozen=True)
class Outline:
    """Facts of a sweep in the store beside its points. `weights`: by the names of the workloads."""

    __repr__ = brief

    name: str
    axes: tuple[str, ...]
    weights: Mapping[str, float]
    objectives: tuple[str, ...]
    action: str
    metric: str
    limits: Mapping[str, float] = field(default_factory=dict)

    @property
    def workloads(self) -> tuple[str, ...]:
        """The names of the workloads, in order."""
        return tuple(self.weights)


@dataclass(frozen=True, slots=True)
class KeptSweep:
    """A sweep of a store. `total`: its points."""

    id: int
    outline: Outline
    total: int


@dataclass(frozen=True, slots=True)
class Case:
    """One workload at one point: where its outcome is, and how its specification is made again."""

    workload: int
    key: str
    base: str
    settings: Settings


@dataclass
class Store:
    """An open store; `path` is None for one in memory. What is written is kept when `commit` returns.

    `damaged`: rows that the file has and that were left out, since they are not as they were written.
    """

    path: Path | None
    _connection: sqlite3.Connection = field(repr=False)
    damaged: tuple[str, ...] = ()

    @staticmethod
    def opened(path: str | Path | None, *, create: bool = True) -> Store:
        """The store in a file, in memory without one; only to be read where it must be there already.

        Raises SpecError, and leaves untouched what is not a store.
        """
        place = None if path is None else Path(path)
        return Store(place, *opened(place, create=create))

    def close(self) -> None:
        """Close the file; what was not committed is lost."""
        self._connection.close()

    # sweeps

    def register(self, key: str, outline: Outline, total: int) -> int:
        """The number of the sweep with this key, which is added if it is new."""
        text = json.dumps(asdict(outline))
        with self._writing() as execute:
            execute(
                "INSERT INTO sweeps (key, name, outline, total, used) VALUES (?, ?, ?, ?, 0) "
                "ON CONFLICT (key) DO UPDATE SET outline = excluded.outline, total = excluded.total",
                (key, outline.name, text, total),
            )
            execute("UPDATE sweeps SET used = (SELECT MAX(used) + 1 FROM sweeps) WHERE key = ?", (key,))
            row = execute("SELECT id, key, name, outline, total, used FROM sweeps WHERE key = ?", (key,)).fetchone()
            execute("UPDATE sweeps SET checksum = ? WHERE id = ?", (checksum(row), row[0]))
        return int(row[0])

    def sweeps(self) -> list[KeptSweep]:
        """All sweeps, the one that ran last first."""
        with reported(self.path):
            rows = self._connection.execute("SELECT id, outline, total FROM sweeps ORDER BY used DESC").fetchall()
        return [KeptSweep(int(sweep), _outline(text), int(total)) for sweep, text, total in rows]

    def sweep(self, name: str | None = None) -> KeptSweep:
        """The sweep of that name that ran last, of any name without one. Raises SpecError."""
        sweeps = self.sweeps()
        at = At(str(self.path or ""))
        if not sweeps:
            raise SpecError("the store has no sweep", at=at)
        for kept in sweeps:
            if name is None or kept.outline.name == name:
                return kept
        hint = did_you_mean(str(name), [kept.outline.name for kept in sweeps], listing="sweeps there")
        raise SpecError(f"the store has no sweep {name!r}", at=at, hint=hint)

    # writing

    def put(
        self, sweep: int, points: Sequence[tuple[int, Mapping[str, Value], int | None, str | None, Sequence[Case]]],
        outcomes: Sequence[tuple[str, Outcome]], bases: Mapping[str, str],
    ) -> None:  # fmt: skip
        """Keep points with their cases, outcomes by their keys, texts of specifications: all, or on an error none."""
        with self._writing() as execute:
            for key, text in bases.items():
                execute("INSERT OR IGNORE INTO bases VALUES (?, ?, ?)", with_checksum((key, text)))
            for number, values, better, beyond, cases in points:
                plain = json.dumps(_plain_values(values.items()))
                point = (sweep, number, plain, better, beyond)
                execute("INSERT OR REPLACE INTO points VALUES (?, ?, ?, ?, ?, ?)", with_checksum(point))
                for case in cases:
                    settings = json.dumps(_plain_values(case.settings))
                    row = (sweep, number, case.workload, case.key, case.base, settings)
                    execute("INSERT OR REPLACE INTO cases VALUES (?, ?, ?, ?, ?, ?, ?)", with_checksum(row))
            for key, outcome in outcomes:
                execute(f"INSERT OR REPLACE INTO outcomes VALUES (?{', ?' * 13})", _row(key, outcome))
                energies = json.dumps(dict(outcome.energy_by_component))
                times = json.dumps(dict(outcome.seconds_by_step))
                document = with_checksum((key, energies, times, outcome.mapping))
                execute("INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?, ?)", document)

    @contextmanager
    def _writing(self) -> Iterator[Any]:
        with reported(self.path):
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection.execute
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    # reading

    def outcome(self, key: str) -> Outcome | None:
        """The outcome with this key; None where there is none."""
        text = f"SELECT {_NUMBERS}, {_DOCUMENTS} FROM outcomes JOIN documents USING (key) WHERE key = ?"
        with reported(self.path):
            row = self._connection.execute(text, (key,)).fetchone()
        return None if row is None else _outcome(row)

    def results(self, kept: KeptSweep, number: int | None = None, *, whole: bool = False) -> Iterator[PointResult]:
        """The points of a sweep by number, or one of them; `whole`: with their mappings."""
        more = "d.energy_by_component, d.seconds_by_step, d.mapping" if whole else "NULL, NULL, NULL"
        join = "LEFT JOIN documents d ON d.key = c.key" if whole else ""
        text = _RESULTS.format(more=more, join=join, which="" if number is None else "AND p.number = ?")
        with reported(self.path):
            rows = self._connection.execute(text, (kept.id,) if number is None else (kept.id, number))
            outline = kept.outline
            names = dict(enumerate(outline.workloads))
            for place, group in groupby(rows, itemgetter(0)):
                parts = list(group)
                outcomes = {names[r[4]]: _outcome(r[5:]) for r in parts if r[4] in names and r[5] is not None}
                values = dict(_values(json.loads(parts[0][1])))
                better, beyond = parts[0][2:4]
                yield PointResult(
                    place, values, outcomes, outline.weights, outline.objectives, better, outline.limits, beyond
                )

    def case(self, kept: KeptSweep, number: int, workload: int) -> tuple[str, Settings, Outcome | None]:
        """The text of the specification of a case, what the point puts in, and the outcome. Raises SpecError."""
        text = "SELECT b.text, c.settings, c.key FROM cases c JOIN bases b ON b.key = c.base WHERE c.sweep = ? AND c.number = ? AND c.workload = ?"  # noqa: E501
        with reported(self.path):
            row = self._connection.execute(text, (kept.id, number, workload)).fetchone()
        if row is None:
            raise SpecError(f"the sweep has no point {number} that was begun", at=At(str(self.path or "")))
        return row[0], tuple(_values(json.loads(row[1]))), self.outcome(row[2])

    def counts(self, kept: KeptSweep) -> dict[str, int]:
        """How many specifications of a sweep have each status; `missing` for those that were begun only."""
        text = """SELECT COALESCE(
                o.status, CASE WHEN p.better IS NULL AND p.beyond IS NULL THEN 'missing' ELSE 'ruled out' END
            ), COUNT(*)
            FROM cases c JOIN points p ON p.sweep = c.sweep AND p.number = c.number
            LEFT JOIN outcomes o ON o.key = c.key WHERE c.sweep = ? GROUP BY 1"""
        with reported(self.path):
            rows = self._connection.execute(text, (kept.id,)).fetchall()
        counts = {str(status): int(count) for status, count in rows}
        begun = sum(counts.values())
        missing = counts.pop("missing", 0) + kept.total * len(kept.outline.weights) - begun
        return {**counts, "missing": missing} if missing > 0 else counts


def _plain_values(pairs: Any) -> list[list[Any]]:
    """Names and values for JSON; text in quotes is marked, since it is never an expression."""
    return [[name, {"text": str(v)} if isinstance(v, LiteralString) else v] for name, v in pairs]


def _values(pairs: list[list[Any]]) -> list[tuple[str, Value]]:
    return [(name, LiteralString(v["text"]) if isinstance(v, dict) else v) for name, v in pairs]


def _row(key: str, outcome: Outcome) -> tuple[object, ...]:
    """The numbers of an outcome as a row, each as SQLite gives it back, with its checksum."""
    fields = {name: getattr(outcome, name) for name in _NUMBERS.split(", ")}
    fields |= {name: real(value) for name, value in fields.items() if name not in _NOT_REAL}
    optimal, elements = fields["optimal"], fields["processing_elements"]
    fields["optimal"] = None if optimal is None else int(optimal)
    fields["processing_elements"] = None if elements is None else int(elements)
    return with_checksum((key, *fields.values()))


def _outcome(row: Sequence[Any]) -> Outcome:
    fields = dict(zip([*_NUMBERS.split(", "), *_DOCUMENTS.split(", ")], row, strict=True))
    optimal = fields.pop("optimal")
    parts = {name: json.loads(fields.pop(name) or "{}") for name in ("energy_by_component", "seconds_by_step")}
    mapping = fields.pop("mapping") or ""
    return Outcome(**fields, **parts, optimal=None if optimal is None else bool(optimal), mapping=mapping)


def _outline(text: str) -> Outline:
    fields = json.loads(text)
    return Outline(**{**fields, "axes": tuple(fields["axes"]), "objectives": tuple(fields["objectives"])})
