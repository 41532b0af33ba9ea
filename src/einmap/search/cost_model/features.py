"""Features of a mapping for a cost model: numbers that mean the same for every workload on an architecture.

Tensors go by their role (outputs first, then inputs by falling size), sizes are relative: tiles and traffic to the
whole tensor, tiles to their memory, lanes to the fanout. All numbers are logarithms to base 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from einmap.arch.component import Memory
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.mapspace.mapspace import Point
from einmap.mapping import nodes as tree
from einmap.mapping.template import OpenSpatial, OpenTemporal, Template
from einmap.search.problem import SearchProblem

ROLES = 3
"""Tensors that are told apart; further ones count for the occupancy of memories only."""
PER_NODE = 3
"""Numbers of each memory and role: tile and traffic, both relative to the tensor, and lanes that get one tile."""

ABSENT = -64.0
"""The number of what is not there: a tensor that a memory does not keep, a role that the Einsum does not have."""
AT_ONCE = 4_096
"""Points whose features are worked out together."""


def features(problem: SearchProblem, points: Sequence[Point]) -> Floats:
    """A row for each point; as many columns for every workload on one architecture."""
    layout = _Layout.of(problem)
    table = np.empty((len(points), layout.width))
    for begin in range(0, len(points), AT_ONCE):
        some = points[begin : begin + AT_ONCE]
        table[begin : begin + AT_ONCE] = _table(layout, _Nests.of(layout, problem.shapes(some), len(some)))
    return table


def memories_of(problem: SearchProblem) -> list[Memory]:
    """The memories of the architecture, from the outside in."""
    return [leaf for leaf in problem.arch.leaves.values() if isinstance(leaf, Memory)]


def parts_of(problem: SearchProblem) -> tuple[str, ...]:
    """Names of the memories and fanouts, in the order of their columns."""
    fanouts = (f"{leaf.name}.{d.name}" for leaf in problem.arch.leaves.values() for d in leaf.spatial)
    return (*(memory.name for memory in memories_of(problem)), *fanouts)


def n_features(problem: SearchProblem) -> int:
    """The number of columns."""
    n_memories = len(memories_of(problem))
    return _width(n_memories, len(parts_of(problem)) - n_memories)


def _width(n_memories: int, n_fanouts: int) -> int:
    return n_memories * (PER_NODE * ROLES + 1) + n_fanouts + 1 + 2 * ROLES


def roles(einsum: Einsum) -> list[str]:
    """Tensors by their role: outputs, then inputs by falling size."""
    extents = np.array([[float(bound) for _, bound in einsum.bounds]])
    sizes = {access.tensor: _values(einsum, access.tensor, extents)[0] for access in einsum.accesses}
    inputs = sorted((a.tensor for a in einsum.accesses if not a.output), key=lambda t: -float(sizes[t]))
    return [*(a.tensor for a in einsum.accesses if a.output), *inputs]


def _values(einsum: Einsum, tensor: str, extents: Floats) -> Floats:
    """Values of a tensor's tiles; `extents` has a row for each tile, a column for each rank variable."""
    column = {v: i for i, (v, _) in enumerate(einsum.bounds)}
    total = np.ones(len(extents))
    for _, index in einsum.by_tensor[tensor].projection:
        length = np.ones(len(extents))
        for v, a in index.terms:
            length += abs(a) * (extents[:, column[v]] - 1)
        total *= length
    return total


@dataclass(frozen=True)
class _Layout:
    """The columns: memories from the outside in, tensors by role, `fanouts` as (component, dimension, lanes).

    `whole`: values of each tensor; `relevant`: a row for each tensor, whether each rank variable indexes it.
    """

    einsum: Einsum
    memories: list[Memory]
    fanouts: list[tuple[str, str, int]]
    tensors: list[str]
    whole: Floats
    relevant: Bools

    @staticmethod
    def of(problem: SearchProblem) -> _Layout:
        einsum, tensors = problem.einsum, roles(problem.einsum)
        extents = np.array([[float(bound) for _, bound in einsum.bounds]])
        whole = np.array([_values(einsum, tensor, extents)[0] for tensor in tensors])
        relevant = [
            [einsum.by_tensor[tensor].relevance(v) is not Relevance.NONE for v, _ in einsum.bounds]
            for tensor in tensors
        ]
        fanouts = [(leaf.name, d.name, d.fanout) for leaf in problem.arch.leaves.values() for d in leaf.spatial]
        return _Layout(einsum, memories_of(problem), fanouts, tensors, whole, np.array(relevant))

    @property
    def width(self) -> int:
        """The number of columns."""
        return _width(len(self.memories), len(self.fanouts))


@dataclass(frozen=True)
class _Nests:
    """Many points at once, a row for each; nests with fewer loops end with loops of one iteration.

    `shapes`, `variables`, `fanouts`: tile shape, rank variable and fanout of each loop, numbered; fanout -1: temporal.
    `at`: how many loops stand above the node of a memory (row) for a tensor (column), -1 where there is none;
    `before`: the same for the next node of the tensor further out, 0 where there is none; `last`: for the innermost.
    """

    shapes: Floats
    variables: Ints
    fanouts: Ints
    at: Ints
    before: Ints
    last: Ints

    @staticmethod
    def of(layout: _Layout, groups: Sequence[tuple[Template, Ints, Floats]], n: int) -> _Nests:
        """Points of several templates: for each the rows of its points, and their tile shapes."""
        loops = max((shapes.shape[1] for _, _, shapes in groups), default=0)
        variable = {v: i for i, (v, _) in enumerate(layout.einsum.bounds)}
        fanout = {(component, name): i for i, (component, name, _) in enumerate(layout.fanouts)}
        memory = {each.name: i for i, each in enumerate(layout.memories)}
        tensor = {name: i for i, name in enumerate(layout.tensors)}
        kinds = np.zeros((len(groups), 2, loops), dtype=np.int64)
        kinds[:, 1] = -1
        nodes = np.zeros((len(groups), 2, len(memory), len(tensor)), dtype=np.int64)
        nodes[:, 0] = -1
        last = np.zeros((len(groups), len(tensor)), dtype=np.int64)
        tiles, group_of = np.ones((n, loops)), np.zeros(n, dtype=np.int64)
        for g, (template, rows, shapes) in enumerate(groups):
            group_of[rows] = g
            tiles[rows, : shapes.shape[1]] = shapes
            loop = 0
            for node in template.nodes:
                if isinstance(node, tree.Storage):
                    m, t = memory[node.component], tensor[node.tensors[0]]
                    nodes[g, :, m, t] = loop, last[g, t]
                    last[g, t] = loop
                elif isinstance(node, OpenTemporal | OpenSpatial):
                    kinds[g, 0, loop] = variable[node.rank_variable]
                    if isinstance(node, OpenSpatial):
                        kinds[g, 1, loop] = fanout[node.component, node.name]
                    loop += 1
        # a loop that only fills up has the tile of its variable, which is 1 inside all other loops
        (variables, fanouts), (at, before) = kinds[group_of].swapaxes(0, 1), nodes[group_of].swapaxes(0, 1)
        return _Nests(tiles, variables, fanouts, at, before, last[group_of])


def _table(layout: _Layout, nests: _Nests) -> Floats:
    """The features of some points."""
    n, loops = nests.shapes.shape
    rows = np.arange(n)
    extents = np.tile([float(bound) for _, bound in layout.einsum.bounds], (loops + 1, n, 1))
    trips = np.ones((n, loops))
    for loop in range(loops):
        extents[loop + 1 :, rows, nests.variables[:, loop]] = nests.shapes[:, loop]
        trips[:, loop] = extents[loop, rows, nests.variables[:, loop]] / nests.shapes[:, loop]
    trips = np.log2(trips)
    spatial = nests.fanouts >= 0
    nodes = np.full((n, len(layout.memories), ROLES, PER_NODE), ABSENT)
    bits = np.zeros((n, len(layout.memories)))
    alike = np.full((n, ROLES), ABSENT)
    for t, tensor in enumerate(layout.tensors):
        relevant = layout.relevant[t][nests.variables]
        # iterations of all loops down to the innermost one that indexes the tensor
        fills = _from_zero(np.maximum.accumulate(np.where(relevant & (trips > 0), trips.cumsum(axis=1), 0), axis=1))
        lanes = _from_zero(np.where(spatial & ~relevant, trips, 0).cumsum(axis=1))
        if t < ROLES:
            alike[:, t] = lanes[:, -1] - lanes[rows, nests.last[:, t]]
        for m, memory in enumerate(layout.memories):
            kept = np.flatnonzero(nests.at[:, m, t] >= 0)
            at = nests.at[kept, m, t]
            tile = _values(layout.einsum, tensor, extents[at, kept])
            bits[kept, m] += tile * memory.bits.get(tensor, 0)
            if t < ROLES:
                size = np.log2(tile / layout.whole[t])
                of_lanes = lanes[kept, at] - lanes[kept, nests.before[kept, m, t]]
                nodes[kept, m, t] = np.stack([size, size + fills[kept, at], of_lanes], axis=1)
    occupied = np.log2(np.maximum(bits, 1) / [min(memory.size_bits, 2.0**60) for memory in layout.memories])
    by_memory = np.concatenate([nodes.reshape(n, len(layout.memories), -1), occupied[:, :, None]], axis=2)
    used = [
        np.where(nests.fanouts == f, trips, 0).sum(axis=1) - np.log2(fanout)
        for f, (_, _, fanout) in enumerate(layout.fanouts)
    ]
    all_lanes = np.where(spatial, trips, 0).sum(axis=1)
    reuse = np.full(ROLES, ABSENT)
    reuse[: len(layout.tensors)] = np.log2(float(layout.einsum.n_computes) / layout.whole)[:ROLES]
    columns = [by_memory.reshape(n, -1), *(column[:, None] for column in (*used, all_lanes)), alike]
    # the same product of factors in another order is the same number
    return np.round(np.concatenate([*columns, np.tile(reuse, (n, 1))], axis=1), 9)


def _from_zero(sums: Floats) -> Floats:
    """Sums over the loops above each place of a nest, from none to all."""
    return np.concatenate([np.zeros((len(sums), 1)), sums], axis=1)
