"""Exact where the graph is narrow: one node after another is minimised out (variable elimination).

Bertele and Brioschi, "Nonserial Dynamic Programming", 1972; in the planners of distributed training the elimination of
Jia et al., "Exploring Hidden Dimensions in Parallelizing Convolutional Neural Networks", ICML 2018.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.selection.problem import Choice, Costs, Selection

MAX_ENTRIES = 20_000_000
"""Entries of the largest table that is made."""
MAX_WORK = 1_500_000_000
"""Sums that are compared, in all tables together."""
AT_ONCE = 4_000_000
"""Sums that are held at once."""

type Scope = tuple[int, ...]
type Strategies = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class _Step:
    """An eliminated node, the nodes that its best strategy depends on, and that strategy for each of theirs."""

    node: int
    scope: Scope
    best: Strategies


def eliminate(problem: Selection) -> tuple[Choice, float] | None:
    """The cheapest choice, limits disregarded, and its cost (inf: there is none); None where the graph is too wide."""
    sizes = [len(costs) for costs in problem.nodes]
    order = elimination_order(sizes, [(edge.first, edge.second) for edge in problem.edges])
    if order is None:
        return None
    tables = _Tables(problem)
    known: dict[object, tuple[Costs, Strategies, int]] = {}
    steps: list[_Step] = []
    constant = 0.0
    for node in order:
        scope, parts, names = tables.taken(node)
        # equal layers have equal tables
        if names not in known:
            least, best = _minimised([sizes[other] for other in scope], sizes[node], parts)
            known[names] = least, best, tables.named(("least", names))
        least, best, name = known[names]
        steps.append(_Step(node, scope, best))
        if scope:
            tables.add(scope, least, name)
        else:
            constant += float(least)
    choice = [0] * len(sizes)
    for step in reversed(steps):
        choice[step.node] = int(step.best[tuple(choice[node] for node in step.scope)])
    return tuple(choice), constant


def elimination_order(sizes: Sequence[int], edges: Sequence[tuple[int, int]], most: int = MAX_WORK) -> list[int] | None:
    """Nodes in the order of elimination, that with the fewest sums to compare next; None where they are too many.

    A node with one strategy is nobody's neighbour. Of equal ones first those whose neighbours have been eliminated
    least: a chain of equal layers becomes half as long in each round, and all of a round are equal.
    """
    neighbours: list[set[int]] = [set() for _ in sizes]
    for first, second in edges:
        if first != second and sizes[first] > 1 and sizes[second] > 1:
            neighbours[first].add(second)
            neighbours[second].add(first)

    def sums(node: int) -> int:
        return math.prod(sizes[other] for other in neighbours[node]) * sizes[node]

    order: list[int] = []
    work = 0
    rounds = [0] * len(sizes)
    queue = [(sums(node), 0, node) for node in range(len(sizes))]
    heapq.heapify(queue)
    done = [False] * len(sizes)
    while queue:
        count, round_, node = heapq.heappop(queue)
        if done[node] or (count, round_) != (sums(node), rounds[node]):
            continue
        work += count
        if count > MAX_ENTRIES * sizes[node] or work > most:
            return None
        done[node] = True
        order.append(node)
        for other in neighbours[node]:
            neighbours[other] |= neighbours[node]
            neighbours[other] -= {node, other}
            rounds[other] = max(rounds[other], round_ + 1)
        for other in neighbours[node]:
            heapq.heappush(queue, (sums(other), rounds[other], other))
    return order


class _Tables:
    """The cost tables that are left, by the nodes that they are about (ascending). Equal tables have equal names."""

    def __init__(self, problem: Selection) -> None:
        self._of: dict[Scope, Costs] = {}
        self._name_of: dict[Scope, int] = {}
        self._scopes: list[dict[Scope, None]] = [{} for _ in problem.nodes]
        self._names: dict[object, int] = {}
        self._sums: dict[int, Costs] = {}
        digests: dict[int, int] = {}

        def first_name(table: Costs) -> int:
            if id(table) not in digests:
                digests[id(table)] = self.named((table.shape, blake2b(table.tobytes()).digest()))
            return digests[id(table)]

        for node, costs in enumerate(problem.nodes):
            self.add((node,), costs, first_name(costs))
        for edge in problem.edges:
            name = first_name(edge.costs)
            if len(edge.costs) == 1:
                self.add((edge.second,), edge.costs[0], self.named(("first row", name)))
            elif edge.costs.shape[1] == 1:
                self.add((edge.first,), edge.costs[:, 0], self.named(("first column", name)))
            elif edge.first < edge.second:
                self.add((edge.first, edge.second), edge.costs, name)
            else:
                self.add((edge.second, edge.first), edge.costs.T, self.named(("turned", name)))

    def named(self, what: object) -> int:
        """A number for what a table is made of."""
        return self._names.setdefault(what, len(self._names))

    def add(self, scope: Scope, table: Costs, name: int) -> None:
        """One more table; tables about the same nodes are summed."""
        if scope in self._of:
            name = self.named(("sum", self._name_of[scope], name))
            if name not in self._sums:
                self._sums[name] = self._of[scope] + table
            table = self._sums[name]
        self._of[scope], self._name_of[scope] = table, name
        for node in scope:
            self._scopes[node][scope] = None

    def neighbours(self, node: int) -> Scope:
        """The other nodes of its tables."""
        return tuple(sorted({other for scope in self._scopes[node] for other in scope} - {node}))

    def taken(self, node: int) -> tuple[Scope, list[Costs], object]:
        """All tables of a node, which are taken out; their axes are its neighbours in order, and itself at the end.

        Also what they are: tables of the same names and axes.
        """
        scope = self.neighbours(node)
        axes = (*scope, node)
        tables, names = [], []
        for table_scope in list(self._scopes[node]):
            table = self._of.pop(table_scope)
            names.append((self._name_of.pop(table_scope), tuple(axes.index(other) for other in table_scope)))
            for other in table_scope:
                del self._scopes[other][table_scope]
            order = sorted(range(len(table_scope)), key=lambda axis: axes.index(table_scope[axis]))
            shape = [1] * len(axes)
            for axis, size in zip(table_scope, table.shape, strict=True):
                shape[axes.index(axis)] = size
            tables.append(table.transpose(order).reshape(shape))
        return scope, tables, tuple(names)


def _minimised(shape: Sequence[int], size: int, tables: Sequence[Costs]) -> tuple[Costs, Strategies]:
    """The least sum of the tables over their last axis of `size` entries, and where it is."""
    at_once = max(1, AT_ONCE // max(1, math.prod(shape)))
    least: Costs = np.full(shape, np.inf)
    best: Strategies = np.zeros(shape, dtype=np.int32)
    for begin in range(0, size, at_once):
        end = min(begin + at_once, size)
        total: Costs = np.zeros((*shape, end - begin))
        for table in tables:
            total += table[..., begin:end] if table.shape[-1] > 1 else table
        where = total.argmin(axis=-1)
        found = np.take_along_axis(total, where[..., None], axis=-1)[..., 0]
        better = found < least
        least = np.where(better, found, least)
        best = np.where(better, where + begin, best).astype(np.int32)
    return least, best
