"""Uses of the fanouts as a tree: lanes of the outermost fanout first, then those of the next one, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from einmap.arrays import Ints
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.tile_lattice import Lattice, positions_after


@dataclass(frozen=True)
class Divided:
    """Effect of the lanes of each fanout on the tile shapes, for each use of a table.

    `numbers[r]`: equal for uses that are the same on the first r fanouts, or on all of them where uses are chosen
    `at_once` and r is not 0; `rows[r]`: for each use and axis a row of
    `quotients`, what the lanes of the fanout turn each position on the axis into, -1 where there is nothing.
    """

    lattice: Lattice
    numbers: tuple[Ints, ...]
    rows: tuple[Ints, ...]
    quotients: Ints


def divided(lanes: LaneTable, lattice: Lattice, fanouts: tuple[int, ...]) -> Divided:
    """Facts of a table, kept with it."""
    if fanouts not in lanes.known or lanes.known[fanouts].lattice is not lattice:
        lanes.known[fanouts] = _divided(lanes, lattice, fanouts)
    division: Divided = lanes.known[fanouts]
    return division


def _divided(lanes: LaneTable, lattice: Lattice, fanouts: tuple[int, ...]) -> Divided:
    numbers, rows = [], []
    number_of: dict[tuple[int, int, int], int] = {}
    quotients: list[Sequence[int]] = []
    width = int(max(lattice.radices, default=1))
    for level in (-1, *fanouts):
        above, at_level = lanes.levels <= level, lanes.levels == level
        if lanes.at_once and level >= 0:
            above = np.ones_like(above)
        written = lanes.bounds[:, above], lanes.shapes[:, above], lanes.orders[:, above]
        numbers.append(_numbered(np.stack(written, axis=-1).reshape(len(lanes), -1)))
        divisors, shapes = _divisions(lanes.bounds[:, at_level], lanes.shapes[:, at_level])
        rows_of = np.zeros((len(lanes), len(lattice.axes)), dtype=np.int64)
        for a, axis in enumerate(lattice.axes):
            of_uses = list(zip(divisors[:, a].tolist(), shapes[:, a].tolist(), strict=True))
            of_pair = dict[tuple[int, int], int]()
            for divisor, shape in sorted(set(of_uses)):
                number = of_pair[divisor, shape] = number_of.setdefault((a, divisor, shape), len(quotients))
                if number == len(quotients):
                    after = positions_after(axis, divisor, shape)
                    quotients.append([*after, *([-1] * (width - len(after)))])
            rows_of[:, a] = [of_pair[pair] for pair in of_uses]
        rows.append(rows_of)
    table = np.array(quotients, dtype=np.int64).reshape(len(quotients), width)
    return Divided(lattice, tuple(numbers), tuple(rows), table)


@dataclass
class Prefixes:
    """Lanes from the outside in: prefix 0 is none, its children the lanes of the first fanout, and so on.

    `tables[r]`: the uses of the first r fanouts; `first[r]`: number of its first prefix. `divides`: for each prefix and
    axis a row of `quotients`, see `Divided`.
    """

    lattice: Lattice
    fanouts: tuple[int, ...]
    lanes: LaneTable
    tables: list[LaneTable] = field(default_factory=list)
    first: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        whole, part = self.lanes.kept_with
        division = divided(whole, self.lattice, self.fanouts)
        divides: list[Ints] = []
        self.first = [0]
        inverse = np.zeros(len(self.lanes), dtype=np.int64)
        self.parents: list[Ints] = []
        self.number_of: list[Ints] = []
        """For each number of fanouts and each use of all of them the number of its prefix, among those of as many."""
        part = np.arange(len(whole)) if part is None else part
        for r, (numbers, divided_by) in enumerate(zip(division.numbers, division.rows, strict=True)):
            rows, again = _in_order(numbers[part])
            self.parents.append(inverse[rows] + self.first[r - 1] if r else np.full(len(rows), -1))
            inverse = again
            self.number_of.append(inverse)
            self.tables.append(self.lanes.only(rows))
            divides.append(divided_by[part[rows]])
            self.first.append(self.first[-1] + len(rows))
        self.n = self.first[-1]
        self.divides, self.quotients = np.concatenate(divides), division.quotients

    def children(self) -> tuple[Ints, Ints]:
        """Children of each prefix: start[p] .. start[p + 1] of the list."""
        parents = np.concatenate(self.parents)
        order = np.argsort(parents, kind="stable")[1:] if self.n > 1 else np.zeros(0, dtype=np.int64)
        start = np.searchsorted(parents[order], np.arange(self.n + 1)) if self.n > 1 else np.zeros(2, dtype=np.int64)
        return start.astype(np.int64), order.astype(np.int64)


def _in_order(numbers: Ints) -> tuple[Ints, Ints]:
    """Where each distinct number comes first, in order; and for each number which of these it is. None is negative."""
    first = np.full(numbers.max(initial=-1) + 1, len(numbers))
    first[numbers[::-1]] = np.arange(len(numbers) - 1, -1, -1)
    rows = np.sort(first[first < len(numbers)])
    order = np.empty_like(first)
    order[numbers[rows]] = np.arange(len(rows))
    return rows, order[numbers]


def _numbered(rows: Ints) -> Ints:
    """Numbers of the distinct rows, in the order in which they come."""
    if not rows.shape[1]:
        return np.zeros(len(rows), dtype=np.int64)
    whole = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.dtype.itemsize * rows.shape[1])))
    numbers = dict[object, int]()
    return np.array([numbers.setdefault(row, len(numbers)) for row in whole.ravel().tolist()], dtype=np.int64)


def _divisions(bounds: Ints, shapes: Ints) -> tuple[Ints, Ints]:
    """By what the lanes of one fanout divide a tile shape, or what they leave of the bound where they are uneven.

    For each use and axis; the other one of the two is 1, or 0.
    """
    largest = shapes.max(axis=1, initial=0)
    inside = np.where(shapes > 0, 1, bounds).prod(axis=1)
    return np.where(largest > 0, 1, bounds.prod(axis=1)), largest // inside
