"""The solver for a problem: elimination where it suffices, else the integer program."""

from __future__ import annotations

import numpy as np

from einmap.distribute.selection.elimination import eliminate
from einmap.distribute.selection.integer import solve_integer
from einmap.distribute.selection.lagrangian import priced
from einmap.distribute.selection.least_excess import is_excess_alone, least_excess, without_too_much
from einmap.distribute.selection.messages import met_quickly
from einmap.distribute.selection.problem import Selected, Selection
from einmap.distribute.selection.reduction import reduce
from einmap.distribute.selection.wide import is_wide, solve_wide
from einmap.progress import Progress

TIME_LIMIT = 60.0
"""Seconds that the integer program takes at most."""
LARGE = 50_000
"""Entries of all edges together from which on prices are tried before the integer program."""


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
    # by prices where that is quick, so that there is an answer when the time is over
    quick = Selected(None, np.inf, bound)
    if eliminated is not None and problem.excess_cost is None and _entries(problem) > LARGE:
        quick = priced(problem, progress=progress)
        bound = max(bound, quick.bound)
        if quick.proven:
            return quick
    if is_wide(problem):
        selected = solve_wide(problem, time_limit, progress)
    else:
        selected = _within_limits(problem, bound, time_limit, progress)
    if selected.cost <= quick.cost:
        return selected
    return Selected(quick.choice, quick.cost, max(bound, selected.bound))


def _entries(problem: Selection) -> int:
    return sum(edge.costs.size for edge in problem.edges)


def _within_limits(problem: Selection, bound: float, time_limit: float, progress: Progress | None) -> Selected:
    """By the integer program, without what uses too much alone; by messages where its time is over."""
    within = problem if problem.excess_cost is not None else without_too_much(problem)
    reduced = None if within is None else reduce(within)
    if reduced is None:
        return Selected(None, np.inf, np.inf)
    selected = solve_integer(reduced.problem, time_limit, progress)
    if not selected.proven and problem.excess_cost is None:
        met = met_quickly(reduced.problem)
        best = min(selected, met, key=lambda one: one.cost)
        selected = Selected(best.choice, best.cost, max(selected.bound, met.bound))
    bound = max(bound, selected.bound)
    if selected.choice is None:
        return Selected(None, np.inf, bound)
    choice = reduced.restored(selected.choice)
    return Selected(choice, problem.cost(choice), bound)
