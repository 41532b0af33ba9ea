"""Tile extents of one rank variable under a chain of loops, ragged tiles counted exactly.

A loop of tile shape s cuts the extent E it meets into floor(E/s) tiles of s and a remainder. What matters
for counting is how many tiles of which extent there are: a `Tiles` list of `(extent, count)`. All functions
work on integers and, for many choices at once, on float64 arrays of integers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

type Count = Any
"""An int, or a float64 array of integers (one for each of many tile shapes)."""
type Tiles = list[tuple[Count, Count]]


type Take = int
"""Which iterations of a loop are counted: one of the names below, or the number of one iteration."""

SKIP: Take = -3
"""None: the loop stands below, its whole extent is one tile."""
ALL: Take = -2
LARGEST: Take = -1
"""One iteration, of the largest tile."""
FIRST: Take = 0
"""The first iteration, which has the fullest tile; also what a group of merged lanes counts as."""


def smaller(a: Count, b: Count) -> Count:
    """Elementwise minimum."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return min(a, b)
    return np.minimum(a, b)


def larger(a: Count, b: Count) -> Count:
    """Elementwise maximum."""
    if isinstance(a, int | float) and isinstance(b, int | float):
        return max(a, b)
    return np.maximum(a, b)


def cut(tiles: Tiles, shape: Count, initial: Count | None, take: Take, divides: bool = False) -> Tiles:
    """The tiles inside those of `tiles` after one more loop of tile shape `shape`.

    `divides`: the shape is known to divide every extent it meets, so there are no remainders.
    """
    if take == SKIP:
        return tiles
    if divides:
        return _cut_evenly(tiles, shape, take)
    if take == ALL:
        return _cut_all(tiles, shape, initial)
    first = shape if initial is None else initial
    if take == LARGEST:
        return _merged([(_largest(extent, first, shape), count) for extent, count in tiles])
    if take == FIRST:
        return _merged([(smaller(first, extent), count) for extent, count in tiles])
    begin = first + (take - 1) * shape
    rests = [(extent - begin, count) for extent, count in tiles]
    return _merged([(smaller(shape, rest), count * (rest > 0)) for rest, count in rests])


def _largest(extent: Count, first: Count, shape: Count) -> Count:
    head = smaller(first, extent)
    return larger(head, smaller(shape, extent - head))


def _cut_evenly(tiles: Tiles, shape: Count, take: Take) -> Tiles:
    ((extent, count),) = tiles
    if take == ALL:
        return [(shape, count * (extent / shape))]
    if take > FIRST:
        return [(shape, count * (extent > take * shape))]
    return [(shape, count)]


def _cut_all(tiles: Tiles, shape: Count, initial: Count | None) -> Tiles:
    pieces: Tiles = []
    whole: Count = 0
    for extent, count in tiles:
        rest = extent
        if initial is not None:
            pieces.append((smaller(initial, extent), count))
            rest = extent - smaller(initial, extent)
        full = rest // shape
        remainder = rest - full * shape
        whole = whole + count * full
        pieces.append((remainder, count * (remainder > 0)))
    return _merged([(shape, whole), *pieces])


def _merged(tiles: Tiles) -> Tiles:
    """Equal scalar extents added up, absent tiles dropped."""
    if not all(isinstance(count, int) and isinstance(extent, int) for extent, count in tiles):
        return [(e, c) for e, c in tiles if not isinstance(c, int) or c]
    counts: dict[int, int] = {}
    for extent, count in tiles:
        if count:
            counts[extent] = counts.get(extent, 0) + count
    return list(counts.items())


type Steps = list[tuple[int, int, int, int]]
"""Pairs of consecutive tiles: extent of the one before, of this one, how far apart they begin, how many pairs."""


def steps_of(tiles: Tiles, shape: int, initial: int | None) -> Steps:
    """The pairs of consecutive iterations that a temporal loop makes of each tile.

    `steps_of([(10, 1)], 4, None)` is `[(4, 4, 4, 1), (4, 2, 4, 1)]`.
    """
    steps: Steps = []
    for extent, count in tiles:
        first = shape if initial is None else initial
        rest = extent - min(first, extent)
        full, remainder = divmod(rest, shape)
        if full:
            steps.append((first, shape, first, count))
            steps.append((shape, shape, shape, count * (full - 1)))
        if remainder:
            before = shape if full else first
            steps.append((before, remainder, before, count))
    return [step for step in steps if step[3]]


def cut_steps(steps: Steps, shape: int, take: Take) -> Steps:
    """The pairs that lanes see which cut both tiles; a lane that had no tile before has no pair."""
    if take == SKIP:
        return steps
    pairs: Steps = []
    for before, now, step, count in steps:
        n = -(-min(before, now) // shape)
        lanes = range(n) if take == ALL else range(max(take, 0), min(n, max(take, 0) + 1))
        pairs += [(min(shape, before - i * shape), min(shape, now - i * shape), step, count) for i in lanes]
    return pairs


def number_of(tiles: Tiles) -> Count:
    """How many tiles there are."""
    total: Count = 0
    for _, count in tiles:
        total = total + count
    return total
