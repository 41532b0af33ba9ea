"""Given lanes of one gap: which uses of the fanouts are allowed, with which tile shapes below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import prod

import numpy as np
from numpy.typing import NDArray

from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.tile_lattice import Lattice


@dataclass(frozen=True, slots=True)
class GivenLanes:
    """A spatial loop: `dimension` by its position in the table, `shape` None for any."""

    dimension: int
    shape: int | None


type Row = tuple[GivenLanes | None, ...]
"""Given lanes of one axis from the outside in; None is a free place."""


@dataclass(frozen=True, slots=True)
class LaneRule:
    """`dimensions`: those whose loops stand in this gap, with their levels; `rows`: axis and what is given for it.

    Axes that are not in `rows` are free.
    """

    dimensions: tuple[tuple[int, int], ...]
    rows: tuple[tuple[int, Row], ...]

    def allowed(self, table: LaneTable, lattice: Lattice) -> list[tuple[int, NDArray[np.bool_]]]:
        """For each axis that is not free: which uses of the fanouts (rows) go with which tile shapes (columns)."""
        allowed = []
        for axis, row in self.rows:
            sizes = lattice.axes[axis].sizes
            bounds = table.bounds[:, [d for d, _ in self.dimensions], axis].reshape(len(table), -1)
            ways, way_of = np.unique(bounds, axis=0, return_inverse=True)
            flags = [
                [next(self.orders(row, [int(b) for b in way], s), None) is not None for s in sizes] for way in ways
            ]
            allowed.append((axis, np.array(flags, dtype=bool)[way_of.ravel()]))
        return allowed

    def orders(self, row: Row, bounds: Sequence[int], inner: int) -> Iterator[list[list[int]]]:
        """Ways to place the loops of one axis so that its tile shape below them is `inner`.

        For each entry of the row the dimensions (by position in the table) whose loops stand there.
        """
        used = {d: (level, b) for (d, level), b in zip(self.dimensions, bounds, strict=True) if b > 1}
        given = [g.dimension for g in row if g is not None]
        inserted = [d for d in used if d not in given]
        free = [i for i, g in enumerate(row) if g is None]
        for chosen in product(free, repeat=len(inserted)):
            places: list[list[int]] = [[g.dimension] if g is not None and g.dimension in used else [] for g in row]
            for d, place in zip(inserted, chosen, strict=True):
                places[place].append(d)
            order = [d for place in places for d in sorted(place, key=lambda d: used[d][0])]
            levels = [used[d][0] for d in order]
            if levels == sorted(levels) and _shapes_hold(row, places, used, inner):
                yield places


def _shapes_hold(row: Row, places: list[list[int]], used: dict[int, tuple[int, int]], inner: int) -> bool:
    """Whether every given tile shape is what the loops further in make of it."""
    for i, given in enumerate(row):
        if given is not None and given.shape is not None:
            below = prod(used[d][1] for place in places[i + 1 :] for d in place)
            if given.shape != inner * below:
                return False
    return True
