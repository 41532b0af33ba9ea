"""Results that are kept on disk, by the content of everything they depend on.

An entry holds mappings, not costs: these are evaluated anew, and must be what they were when the entry was written.
"""

from __future__ import annotations

import hashlib
import json
import numbers
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from einmap.mapper.problem.problem import Problem
from einmap.mapper.result.outcome import Outcome, evaluated
from einmap.mapper.result.result import MapStats, objective
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.cost import Cost
from einmap.spec.forms.loop_tree import read_mapping, write_mapping
from einmap.spec.raw import content, from_python, to_python

FORMAT = 3
"""Version of the entries."""
CLAIMS = ("every", "by_trying", "narrowed", "bound", "tolerance", "ties_broken", "tie_bound", "notes")
"""Fields of an outcome that are kept beside its points."""
IRRELEVANT = frozenset({"workers", "time_limit"})
"""Options that a complete result does not depend on."""


class TextStore(Protocol):
    """Keeps texts under keys, for several processes at a time."""

    def read(self, key: str) -> str | None:
        """The text of `key`; None when there is none, or none that can be read."""

    def write(self, key: str, text: str) -> None:
        """Keep `text`, or nothing at all, without an error."""


@dataclass(frozen=True)
class ResultCache:
    """Complete results of earlier calls. `code`: tells this einmap from an edited or another one."""

    store: TextStore
    code: str

    def entry(self, problem: Problem) -> Entry | None:
        """The entry of a call; None when code of the user decides what the specification means.

        What a function or a Python model does cannot be told from its name.
        """
        return None if problem.spec.runs_code else Entry(self.store, key_of(self.code, problem), problem)


def cached(search: Callable[[], Outcome], cache: ResultCache | None, problem: Problem) -> Outcome:
    """The outcome of a search; the one that is kept where the same was asked before and the search was complete."""
    entry = cache.entry(problem) if cache is not None else None
    kept = entry.read() if entry is not None else None
    if kept is not None:
        return kept
    outcome = search()
    if entry is not None:
        entry.write(outcome)
    return outcome


@dataclass(frozen=True)
class Entry:
    """Where the result of one call is kept."""

    store: TextStore
    key: str
    problem: Problem

    def read(self) -> Outcome | None:
        """The outcome that was kept; None when there is none, or none that can be trusted."""
        text = self.store.read(self.key)
        if text is None:
            return None
        try:
            return self._result(json.loads(text))
        except Exception:  # whatever a broken entry brings about, the answer is a new search
            return None

    def write(self, outcome: Outcome) -> None:
        """Keep an outcome if it is complete."""
        if outcome.is_complete:
            plain = _plain_outcome(outcome)
            if self.problem.formats:
                for kept, point in zip(plain["points"], outcome.points, strict=True):
                    kept["formats"] = point.formats
            self.store.write(self.key, _text(self._around(plain)))

    def _result(self, entry: Any) -> Outcome | None:
        stored, goals = entry["result"], self.problem.options.goals
        if entry != self._around(stored) or stored["goals"] != list(goals):
            return None
        points = []
        for point in stored["points"]:
            mapping, copies = _mapping(point["mapping"]), dict(point["copies"])
            spec = self.problem.spec.with_shared_inputs(copies) if copies else self.problem.spec
            spec = spec.with_formats(point["formats"]) if self.problem.formats else spec
            found = evaluated(spec, mapping, self.problem.options.rules, tuple(copies))
            if _values(found.cost, goals) != point["values"]:
                return None
            points.append(found)
        if not points:
            return None
        claims: Any = {name: tuple(kept) if isinstance(kept, list) else kept for name, kept in stored["claims"].items()}
        return Outcome(goals, tuple(points), MapStats(**stored["stats"]), **claims, cached=True)

    def _around(self, stored: Any) -> dict[str, Any]:
        """The document of a cache entry that holds a result."""
        return {"format": FORMAT, "key": self.key, "sha256": self._check(stored), "result": stored}

    def _check(self, stored: Any) -> str:
        """A hash of what an entry says and for which key."""
        return hashlib.sha256(f"{self.key}\n{_text(stored)}".encode()).hexdigest()


def key_of(code: str, problem: Problem) -> str:
    """64 hexadecimal digits, equal for calls with the same complete result: the same einmap, content and options."""
    spec, asked = problem.spec, problem.options
    everything = {
        "format": FORMAT,
        "einmap": [_version(), code],
        "spec": content(spec.raw),
        "models": spec.models.fingerprint,
        "options": {f.name: _plain(getattr(asked, f.name)) for f in fields(asked) if f.name not in IRRELEVANT},
        "given": {name: _plain(pattern.said) for name, pattern in sorted(problem.given.items())},
        "fuse": bool(problem.fuse),
    }
    if problem.formats:
        everything["formats"] = [[one.memory, one.tensor, one.alternatives] for one in problem.formats]
    return hashlib.sha256(_text(everything).encode()).hexdigest()


def _plain_outcome(outcome: Outcome) -> dict[str, Any]:
    """A complete outcome without its costs, in the types of JSON."""
    return {
        "goals": list(outcome.goals),
        "claims": {name: getattr(outcome, name) for name in CLAIMS},
        "stats": asdict(outcome.stats),
        "points": [
            {
                "values": _values(point.cost, outcome.goals),
                "mapping": to_python(write_mapping(point.mapping)),
                "copies": point.copies,
            }
            for point in outcome.points
        ],
    }


def _values(cost: Cost, metrics: tuple[str, ...]) -> list[float]:
    """Values that must be as they were: J, s, and each metric in its unit."""
    return [cost.energy, cost.latency, *(objective(cost, metric) for metric in metrics)]


def _mapping(plain: Any) -> LoopTree:
    mapping = read_mapping(from_python({"mapping": plain}))
    assert mapping is not None
    return mapping


def _plain(value: Any) -> Any:
    """An option or a token as text is made of it: equal ones alike, in every process."""
    if is_dataclass(value) and not isinstance(value, type):
        return [type(value).__name__, *(_plain(getattr(value, f.name)) for f in fields(value))]
    match value:
        case None | bool() | int() | float() | str():
            return value
        case frozenset():
            return sorted(value)
        case tuple():
            return [_plain(inner) for inner in value]
        case _:
            raise TypeError(f"{type(value).__name__} in the key of a cached result")


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), default=_number)


def _number(value: Any) -> int | float:
    """A number of numpy."""
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def _version() -> str:
    try:
        return version("einmap")
    except PackageNotFoundError:
        return ""
