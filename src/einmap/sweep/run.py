"""A running sweep: what the store lacks is computed, and every result is kept at once."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from einmap.progress import Progress
from einmap.sweep.actions.perform import Task, outcome_of
from einmap.sweep.bases import Bases
from einmap.sweep.definition.definition import OBJECTIVES, Definition
from einmap.sweep.definition.points.optimised import Optimised
from einmap.sweep.definition.points.proposals import Listed, Proposals
from einmap.sweep.engines.engine import Engine, Inline, Lost
from einmap.sweep.engines.pool import GRACE, Pool
from einmap.sweep.front import Front
from einmap.sweep.keys import sweep_key
from einmap.sweep.open_point import Opener, OpenPoint
from einmap.sweep.outcome import CRASH, TIME, Outcome, failure
from einmap.sweep.result import PointResult
from einmap.sweep.settings import RunSettings
from einmap.sweep.store.store import KeptSweep, Outline, Store
from einmap.units import format_si

MOST_TOGETHER = 200
"""Points that need no work and are written together."""


@dataclass
class Run:
    """A sweep that is worked off point by point, in the order of the grid. `read`: the files that it was made from."""

    settings: RunSettings
    proposals: Proposals
    store: Store
    kept: KeptSweep
    engine: Engine
    progress: Progress
    opener: Opener
    read: tuple[str, ...]
    front: Front = field(default_factory=Front)
    finished: int = 0
    _open: dict[int, OpenPoint] = field(default_factory=dict)
    _unwritten: list[OpenPoint] = field(default_factory=list)
    _users: dict[str, list[tuple[int, str]]] = field(default_factory=dict)
    """Who waits for the outcome with a key: points and workloads."""
    _tasks: dict[int, str] = field(default_factory=dict)
    """The keys of what the engine works on."""
    _submitted: int = 0

    @staticmethod
    def of(definition: Definition, settings: RunSettings, progress: Progress | None = None) -> Run:
        """A run that is ready to begin. Raises SpecError for what is wrong with the sweep or the store."""
        grid, asked = definition.grid, definition.asked
        proposals = _proposals(definition, settings)
        bases = Bases(definition)
        read = bases.check(grid.point(proposals.first))
        progress = progress or Progress()
        store = Store.opened(settings.store)
        weights = {workload.name: workload.weight for workload in definition.workloads}
        axes = tuple(axis.name for axis in grid.axes)
        outline = Outline(
            definition.name, axes, weights, definition.objectives, asked.action, asked.metric, dict(definition.limits)
        )
        sweep = store.register(sweep_key(definition, settings.drawn), outline, proposals.total)
        try:
            engine = _engine(settings, asked.time_limit, progress)
        except BaseException:
            store.close()
            raise
        return Run(
            settings=settings,
            proposals=proposals,
            store=store,
            kept=KeptSweep(sweep, outline, proposals.total),
            engine=engine,
            progress=progress,
            opener=Opener(bases, store, settings.retry),
            read=(*definition.read, *read),
        )

    def results(self) -> Iterator[PointResult]:
        """Each point when it is finished. Ends early once `progress` is stopped; what was begun is finished first."""
        try:
            while True:
                finished = self._begin()
                if finished:
                    self._write([])
                    yield from finished
                if self.engine.busy:
                    yield from self._collect()
                elif not finished:
                    self._write([])
                    return
        finally:
            self.engine.close()

    def _begin(self) -> list[PointResult]:
        """Begin what there is room for; gives the points that are finished by that."""
        finished: list[PointResult] = []
        while self.engine.has_room and not self.progress.stopped and len(finished) < MOST_TOGETHER:
            current = next((opened for opened in self._open.values() if opened.waiting), None)
            if current is None:
                number = self.proposals.next()
                if number is None:
                    break
                current = self._open[number] = self.opener.opened(number)
                self._unwritten.append(current)
            if current.waiting:
                current.keep_to_limits(self.opener.bases)
            if self.settings.bounds and current.waiting:
                current.rule_out(self.front, self.opener.bases)
            if current.waiting:
                self._submit(current)
            if current.is_finished:
                finished.append(self._finish(current))
        return finished

    def _submit(self, current: OpenPoint) -> None:
        workload, case, spec = current.waiting.pop(0)
        current.underway += 1
        users = self._users.setdefault(case.key, [])
        users.append((current.point.number, workload.name))
        if len(users) == 1:  # equal specifications are computed once
            self._submitted += 1
            self._tasks[self._submitted] = case.key
            self.engine.submit(self._submitted, Task(spec, self.opener.bases.definition.asked))

    def _collect(self) -> Iterator[PointResult]:
        """Take the answers of the engine, keep them, and give the points that are finished by them."""
        answers = [(self._tasks.pop(number), _outcome(said)) for number, said in self.engine.wait()]
        finished = []
        for key, outcome in answers:
            for number, workload in self._users.pop(key):
                current = self._open[number]
                current.outcomes[workload] = outcome
                current.underway -= 1
                if current.is_finished:
                    finished.append(self._finish(current))
        self._write(answers)
        yield from finished

    def _finish(self, current: OpenPoint) -> PointResult:
        number = current.point.number
        del self._open[number]
        if (current.better is not None or current.beyond is not None) and current not in self._unwritten:
            self._unwritten.append(current)  # once more, with what rules it out
        result = self.opener.result(current)
        values = result.objective_values
        if values is not None:
            self.front.add(number, values)
        self.proposals.tell(number, values)
        self.finished += 1
        self.progress.report(self.kept.outline.name, self.finished, self.proposals.total, self._best())
        return result

    def _write(self, outcomes: list[tuple[str, Outcome]]) -> None:
        opener = self.opener
        if not (outcomes or self._unwritten or opener.failures):
            return
        points = [(o.point.number, o.point.values, o.better, o.beyond, o.cases) for o in self._unwritten]
        self.store.put(self.kept.id, points, [*opener.failures, *outcomes], opener.texts)
        self._unwritten.clear()
        opener.failures.clear()
        opener.texts.clear()

    def _best(self) -> str | None:
        """The front so far in a few words."""
        if not self.front.numbers:
            return None
        names = zip(self.kept.outline.objectives, self.front.least, strict=True)
        parts = (f"{name.replace('_', ' ')} {_in_words(value, name)}" for name, value in names)
        return f"{', '.join(parts)} ({self.front.size} on the front)"


def _proposals(definition: Definition, settings: RunSettings) -> Proposals:
    grid, seed = definition.grid, settings.seed
    wanted = settings.optimise
    if wanted is not None and wanted < grid.size:
        return Optimised(grid, wanted, seed, len(definition.objectives))
    return Listed(grid.numbers() if settings.sample is None else grid.sample(settings.sample, seed))


def _engine(settings: RunSettings, time_limit: float | None, progress: Progress) -> Engine:
    limit = None if time_limit is None else time_limit + GRACE
    if settings.scheduler is not None:
        from einmap.sweep.engines.dask_cluster import dask_cluster

        return dask_cluster(outcome_of, settings.scheduler, settings.workers, limit, progress)
    return Pool(outcome_of, settings.workers, limit) if settings.workers else Inline(outcome_of)


def _in_words(value: float, objective: str) -> str:
    return f"{value * 1e6:.3g} mm^2" if objective == "area" else format_si(value, OBJECTIVES[objective])


def _outcome(said: Any) -> Outcome:
    if isinstance(said, Lost):
        return failure(TIME if said.timed_out else CRASH, said.reason)
    assert isinstance(said, Outcome)
    return said
