"""What a cost model learns from: numbers of a mapping that mean the same for every workload on an architecture.

Tensors go by their role (outputs first, then inputs by falling size), sizes are relative: tiles and traffic to the
whole tensor, tiles to their memory, lanes to the fanout. All numbers are logarithms to base 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from einmap.arch.component import Memory
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.einsum.projection import Relevance
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


def features(problem: SearchProblem, points: Sequence[Point]) -> Floats:
    """A row for each point; as many columns for every workload on one architecture."""
    memories = memories_of(problem)
    fanouts = [(leaf.name, d.name, d.fanout) for leaf in problem.arch.leaves.values() for d in leaf.spatial]
    width = len(memories) * (PER_NODE * ROLES + 1) + len(fanouts) + 1 + 2 * ROLES
    table = np.empty((len(points), width))
    for template, rows, shapes in problem.shapes(points):
        table[rows] = _of_template(problem, template, shapes, memories, fanouts)
    return table


def memories_of(problem: SearchProblem) -> list[Memory]:
    """The memories of the architecture, from the outside in."""
    return [leaf for leaf in problem.arch.leaves.values() if isinstance(leaf, Memory)]


def roles(einsum: Einsum) -> list[str]:
    """Tensors by their role: outputs, then inputs by falling size."""
    sizes = {access.tensor: _values(einsum, access.tensor, einsum.extents) for access in einsum.accesses}
    inputs = sorted((a.tensor for a in einsum.accesses if not a.output), key=lambda t: -float(sizes[t]))
    return [*(a.tensor for a in einsum.accesses if a.output), *inputs]


def _values(einsum: Einsum, tensor: str, extents: object) -> Floats:
    """Values of a tensor's tile for the extents of the rank variables (ints, or arrays of them)."""
    total: Floats = np.ones(())
    for _, index in einsum.by_tensor[tensor].projection:
        length: Floats = np.ones(())
        for v, a in index.terms:
            length = length + abs(a) * (np.asarray(extents[v], dtype=np.float64) - 1)  # type: ignore[index]
        total = total * length
    return total


def _of_template(
    problem: SearchProblem,
    template: Template,
    shapes: Floats,
    memories: list[Memory],
    fanouts: list[tuple[str, str, int]],
) -> Floats:
    einsum, n = problem.einsum, len(shapes)
    order = roles(einsum)
    whole = {t: float(_values(einsum, t, einsum.extents)) for t in order}
    extents: dict[str, Floats] = {v: np.full(n, float(bound)) for v, bound in einsum.bounds}
    above: list[tuple[str, Floats]] = []
    alike = {t: np.ones(n) for t in order}
    lanes = {(component, name): np.ones(n) for component, name, _ in fanouts}
    bits = {memory.name: np.zeros(n) for memory in memories}
    nodes: dict[tuple[str, str], tuple[Floats, Floats, Floats]] = {}
    loop = -1
    for node in template.nodes:
        if isinstance(node, OpenTemporal | OpenSpatial):
            loop += 1
            trips = extents[node.rank_variable] / shapes[:, loop]
            extents[node.rank_variable] = shapes[:, loop]
            above.append((node.rank_variable, trips))
            if isinstance(node, OpenSpatial):
                lanes[node.component, node.name] = lanes[node.component, node.name] * trips
                for tensor in order:
                    if einsum.by_tensor[tensor].relevance(node.rank_variable) is Relevance.NONE:
                        alike[tensor] = alike[tensor] * trips
        elif isinstance(node, tree.Storage):
            tensor = node.tensors[0]
            tile = _values(einsum, tensor, extents) * np.ones(n)
            traffic = tile * _fills(einsum, tensor, above, n)
            nodes[node.component, tensor] = tile / whole[tensor], traffic / whole[tensor], alike[tensor]
            alike[tensor] = np.ones(n)
            memory = next(m for m in memories if m.name == node.component)
            bits[node.component] += tile * memory.bits[tensor]
    columns: list[Floats] = []
    for memory in memories:
        for role in range(ROLES):
            tensor = order[role] if role < len(order) else ""
            numbers = nodes.get((memory.name, tensor))
            columns += [np.full(n, ABSENT)] * PER_NODE if numbers is None else [np.log2(x) for x in numbers]
        columns.append(np.log2(np.maximum(bits[memory.name], 1) / min(memory.size_bits, 2.0**60)))
    columns += [np.log2(lanes[component, name] / fanout) for component, name, fanout in fanouts]
    columns.append(np.log2(prod(lanes.values(), start=np.ones(n))))
    columns += [np.log2(alike[order[role]]) if role < len(order) else np.full(n, ABSENT) for role in range(ROLES)]
    operations = float(einsum.n_computes)
    columns += [
        np.full(n, np.log2(operations / whole[order[role]]) if role < len(order) else ABSENT) for role in range(ROLES)
    ]
    return np.stack(columns, axis=1)


def _fills(einsum: Einsum, tensor: str, above: list[tuple[str, Floats]], n: int) -> Floats:
    """How often a tile is filled: iterations of all loops down to the innermost one that indexes the tensor."""
    iterations, fills = np.ones(n), np.ones(n)
    for variable, trips in above:
        iterations = iterations * trips
        if einsum.by_tensor[tensor].relevance(variable) is not Relevance.NONE:
            fills = np.where(trips > 1, iterations, fills)
    return fills
