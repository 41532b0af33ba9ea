"""A smaller problem with a cheapest choice of the whole one: without what cannot or need not be chosen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.selection.problem import Choice, Costs, Edge, Limit, Selection

type Strategies = NDArray[np.intp]
MAX_STRATEGIES = 200
"""Strategies of a node beyond which they are not compared with one another."""


@dataclass(frozen=True, eq=False)
class Reduced:
    """The smaller problem; `strategies[node]`: the numbers of its strategies in the whole one."""

    problem: Selection
    strategies: tuple[Strategies, ...]

    def restored(self, choice: Sequence[int]) -> Choice:
        """A choice of the smaller problem as one of the whole problem."""
        return tuple(int(kept[number]) for kept, number in zip(self.strategies, choice, strict=True))


def reduce(problem: Selection) -> Reduced | None:
    """Without what no cheapest choice needs; None where nothing can be chosen.

    Dropped are strategies that cost inf, that some neighbour allows with none of its own strategies (arc consistency),
    and that another strategy of the node replaces at no higher cost, whatever the neighbours choose, within all limits
    (dead-end elimination, Desmet et al., "The dead-end elimination theorem and its use in protein side-chain
    positioning", Nature 1992).
    """
    merged = _merged(problem)
    strategies: list[Strategies] = [np.nonzero(np.isfinite(costs))[0] for costs in merged.nodes]
    edges_of: list[list[Edge]] = [[] for _ in merged.nodes]
    for edge in merged.edges:
        edges_of[edge.first].append(edge)
        edges_of[edge.second].append(Edge(edge.second, edge.first, edge.costs.T))
    usages = _usages(merged)
    waiting = dict.fromkeys(range(len(merged.nodes)))
    while waiting:
        node = next(iter(waiting))
        del waiting[node]
        kept = strategies[node]
        tables = [edge.costs[np.ix_(kept, strategies[edge.second])] for edge in edges_of[node]]
        keeps = _needed(merged.nodes[node][kept], tables, [usage[kept] for usage in usages[node]])
        if not keeps.any():
            return None
        if not keeps.all():
            strategies[node] = kept[keeps]
            waiting |= dict.fromkeys(edge.second for edge in edges_of[node])
    return Reduced(restricted(merged, strategies), tuple(strategies))


def _merged(problem: Selection) -> Selection:
    """Edges of the same two nodes as one, unless a limit is on them."""
    limited = {number for limit in problem.limits for number in limit.edges}
    numbers = {number: position for position, number in enumerate(sorted(limited))}
    kept = [problem.edges[number] for number in sorted(limited)]
    sums: dict[tuple[int, int], Costs] = {}
    for number, edge in enumerate(problem.edges):
        if number not in limited:
            ordered = edge.first < edge.second
            pair = (edge.first, edge.second) if ordered else (edge.second, edge.first)
            costs = edge.costs if ordered else edge.costs.T
            sums[pair] = sums[pair] + costs if pair in sums else costs
    edges = (*kept, *(Edge(first, second, costs) for (first, second), costs in sums.items()))
    limits = tuple(
        Limit(limit.limit, limit.nodes, {numbers[number]: usage for number, usage in limit.edges.items()})
        for limit in problem.limits
    )
    return Selection(problem.nodes, edges, limits, problem.excess_cost)


def _usages(problem: Selection) -> list[list[Costs]]:
    """For each node, what its strategies use of each limit; for limits on edges, of each pair, as one table."""
    usages: list[list[Costs]] = [[] for _ in problem.nodes]
    for limit in problem.limits:
        for node, usage in limit.nodes.items():
            usages[node].append(usage[:, None])
        for number, usage in limit.edges.items():
            edge = problem.edges[number]
            usages[edge.first].append(usage)
            usages[edge.second].append(usage.T)
    return [_distinct(tables) for tables in usages]


def _distinct(tables: Sequence[Costs]) -> list[Costs]:
    kept: dict[bytes, Costs] = {}
    for table in tables:
        kept.setdefault(table.tobytes(), table)
    return list(kept.values())


def _needed(costs: Costs, tables: Sequence[Costs], usages: Sequence[Costs]) -> NDArray[np.bool_]:
    """Which strategies are possible and not replaced by another one."""
    keeps = np.ones(len(costs), dtype=bool)
    for table in tables:
        keeps &= np.isfinite(table).any(axis=1)
    rows = np.nonzero(keeps)[0]
    if not 1 < len(rows) <= MAX_STRATEGIES:
        return keeps
    dearer = costs[rows, None] - costs[None, rows]
    for table in tables:
        part = table[rows]
        dearer = dearer + np.array([_largest_difference(row, part) for row in part])
    for usage in usages:
        part = usage[rows]
        dearer[np.array([(row > part).any(axis=1) for row in part])] = np.inf
    replaces = dearer <= 0
    np.fill_diagonal(replaces, False)
    for position in range(len(rows)):
        # one that has been dropped replaces nothing: what replaced it does
        if (replaces[:, position] & keeps[rows]).any():
            keeps[rows[position]] = False
    return keeps


def _largest_difference(row: Costs, others: Costs) -> Costs:
    """By how much the row exceeds each of the others at most; where the other is inf, nothing is exceeded."""
    with np.errstate(invalid="ignore"):
        difference = row - others
    return np.where(np.isfinite(others), difference, -np.inf).max(axis=1, initial=-np.inf)


def restricted(problem: Selection, strategies: Sequence[Strategies]) -> Selection:
    """The problem with these strategies of each node alone."""
    nodes = tuple(costs[kept] for costs, kept in zip(problem.nodes, strategies, strict=True))

    def pairs(edge: Edge, table: Costs) -> Costs:
        return table[np.ix_(strategies[edge.first], strategies[edge.second])]

    edges = tuple(Edge(edge.first, edge.second, pairs(edge, edge.costs)) for edge in problem.edges)
    limits = tuple(
        Limit(
            limit.limit,
            {node: usage[strategies[node]] for node, usage in limit.nodes.items()},
            {number: pairs(problem.edges[number], usage) for number, usage in limit.edges.items()},
        )
        for limit in problem.limits
    )
    return Selection(nodes, edges, limits, problem.excess_cost)
