"""Uses of the fanouts that are never better than others: these share as many tiles, and more, with the same lanes.

Compared are uses with the same lanes over each axis at each level; they differ in which dimension runs what. Tile
shapes and instances are equal then. A tensor's lanes that its index does not depend on get one tile together where the
dimension may reuse the tensor, and one each elsewhere. Of two uses the one that shares at least as many lanes of every
tensor at every level costs no more: each count of `charges` falls with the lanes that share (fills are divided by
them, and what starts without a result grows with them), and no count rises with them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from einmap.arch.component import Leaf, Memory, SpatialDimension, Toll
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.mapspace.latency_forms import forms_of
from einmap.mapper.mapspace.tile_lattice import Lattice

MOST_NUMBERS = 2**62
"""Rows that a number can tell apart."""


def row_numbers(parts: Sequence[Ints]) -> Ints:
    """A number for each row of some arrays beside each other, equal for equal rows: (rows,). Numbers are not below 0.

    As `np.unique` of the rows, but sorts numbers, which is several times as fast.
    """
    found, most = np.zeros(len(parts[0]), dtype=np.int64), 1
    for column in (column for part in parts for column in part.reshape(len(part), prod(part.shape[1:])).T):
        radix = int(column.max(initial=0)) + 1
        if most * radix >= MOST_NUMBERS:
            different, found = np.unique(found, return_inverse=True)
            most = len(different)
        found, most = found * radix + column, most * radix
    return found


def best_of_groups(group: Ints, order: Ints, dominated: Callable[[Ints, Ints], Bools]) -> Ints:
    """Rows that no other row of their group dominates, ascending.

    `group`: a number for each row. `order`: all rows, group by group, each one before those that it dominates; of equal
    ones the first is left. `dominated`: whether each of some rows is dominated by the one beside it.
    """
    done = np.zeros(len(group), dtype=bool)
    left = np.ones(len(group), dtype=bool)
    while True:
        waiting = order[left[order] & ~done[order]]
        if not len(waiting):
            return np.flatnonzero(left)
        first = waiting[np.concatenate([[True], np.diff(group[waiting]) > 0])]
        done[first] = True
        champion = np.full(int(group.max()) + 1, -1)
        champion[group[first]] = first
        rivals = waiting[~done[waiting]]
        left[rivals[dominated(rivals, champion[group[rivals]])]] = False


@dataclass(frozen=True)
class Sharing:
    """Finds such uses. `dimensions`: level and dimension, and whether its lanes matter for themselves."""

    einsum: Einsum
    leaves: tuple[Leaf, ...]
    lattice: Lattice
    dimensions: Sequence[tuple[int, SpatialDimension, bool]]

    @cached_property
    def applies(self) -> bool:
        """Whether nothing becomes cheaper by moving more."""
        for leaf in self.leaves:
            if any(action.energy < 0 for action in getattr(leaf, "actions", ())):
                return False
            forms = forms_of(leaf, self.einsum.name) if isinstance(leaf, Memory | Toll) else ()
            if forms is None or any(form.read < 0 or form.write < 0 for form in forms):
                return False
        return True

    @cached_property
    def irrelevant(self) -> Bools:
        """Axes that each tensor does not depend on."""
        return np.array(
            [
                [access.relevance(axis.variables[0]) is Relevance.NONE for axis in self.lattice.axes]
                for access in self.einsum.accesses
            ],
            dtype=bool,
        ).reshape(len(self.einsum.accesses), len(self.lattice.axes))

    def best(self, bounds: Ints) -> Ints:
        """Rows of `bounds` (use, dimension, axis) that are left: the first dimensions alone may be there."""
        kept = np.arange(len(bounds))
        if not self.applies or len(bounds) < 2:
            return kept
        group = np.unique(row_numbers(self._same(bounds)), return_inverse=True)[1]
        shared = self._shared(bounds)
        # the one that shares most goes first: nothing else in its group is better in everything
        order = np.lexsort((-shared.sum(axis=1), group))
        return best_of_groups(group, order, lambda rivals, others: (shared[rivals] <= shared[others]).all(axis=1))

    def _same(self, bounds: Ints) -> list[Ints]:
        """Equal values: lanes over each axis at each level, and of dimensions that matter for themselves."""
        columns = []
        dimensions = self.dimensions[: bounds.shape[1]]
        for level in {level for level, _, _ in dimensions}:
            columns.append(bounds[:, [i for i, (at, _, _) in enumerate(dimensions) if at == level]].prod(axis=1))
        for i, (_, dimension, matters) in enumerate(dimensions):
            if matters:
                columns.append(bounds[:, i])
            elif dimension.power_gateable:
                columns.append(bounds[:, i].prod(axis=1)[:, None])
        return columns

    def _shared(self, bounds: Ints) -> Floats:
        """Lanes that share a tile, as logarithms: for each tensor and level."""
        columns = []
        dimensions = self.dimensions[: bounds.shape[1]]
        for level in {level for level, _, _ in dimensions}:
            for access, none in zip(self.einsum.accesses, self.irrelevant, strict=True):
                reusing = [
                    i
                    for i, (at, dimension, _) in enumerate(dimensions)
                    if at == level and access.tensor in dimension.may_reuse
                ]
                columns.append(bounds[:, reusing][:, :, none].prod(axis=(1, 2)))
        return np.log2(np.stack(columns, axis=1).astype(np.float64))
