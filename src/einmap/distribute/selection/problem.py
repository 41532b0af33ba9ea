"""Nodes, edges, limits, and what a choice costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

type Costs = NDArray[np.float64]
type Choice = tuple[int, ...]
"""The number of the strategy of each node."""


@dataclass(frozen=True, eq=False)
class Edge:
    """Costs of two nodes together: `costs[s, t]` for strategy `s` of `first` and `t` of `second`; inf: never both."""

    first: int
    second: int
    costs: Costs


@dataclass(frozen=True, eq=False)
class Limit:
    """A sum that no choice may exceed, such as the memory that is used at one time.

    `nodes`: for some nodes, what each strategy uses; `edges`: for some edges (by number), what each pair uses.
    """

    limit: float
    nodes: Mapping[int, Costs] = field(default_factory=dict)
    edges: Mapping[int, Costs] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Selection:
    """Choose one strategy of every node: least sum of node and edge costs, within all limits.

    `excess_cost`: what each unit costs by which the limit that is exceeded most is exceeded; None: none may be.
    """

    nodes: tuple[Costs, ...]
    edges: tuple[Edge, ...] = ()
    limits: tuple[Limit, ...] = ()
    excess_cost: float | None = None

    def cost(self, choice: Sequence[int]) -> float:
        """Cost of a choice, with the charge for excess; inf where a limit is exceeded that may not be."""
        total = sum(float(costs[choice[node]]) for node, costs in enumerate(self.nodes))
        total += sum(float(edge.costs[choice[edge.first], choice[edge.second]]) for edge in self.edges)
        excess = self.excess(choice)
        if excess > 0:
            total += np.inf if self.excess_cost is None else self.excess_cost * excess
        return total

    def excess(self, choice: Sequence[int]) -> float:
        """By how much the limit that is exceeded most is exceeded, at least 0."""
        if not self.limits:
            return 0.0
        most = np.array([limit.limit for limit in self.limits])
        return max(0.0, float((self.used(choice) - most).max()))

    def used(self, choice: Sequence[int]) -> Costs:
        """The sum that each limit is on."""
        nodes = [float(table[choice[node]]) for node, table in self.usage.nodes]
        ends = [(self.edges[number].first, self.edges[number].second) for number, _ in self.usage.edges]
        tables = (table for _, table in self.usage.edges)
        edges = [float(table[choice[a], choice[b]]) for table, (a, b) in zip(tables, ends, strict=True)]
        return self.usage.by_limit(np.array(nodes + edges))

    @cached_property
    def usage(self) -> Usage:
        """Tables of the limits, each once."""
        return Usage.of(self.limits)


@dataclass(frozen=True, eq=False)
class Usage:
    """The different tables of some limits, with the numbers of their nodes and edges. Term i of all sums is of limit
    `limit[i]` and of table `table[i]`, tables of nodes counted first.
    """

    nodes: tuple[tuple[int, Costs], ...]
    edges: tuple[tuple[int, Costs], ...]
    limit: NDArray[np.intp]
    table: NDArray[np.intp]
    n_limits: int

    @classmethod
    def of(cls, limits: Sequence[Limit]) -> Usage:
        """Equal tables are told by their identity."""
        kinds: list[dict[tuple[int, int], tuple[int, Costs]]] = [{}, {}]
        numbers: list[dict[tuple[int, int], int]] = [{}, {}]
        found: list[list[int]] = [[], []]
        counts = []
        for limit in limits:
            for kind, tables in enumerate((limit.nodes, limit.edges)):
                for number, table in tables.items():
                    key = number, id(table)
                    if key not in numbers[kind]:
                        numbers[kind][key] = len(numbers[kind])
                        kinds[kind][key] = number, table
                    found[kind].append(numbers[kind][key])
            counts.append((len(limit.nodes), len(limit.edges)))
        each = np.arange(len(limits))
        of_nodes, of_edges = np.array(counts, dtype=np.intp).reshape(-1, 2).T
        limit_of = np.concatenate([np.repeat(each, of_nodes), np.repeat(each, of_edges)])
        table_of = np.array(found[0] + [len(kinds[0]) + number for number in found[1]], dtype=np.intp)
        return cls(tuple(kinds[0].values()), tuple(kinds[1].values()), limit_of, table_of, len(limits))

    def by_limit(self, values: Costs) -> Costs:
        """For each limit the sum of what its tables have."""
        return np.bincount(self.limit, values[self.table], self.n_limits)

    def by_table(self, prices: Costs) -> Costs:
        """For each table the sum of the prices of its limits."""
        return np.bincount(self.table, prices[self.limit], len(self.nodes) + len(self.edges))


@dataclass(frozen=True)
class Selected:
    """A choice, its cost, and a lower bound of the least cost.

    `choice` is None where nothing has been reached; `bound` is inf where it is proven that there is nothing.
    """

    choice: Choice | None
    cost: float
    bound: float

    @property
    def proven(self) -> bool:
        """Whether no choice costs less: cost and bound agree to 1e-8 of the cost."""
        return self.cost - self.bound <= 1e-8 * abs(self.cost) if np.isfinite(self.cost) else self.bound == np.inf
