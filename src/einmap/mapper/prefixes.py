"""Uses of the fanouts as a tree: lanes of the outermost fanout first, then those of the next one, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from einmap.mapper.lanes import LaneTable
from einmap.mapper.lattice import Lattice, positions_after

type Ints = NDArray[np.int64]


@dataclass
class Prefixes:
    """Lanes from the outside in: prefix 0 is none, its children the lanes of the first fanout, and so on.

    `tables[r]`: the uses of the first r fanouts; `first[r]`: number of its first prefix.
    """

    lattice: Lattice
    fanouts: tuple[int, ...]
    lanes: LaneTable
    tables: list[LaneTable] = field(default_factory=list)
    first: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        lanes, levels = self.lanes, self.lanes.levels
        rows_of: list[Ints] = []
        self.first = [0]
        inverse = np.zeros(len(lanes), dtype=np.int64)
        self.parents: list[Ints] = [np.array([-1])]
        for level in (None, *self.fanouts):
            chosen = np.zeros(len(levels), dtype=bool) if level is None else levels <= level
            flat = np.stack([lanes.bounds[:, chosen], lanes.shapes[:, chosen]], axis=-1).reshape(len(lanes), -1)
            _, first, own = np.unique(flat, axis=0, return_index=True, return_inverse=True)
            order = np.argsort(np.argsort(first, kind="stable"), kind="stable")
            own = order[own.ravel()]
            rows = np.sort(first)
            if level is not None:
                self.parents.append(inverse[rows] + self.first[len(rows_of) - 1])
            inverse = own
            rows_of.append(rows)
            self.tables.append(lanes.only(rows))
            self.first.append(self.first[-1] + len(rows))
        self.n = self.first[-1]

    def divisors(self) -> tuple[Ints, Ints]:
        """For each prefix and axis a row of the table of quotients, and that table."""
        rows: dict[tuple[int, int, int], int] = {}
        quotients: list[Sequence[int]] = []
        width = int(max(self.lattice.radices, default=1))
        found = np.zeros((self.n, len(self.lattice.axes)), dtype=np.int64)
        for r, table in enumerate(self.tables):
            own = table.levels == (self.fanouts[r - 1] if r else -1)
            divisors, shapes = _divisions(table.bounds[:, own], table.shapes[:, own])
            for a, axis in enumerate(self.lattice.axes):
                pairs = np.stack([divisors[:, a], shapes[:, a]], axis=1)
                for divisor, shape in dict.fromkeys(zip(pairs[:, 0].tolist(), pairs[:, 1].tolist(), strict=True)):
                    row = rows.setdefault((a, divisor, shape), len(quotients))
                    if row == len(quotients):
                        after = positions_after(axis, divisor, shape)
                        quotients.append([*after, *([-1] * (width - len(after)))])
                    same = (pairs == (divisor, shape)).all(axis=1)
                    found[self.first[r] : self.first[r] + len(table)][same, a] = row
        return found, np.array(quotients, dtype=np.int64).reshape(len(quotients), width)

    def children(self) -> tuple[Ints, Ints]:
        """Children of each prefix: start[p] .. start[p + 1] of the list."""
        parents = np.concatenate(self.parents)
        order = np.argsort(parents, kind="stable")[1:] if self.n > 1 else np.zeros(0, dtype=np.int64)
        start = np.searchsorted(parents[order], np.arange(self.n + 1)) if self.n > 1 else np.zeros(2, dtype=np.int64)
        return start.astype(np.int64), order.astype(np.int64)


def _divisions(bounds: Ints, shapes: Ints) -> tuple[Ints, Ints]:
    """By what the lanes of one fanout divide a tile shape, or what they leave of the bound where they are uneven.

    For each use and axis; the other one of the two is 1, or 0.
    """
    largest = shapes.max(axis=1, initial=0)
    inside = np.where(shapes > 0, 1, bounds).prod(axis=1)
    return np.where(largest > 0, 1, bounds.prod(axis=1)), largest // inside
