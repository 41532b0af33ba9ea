"""Homes and ways as a selection problem: nodes are tensors and Einsums, edges are moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.search.space import SearchSpace
from einmap.distribute.selection.problem import Edge, Limit, Selection
from einmap.einsum.einsum import TensorName


@dataclass(frozen=True, slots=True)
class Nodes:
    """Which node is which: the ways of Einsums first, then the homes of tensors."""

    einsums: tuple[str, ...]
    tensors: tuple[TensorName, ...]

    def einsum(self, name: str) -> int:
        """The node of an Einsum."""
        return self.einsums.index(name)

    def tensor(self, name: TensorName) -> int:
        """The node of a tensor."""
        return len(self.einsums) + self.tensors.index(name)


@dataclass(frozen=True, eq=False)
class Problem:
    """The selection, and the edge of each access: `edges[einsum, tensor]`."""

    nodes: Nodes
    selection: Selection
    edges: dict[tuple[str, TensorName], int]

    @cached_property
    def edges_of(self) -> tuple[tuple[int, ...], ...]:
        """The edges of each node, by number."""
        edges: list[list[int]] = [[] for _ in self.selection.nodes]
        for number, edge in enumerate(self.selection.edges):
            edges[edge.first].append(number)
            edges[edge.second].append(number)
        return tuple(map(tuple, edges))


def selection_problem(space: SearchSpace) -> Problem:
    """Costs without limits."""
    workload = space.context.workload
    nodes = Nodes(workload.einsum_names, workload.tensors)
    number = {name: position for position, name in enumerate((*nodes.einsums, *(f"\0{t}" for t in nodes.tensors)))}
    costs = [space.ways[name].costs for name in nodes.einsums] + [space.homes[name].costs for name in nodes.tensors]
    edges: list[Edge] = []
    position: dict[tuple[str, TensorName], int] = {}
    for einsum in workload.einsums:
        ways = space.ways[einsum.name]
        for access, lies in zip(einsum.accesses, ways.lies, strict=True):
            homes = space.homes[access.tensor]
            made = homes.paths.distances[np.ix_(lies, homes.first)]
            table = made if access.output else homes.reach[:, lies].T
            position[einsum.name, access.tensor] = len(edges)
            edges.append(Edge(number[einsum.name], number[f"\0{access.tensor}"], table))
    return Problem(nodes, Selection(tuple(costs), tuple(edges)), position)


def with_limits(problem: Problem, limits: Sequence[Limit]) -> Problem:
    """The problem with limits on its nodes and edges."""
    selection = problem.selection
    return Problem(problem.nodes, Selection(selection.nodes, selection.edges, tuple(limits)), problem.edges)


def without_ways(problem: Problem, excluded: Mapping[str, NDArray[np.bool_]]) -> Problem:
    """The problem in which some ways of some Einsums may not be taken."""
    costs = list(problem.selection.nodes)
    for name, ways in excluded.items():
        node = problem.nodes.einsum(name)
        costs[node] = np.where(ways, np.inf, costs[node])
    return Problem(problem.nodes, replace(problem.selection, nodes=tuple(costs)), problem.edges)
