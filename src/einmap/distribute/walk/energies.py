"""What the walk makes small, and how it changes with a few strategies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.costs.cost import plan_cost
from einmap.distribute.plans.lifetimes import peak_memory
from einmap.distribute.search.actions import chosen_actions, chosen_homes
from einmap.distribute.search.problem import Nodes
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.selection.problem import Choice, Selection
from einmap.distribute.steps.naming import named_plan


@dataclass(frozen=True, slots=True)
class Energy:
    """Of one choice. `cost`: in the unit of the cost model; `excess`: of memory over its limit, as a part of the limit;
    0 where it is kept.
    """

    cost: float
    excess: float = 0.0


class Energies(Protocol):
    """The energy of one choice after another."""

    def begin(self, choice: Choice) -> Energy:
        """Energy of a choice, from which changes go out."""

    def changed(self, changes: Mapping[int, int]) -> Energy:
        """Energy if these nodes had these strategies."""

    def take(self) -> None:
        """Go on from what was changed last."""


class SummedEnergies:
    """Sums over nodes and edges, as the exact search has them: only what a change touches is summed anew."""

    def __init__(self, problem: Selection) -> None:
        self._problem = problem
        self._edges_of: list[list[int]] = [[] for _ in problem.nodes]
        for number, edge in enumerate(problem.edges):
            for node in {edge.first, edge.second}:
                self._edges_of[node].append(number)
        self._limits = np.array([limit.limit for limit in problem.limits])
        self._nodes_used: list[list[tuple[int, np.ndarray]]] = [[] for _ in problem.nodes]
        self._edges_used: list[list[tuple[int, np.ndarray]]] = [[] for _ in problem.edges]
        for position, limit in enumerate(problem.limits):
            for node, usage in limit.nodes.items():
                self._nodes_used[node].append((position, usage))
            for number, usage in limit.edges.items():
                self._edges_used[number].append((position, usage))
        self._choice: list[int] = []
        self._cost, self._used = 0.0, self._limits
        self._next: tuple[Mapping[int, int], float, np.ndarray] = ({}, 0.0, self._limits)

    def begin(self, choice: Choice) -> Energy:
        """Energy of a choice, from which changes go out."""
        self._choice = list(choice)
        bare = Selection(self._problem.nodes, self._problem.edges)
        self._cost = bare.cost(choice)
        self._used = self._problem.used(choice)
        return self._energy(self._cost, self._used)

    def changed(self, changes: Mapping[int, int]) -> Energy:
        """Energy if these nodes had these strategies."""
        choice, problem = self._choice, self._problem
        cost = self._cost
        touched: dict[int, None] = {}
        for node, strategy in changes.items():
            costs = problem.nodes[node]
            cost += float(costs[strategy]) - float(costs[choice[node]])
            touched.update(dict.fromkeys(self._edges_of[node]))
        pairs: list[tuple[int, tuple[int, int], tuple[int, int]]] = []
        for number in touched:
            edge = problem.edges[number]
            before = choice[edge.first], choice[edge.second]
            after = changes.get(edge.first, before[0]), changes.get(edge.second, before[1])
            cost += float(edge.costs[after]) - float(edge.costs[before])
            pairs.append((number, before, after))
        used = self._used
        if len(used) and cost < np.inf:
            used = used.copy()
            for node, strategy in changes.items():
                for position, usage in self._nodes_used[node]:
                    used[position] += usage[strategy] - usage[choice[node]]
            for number, before, after in pairs:
                for position, usage in self._edges_used[number]:
                    used[position] += usage[after] - usage[before]
        self._next = changes, cost, used
        return self._energy(cost, used)

    def take(self) -> None:
        """Go on from what was changed last."""
        changes, self._cost, self._used = self._next
        for node, strategy in changes.items():
            self._choice[node] = strategy

    def _energy(self, cost: float, used: np.ndarray) -> Energy:
        if not len(used):
            return Energy(cost)
        return Energy(cost, max(0.0, float((used / self._limits).max()) - 1))


class OverlappedEnergies:
    """Seconds of a plan whose steps run as soon as they may (`cost.timeline`): the plan is made for each choice.

    `memory`: bytes that no PE should exceed when steps follow one another.
    """

    def __init__(self, space: SearchSpace, nodes: Nodes, problem: Selection, cluster: Cluster, memory: float | None):
        self._space, self._nodes, self._cluster, self._memory = space, nodes, cluster, memory
        self._bare = Selection(problem.nodes, problem.edges)
        self._choice: list[int] = []
        self._next: Choice = ()

    def begin(self, choice: Choice) -> Energy:
        """Energy of a choice, from which changes go out."""
        self._choice = list(choice)
        return self._energy(choice)

    def changed(self, changes: Mapping[int, int]) -> Energy:
        """Energy if these nodes had these strategies."""
        choice = list(self._choice)
        for node, strategy in changes.items():
            choice[node] = strategy
        self._next = tuple(choice)
        return self._energy(self._next)

    def take(self) -> None:
        """Go on from what was changed last."""
        self._choice = list(self._next)

    def _energy(self, choice: Choice) -> Energy:
        if not np.isfinite(self._bare.cost(choice)):
            return Energy(np.inf)
        space, context = self._space, self._space.context
        workload = context.workload
        homes = chosen_homes(space, self._nodes, choice)
        sizes = {tensor: tuple(ranks.items()) for tensor, ranks in context.sizes.items()}
        inputs = {tensor: homes[tensor][0] for tensor in workload.tensors if tensor not in workload.producers}
        actions = chosen_actions(space, self._nodes, choice)
        plan = named_plan(context.mesh, workload, sizes, inputs, actions, "float32")
        seconds = plan_cost(plan, self._cluster, space.bits).overlapped_latency
        if self._memory is None:
            return Energy(seconds)
        return Energy(seconds, max(0.0, peak_memory(plan, space.bits).bytes / self._memory - 1))
