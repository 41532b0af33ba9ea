"""Results that are kept on disk, by the content of everything they depend on.

An entry holds mappings, not costs: these are evaluated anew, and must be what they were when the entry was written.
"""

from __future__ import annotations

import hashlib
import json
import numbers
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, is_dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Protocol

from einmap.mapper.given.pattern import Pattern
from einmap.mapper.problem.options import Options
from einmap.mapper.result.result import Found, MapResult, MapStats, objective
from einmap.mapper.result.verdict import without_advice
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.cost import Cost
from einmap.model.evaluate import evaluate
from einmap.spec.forms.loop_tree import read_mapping, write_mapping
from einmap.spec.raw import content, from_python, to_python
from einmap.spec.spec import Spec

FORMAT = 1
"""Version of the entries."""
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

    def entry(self, spec: Spec, asked: Options, given: Mapping[str, Pattern], fuse: bool) -> Entry | None:
        """The entry of a call; None when code of the user decides what the specification means.

        What a function or a Python model does cannot be told from its name.
        """
        if spec.runs_code:
            return None
        return Entry(self.store, key_of(self.code, spec, asked, given, fuse), spec, asked)


@dataclass(frozen=True)
class Entry:
    """Where the result of one call is kept."""

    store: TextStore
    key: str
    spec: Spec
    asked: Options

    def read(self) -> MapResult | None:
        """The result that was kept; None when there is none, or none that can be trusted."""
        text = self.store.read(self.key)
        if text is None:
            return None
        try:
            return self._result(json.loads(text))
        except Exception:  # whatever a broken entry brings about, the answer is a new search
            return None

    def write(self, result: MapResult) -> None:
        """Keep a result if it is complete."""
        if result.stopped or result.not_searched:
            return
        self.store.write(self.key, _text(self._around(_plain_result(result))))

    def _result(self, entry: Any) -> MapResult | None:
        stored = entry["result"]
        if entry != self._around(stored) or stored["metrics"] != list(self.asked.goals):
            return None
        front = []
        for point in stored["front"]:
            mapping, copies = _mapping(point["mapping"]), dict(point["copies"])
            spec = self.spec.with_shared_inputs(copies) if copies else self.spec
            cost = evaluate(spec, mapping, self.asked.rules)
            if _values(cost, self.asked.goals) != point["values"]:
                return None
            front.append(without_advice(Found(cost, mapping, spec, tuple(copies))))
        if not front:
            return None
        return MapResult(
            front=tuple(front),
            metrics=self.asked.goals,
            optimal=stored["optimal"],
            lower_bound=stored["lower_bound"],
            reason=stored["reason"],
            ties_broken=stored["ties_broken"],
            stats=MapStats(**stored["stats"]),
            cached=True,
        )

    def _around(self, stored: Any) -> dict[str, Any]:
        """The document of a cache entry that holds a result."""
        return {"format": FORMAT, "key": self.key, "sha256": self._check(stored), "result": stored}

    def _check(self, stored: Any) -> str:
        """A hash of what an entry says and for which key."""
        return hashlib.sha256(f"{self.key}\n{_text(stored)}".encode()).hexdigest()


def key_of(code: str, spec: Spec, asked: Options, given: Mapping[str, Pattern], fuse: bool) -> str:
    """64 hexadecimal digits, equal for calls with the same complete result: the same einmap, content and options."""
    everything = {
        "format": FORMAT,
        "einmap": [_version(), code],
        "spec": content(spec.raw),
        "models": spec.models.fingerprint,
        "options": {f.name: _plain(getattr(asked, f.name)) for f in fields(asked) if f.name not in IRRELEVANT},
        "given": {name: _plain(pattern.tokens) for name, pattern in sorted(given.items())},
        "fuse": bool(fuse),
    }
    return hashlib.sha256(_text(everything).encode()).hexdigest()


def _plain_result(result: MapResult) -> dict[str, Any]:
    """The result without its costs, in the types of JSON."""
    return {
        "metrics": list(result.metrics),
        "optimal": result.optimal,
        "lower_bound": result.lower_bound,
        "reason": result.reason,
        "ties_broken": result.ties_broken,
        "stats": asdict(result.stats),
        "front": [
            {
                "values": _values(point.cost, result.metrics),
                "mapping": to_python(write_mapping(point.mapping)),
                "copies": point.copies,
            }
            for point in result.front
        ],
    }


def _values(cost: Cost, metrics: tuple[str, ...]) -> list[float]:
    """What must be as it was: J, s, and each metric in its unit."""
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
