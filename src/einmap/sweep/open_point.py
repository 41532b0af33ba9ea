"""Points under way: their specifications, what is left to do, and what they cost at least."""

from __future__ import annotations

from dataclasses import dataclass, field

from einmap.errors import EinmapError
from einmap.frontends.yaml.spec import dump
from einmap.spec.spec import Spec
from einmap.sweep.bases import Bases, with_settings
from einmap.sweep.bounds import Least, least_objectives
from einmap.sweep.definition.definition import SweptWorkload
from einmap.sweep.definition.points.grid import Point
from einmap.sweep.front import Front
from einmap.sweep.keys import key_of, text_key
from einmap.sweep.outcome import INVALID, TRANSIENT, Outcome, failure, told
from einmap.sweep.result import PointResult
from einmap.sweep.store.store import Case, Store


@dataclass
class OpenPoint:
    """A point under way. `waiting`: workloads that nobody has begun; `better`: the point that rules it out; `beyond`:
    the objective whose limit does.
    """

    point: Point
    cases: list[Case] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    waiting: list[tuple[SweptWorkload, Case, Spec]] = field(default_factory=list)
    underway: int = 0
    better: int | None = None
    beyond: str | None = None
    least: dict[str, Least] = field(default_factory=dict)

    @property
    def is_finished(self) -> bool:
        """Whether nothing is left to do."""
        return not self.waiting and not self.underway

    def rule_out(self, front: Front, bases: Bases) -> None:
        """Leave undone what is not begun if a point of the front costs less than this one can.

        So the front stays as it is: a point that is beaten by another one is never on it.
        """
        least = self._least(bases, bases.definition.objectives) if front.numbers else None
        if least is not None:
            self.better = front.better_than(least)
        if self.better is not None:
            self.waiting.clear()

    def keep_to_limits(self, bases: Bases) -> None:
        """Leave undone what is not begun if the point cannot keep to a limit, whatever its mappings."""
        limits = bases.definition.limits
        least = self._least(bases, tuple(limits)) if limits else None
        if least is None:
            return
        over = (name for name, value in zip(limits, least, strict=True) if value > limits[name])
        self.beyond = next(over, None)
        if self.beyond is not None:
            self.waiting.clear()

    def _least(self, bases: Bases, objectives: tuple[str, ...]) -> tuple[float, ...] | None:
        """Lower bounds of objectives; None where nothing is known."""
        definition = bases.definition
        if definition.asked.action != "map" or any(not outcome.done for outcome in self.outcomes.values()):
            return None
        weights = {workload.name: workload.weight for workload in definition.workloads}
        parts = {name: Least.known(outcome) for name, outcome in self.outcomes.items()}
        for workload, _, spec in self.waiting:
            if workload.name not in self.least:
                self.least[workload.name] = _least_of(spec)
        parts |= {name: least for name, least in self.least.items() if name not in parts}
        return least_objectives(parts, weights, objectives)


def _least_of(spec: Spec) -> Least:
    try:
        return Least.of(spec)
    except EinmapError:  # it is told when the specification is searched
        return Least.nothing()


@dataclass
class Opener:
    """Makes open points: with their specifications, and with what the store has of them."""

    bases: Bases
    store: Store
    retry: bool
    texts: dict[str, str] = field(default_factory=dict)
    """Specifications that the store lacks, by their keys; whoever writes them empties it."""
    failures: list[tuple[str, Outcome]] = field(default_factory=list)
    """Outcomes of specifications that could not be made; whoever writes them empties it."""
    _written: set[str] = field(default_factory=set)

    def opened(self, number: int) -> OpenPoint:
        """The point at a position of the grid."""
        opened = OpenPoint(self.bases.definition.grid.point(number))
        for place, workload in enumerate(self.bases.definition.workloads):
            try:
                self._add(opened, place, workload)
            except EinmapError as error:  # of a template, say, that has no text for this value
                key = text_key(f"{place}\n{told(error)}")
                opened.outcomes[workload.name] = failure(INVALID, told(error))
                opened.cases.append(Case(place, key, "", ()))
                self.failures.append((key, opened.outcomes[workload.name]))
        return opened

    def _add(self, opened: OpenPoint, place: int, workload: SweptWorkload) -> None:
        base = self.bases.base(workload, opened.point)
        settings = self.bases.settings(base, opened.point)
        spec = with_settings(base.spec, settings)
        text_id = base.spec.content_hash
        if text_id not in self._written:
            self._written.add(text_id)
            self.texts[text_id] = dump(base.spec)
        case = Case(place, key_of(spec, self.bases.definition.asked), text_id, settings)
        opened.cases.append(case)
        kept = self.store.outcome(case.key)
        if kept is None or (self.retry and kept.status in TRANSIENT):
            opened.waiting.append((workload, case, spec))
        else:
            opened.outcomes[workload.name] = kept

    def result(self, opened: OpenPoint) -> PointResult:
        """The result of a finished point; outcomes in the order of the workloads."""
        definition = self.bases.definition
        weights = {workload.name: workload.weight for workload in definition.workloads}
        outcomes = {name: opened.outcomes[name] for name in weights if name in opened.outcomes}
        point = opened.point
        return PointResult(
            number=point.number,
            values=point.values,
            outcomes=outcomes,
            weights=weights,
            objectives=definition.objectives,
            better=opened.better,
            limits=definition.limits,
            beyond=opened.beyond,
        )
