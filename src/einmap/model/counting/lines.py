"""How many lines of a memory the tiles of one tensor touch, visit by visit.

A line is a box of the tensor's indices (`arch.layout`): of each rank a block of so many values, from index 0 on. A tile
from index `low` to `high` touches `high // block - low // block + 1` blocks of a rank, and the product of those numbers
over its ranks in lines. Where a tile begins matters, so the visits of each rank variable are enumerated; ranks that
share no variable are independent, and the sum over all visits is the product of theirs.

Lanes that are served together touch the lines that any of them touches. Where lines are dealt out to banks, a transfer
takes as many rounds as the fullest bank has lines of it. Banks add up over ranks, modulo their number: how many lines
lie in each bank is the cyclic convolution of what the ranks say by themselves, and all that matters of it is the same
wherever the first line lies.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from math import gcd, prod
from typing import Any

import numpy as np

from einmap.arch.layout import Layout
from einmap.arrays import Ints
from einmap.errors import NotSupportedError
from einmap.model.counting.reuse import Group, Takes, TensorCounts
from einmap.model.counting.tiles import ALL, LARGEST, SKIP, Count, Take

MOST_TILES = 5_000_000
"""Tiles of one rank that are enumerated."""


type Cut = tuple[int, int, Take, bool]
"""Effect of a loop on tiles: its tile shape, its first one, which of its iterations count, and whether these are lanes
that are served together."""
type Variable = tuple[int, int, tuple[Cut, ...]]
"""A rank variable: its first value, the number of its values, and the loops that cut these, outermost first."""
type Rank = tuple[int, tuple[tuple[int, int], ...], int, int]
"""The index of a rank: constant, number and factor of each variable; its block, and the banks from line to line."""
type Histogram = tuple[int, ...]
"""Lines in each bank."""


@dataclass
class LineCounts(TensorCounts):
    """Counting for one tensor on one path: lines of a memory in the place of values; `level`: that of the memory."""

    layout: Layout
    level: int

    def _group_sum(self, group: Group, takes: Takes) -> Count:
        loops = self._cutting(group.variables, takes)
        shapes = [self.path.loops[i].shape for i in loops]
        if all(isinstance(shape, int) for shape in shapes):
            return self._lines(group, takes, dict(zip(loops, shapes, strict=True)))
        rows = np.stack(np.broadcast_arrays(*shapes), axis=-1).reshape(-1, len(shapes)).astype(np.int64)
        distinct, inverse = np.unique(rows, axis=0, return_inverse=True)
        lines = [self._lines(group, takes, dict(zip(loops, row, strict=True))) for row in distinct.tolist()]
        return np.array(lines, dtype=np.float64)[inverse.ravel()]

    def _cutting(self, variables: tuple[str, ...], takes: Takes) -> list[int]:
        """Loops over some variables that cut the tiles."""
        return [i for v in variables for i in self.path.loops_of[v] if takes[i] != SKIP]

    def _lines(self, group: Group, takes: Takes, shapes: dict[int, int]) -> int:
        """Lines of the group's ranks, summed over its visits; `shapes`: tile shapes of the loops that count."""
        lines = lines_touched(self._variables(group, takes, shapes), self._ranks(group))
        if lines is None:
            raise self._too_much()
        return lines

    def _too_much(self) -> NotSupportedError:
        return NotSupportedError(
            f"too many tiles of {self.access.tensor!r} to count the lines that they touch, or lanes together over "
            "variables that several ranks share",
            hint="leave the tensor out of `layout`",
        )

    def _variables(self, group: Group, takes: Takes, shapes: dict[int, int]) -> tuple[Variable, ...]:
        first, path = dict(self.path.einsum.first_values), self.path
        return tuple(
            (first.get(v, 0), path.einsum.extents[v], tuple(self._cut(i, shapes[i], takes[i]) for i in loops))
            for v in group.variables
            for loops in [[i for i in path.loops_of[v] if i in shapes]]
        )

    def _ranks(self, group: Group) -> tuple[Rank, ...]:
        steps = self.layout.steps or (0,) * len(self.layout.block)
        return tuple(
            (index.constant, tuple((group.variables.index(v), a) for v, a in index.terms), block, step)
            for (_, index), block, step in zip(self.access.projection, self.layout.block, steps, strict=True)
            if any(v in group.variables for v, _ in index.terms)
        )

    def _cut(self, i: int, shape: int, take: Take) -> Cut:
        assert take != LARGEST
        loop = self.path.loops[i]
        is_joined = (
            self.layout.together
            and take == ALL
            and loop.dimension is not None
            and (loop.level or 0) > self.level
            and self.access.tensor in loop.dimension.may_reuse
        )
        return shape, shape if loop.initial is None else loop.initial, take, is_joined


@dataclass
class RoundCounts(LineCounts):
    """As `LineCounts`, of the lines of each transfer those in the fullest bank. Tile shapes are numbers."""

    def _relevant(self, takes: Takes) -> Count:
        of_groups = []
        for group in self.groups:
            shapes = {i: self.path.loops[i].shape for i in self._cutting(group.variables, takes)}
            found = lines_in_banks(self._variables(group, takes, shapes), self._ranks(group), self.layout.banks)
            if found is None:
                raise self._too_much()
            of_groups.append(found)
        rounds = 0
        for chosen in product(*of_groups):
            banks: Histogram = (1, *[0] * (self.layout.banks - 1))
            for histogram, _ in chosen:
                banks = _spread(banks, histogram)
            rounds += prod(times for _, times in chosen) * max(banks)
        return rounds


@lru_cache(maxsize=2**16)
def lines_touched(variables: tuple[Variable, ...], ranks: tuple[Rank, ...]) -> int | None:
    """Lines of some ranks, summed over all tiles.

    None for more than MOST_TILES, and for lanes that are served together where ranks share variables.
    """
    blocks = _blocks(variables, ranks)
    if blocks is None:
        return None
    lines: Any = 1
    for first, last in blocks:
        if first.shape[1] == 1:
            lines = lines * (last - first + 1)
        else:
            before = np.concatenate([first[:, :1] - 1, np.maximum.accumulate(last, axis=1)[:, :-1]], axis=1)
            lines = np.clip(last - np.maximum(first - 1, before), 0, None).sum(axis=1)
    return int(np.sum(lines))


@lru_cache(maxsize=2**12)
def lines_in_banks(
    variables: tuple[Variable, ...], ranks: tuple[Rank, ...], banks: int
) -> tuple[tuple[Histogram, int], ...] | None:
    """How many tiles have how many lines in each bank, up to where the first one lies; None as `lines_touched`."""
    blocks = _blocks(variables, ranks)
    if blocks is None:
        return None
    rows = []
    for first, last in blocks:
        begin = first[:, :1]
        rows += [first - begin, last - begin]
    width = rows[0].shape[1]
    tiles, times = np.unique(np.concatenate(rows, axis=1), axis=0, return_counts=True)
    found: dict[Histogram, int] = {}
    for tile, n in zip(tiles.tolist(), times.tolist(), strict=True):
        histogram: Histogram = (1, *[0] * (banks - 1))
        for r, (_, _, _, step) in enumerate(ranks):
            low, high = tile[2 * r * width : (2 * r + 1) * width], tile[(2 * r + 1) * width : (2 * r + 2) * width]
            histogram = _spread(histogram, _of_intervals(list(zip(low, high, strict=True)), step, banks))
        found[histogram] = found.get(histogram, 0) + n
    return tuple(found.items())


def _of_intervals(intervals: list[tuple[int, int]], step: int, banks: int) -> Histogram:
    """Lines in each bank of those that lie in some of the intervals, which are in order."""
    lines = [0] * banks
    period, end = banks // gcd(step, banks), -1
    for low, high in intervals:
        begin = max(low, end + 1)
        whole, rest = divmod(max(high - begin + 1, 0), period)
        for i in range(period):
            lines[(begin + i) * step % banks] += whole + (i < rest)
        end = max(end, high)
    return tuple(lines)


def _spread(a: Histogram, b: Histogram) -> Histogram:
    """Cyclic convolution."""
    n = len(a)
    return tuple(sum(a[i] * b[(j - i) % n] for i in range(n) if a[i]) for j in range(n))


def _in_order(first: Ints, last: Ints, there: Any) -> tuple[Ints, Ints]:
    """Blocks of the lanes of each tile by where they begin; a lane that has none has what the first one has."""
    first = np.where(there, first, first[:, :1])
    last = np.where(there, last, first[:, :1])
    order = np.argsort(first, axis=1, kind="stable")
    return np.take_along_axis(first, order, axis=1), np.take_along_axis(last, order, axis=1)


def _blocks(variables: tuple[Variable, ...], ranks: tuple[Rank, ...]) -> list[tuple[Ints, Ints]] | None:
    """First and last block of each rank: a row for each visit, a column for each lane, ordered by where they begin."""
    tiles = [_tiles(*variable) for variable in variables]
    times, lanes = [start.shape[0] for start, _ in tiles], [start.shape[1] for start, _ in tiles]
    if prod(times) * prod(lanes) > MOST_TILES or (prod(lanes) > 1 and len(ranks) > 1):
        return None
    n = len(tiles)
    placed = []
    for v, (start, size) in enumerate(tiles):
        shape = [1] * (2 * n)
        shape[v], shape[n + v] = start.shape
        placed.append((start.reshape(shape), size.reshape(shape)))
    there: Any = np.bool_(True)
    for _, size in placed:
        there = there & (size > 0)
    whole = (prod(times), prod(lanes))
    found = []
    for constant, terms, block, _ in ranks:
        low: Any = np.int64(constant)
        high: Any = np.int64(constant)
        for v, a in terms:
            start, size = placed[v]
            near, far = a * start, a * (start + size - 1)
            low, high = low + np.minimum(near, far), high + np.maximum(near, far)
        # an index that does not depend on a variable is the same for all of its tiles
        ends = [np.broadcast_to(each, (*times, *lanes)).reshape(whole) for each in (low // block, high // block, there)]
        found.append(_in_order(*ends))
    return found


def _tiles(first: int, extent: int, cuts: tuple[Cut, ...]) -> tuple[Ints, Ints]:
    """First value and size of the tiles of a rank variable: a row for each visit, a column for each lane together."""
    start, size = np.array([[first]], dtype=np.int64), np.array([[extent]], dtype=np.int64)
    for shape, head, take, is_joined in cuts:
        most = 1 + -(-max(int(size.max(initial=0)) - head, 0) // shape)
        iterations = np.arange(most) if take == ALL else np.array([take])
        begin = np.where(iterations > 0, head + (iterations - 1) * shape, 0)
        inside = np.clip(size[:, :, None] - begin, 0, np.where(iterations > 0, shape, head))
        start = start[:, :, None] + begin
        axes = (0, 1, 2) if is_joined else (0, 2, 1)
        rows = (len(start), -1) if is_joined else (-1, start.shape[1])
        start, size = start.transpose(axes).reshape(rows), inside.transpose(axes).reshape(rows)
        kept = (size > 0).any(axis=1)
        start, size = start[kept], size[kept]
    return start, size
