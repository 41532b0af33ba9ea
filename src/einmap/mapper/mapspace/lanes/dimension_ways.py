"""Ways to use one dimension of a fanout by itself: lanes over each axis."""

from __future__ import annotations

from math import prod

import numpy as np

from einmap.arch.component import Leaf, SpatialDimension
from einmap.arch.constraint import Comparison
from einmap.arrays import Ints
from einmap.einsum.einsum import Einsum
from einmap.mapper.mapspace.lanes.spatial_mappings import may_iterate
from einmap.mapper.mapspace.tile_lattice import Axis, Lattice
from einmap.numbers import divisors


def ways_with_shapes(einsum: Einsum, dimension: SpatialDimension, lattice: Lattice, uneven: bool) -> tuple[Ints, Ints]:
    """Ways to use one dimension by itself: lanes over each axis, and their tile shape where they are uneven."""
    rows: list[tuple[tuple[int, int], ...]] = [()]
    for axis in lattice.axes:
        ways = [(1, 0)]
        if all(may_iterate(einsum, dimension, v) for v in axis.variables):
            ways = _ways(axis, dimension.fanout, uneven)
        rows = [(*row, way) for row in rows for way in ways if _lanes(row) * way[0] <= dimension.fanout]
    kept = [row for row in rows if _holds(dimension, lattice, row)]
    options = np.array(kept, dtype=np.int64).reshape(len(kept), len(lattice.axes), 2)
    return options[:, :, 0], options[:, :, 1]


def ways_of(einsum: Einsum, dimension: SpatialDimension, lattice: Lattice) -> Ints:
    """Lanes over each axis that one dimension by itself may have, a row for each way, without uneven ones."""
    return ways_with_shapes(einsum, dimension, lattice, uneven=False)[0]


def unusable(einsum: Einsum, dimension: SpatialDimension, lattice: Lattice) -> bool:
    """Whether no use of a dimension keeps its constraints, not even that it is left idle."""
    return not len(ways_with_shapes(einsum, dimension, lattice, uneven=False)[0])


def _ways(axis: Axis, fanout: int, uneven: bool) -> list[tuple[int, int]]:
    """Lanes over one axis: what divides some tile shape evenly, and uneven ones with their tile shape."""
    top = axis.sizes[-1]
    if not axis.uneven:
        return [(b, 0) for b in divisors(top) if b <= fanout]
    even = sorted({b for size in axis.sizes for b in divisors(size) if b <= fanout})
    ways = [(b, 0) for b in even]
    if uneven:
        ways += [(-(-top // s), s) for s in axis.uneven if s in axis.sizes and top % s and -(-top // s) <= fanout]
    return ways


def _lanes(row: tuple[tuple[int, int], ...]) -> int:
    return prod(bound for bound, _ in row)


def _holds(dimension: SpatialDimension, lattice: Lattice, row: tuple[tuple[int, int], ...]) -> bool:
    if _lanes(row) / dimension.fanout * dimension.usage_scale > 1:
        return False
    if dimension.vector and sum(bound > 1 for bound, _ in row) > 1:
        return False
    # a variable that is limited is alone on its axis, or the limit is on the product of the whole axis
    counts = {axis.variables[0]: float(bound) for axis, (bound, _) in zip(lattice.axes, row, strict=True)}
    return all(limit.holds(counts) for limit in dimension.loop_bounds)


def limited_variables(einsum: Einsum, leaves: tuple[Leaf, ...]) -> frozenset[str]:
    """Variables that some limit on lanes speaks of, so that they must be searched by themselves."""
    if any(d.vector for leaf in leaves for d in leaf.spatial):
        return frozenset(einsum.rank_variables)
    limits: list[Comparison] = [limit for leaf in leaves for d in leaf.spatial for limit in d.loop_bounds]
    return frozenset().union(*(limit.variables for limit in limits))
