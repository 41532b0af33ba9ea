"""The least excess over limits, where nothing else costs anything: by halving what may still be the least.

Whether a choice keeps to some excess is a problem with limits that nothing may exceed, which strategies and pairs drop
out of that are too much even with the least of all others. That is answered much sooner than how small the excess of an
integer program can be.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from dataclasses import replace

import numpy as np

from einmap.distribute.selection.integer import solve_integer
from einmap.distribute.selection.messages import met_quickly
from einmap.distribute.selection.problem import Choice, Costs, Edge, Limit, Selected, Selection
from einmap.distribute.selection.reduction import reduce
from einmap.progress import Progress

CLOSE = 0.95
"""Part of the excess of the best choice below which no smaller one is looked for once the time is over."""
ROUNDING = 1e-9
"""Part of a limit by which sums of usages may be wrong."""


def is_excess_alone(problem: Selection) -> bool:
    """Whether a choice costs its excess and nothing else, and usages are whole numbers."""
    if problem.excess_cost is None or not problem.limits:
        return False
    tables = [*problem.nodes, *(edge.costs for edge in problem.edges)]
    usages = [table for _, table in (*problem.usage.nodes, *problem.usage.edges)]
    free = all(not table[np.isfinite(table)].any() for table in tables)
    return free and all((table == np.round(table)).all() for table in usages)


def least_excess(problem: Selection, time_limit: float, progress: Progress | None = None) -> Selected:
    """A choice with the least excess, or the best so far with a bound after `time_limit` seconds, where messages take
    the place of the integer program and what they do not meet is not looked for.
    """
    timed = (progress or Progress()).within(time_limit)
    step = _granule(problem)
    # granules: every choice exceeds a limit by `least` at least, none below `low` has been met; `high` is that of the
    # best choice, or none is above it
    high, ahead = math.ceil(_most(problem) / step), 1
    low = bisect_left(range(high), True, key=lambda count: without_too_much(_strict(problem, count * step)) is not None)
    least, best = low, None
    while low < high or best is None:
        is_over = timed.stopped or low > least
        if best is not None and is_over and low >= CLOSE * high:
            break
        # first from below, where little is left, in steps that grow
        first = high if is_over else min(high, low + ahead - 1)
        middle = first if best is None else (low + high) // 2
        ahead *= 2
        choice, is_certain = _within(problem, middle * step, timed)
        if choice is not None:
            best, high = choice, round(problem.excess(choice) / step)
            continue
        if is_certain:
            least = middle + 1
        if middle == high:
            break
        low = middle + 1
    assert problem.excess_cost is not None
    bound = np.inf if least > high else least * step * problem.excess_cost
    if best is None:
        return Selected(None, np.inf, bound)
    cost = problem.cost(best)
    return Selected(best, cost, min(cost, bound))


def _granule(problem: Selection) -> int:
    """The largest number that all usages, and the limits, are multiples of."""
    usages = [table for _, table in (*problem.usage.nodes, *problem.usage.edges)]
    divisor = math.gcd(*(int(limit.limit) for limit in problem.limits))
    for table in usages:
        divisor = math.gcd(divisor, int(np.gcd.reduce(table.astype(np.int64), axis=None)))
    return max(1, divisor)


def _most(problem: Selection) -> float:
    """The most that any choice exceeds a limit by."""
    most = 0.0
    for limit in problem.limits:
        tables = (*limit.nodes.values(), *limit.edges.values())
        most = max(most, sum(float(table.max(initial=0.0)) for table in tables) - limit.limit)
    return most


def _within(problem: Selection, excess: float, progress: Progress) -> tuple[Choice | None, bool]:
    """A choice that exceeds no limit by more than `excess`; whether it is certain what there is."""
    pruned = without_too_much(_strict(problem, excess))
    if pruned is None:
        return None, True
    reduced = reduce(pruned)
    if reduced is None:
        return None, True
    selected = Selected(None, np.inf, -np.inf)
    if not progress.stopped:
        selected = solve_integer(reduced.problem, progress.seconds_left(), progress)
    if not selected.proven and selected.choice is None:
        selected = met_quickly(reduced.problem)
    if selected.choice is None:
        return None, selected.proven
    choice = reduced.restored(selected.choice)
    return (choice, True) if problem.excess(choice) <= excess else (None, False)


def _strict(problem: Selection, excess: float) -> Selection:
    """The problem with limits that are larger by `excess`, and by less than a granule, and that nothing may exceed."""
    limits = tuple(replace(limit, limit=limit.limit + excess + 0.5) for limit in problem.limits)
    return Selection(problem.nodes, problem.edges, limits)


def without_too_much(problem: Selection) -> Selection | None:
    """The problem without strategies and pairs that exceed a limit with the least of all others; None: none is left."""
    nodes, edges = [costs.copy() for costs in problem.nodes], [edge.costs.copy() for edge in problem.edges]
    changed = True
    while changed:
        changed = False
        for limit in problem.limits:
            if not _prune(problem, limit, nodes, edges):
                return None
        for number, edge in enumerate(problem.edges):
            table = edges[number]
            table[~np.isfinite(nodes[edge.first])] = np.inf
            table[:, ~np.isfinite(nodes[edge.second])] = np.inf
            for node, axis in ((edge.first, 1), (edge.second, 0)):
                gone = np.isfinite(nodes[node]) & ~np.isfinite(table).any(axis=axis)
                nodes[node][gone] = np.inf
                changed |= bool(gone.any())
    made = tuple(Edge(edge.first, edge.second, table) for edge, table in zip(problem.edges, edges, strict=True))
    return Selection(tuple(nodes), made, problem.limits)


def _prune(problem: Selection, limit: Limit, nodes: list[Costs], edges: list[Costs]) -> bool:
    """Forbid what is too much for one limit; whether anything is left."""
    of_nodes = {n: np.where(np.isfinite(nodes[n]), usage, np.inf) for n, usage in limit.nodes.items()}
    of_edges = {e: np.where(np.isfinite(edges[e]), usage, np.inf) for e, usage in limit.edges.items()}
    least = {("n", n): float(table.min()) for n, table in of_nodes.items()}
    least |= {("e", e): float(table.min()) for e, table in of_edges.items()}
    room = limit.limit * (1 + ROUNDING) - sum(least.values())
    if not room >= 0:
        return False
    above = {n: table - least["n", n] for n, table in of_nodes.items()}
    for number, table in of_edges.items():
        edge = problem.edges[number]
        over = table - least["e", number]
        for node, axis in ((edge.first, 1), (edge.second, 0)):
            above[node] = above.get(node, np.zeros(len(nodes[node]))) + over.min(axis=axis)
        edges[number][over > room] = np.inf
    for node, over in above.items():
        nodes[node][over > room] = np.inf
    return True
