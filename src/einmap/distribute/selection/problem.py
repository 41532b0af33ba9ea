"""Nodes, edges, limits, and what a choice costs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

type Costs = NDArray[np.float64]
type Choice = tuple[int, ...]
"""The number of the strategy of each node."""


@dataclass(frozen=True, eq=False)
class Edge:
    """What two nodes cost together: `costs[s, t]` for strategy `s` of `first` and `t` of `second`; inf: never both."""

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
        """What a choice costs, with what is charged for excess; inf where a limit is exceeded that may not be."""
        total = sum(float(costs[choice[node]]) for node, costs in enumerate(self.nodes))
        total += sum(float(edge.costs[choice[edge.first], choice[edge.second]]) for edge in self.edges)
        excess = self.excess(choice)
        if excess > 0:
            total += np.inf if self.excess_cost is None else self.excess_cost * excess
        return total

    def excess(self, choice: Sequence[int]) -> float:
        """By how much the limit that is exceeded most is exceeded, at least 0."""
        return max((self.used(limit, choice) - limit.limit for limit in self.limits), default=0.0)

    def used(self, limit: Limit, choice: Sequence[int]) -> float:
        """The sum that a limit is on."""
        total = sum(float(usage[choice[node]]) for node, usage in limit.nodes.items())
        for number, usage in limit.edges.items():
            edge = self.edges[number]
            total += float(usage[choice[edge.first], choice[edge.second]])
        return total


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
