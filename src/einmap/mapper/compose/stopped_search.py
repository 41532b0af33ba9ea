"""Results where a search of a cascade is stopped, or finds nothing: each Einsum by itself, begun before it."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from einmap.errors import MappingError, NoMappingError
from einmap.mapper.compose.combinators import NoneInTimeError
from einmap.mapper.compose.einsum_by_einsum import statistics, unfused_outcome
from einmap.mapper.compose.nothing_fits.cascade_sizes import explain_infeasible_cascade
from einmap.mapper.compose.step_by_step import step_by_step
from einmap.mapper.independent.first import LONGEST
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.independent.planning import begin_with, is_hardly_planned
from einmap.mapper.independent.whole_tensors import tensors_exchanged_whole
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.objective.pareto_sums import PARTS
from einmap.mapper.objective.tolerances import TIE
from einmap.mapper.problem.problem import NOTHING, Budget, Known, Problem
from einmap.mapper.result.outcome import Outcome, ended_after, evaluated, united
from einmap.mapper.result.result import Found, best_of, objective
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.progress import Progress

RESERVE = 0.4
"""Part of a limited time in which the Einsums of a recurrence are mapped step by step, before they are searched."""
MOST_RESERVED = 3.0
"""Seconds that are enough for that."""
AT_LEAST = 1.0
"""Seconds that a fallback is given in any case, also where somebody has stopped the search."""
FOR_FIRST = 0.5
"""Part of a limited time that it may take before the search."""
FOR_BOUND = 0.2
"""Part of the rest that the search needs for a bound, where more time for it is of no use."""
OF_EVALUATIONS = 0.25
"""Part of limited evaluations that is kept for it."""


@dataclass
class OneByOne:
    """Each Einsum by itself, beside a search of the whole cascade.

    Where time is limited they are searched before, when the search of the cascade asks for it (`Known.simple`): a
    cascade is then never worse than what fuses nothing within the same limit, and its search need not look for what is
    no better. Where something fused is found soon that costs no more than these do at least they are not searched. Else
    they are mapped once a search was stopped.
    """

    problem: Problem
    budget: Budget
    is_begun: bool = False
    """Whether it was looked for."""
    is_found: bool = False
    """Whether something fused was found before."""
    is_beaten: bool = False
    """Whether it could be no better than what was found by then."""
    early: Mapping[str, LoopTree] = field(default_factory=dict)
    """Good mappings of Einsums by themselves that were found before, by name."""

    @cached_property
    def einsums(self) -> IndependentSearch:
        """The Einsums, with what was found of them before the search."""
        return IndependentSearch(self.problem.spec, self.problem.options)

    @cached_property
    def first(self) -> list[Found]:
        """The best unfused mappings, as far as time allows; empty where it is not limited, or there is none."""
        token, self.is_begun = self.budget.progress, True
        if not self.is_limited or token.stopped:
            return []
        part = token.within(max(token.seconds_left() * FOR_FIRST, AT_LEAST))
        begin_with(self.einsums, self.early)
        try:
            self.einsums.run(part, longer=token)
            if not self.is_found and self.einsums.is_mostly_cut() and not is_hardly_planned(self.einsums.parts):
                # a search of the whole, which needs more, would find nothing in the rest
                self.einsums.run(token.within(token.seconds_left() * (1 - FOR_BOUND)))
            return self.evaluated(self.einsums.best())
        except (MappingError, NoMappingError):
            # where there is none at all one that fuses may fit
            return []

    @property
    def is_limited(self) -> bool:
        """Whether time is limited, and nothing else."""
        return self.budget.progress.deadline is not None and math.isinf(self.budget.work)

    def unless(self, value: float, least: float, early: Mapping[str, LoopTree]) -> float:
        """The least objective of the first mappings; `value` if that is no more than these cost at `least`.

        `early`: good mappings of Einsums by themselves that were found by then, by name.
        """
        self.early = early
        self.is_found, self.is_beaten = math.isfinite(value), value <= least
        if self.is_beaten or not self.first:
            return value
        (goal,) = self.problem.options.goals
        return min(objective(point.cost, goal) for point in self.first) * (1 + TIE)

    @property
    def left(self) -> Budget:
        """The time that is left, and all but the evaluations that are kept."""
        return replace(self.budget, work=max(self.budget.work * (1 - OF_EVALUATIONS), 1.0))

    @property
    def known(self) -> Known:
        """Limit of the search: it looks for mappings that are better than those found first."""
        goals = self.problem.options.goals
        if self.is_limited and len(goals) == 1 and not tensors_exchanged_whole(self.problem.spec):
            return Known(simple=self.unless)
        if not self.first:
            return NOTHING
        values = np.array([[objective(point.cost, goal) for goal in goals] for point in self.first])
        if len(goals) == 1:
            return Known(float(values.min()) * (1 + TIE))
        return Known(rows=values) if all(PARTS.get(goal, (goal,)) == (goal,) for goal in goals) else NOTHING

    def instead(self, outcome: Outcome) -> Outcome:
        """The best of what was found fused, and of good mappings that fuse nothing.

        Raises NoMappingError when there is none, or none in time.
        """
        if (self.is_beaten and outcome.points) or (outcome.ended is None and not (self.is_begun and self.first)):
            return outcome
        if outcome.ended is None:
            # where ties are broken it is as good as any
            points = (
                outcome.points if outcome.ties_broken else tuple(best_of([*outcome.points, *self.first], outcome.goals))
            )
            return replace(outcome, points=points, unfused=self.alone(self.first) if self.first else None)
        try:
            unfused = self.unfused(outcome)
            return replace(united([outcome, unfused]), unfused=self.alone(unfused.points))
        except NoMappingError:
            if outcome.points:
                return outcome
            raise

    def alone(self, points: Sequence[Found]) -> Outcome:
        """Mappings that fuse nothing as the outcome of a search for these alone."""
        einsums, stats = self.einsums, statistics(self.einsums)
        is_whole = bool(self.first) and not einsums.cut()
        return Outcome(
            self.problem.options.goals,
            tuple(points),
            stats,
            every="unfused mapping (each Einsum by itself)",
            ended=None if is_whole else ended_after(stats.evaluated),
            left_out=einsums.pruned(),
            bound=einsums.bound() if len(self.problem.options.goals) == 1 and is_whole else None,
        )

    def unfused(self, outcome: Outcome) -> Outcome:
        """Good mappings that fuse nothing, not proven. Raises NoMappingError when there is none, or none in time."""
        budget = self.budget.after(outcome.stats.evaluated)
        try:
            front = self.first or self.late(budget)
        except (MappingError, NoMappingError) as error:
            text = f"the search was stopped before any fused mapping was found; Einsum by Einsum: {error.message}"
            remedies = error.remedies if isinstance(error, NoMappingError) else ()
            raise NoneInTimeError(text, at=error.at, hint=error.hint, remedies=remedies) from None
        stats = statistics(self.einsums)
        by_einsum = {name: {**row, "complete": False} for name, row in stats.by_einsum.items()}
        why = "stopped before any fused mapping was found, so each Einsum is mapped by itself"
        if outcome.points:
            why = "stopped; each Einsum mapped by itself is better than what was found fused"
        return Outcome(outcome.goals, tuple(front), replace(stats, by_einsum=by_einsum), ended=why, bound=outcome.bound)

    def late(self, budget: Budget) -> list[Found]:
        """Mappings that a search of each Einsum by itself finds in a second, or in the time that is left."""
        einsums, token = self.einsums, budget.progress
        if token.stopped or token.deadline is not None:
            seconds = 0.0 if token.stopped else token.seconds_left()
            token = Progress(token.callback).within(max(seconds, AT_LEAST))
        mappings = self.of_each_metric(replace(budget, progress=share_of(token, 0.5)))
        if not token.stopped and math.isinf(budget.work):
            try:
                einsums.run(token)
                mappings += einsums.best()
            except (MappingError, NoMappingError):
                pass
        return self.evaluated(mappings)

    def evaluated(self, mappings: Sequence[LoopTree]) -> list[Found]:
        """The best of some mappings, at their cost. Raises NoMappingError where their parts do not fit together."""
        points: list[Found] = []
        wrong: MappingError | None = None
        for mapping in mappings:
            try:
                points.append(evaluated(self.problem.spec, mapping, self.problem.options.rules, strict=True))
            except MappingError as error:
                wrong = error
        if wrong is not None and not points:
            text = f"each has a mapping, but these do not fit together: {wrong.message}"
            raise NoMappingError(text, at=wrong.at, hint="give it more time or evaluations")
        return best_of(points, self.problem.options.goals)

    def of_each_metric(self, budget: Budget) -> list[LoopTree]:
        """A good mapping for each metric, each for its part of the time and of the evaluations that are left.

        Raises NoMappingError where some Einsum has none.
        """
        goals, mappings = self.problem.options.goals, list[LoopTree]()
        for number, goal in enumerate(goals):
            if mappings and budget.progress.stopped:
                break
            part = share_of(budget.progress, 1 / (len(goals) - number))
            mappings.append(self.einsums.quick_mapping(part, budget.work / len(goals), goal))
        return mappings


@dataclass
class StepByStep:
    """Each Einsum by itself below a loop over the steps of its recurrence, in place of a search of the whole."""

    problem: Problem
    budget: Budget

    known = NOTHING
    """Mappings found first need not be near the best."""

    @property
    def left(self) -> Budget:
        """The whole budget: what is found before the search takes a part of the time alone."""
        return self.budget

    def __post_init__(self) -> None:
        token = self.budget.progress
        self.early: Sequence[Found] = ()
        if token.deadline is not None:
            # what is there when time is over is found first, as far as there is time for it
            seconds = min(token.seconds_left() * RESERVE, MOST_RESERVED)
            self.early = step_by_step(self.problem, token.within(seconds))

    def instead(self, outcome: Outcome) -> Outcome:
        """The best of what was found before the search and in it, or what is found late. Raises NoneInTimeError."""
        points = [*outcome.points, *self.early] or step_by_step(
            self.problem, Progress(self.budget.progress.callback).within(AT_LEAST)
        )
        if points:
            return replace(outcome, points=tuple(best_of(points, outcome.goals)))
        recurrence = self.problem.spec.workload.recurrences[0]
        text = f"the Einsums {', '.join(recurrence.einsums)} are a recurrence, which is mapped as a whole"
        raise NoneInTimeError(
            f"no mapping was found in time: {text}",
            at=self.problem.spec.place_of_einsum(recurrence.einsums[0]),
            hint="give more time, or allow fewer fused loops (max_fused_loops)",
        )


def nothing_fused(problem: Problem, budget: Budget, outcome: Outcome) -> Outcome:
    """The Einsums one by one where no fused mapping fits: they tell why. Raises NoMappingError."""
    spec, token, start = problem.spec, budget.progress, time.perf_counter()
    whole = IndependentSearch(spec, problem.options, together=False)
    try:
        # what was left out of a search may be what fits
        if (unfit := outcome.unfit) is not None and unfit in spec.workload.by_name and not outcome.left_out:
            raise whole.why_nothing(unfit, token)
        whole.run(token, budget.work)
        kind = "fused mapping that was looked at" if outcome.left_out else "mapping of the fused search"
        return unfused_outcome(problem, whole, token, start, f"no {kind} fits")
    except (MappingError, NoMappingError) as error:
        raise explain_infeasible_cascade(problem, error, token, fuse=True) from None


def no_steps(problem: Problem, budget: Budget, outcome: Outcome) -> Outcome:
    """Each Einsum by itself below a loop over the steps, where a search left something out. Raises NoMappingError."""
    recurrence = problem.spec.workload.recurrences[0]
    names, at = ", ".join(recurrence.einsums), problem.spec.place_of_einsum(recurrence.einsums[0])
    below = f"in which {names} run step by step below one loop over {recurrence.variable}"
    if outcome.left_out:
        points = step_by_step(problem, Progress(budget.progress.callback).within(LONGEST))
        if points:
            return Outcome(outcome.goals, tuple(points), outcome.stats, left_out=outcome.left_out, bound=outcome.bound)
        text = f"no mapping was found {below}; not searched: {', nor '.join(outcome.left_out)}"
        raise NoMappingError(text, at=at, hint="raise what limits the search")
    hint = "enlarge memories, or let the outermost one keep all tensors"
    raise NoMappingError(f"no mapping fits {below}", at=at, hint=hint)
