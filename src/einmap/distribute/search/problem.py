"""Homes and ways as a selection problem: nodes are tensors and Einsums, edges are moves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from einmap.distribute.search.homes import Costs, Homes, Numbers
from einmap.distribute.search.space import SearchSpace, Ways
from einmap.distribute.selection.problem import Edge, Limit, Selection
from einmap.einsum.einsum import TensorName


@dataclass(frozen=True)
class Nodes:
    """Which node is which: the ways of Einsums first, then the homes of tensors."""

    einsums: tuple[str, ...]
    tensors: tuple[TensorName, ...]

    @cached_property
    def _einsum_numbers(self) -> dict[str, int]:
        return {name: number for number, name in enumerate(self.einsums)}

    @cached_property
    def _tensor_numbers(self) -> dict[TensorName, int]:
        return {name: number for number, name in enumerate(self.tensors, len(self.einsums))}

    def einsum(self, name: str) -> int:
        """The node of an Einsum."""
        return self._einsum_numbers[name]

    def tensor(self, name: TensorName) -> int:
        """The node of a tensor."""
        return self._tensor_numbers[name]


@dataclass(frozen=True, eq=False)
class Problem:
    """The selection, and the edge of each access: `edges[einsum, tensor]`; those of matching ends come last."""

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
    """Costs without limits. Equal Einsums share their tables."""
    workload = space.context.workload
    nodes = Nodes(workload.einsum_names, workload.tensors)
    costs = [space.ways[name].costs for name in nodes.einsums] + [space.homes[name].costs for name in nodes.tensors]
    edges: list[Edge] = []
    position: dict[tuple[str, TensorName], int] = {}
    tables: dict[tuple[Ways, int, Homes], Costs] = {}
    for einsum in workload.einsums:
        ways = space.ways[einsum.name]
        for which, access in enumerate(einsum.accesses):
            homes = space.homes[access.tensor]
            key = ways, which, homes
            if key not in tables:
                tables[key] = _moving(homes, ways.lies[which], access.output)
            position[einsum.name, access.tensor] = len(edges)
            edges.append(Edge(nodes.einsum(einsum.name), nodes.tensor(access.tensor), tables[key]))
    for result, tensor in space.same:
        ends = _matching(space.homes[result], space.homes[tensor])
        edges.append(Edge(nodes.tensor(result), nodes.tensor(tensor), ends))
    return Problem(nodes, Selection(tuple(costs), tuple(edges)), position)


def _matching(result: Homes, tensor: Homes) -> Costs:
    """0 where a result ends in the placement in which a graph input of the same shape begins, else inf."""
    number: dict[object, int] = {}

    def numbers(homes: Homes) -> Numbers:
        position = {rank: place for place, (rank, _) in enumerate(homes.paths.places.sizes)}
        keys = [
            (tuple(sorted((position[s.rank], s.axes, s.block, s.halo) for s in one.splits)), one.partial, one.on)
            for one in homes.paths.places.placements
        ]
        return np.array([number.setdefault(key, len(number)) for key in keys], dtype=np.intp)

    ends, begins = numbers(result)[result.second], numbers(tensor)[tensor.first]
    return np.where(ends[:, None] == begins[None, :], 0.0, np.inf)


def _moving(homes: Homes, lies: Numbers, output: bool) -> Costs:
    """Costs of moves between an Einsum and the home, by way and home."""
    if output:
        return np.asarray(homes.paths.distances[np.ix_(lies, homes.first)])
    return np.asarray(homes.reach[:, lies].T)


def with_limits(problem: Problem, limits: Sequence[Limit]) -> Problem:
    """The problem with limits on its nodes and edges."""
    selection = problem.selection
    return Problem(problem.nodes, Selection(selection.nodes, selection.edges, tuple(limits)), problem.edges)
