"""A search beside the work on a mapping: its progress, the best so far, and what it found; and pins."""

from __future__ import annotations

import os
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from einmap.errors import EinmapError, SpecError
from einmap.mapper.result.result import Found, MapResult, objective
from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address, LoopNode, PerEinsum, Spatial, Split, Storage, Temporal, Toll
from einmap.mapping.template import AnyPlace, PartialMapping, PartialNode
from einmap.progress import Report
from einmap.spec.spec import Spec
from einmap.studio.searching import WORKERS, Question, Worker
from einmap.units import format_si
from einmap.visible import visible

METRICS = {"energy": "energy", "latency": "latency", "edp": "energy_delay_product"}
"""Names of the page and of the mapper."""
FRONT = "front"
"""Name of a search for all mappings that no other one beats in both energy and latency."""


@dataclass
class Running:
    """One search. It stops when it is told to, or when its time is up, with the best that it found."""

    spec: Spec
    metric: str
    given: dict[str, PartialMapping] | None = None
    seconds: float = 60.0
    report: Report | None = None
    found: Found | None = None
    result: MapResult | None = None
    problem: EinmapError | None = None
    stopping: bool = False
    _begun: float = field(default_factory=time.monotonic)
    _ended: float | None = None
    _worker: Worker | None = None
    _thread: threading.Thread | None = None

    def start(self) -> Running:
        """Begin, and listen in a thread that does not keep the program alive. Raises EinmapError."""
        self._worker = WORKERS.take()
        self._thread = threading.Thread(target=self._listen, args=(self._worker,), daemon=True)
        try:
            self._thread.start()
        except RuntimeError as error:
            WORKERS.give_back(self._worker)
            raise EinmapError(f"cannot start a thread for the search: {error}") from error
        return self

    def stop(self) -> None:
        """Ask for the end; the best so far is the result. Asked once more, end at once, without one."""
        if self._worker is None or not self.runs:
            return
        if self.stopping:
            self._worker.end()
        self.stopping = True
        self._worker.stop()

    def end(self) -> None:
        """End at once."""
        if self._worker is not None and self.runs:
            self._worker.end()
            self.wait()

    def choose(self, index: int) -> None:
        """Take a mapping of the front as the one that was found. Raises SpecError for one that it does not have."""
        front = self.result.front if self.result is not None else ()
        if not 0 <= index < len(front):
            raise SpecError(f"the search has not found a mapping {index}", hint="wait for it, or stop it")
        self.found = front[index]

    def wait(self, seconds: float | None = None) -> None:
        """Wait for the end."""
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return self._ended is None

    def _listen(self, worker: Worker) -> None:
        options = {
            "metrics": METRICS.get(self.metric, ("energy", "latency")),
            "given": self.given,
            "time_limit_s": self.seconds,
            "workers": max(1, (os.cpu_count() or 2) - 1),
        }
        for told in worker.ask(Question(self.spec, options)):
            match told:
                case Report():
                    self.report = told
                case MapResult():
                    self.result = told
                    self.choose(0)
                case _:
                    self.problem = told
        WORKERS.give_back(worker)
        self._ended = time.monotonic()

    def state(self) -> dict[str, Any]:
        """Progress, or the result, as plain data."""
        seconds = (self._ended or time.monotonic()) - self._begun
        report = self.report
        state: dict[str, Any] = {"runs": self.runs, "metric": self.metric, "seconds": round(seconds, 1)}
        if self.runs:
            state["stopping"] = self.stopping
        if report is not None:
            state |= {"what": visible(report.what), "done": report.done, "total": report.total, "best": report.best}
        if self.problem is not None:
            state["problem"] = str(self.problem)
        result = self.result
        if result is not None:
            state |= {"optimal": result.optimal, "gap": result.gap, "reason": result.reason}
            if self.metric == FRONT:
                state["front"] = [_point(one) for one in result.front]
            else:
                state["value"] = objective(result.cost, METRICS[self.metric])
        return state

    @property
    def bound(self) -> float | None:
        """The least that the metric can be of all mappings, as far as the search has shown; None where it has not."""
        if self.result is None or self.given is not None or self.metric == FRONT:
            return None
        if self.result.optimal:
            return objective(self.result.cost, METRICS[self.metric])
        return self.result.lower_bound


def same_problem(one: Spec, other: Spec) -> bool:
    """Whether two specifications differ in their mappings alone, so that what is best for one is for the other."""
    if one is other:
        return True
    raws = [[item for item in spec.raw.items if item[0] != "mapping"] for spec in (one, other)]
    return raws[0] == raws[1]


def _point(found: Found) -> dict[str, Any]:
    energy, latency = found.cost.energy, found.cost.latency
    text = f"{format_si(energy, 'J')}, {format_si(latency, 's')}"
    return {"energy": energy, "latency": latency, "text": text}


def given_of(spec: Spec, mapping: Mapping, pins: frozenset[Address]) -> dict[str, PartialMapping]:
    """Pins of a mapping as a partial mapping of each Einsum: anything may stand between."""
    given: dict[str, PartialMapping] = {}
    for name, path in mapping.path_of.items():
        tensors = spec.workload.by_name[name].tensors
        nodes: list[PartialNode] = [AnyPlace()]
        for placed in path:
            node = placed.node
            if placed.address not in pins or isinstance(node, Split):
                continue
            if isinstance(node, Temporal | Spatial):
                nodes += [_for(node, name), AnyPlace()]
            elif isinstance(node, Storage | Toll):
                held = tuple(t for t in node.tensors if t in tensors)
                nodes += [_holding(node, held), AnyPlace()] if held else []
        if len(nodes) > 1:
            given[name] = PartialMapping(tuple(nodes))
    return given


def _for(node: LoopNode, einsum: str) -> LoopNode:
    """A loop as one Einsum meets it."""
    variable, shape = PerEinsum(node.rank_variable.of(einsum)), PerEinsum(node.tile_shape.of(einsum))
    if isinstance(node, Spatial):
        return Spatial(variable, shape, node.component, node.name)
    return Temporal(variable, shape, PerEinsum(node.initial_tile_shape.of(einsum)))


def _holding(node: Storage | Toll, tensors: tuple[str, ...]) -> Storage | Toll:
    if isinstance(node, Toll):
        return Toll(tensors, node.component)
    return Storage(tensors, node.component, node.persistent, node.sliding_window)


def followed(pins: frozenset[Address], before: Mapping, after: Mapping) -> frozenset[Address]:
    """Addresses of pinned nodes after a move: each is found again by what it says and, of several equal ones, by how
    many stand before it. A storage node that was taken apart is pinned in its parts, a loop of another shape where it
    stood; what is gone is not pinned.
    """
    if not pins:
        return pins
    kept: set[Address] = set()
    for address in pins:
        node = before.at(address)
        old, new = (tuple(p.address for p in tree.placed if p.node == node) for tree in (before, after))
        if new:
            kept.add(new[min(old.index(address), len(new) - 1)])
        elif isinstance(node, Storage):
            kept |= {p.address for p in after.placed if isinstance(p.node, Storage) and _is_part(p.node, node)}
        elif len(after.placed) == len(before.placed) and isinstance(after.at(address), type(node)):
            kept.add(address)
    return frozenset(kept)


def _is_part(node: Storage, whole: Storage) -> bool:
    return node.component == whole.component and {*node.tensors} <= {*whole.tensors}
