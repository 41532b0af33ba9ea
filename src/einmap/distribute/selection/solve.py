"""The solver for a problem: elimination where it suffices, else the integer program."""

from __future__ import annotations

import numpy as np

from einmap.distribute.selection.elimination import eliminate
from einmap.distribute.selection.integer import solve_integer
from einmap.distribute.selection.least_excess import is_excess_alone, least_excess, without_too_much
from einmap.distribute.selection.messages import met_quickly
from einmap.distribute.selection.problem import Selected, Selection
from einmap.distribute.selection.reduction import reduce
from einmap.distribute.selection.wide import is_wide, solve_wide
from einmap.progress import Progress

TIME_LIMIT = 60.0
"""Seconds that the integer program takes at most."""
LARGE = 50_000
"""Entries of all edges together from which on messages come before the integer program: they take 1 processor second
for 75,000, and it 10 and more.
"""


def solve(problem: Selection, time_limit: float = TIME_LIMIT, progress: Progress | None = None) -> Selected:
    """The cheapest choice within all limits; stopped after `time_limit` seconds or by `progress`, the best so far with
    a bound.

    The limits are first left out: what is then cheapest and keeps them is the answer. Raises SpecError where the
    integer program is needed and highspy is not installed.
    """
    if is_excess_alone(problem):
        return least_excess(problem, time_limit, progress)
    bound = -np.inf
    eliminated = eliminate(Selection(problem.nodes, problem.edges))
    if eliminated is None:
        # without limits, more strategies can be dropped
        free = reduce(Selection(problem.nodes, problem.edges))
        smaller = None if free is None else eliminate(free.problem)
        if free is not None and smaller is not None:
            eliminated = free.restored(smaller[0]), smaller[1]
    if eliminated is not None:
        choice, bound = eliminated
        if not np.isfinite(bound):
            return Selected(None, np.inf, np.inf)
        if problem.excess(choice) <= 0:
            return Selected(choice, problem.cost(choice), bound)
    if is_wide(problem):
        return _bounded(solve_wide(problem, time_limit, progress), bound)
    return _bounded(_within_limits(problem, time_limit, progress), bound)


def _bounded(selected: Selected, bound: float) -> Selected:
    """The choice with the larger of its bound and another one."""
    return Selected(selected.choice, selected.cost, max(bound, selected.bound))


def _within_limits(problem: Selection, time_limit: float, progress: Progress | None) -> Selected:
    """By the integer program, without what uses too much alone; by messages before it where it is large, else where its
    time is over.
    """
    within = problem if problem.excess_cost is not None else without_too_much(problem)
    reduced = None if within is None else reduce(within)
    if reduced is None:
        return Selected(None, np.inf, np.inf)
    is_large = sum(edge.costs.size for edge in problem.edges) > LARGE
    met = Selected(None, np.inf, -np.inf)
    if is_large and problem.excess_cost is None:
        met = met_quickly(reduced.problem)
    selected = met if met.proven else solve_integer(reduced.problem, time_limit, progress)
    if not (selected.proven or is_large) and problem.excess_cost is None:
        met = met_quickly(reduced.problem)
    best = _bounded(min(selected, met, key=lambda one: one.cost), max(selected.bound, met.bound))
    if best.choice is None:
        return best
    choice = reduced.restored(best.choice)
    return Selected(choice, problem.cost(choice), best.bound)
