"""Tile sizes at single points of a lattice, without arrays over all of its points."""

from __future__ import annotations

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.mapspace import point_kernels
from einmap.mapper.mapspace.tile_lattice import Lattice

type Layout = tuple[Floats, Ints, Ints, Ints, Floats, Ints, Ints, Ints, Floats]
"""Tile shapes of all axes one after the other, where each axis begins, strides and radices of the axes, and the number
of tiles for each tile shape; then for each tensor where its indices begin, for each index where its terms begin, and
axis and factor of each term: an index of a tile has 1 + the sum of factor * (tile shape - 1) values."""


def layout_of(lattice: Lattice, einsum: Einsum) -> Layout:
    """How kernels find what the tiles of an Einsum's tensors hold."""
    sizes: list[float] = []
    tiles: list[float] = []
    for axis in lattice.axes:
        shapes = np.array(axis.sizes, dtype=np.float64)
        sizes += shapes.tolist()
        tiles += (axis.sizes[-1] / shapes).tolist()
    index_start, term_start = [0], [0]
    term_axis: list[int] = []
    term_scale: list[float] = []
    for access in einsum.accesses:
        for terms in _indices(lattice, access):
            term_axis += [axis for axis, _ in terms]
            term_scale += [scale for _, scale in terms]
            term_start.append(len(term_axis))
        index_start.append(len(term_start) - 1)
    whole = np.int64
    return (
        np.array(sizes, dtype=np.float64), lattice.offsets, lattice.strides, lattice.radices,
        np.array(tiles, dtype=np.float64), np.array(index_start, dtype=whole), np.array(term_start, dtype=whole),
        np.array(term_axis, dtype=whole), np.array(term_scale, dtype=np.float64),
    )  # fmt: skip


def _indices(lattice: Lattice, access: TensorAccess) -> list[list[tuple[int, float]]]:
    """The indices of a tensor that are longer than 1 somewhere, as sums over axes; merged axes are one index each."""
    indices = [
        [(i, 1.0)]
        for i, axis in enumerate(lattice.axes)
        if len(axis.members) > 1 and access.relevance(axis.members[0][0]) is Relevance.FULL
    ]
    alone = {axis.members[0][0]: i for i, axis in enumerate(lattice.axes) if len(axis.members) == 1}
    for _, index in access.projection:
        terms = [(alone[v], float(abs(a))) for v, a in index.terms if v in alone]
        if terms:
            indices.append(terms)
    return indices


def top_values(lattice: Lattice, einsum: Einsum) -> Floats:
    """Values of each tensor as a whole (an element for each access of the Einsum)."""
    layout = layout_of(lattice, einsum)
    return np.array([point_kernels.value_at(layout, t, lattice.top) for t in range(len(einsum.accesses))])


def values_of(lattice: Lattice, access: TensorAccess, shapes: Ints) -> Floats:
    """Values in a tensor's tile, for tile shapes on each axis (a row for each tile)."""
    values = np.ones(len(shapes))
    for terms in _indices(lattice, access):
        values = values * (1.0 + sum((scale * (shapes[:, a] - 1) for a, scale in terms), start=np.zeros(len(shapes))))
    return values


def least_fills(lattice: Lattice, einsum: Einsum) -> Floats:
    """The least number of values in all fills of each tensor, at any point (an element for each access).

    What the tiles hold is a product over groups of axes that meet in some index, and so is the number of tiles: the
    least product is that of the least factors.
    """
    fills = np.ones(len(einsum.accesses))
    for t, access in enumerate(einsum.accesses):
        indices = _indices(lattice, access)
        left = set(range(len(lattice.axes)))
        while left:
            group = {left.pop()}
            while more := {a for terms in indices for a, _ in terms if group & {b for b, _ in terms}} - group:
                group |= more
            left -= group
            fills[t] *= _least_of(lattice, sorted(group), [terms for terms in indices if terms[0][0] in group])
    return fills


def _least_of(lattice: Lattice, group: list[int], indices: list[list[tuple[int, float]]]) -> float:
    """The least of a few axes' part of the fills."""
    shapes = {}
    for place, a in enumerate(group):
        sizes = np.array(lattice.axes[a].sizes, dtype=np.float64)
        shapes[a] = sizes.reshape([-1 if i == place else 1 for i in range(len(group))])
    held: Floats = np.ones(1)
    for terms in indices:
        length: Floats = np.ones(1)
        for a, scale in terms:
            length = length + scale * (shapes[a] - 1)
        held = held * length
    for a in group:
        held = held * (lattice.axes[a].sizes[-1] / shapes[a])
    return float(np.min(held))
