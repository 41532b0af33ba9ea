"""Tiles that cut a tensor and are laid side by side: what all of them take is known without a sum over visits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from einmap.arrays import Amounts
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Affine
from einmap.model.counting.path import EinsumPath
from einmap.model.sparsity.visits import Around
from einmap.sparse.formats import Format
from einmap.sparse.known import Known
from einmap.sparse.savings import Sparsity

type Content = Callable[[Sequence[int], int], Amounts]
"""Amount that all tiles of a tensor take together, by their shape and how many there are."""


@dataclass(frozen=True)
class Laid:
    """Room of all tiles of a tensor whose zeros are known, in a plain format that leaves zeros out."""

    fmt: Format
    density: Known

    def values(self, size: Sequence[int], tiles: int) -> Amounts:  # noqa: ARG002
        """Values of all tiles of a shape."""
        return float(self.density.nonzeros)

    def metadata(self, size: Sequence[int], tiles: int) -> Amounts:
        """Bits of metadata of all tiles of a shape."""
        return self.fmt.stored(size, lambda ranks: self.density.laid(size, ranks), tiles).metadata


@dataclass(frozen=True)
class Tiles:
    """Tiles of one shape that a node visits: their shape, how many cut the tensor, and how often each is visited."""

    size: tuple[int, ...]
    number: int
    times: int


def tiles_of(
    path: EinsumPath, sparsity: Sparsity, access: TensorAccess, node: Around, first: frozenset[int]
) -> Tiles | None:
    """Tiles that the visits of a node use, where other loops are at their first iteration; loops leave no remainders.

    None where ranks are indexed by sums, or where not all of the tensor is visited.
    """
    by_rank = dict(access.projection)
    indices = [by_rank[rank] for rank in sparsity.ranks[access.tensor]]
    order = [index.terms[0][0] if index.terms else "" for index in indices]
    extents = path.einsum.extents
    if len(set(order)) < len(order) or not all(is_index(path.einsum, *one) for one in zip(order, indices, strict=True)):
        return None
    if tuple(extents[v] for v in order) != sparsity.densities[access.tensor].shape:
        return None  # another Einsum uses more of the tensor
    if any(path.loops[i].variable in order for i in first):
        return None
    size = {v: extents[v] for v in order}
    number = times = 1
    for i in sorted(node.applied):
        loop = path.loops[i]
        if loop.variable in size:
            size[loop.variable] = loop.shape
            number *= loop.iterations
        elif i not in first:
            times *= loop.iterations
    return Tiles(tuple(size.values()), number, times)


def is_index(einsum: Einsum, v: str, index: Affine) -> bool:
    """Whether an index is a variable's value, which begins at 0."""
    return index.terms == ((v, 1),) and not index.constant and v not in dict(einsum.first_values)
