"""How many lines of a memory the tiles of one tensor touch, visit by visit.

A line is a box of the tensor's indices (`arch.layout`): of each rank a block of so many values, from index 0 on. A tile
from index `low` to `high` touches `high // block - low // block + 1` blocks of a rank, and the product of those numbers
over its ranks in lines. Where a tile begins matters, so the visits of each rank variable are enumerated; ranks that
share no variable are independent, and the sum over all visits is the product of theirs.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from einmap.arch.layout import Layout
from einmap.arrays import Ints
from einmap.errors import NotSupportedError
from einmap.model.counting.path import Loop
from einmap.model.counting.reuse import Group, Takes, TensorCounts
from einmap.model.counting.tiles import ALL, LARGEST, SKIP, Count, Take

MOST_TILES = 5_000_000
"""Tiles of one rank that are enumerated."""


type Cut = tuple[int, int, Take]
"""What a loop does to tiles: its tile shape, its first one, and which of its iterations count."""


@dataclass
class LineCounts(TensorCounts):
    """Counting for one tensor on one path: lines of a memory in the place of values."""

    layout: Layout

    def _group_sum(self, group: Group, takes: Takes) -> Count:
        loops = [i for v in group.variables for i in self.path.loops_of[v] if takes[i] != SKIP]
        shapes = [self.path.loops[i].shape for i in loops]
        if all(isinstance(shape, int) for shape in shapes):
            return self._lines(group, takes, dict(zip(loops, shapes, strict=True)))
        rows = np.stack(np.broadcast_arrays(*shapes), axis=-1).reshape(-1, len(shapes)).astype(np.int64)
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        lines = [self._lines(group, takes, dict(zip(loops, row, strict=True))) for row in distinct.tolist()]
        return np.array(lines, dtype=np.float64)[inverse.ravel()]

    def _lines(self, group: Group, takes: Takes, shapes: dict[int, int]) -> int:
        """Lines of the group's ranks, summed over its visits; `shapes`: tile shapes of the loops that count.

        Raises NotSupportedError for too many visits.
        """
        first, path = dict(self.path.einsum.first_values), self.path
        variables = tuple(
            (first.get(v, 0), path.einsum.extents[v], tuple(_cut_of(path.loops[i], shapes[i], takes[i]) for i in loops))
            for v in group.variables
            for loops in [[i for i in path.loops_of[v] if i in shapes]]
        )
        ranks = tuple(
            (index.constant, tuple((group.variables.index(v), a) for v, a in index.terms), block)
            for (_, index), block in zip(self.access.projection, self.layout.block, strict=True)
            if any(v in group.variables for v, _ in index.terms)
        )
        lines = lines_touched(variables, ranks)
        if lines is None:
            raise NotSupportedError(
                f"too many tiles of {self.access.tensor!r} to count the lines that they touch",
                hint="leave the tensor out of `layout`",
            )
        return lines


def _cut_of(loop: Loop, shape: int, take: Take) -> Cut:
    assert take != LARGEST
    return shape, shape if loop.initial is None else loop.initial, take


@lru_cache(maxsize=2**16)
def lines_touched(
    variables: tuple[tuple[int, int, tuple[Cut, ...]], ...],
    ranks: tuple[tuple[int, tuple[tuple[int, int], ...], int], ...],
) -> int | None:
    """Lines of some ranks, summed over all tiles; None for more than MOST_TILES.

    `variables`: of each rank variable the first value, the number of values and the loops that cut these, outermost
    first. `ranks`: of each rank the constant of its index, number and factor of each variable, and the block.
    """
    tiles = []
    for first, extent, cuts in variables:
        start, size = np.array([first], dtype=np.int64), np.array([extent], dtype=np.int64)
        for cut in cuts:
            start, size = _cut(cut, start, size)
        tiles.append((start, size))
    numbers = [len(start) for start, _ in tiles]
    if prod(numbers) > MOST_TILES:
        return None
    axes = np.ix_(*map(np.arange, numbers))
    ends = [(start[axis], start[axis] + size[axis] - 1) for (start, size), axis in zip(tiles, axes, strict=True)]
    lines: Any = 1
    for constant, terms, block in ranks:
        low: Any = np.int64(constant)
        high: Any = np.int64(constant)
        for v, a in terms:
            near, far = a * ends[v][0], a * ends[v][1]
            low, high = low + np.minimum(near, far), high + np.maximum(near, far)
        lines = lines * (high // block - low // block + 1)
    # an index that does not depend on a variable is the same for all of its tiles
    return int(np.broadcast_to(lines, numbers).sum())


def _cut(cut: Cut, start: Ints, extent: Ints) -> tuple[Ints, Ints]:
    """The tiles inside of some that a loop makes, those of the iterations that count."""
    shape, head, take = cut
    most = 1 + -(-max(int(extent.max(initial=0)) - head, 0) // shape)
    iterations = np.arange(most) if take == ALL else np.array([take])
    begin = np.where(iterations > 0, head + (iterations - 1) * shape, 0)
    inside = np.clip(extent[:, None] - begin, 0, np.where(iterations > 0, shape, head))
    start = (start[:, None] + begin).ravel()
    there = inside.ravel() > 0
    return start[there], inside.ravel()[there]
