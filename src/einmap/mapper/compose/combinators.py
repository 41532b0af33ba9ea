"""Combinators of searches. Each says in its first lines what its outcome is, and tests hold it to that."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

from einmap.errors import NoMappingError
from einmap.mapper.objective.tolerances import ROUNDING, tie_breaker, tied
from einmap.mapper.problem.problem import NOTHING, Budget, Known, Problem
from einmap.mapper.result.outcome import Outcome, evaluated, narrowed_by, united
from einmap.mapper.result.result import objective

if TYPE_CHECKING:
    from einmap.mapper.compose.ways import Way, Ways

type Search = Callable[[Problem, Budget], Outcome]
"""Raises NoMappingError where nothing fits."""
type WaySearch = Callable[[Problem, Budget, Way], tuple[Outcome, Known]]
"""The search of one way, which also says what the search of the next one need not look for."""


class NoneInTimeError(NoMappingError):
    """No mapping was found before a search was stopped: there may be one."""


def best_of(*searches: Search) -> Search:
    """The points are the best of all searches, the bound is their least one; complete where each is (`united`).

    Each has what those before it left of time and choices.
    """

    def run(problem: Problem, budget: Budget) -> Outcome:
        outcomes: list[Outcome] = []
        for search in searches:
            outcomes.append(search(problem, budget))
            budget = budget.after(outcomes[-1].stats.evaluated)
        return united(outcomes)

    return run


def over(ways_of: Callable[[Problem], Ways], search: WaySearch) -> Search:
    """The outcome is that of all ways together (`united`). Points may be missing that are no better than others.

    Mappings that are on no way are named with those that were found; where there are any no bound holds.

    Each way has an even part of what is left of time and choices, and looks for nothing that is no better than what
    was found on those before.
    """
    latest: list[tuple[Problem, Ways]] = []

    def ways_again(problem: Problem) -> Ways:
        # who breaks ties asks again: copies of inputs take a binding of the whole specification
        if not (latest and latest[0][0].has_ways_of(problem)):
            latest[:] = [(problem, ways_of(problem))]
        return latest[0][1]

    def run(problem: Problem, budget: Budget) -> Outcome:
        outcomes: list[Outcome] = []
        ways = ways_again(problem)
        for number, way in enumerate(ways.ways):
            outcome, known = search(problem, budget.share(1 / (len(ways.ways) - number)), way)
            outcomes.append(outcome)
            budget, problem = budget.after(outcome.stats.evaluated), replace(problem, known=known)
        found = united(outcomes)
        # of what is as good on another way nothing is said
        found = replace(
            found, ties_broken=found.ties_broken and (len(ways.ways) == 1 or problem.known.limit is not None)
        )
        if not ways.left_out or not found.points:
            return found
        return replace(found, left_out=(*found.left_out, *ways.left_out), bound=None)

    return run


def tie_broken(search: Search) -> Search:
    """The point is as good by the one metric, energy or latency, and the best by the other one if `ties_broken`.

    The search is asked again for what is as good by the one and better by the other.
    """

    def run(problem: Problem, budget: Budget) -> Outcome:
        outcome, options = search(problem, budget), problem.options
        breaker, budget = tie_breaker(options.goals), budget.after(outcome.stats.evaluated)
        is_asked = breaker is not None and options.breaks_ties
        is_broken = outcome.ties_broken or not is_asked
        is_done = is_broken or outcome.tie_bound is not None or outcome.ended is not None
        if is_done or not outcome.points or budget.is_over:
            return outcome
        assert breaker is not None
        (goal,), best, start = options.goals, outcome.points[0], time.perf_counter()
        limits = tied(objective(best.cost, breaker), objective(best.cost, goal))
        known = Known(limits.below, limits.rows, (goal, limits.most), planned=outcome.planned)
        again = search(replace(problem.asking(goals=(breaker,)), known=known), budget)
        for point in again.points:
            if limits.takes(objective(point.cost, breaker), objective(point.cost, goal)):
                best = point
        work = outcome.stats.evaluated + again.stats.evaluated
        steps = {**outcome.stats.steps, "ties": time.perf_counter() - start}
        stats = replace(outcome.stats, evaluated=work, steps=steps)
        broken, bound = again.ties_broken, again.tie_bound
        return replace(outcome, points=(best,), stats=stats, ties_broken=broken, tie_bound=bound)

    return run


class Fallback(Protocol):
    """Something that finds mappings soon, and has begun with it."""

    @property
    def known(self) -> Known:
        """Best result so far: the search looks for better ones alone."""

    @property
    def left(self) -> Budget:
        """Budget that it leaves to the search."""

    def instead(self, outcome: Outcome) -> Outcome:
        """The best of what a search found and of the fallback, which goes on where the search was stopped.

        Raises NoMappingError.
        """


def with_fallback(search: Search, begun: Callable[[Problem, Budget], Fallback]) -> Search:
    """The outcome of a search that comes to its end; else no worse than that, or than the fallback's.

    The bound is that of the search in any case. Where mappings are `known` already it is the search alone. `begun`:
    begins with the fallback, which takes a part of the time.
    """

    def run(problem: Problem, budget: Budget) -> Outcome:
        if problem.known is not NOTHING:
            return search(problem, budget)
        fallback = begun(problem, budget)
        known = fallback.known
        outcome = search(replace(problem, known=known), fallback.left)
        return outcome if outcome.ended is None and known is NOTHING else fallback.instead(outcome)

    return run


def otherwise(search: Search, other: Callable[[Problem, Budget, Outcome], Outcome]) -> Search:
    """The outcome of a search that comes to a mapping; else that of the other one, which may tell why there is none."""

    def run(problem: Problem, budget: Budget) -> Outcome:
        outcome = search(problem, budget)
        return outcome if outcome.points else other(problem, budget, outcome)

    return run


def relaxed(search: Search, easier: Callable[[Problem], Problem]) -> Search:
    """The points are what a search finds for a problem of which every mapping costs no more, each at its real cost.

    The bound is the one that is proven there, and nothing else is.
    """

    def run(problem: Problem, budget: Budget) -> Outcome:
        outcome = search(easier(problem).asking(breaks_ties=False), budget)
        points = []
        for point in outcome.points:
            own = problem.spec.with_shared_inputs(point.copies) if point.shared_inputs else problem.spec
            points.append(evaluated(own, point.mapping, problem.options.rules, point.shared_inputs))
        bound, left_out = outcome.lower_bound, tuple(dict.fromkeys([*outcome.left_out, RELAXED]))
        return replace(outcome, points=tuple(points), bound=bound, left_out=left_out, ties_broken=False, unfused=None)

    return run


RELAXED = "fused mappings between the bound and the best one, since their latency is not a sum over Einsums"
"""Mappings that a relaxed search leaves out."""


def bounded_by(outcomes: Sequence[Outcome], bound: float | None, problem: Problem) -> Outcome:
    """The best points of searches of the same mappings; complete where one of them reaches a bound."""
    found = united(outcomes, "fused mapping below the bound")
    narrowed = narrowed_by(problem.options, fused=True)
    found = replace(
        found,
        narrowed=narrowed,
        bound=bound,
        ties_broken=False,
        stats=replace(outcomes[0].stats, evaluated=found.stats.evaluated),
    )
    if bound is None or len(found.goals) > 1 or found.value > bound * (1 + ROUNDING):
        return found
    return replace(found, every="fused mapping", ended=None, left_out=())


def attempted(search: Search, problem: Problem, budget: Budget) -> Outcome | NoMappingError:
    """The outcome of a search, or why nothing fits."""
    try:
        return search(problem, budget)
    except NoMappingError as error:
        return error
