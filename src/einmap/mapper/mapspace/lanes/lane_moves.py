"""Uses of the fanouts to begin with, and those that differ from one use in a dimension: for searches without a list."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from einmap.arch.component import Leaf
from einmap.arrays import Bools, Ints
from einmap.einsum.einsum import Einsum
from einmap.mapper.mapspace.lanes.dimension_ways import ways_of
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable, lane_table
from einmap.mapper.mapspace.tile_lattice import Lattice

FULLEST = 256
"""Uses of the first dimensions that are looked at to begin with."""


def first_uses(
    einsum: Einsum, leaves: tuple[Leaf, ...], lattice: Lattice, named: frozenset[tuple[str, str]]
) -> LaneTable:
    """The fullest uses of the fanouts, each dimension by itself, and no lanes at all as far as constraints allow."""
    table = lane_table(einsum, leaves, lattice, named, most=FULLEST)
    if not len(table) or not table.dimensions:
        return table
    return distinct_uses(table, [table.bounds, moved(einsum, table.only(np.array([len(table) - 1])), lattice).bounds])


def with_outer_lanes(
    einsum: Einsum, leaves: tuple[Leaf, ...], lattice: Lattice, inner: LaneTable, most: int
) -> LaneTable | None:
    """All uses of the fanouts whose inner dimensions are used as `inner` says; None where that are more than `most`.

    None, too, where a dimension has to be used to some part, or the first ones of `inner` are not inner ones here.
    """
    table = lane_table(einsum, leaves, lattice, frozenset(), most=1)
    n = len(table.dimensions) - len(inner.dimensions)
    of = [(f.component, f.dimension.name) for f in table.dimensions]
    is_inner = n >= 0 and of[n:] == [(f.component, f.dimension.name) for f in inner.dimensions]
    if not is_inner or any(f.dimension.min_usage > 0 for f in table.dimensions) or (inner.shapes > 0).any():
        return None
    rows = inner.bounds
    for fanned in reversed(table.dimensions[:n]):
        ways = ways_of(einsum, fanned.dimension, lattice)
        every = [np.broadcast_to(ways[:, None, None], (len(ways), len(rows), 1, ways.shape[1]))]
        every.append(np.broadcast_to(rows, (len(ways), *rows.shape)))
        rows = np.concatenate(every, axis=2).reshape(-1, rows.shape[1] + 1, rows.shape[2])
        rows = rows[(inner.tops % rows.prod(axis=1) == 0).all(axis=1)]
        if len(rows) > most:
            return None
    return replace(distinct_uses(table, [rows]), complete=True)


def moved(einsum: Einsum, use: LaneTable, lattice: Lattice) -> LaneTable:
    """Uses that differ from a single one in the lanes of one dimension, or have the lanes of two dimensions swapped."""
    base, options = use.bounds[0], [ways_of(einsum, f.dimension, lattice) for f in use.dimensions]
    if (use.shapes > 0).any():
        return use
    rows = [use.bounds]
    for d, ways in enumerate(options):
        rows.append(np.repeat(use.bounds, len(ways), axis=0))
        rows[-1][:, d] = ways
        for e in range(d):
            if (options[e] == base[d]).all(axis=1).any() and (ways == base[e]).all(axis=1).any():
                swapped = use.bounds.copy()
                swapped[0, [d, e]] = base[[e, d]]
                rows.append(swapped)
    return distinct_uses(use, [bounds[_holds(use, bounds, base, lattice)] for bounds in rows])


def _holds(use: LaneTable, bounds: Ints, base: Ints, lattice: Lattice) -> Bools:
    """Which uses share the bounds evenly, and use each dimension as much as they have to."""
    loose = np.array([axis.loose for axis in lattice.axes], dtype=bool)
    lanes = bounds.prod(axis=1)
    holds: Bools = np.where(loose, lanes <= use.tops, use.tops % lanes == 0).all(axis=1)
    for d, fanned in enumerate(use.dimensions):
        dimension = fanned.dimension
        if dimension.min_usage > 0:
            least = min(dimension.min_usage * dimension.fanout / dimension.usage_scale, float(base[d].prod()))
            holds &= bounds[:, d].prod(axis=1) >= least
    return holds


def distinct_uses(table: LaneTable, parts: list[Ints]) -> LaneTable:
    """A table of these uses, each once, as it is told apart by its bounds."""
    bounds = np.concatenate(parts)
    _, first = np.unique(bounds.reshape(len(bounds), -1), axis=0, return_index=True)
    bounds = bounds[np.sort(first)]
    orders = np.broadcast_to(np.arange(bounds.shape[2]), bounds.shape)
    return replace(table, bounds=bounds, shapes=np.zeros_like(bounds), orders=orders, complete=False, part_of=None)
