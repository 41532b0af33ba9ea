"""One run of a strategy on a problem, within a budget, and its whole history."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from einmap.arrays import Floats
from einmap.errors import SpecError
from einmap.mapper.mapspace.mapspace import Point
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.progress import Progress
from einmap.search.cost_model.cost_model import CostModel
from einmap.search.problem import SearchProblem
from einmap.search.strategy import Budget, Factory, Setup, Strategy, strategy_named
from einmap.visible import brief

BATCH = 64
"""Points that are asked for at a time; a strategy may give fewer."""


@dataclass(frozen=True)
class Candidate:
    """A mapping with its objective by the cost model (J, s or J*s). `point`: None where it is not in the space."""

    point: Point | None
    mapping: LoopTree
    value: float


@dataclass(frozen=True)
class SearchResult:
    """The history of a run: for each evaluation its point, objective (J, s or J*s; inf: not valid), and wall time (s).

    `exhausted`: whether the strategy ended because it had nothing more to try.
    """

    __repr__ = brief

    problem: SearchProblem
    points: tuple[Point, ...]
    values: Floats
    seconds: Floats
    exhausted: bool = False

    @cached_property
    def best_so_far(self) -> Floats:
        """The least objective after each evaluation; inf before the first valid mapping."""
        best: Floats = np.minimum.accumulate(self.values)
        return best

    @property
    def best_value(self) -> float:
        """The least objective; inf where no valid mapping was found."""
        return float(self.best_so_far[-1]) if len(self.values) else math.inf

    @property
    def best_mapping(self) -> LoopTree | None:
        """The first mapping of the least objective; None where no valid one was found."""
        if not math.isfinite(self.best_value):
            return None
        return self.problem.space.decode(self.points[int(np.argmin(self.values))])

    def candidates(self, top: int) -> list[Candidate]:
        """The best valid mappings, each once, at most `top`, the best first."""
        found: dict[LoopTree, Candidate] = {}
        for row in np.argsort(self.values, kind="stable").tolist():
            if len(found) == top or not math.isfinite(self.values[row]):
                break
            mapping = self.problem.space.decode(self.points[row])
            found.setdefault(mapping, Candidate(self.points[row], mapping, float(self.values[row])))
        return list(found.values())

    def improvements(self) -> list[tuple[int, float, float]]:
        """(evaluations so far, seconds, objective) at each evaluation that was better than all before."""
        previous = np.concatenate([[math.inf], self.best_so_far[:-1]])
        rows = np.flatnonzero(self.best_so_far < previous)
        return [(int(i) + 1, float(self.seconds[i]), float(self.values[i])) for i in rows]


def search(
    problem: SearchProblem,
    strategy: str | Factory,
    budget: Budget,
    *,
    seed: int = 0,
    model: CostModel | None = None,
    progress: Progress | None = None,
) -> SearchResult:
    """Run a strategy until its budget is spent, it has nothing more to try, or the progress token says stop.

    `model`: a cost model learned on other workloads, for strategies that use one. No more than
    `budget.evaluations` are made; time is looked at between batches. Raises SpecError for an unknown strategy and a
    budget of nothing.
    """
    factory = strategy_named(strategy) if isinstance(strategy, str) else strategy
    check_budget(budget)
    token = (progress or Progress()).within(budget.seconds if math.isfinite(budget.seconds) else None)
    begin = time.perf_counter()
    run: Strategy = factory(Setup(problem, np.random.default_rng(seed), budget, model))
    points: list[Point] = []
    values: list[Floats] = []
    seconds: list[Floats] = []
    exhausted = False
    known: dict[Point, float] = {}
    while len(points) < budget.evaluations and not (points and token.stopped):
        asked = list(run.ask(min(BATCH, budget.evaluations - len(points))))[: budget.evaluations - len(points)]
        if not asked:
            exhausted = True
            break
        costs = _evaluated(problem, asked, known)
        points += asked
        values.append(costs)
        seconds.append(np.full(len(asked), time.perf_counter() - begin))
        run.tell(asked, costs)
        token.report("searching", len(points), budget.evaluations)
    whole = [np.concatenate(x) if x else np.zeros(0) for x in (values, seconds)]
    return SearchResult(problem, tuple(points), whole[0], whole[1], exhausted)


def _evaluated(problem: SearchProblem, points: Sequence[Point], known: dict[Point, float]) -> Floats:
    """The objective of each point; what strategies come back to, as cooled chains do, is looked up in `known`."""
    fresh = [point for point in dict.fromkeys(points) if point not in known]
    if fresh:
        known.update(zip(fresh, problem.evaluate(fresh).tolist(), strict=True))
    return np.array([known[point] for point in points])


def check_budget(budget: Budget) -> None:
    """Raises SpecError for a budget of nothing."""
    if budget.evaluations < 1 or not budget.seconds > 0:
        raise SpecError(
            f"a search needs a budget, found {budget.evaluations} evaluations and {budget.seconds:g} s",
            hint="at least 1 evaluation, and more than 0 s",
        )
