"""Visits of different mappings that use the same boxes equally often.

Sums over visits of zeros that are known are whole numbers, so that they are equal to the last bit in whatever order
they are added. They depend on the tiles into which loops cut each rank variable, and on what these loops do at nodes
that are looked at; not on the order of loops of different variables, nor on how many loops in a row cut a tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.model.counting.path import EinsumPath
from einmap.model.sparsity.conditions import Condition
from einmap.model.sparsity.visits import Around, are_alike
from einmap.sparse.known import Known
from einmap.sparse.savings import Sparsity

type Cut = tuple[tuple[tuple[int, int, int], ...], ...]
"""Loops by rank variable, those that do the same at all nodes joined: iterations, tile, and what they do in bits."""

MOST_OPERATIONS = 2**40
"""Operations of an Einsum up to which sums over its visits are exact: values and bits of metadata are below 2^53."""


def has_whole_sums(
    einsum: Einsum, sparsity: Sparsity, access: TensorAccess | None, conditions: Sequence[Condition]
) -> bool:
    """Whether all sums over the visits of a node are whole numbers: zeros that are looked at are known."""
    names = [] if access is None else [access.tensor]
    looked_at = [sparsity.densities.get(name) for name in (*names, *[c.leader for c in conditions])]
    return (
        not sparsity.shares_metadata
        and all(density is None or isinstance(density, Known) for density in looked_at)
        and prod(einsum.extents.values()) <= MOST_OPERATIONS
    )


def bits_at(path: EinsumPath, arounds: Sequence[Around]) -> list[int] | None:
    """Uses of each loop at some nodes: a bit where it applies, and one where its lanes are merged.

    None where loops leave remainders, whose tiles are not told by their lengths.
    """
    deepest = Around(frozenset[int]().union(*[around.applied for around in arounds]), frozenset())
    if not all(are_alike(path, v, deepest) for v in path.einsum.rank_variables):
        return None
    bits = [0] * len(path.loops)
    for k, around in enumerate(arounds):
        for i in around.applied:
            bits[i] |= 4**k
        for i in around.merged:
            bits[i] |= 2 * 4**k
    return bits


def cut_of(path: EinsumPath, bits: Sequence[int], lanes: Sequence[int], firsts: Sequence[frozenset[int]]) -> Cut:
    """The tiles of all rank variables, with loops that make lanes, and those that sums take at their first iteration.

    `bits`: of `bits_at`.
    """
    found = []
    for v in path.einsum.rank_variables:
        joined: list[tuple[int, int, int]] = []
        for i in path.loops_of[v]:
            does = 2 * bits[i] + (i in lanes)
            for first in firsts:
                does = 2 * does + (i in first)
            loop = path.loops[i]
            if not does or loop.absent:
                continue
            n, tile = loop.iterations, loop.shape
            if joined and joined[-1][1:] == (n * tile, does):
                n *= joined.pop()[0]
            joined.append((n, tile, does))
        found.append(tuple(joined))
    return tuple(found)
