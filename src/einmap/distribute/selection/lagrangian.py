"""Limits by prices: what exceeds a limit is charged for, until the cheapest choice keeps to all of them.

Every vector of prices gives a lower bound (Lagrangian relaxation), and choices on the way that keep to the limits are
answers; prices follow the excess by Polyak's rule. Held, Wolfe and Crowder, "Validation of subgradient optimization",
Mathematical Programming 6, 1974.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.selection.elimination import eliminate
from einmap.distribute.selection.problem import Costs, Selected, Selection
from einmap.progress import Progress

ROUNDS = 40


def priced(problem: Selection, rounds: int = ROUNDS, progress: Progress | None = None) -> Selected:
    """The best choice within all limits that is met, and the best bound; no choice where none is met.

    The graph must be narrow enough for elimination. `progress` may end it after any round.
    """
    prices = np.zeros(len(problem.limits))
    most = np.array([limit.limit for limit in problem.limits])
    scale = np.where(most == 0, 1.0, most)
    best, bound, aim = Selected(None, np.inf, -np.inf), -np.inf, 1.05
    for number in range(rounds):
        if progress is not None:
            progress.report("prices of memory", number, rounds)
            if progress.stopped:
                break
        answer = eliminate(_with_prices(problem, prices / scale))
        if answer is None or not np.isfinite(answer[1]):
            break
        choice, total = answer
        excess = (problem.used(choice) - most) / scale
        bound = max(bound, total - float(prices.sum()))
        if excess.max() <= 0 and problem.cost(choice) < best.cost:
            best = Selected(choice, problem.cost(choice), bound)
        if best.choice is None:
            aim *= 1.1
        goal = best.cost if best.choice is not None else max(bound, 1e-300) * aim
        slope = float((excess**2).sum())
        if slope == 0 or goal - bound <= 1e-9 * abs(goal):
            break
        prices = np.maximum(0.0, prices + (goal - (total - float(prices.sum()))) / slope * excess)
    return Selected(best.choice, best.cost, bound)


def _with_prices(problem: Selection, prices: NDArray[np.float64]) -> Selection:
    """The problem without limits, what is used charged for."""
    nodes: list[Costs] = list(problem.nodes)
    edges = list(problem.edges)
    usage = problem.usage
    each = usage.by_table(prices)
    for (node, table), price in zip(usage.nodes, each[: len(usage.nodes)], strict=True):
        if price > 0:
            nodes[node] = nodes[node] + price * table
    for (number, table), price in zip(usage.edges, each[len(usage.nodes) :], strict=True):
        if price > 0:
            edges[number] = replace(edges[number], costs=edges[number].costs + price * table)
    return Selection(tuple(nodes), tuple(edges))
