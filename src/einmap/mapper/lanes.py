"""All uses of the fanouts of an architecture path, as arrays: a bound for each dimension and lattice axis.

Uses that nothing can tell apart (the same lanes of each kind of dimension over each axis) are one. Dimensions of one
component are of one kind if they reuse the same tensors and are gated alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Leaf, SpatialDimension
from einmap.arch.constraint import Comparison
from einmap.einsum.einsum import Einsum
from einmap.einsum.projection import Relevance
from einmap.mapper.factors import divisors
from einmap.mapper.lattice import Lattice

type Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Fanned:
    """One dimension that may be used, at `level` of the path."""

    level: int
    component: str
    dimension: SpatialDimension


@dataclass(frozen=True)
class LaneTable:
    """`bounds[i, d, a]`: lanes of use `i` on dimension `d` over axis `a`."""

    dimensions: tuple[Fanned, ...]
    bounds: Ints

    def __len__(self) -> int:
        return len(self.bounds)

    def over(self, chosen: NDArray[np.bool_], axes: NDArray[np.bool_]) -> NDArray[np.float64]:
        """Lanes on some dimensions over some axes, for each use."""
        picked = self.bounds[:, chosen][:, :, axes]
        return picked.reshape(len(self.bounds), -1).prod(axis=1).astype(np.float64)

    @cached_property
    def levels(self) -> Ints:
        """Level of each dimension."""
        return np.array([d.level for d in self.dimensions], dtype=np.int64)

    def only(self, rows: Ints) -> LaneTable:
        """Some of the uses."""
        return LaneTable(self.dimensions, self.bounds[rows])


def lane_table(
    einsum: Einsum, leaves: tuple[Leaf, ...], lattice: Lattice, named: frozenset[tuple[str, str]] = frozenset()
) -> LaneTable:
    """All uses that keep fanouts, `reuse`, `loop_bounds`, `usage_scale` and, as far as it goes, `min_usage`.

    Dimensions in `named` (component and name) are told apart from others of their kind.
    """
    found = [Fanned(level, leaf.name, dimension) for level, leaf in enumerate(leaves) for dimension in leaf.spatial]
    dimensions = tuple(d for d in found)
    table = np.ones((1, 0, len(lattice.axes)), dtype=np.int64)
    tops = np.array([axis.sizes[-1] for axis in lattice.axes], dtype=np.int64)
    kinds: list[object] = []
    for fanned in dimensions:
        options = _options(einsum, fanned.dimension, lattice)
        table = _combined(table, options, tops)
        apart = fanned.dimension.min_usage > 0 or (fanned.component, fanned.dimension.name) in named
        kinds.append(_kind(einsum, fanned, apart=len(kinds) if apart else -1))
        table = table[_distinct(table, kinds)]
    for d, fanned in enumerate(dimensions):
        if einsum.is_copy or fanned.dimension.min_usage <= 0:
            continue
        usage = table[:, d].prod(axis=1) / fanned.dimension.fanout * fanned.dimension.usage_scale
        table = table[usage >= min(fanned.dimension.min_usage, usage.max())]
    own = [d if (f.component, f.dimension.name) in named else -1 for d, f in enumerate(dimensions)]
    table = table[_distinct(table, [_kind(einsum, f, apart) for f, apart in zip(dimensions, own, strict=True)])]
    fullest = np.argsort(-table.reshape(len(table), -1).prod(axis=1), kind="stable")
    return LaneTable(dimensions, table[fullest])


def _kind(einsum: Einsum, fanned: Fanned, apart: int) -> object:
    d = fanned.dimension
    return fanned.level, d.may_reuse & einsum.tensors, d.power_gateable, apart


def _combined(table: Ints, options: Ints, tops: Ints) -> Ints:
    """Every use so far with every option of one more dimension, where the bounds still divide."""
    used = table.prod(axis=1)
    rows, more = np.nonzero(((tops // used)[:, None, :] % options[None, :, :] == 0).all(axis=2))
    return np.concatenate([table[rows], options[more][:, None, :]], axis=1)


def _distinct(table: Ints, kinds: list[object]) -> Ints:
    """The first of each group of rows whose lanes are the same for every kind of dimension."""
    groups = list(dict.fromkeys(kinds))
    merged = [table[:, [i for i, k in enumerate(kinds) if k == g]].prod(axis=1) for g in groups]
    if not merged:
        return np.array([0])
    _, first = np.unique(np.concatenate(merged, axis=1), axis=0, return_index=True)
    return np.sort(first)


def _options(einsum: Einsum, dimension: SpatialDimension, lattice: Lattice) -> Ints:
    """Ways to use one dimension by itself: a bound for each axis."""
    rows: list[tuple[int, ...]] = [()]
    for axis in lattice.axes:
        allowed = all(_may_iterate(einsum, dimension, v) for v in axis.variables)
        bounds = [b for b in divisors(axis.sizes[-1]) if b <= dimension.fanout] if allowed else [1]
        rows = [(*row, b) for row in rows for b in bounds if _product(row) * b <= dimension.fanout]
    kept = [row for row in rows if _holds(dimension, lattice, row)]
    return np.array(kept, dtype=np.int64).reshape(len(kept), len(lattice.axes))


def _product(row: tuple[int, ...]) -> int:
    total = 1
    for bound in row:
        total *= bound
    return total


def _holds(dimension: SpatialDimension, lattice: Lattice, row: tuple[int, ...]) -> bool:
    if _product(row) / dimension.fanout * dimension.usage_scale > 1:
        return False
    # a variable that is limited is alone on its axis, or the limit is on the product of the whole axis
    counts = {axis.variables[0]: float(bound) for axis, bound in zip(lattice.axes, row, strict=True)}
    return all(limit.holds(counts) for limit in dimension.loop_bounds)


def _may_iterate(einsum: Einsum, dimension: SpatialDimension, variable: str) -> bool:
    return all(
        einsum.by_tensor[tensor].relevance(variable) is Relevance.NONE for tensor in dimension.reuse & einsum.tensors
    )


def limited_variables(leaves: tuple[Leaf, ...]) -> frozenset[str]:
    """Variables that some limit on lanes speaks of, so that they must be searched by themselves."""
    limits: list[Comparison] = [limit for leaf in leaves for d in leaf.spatial for limit in d.loop_bounds]
    return frozenset().union(*(limit.variables for limit in limits))
