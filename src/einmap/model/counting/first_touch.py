"""First touches of an output whose tiles overlap or leave holes, by going through the visits in time order.

An element that starts without a result at one level is touched first in the first visit, in time and then lane by
lane, whose tile covers it; only there it can still be without a result one level further in. Where tiles neither
overlap nor leave holes this is a product of sums (`reuse`); here is the general case.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from einmap.einsum.spaces.projection import Affine
from einmap.errors import NotSupportedError
from einmap.model.counting.path import EinsumPath

type Elements = NDArray[np.bool_]
type Place = Mapping[int, int]
"""Iteration of each loop (by index) that is fixed."""

MAX_ELEMENTS = 20_000_000
"""Elements of an output that are marked one by one."""
MAX_VISITS = 200_000
"""Visits that are gone through for one number."""


@dataclass
class TouchCounter:
    """Counts for the indices of one tensor that share rank variables.

    `levels`: for each level inward the loops (by index into the path) that apply there; each level has all loops of
    the one before.
    """

    path: EinsumPath
    indices: tuple[Affine, ...]
    variables: tuple[str, ...]
    levels: tuple[tuple[int, ...], ...]
    visits: int = 0

    def from_start(self, fixed: Mapping[int, int]) -> int:
        """Elements of the whole tensor whose chain of first touches ends in the `fixed` lanes of the last level."""
        return self._within({}, np.ones(self._shape(), dtype=bool), 0, fixed)

    def from_visits(self, loops: tuple[int, ...], fixed: Mapping[int, int], slides: int | None = None) -> int:
        """New elements summed over the visits of `loops` (a level outside the first), all elements new in each.

        `slides`: a loop whose next iteration keeps the elements that both need; they are not new in it.
        """
        total = 0
        for place in self._places({}, loops):
            if all(place.get(loop, lane) == lane for loop, lane in fixed.items()):
                new = self._box(place)
                if slides is not None and place.get(slides, 0) > 0:
                    new &= ~self._box({**place, slides: place[slides] - 1})
                total += self._within(place, new, 0, fixed)
        return total

    def _within(self, outside: Place, new: Elements, level: int, fixed: Mapping[int, int]) -> int:
        if level == len(self.levels):
            return int(new.sum())
        left = new.copy()
        total = 0
        for place in self._places(outside, self.levels[level]):
            first = left & self._box(place)
            left &= ~first
            matches = all(place.get(loop, lane) == lane for loop, lane in fixed.items())
            if matches and first.any():
                total += self._within(place, first, level + 1, fixed)
        return total

    def _places(self, outside: Place, loops: Sequence[int]) -> Iterator[dict[int, int]]:
        """Iterations of `loops` inside those fixed outside, in time and then lane by lane."""
        added = [i for i in loops if i not in outside and self.path.loops[i].variable in self.variables]
        ordered = [i for i in added if not self.path.loops[i].is_spatial]
        ordered += [i for i in added if self.path.loops[i].is_spatial]
        yield from self._extend(dict(outside), ordered)

    def _extend(self, place: dict[int, int], loops: list[int]) -> Iterator[dict[int, int]]:
        if not loops:
            if all(size > 0 for _, size in self._tiles(place).values()):
                self.visits += 1
                if self.visits > MAX_VISITS:
                    raise NotSupportedError(
                        "too many visits to count the first touches of an output whose tiles overlap"
                    )
                yield place
            return
        loop = self.path.loops[loops[0]]
        for iteration in range(loop.iterations):
            yield from self._extend({**place, loops[0]: iteration}, loops[1:])

    def _tiles(self, place: Place) -> dict[str, tuple[int, int]]:
        """First value and extent of each variable; an extent below 1 means that there is no such visit."""
        tiles = {}
        for variable in self.variables:
            start, size = 0, self.path.einsum.extents[variable]
            for i in self.path.loops_of[variable]:
                if i in place:
                    loop = self.path.loops[i]
                    first = loop.shape if loop.initial is None else loop.initial
                    begin = 0 if place[i] == 0 else first + (place[i] - 1) * loop.shape
                    start, size = start + begin, min(loop.shape if place[i] else first, size - begin)
            tiles[variable] = (start, size)
        return tiles

    def _box(self, place: Place) -> Elements:
        tiles = self._tiles(place)
        if any(size < 1 for _, size in tiles.values()):
            return np.zeros(self._shape(), dtype=bool)
        marked = np.zeros(self._shape(), dtype=bool)
        marked[tuple(_range(index, tiles, self._low(index)) for index in self.indices)] = True
        return marked

    def _low(self, index: Affine) -> int:
        return sum(a * (self.path.einsum.extents[v] - 1) for v, a in index.terms if a < 0)

    def _shape(self) -> tuple[int, ...]:
        shape = tuple(index.extent(self.path.einsum.extents) for index in self.indices)
        if math.prod(shape) > MAX_ELEMENTS:
            raise NotSupportedError("too many elements to count the first touches of an output whose tiles overlap")
        return shape


def _range(index: Affine, tiles: Mapping[str, tuple[int, int]], origin: int) -> slice:
    low = sum(a * (tiles[v][0] if a > 0 else tiles[v][0] + tiles[v][1] - 1) for v, a in index.terms)
    length = sum(abs(a) * (tiles[v][1] - 1) for v, a in index.terms) + 1
    return slice(low - origin, low - origin + length)
