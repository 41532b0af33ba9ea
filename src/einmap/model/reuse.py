"""How often a tile of one tensor is visited, and how many values that moves.

`TensorCounts` answers, for one tensor on one path: the sum of tile footprints over chosen iterations of the
loops. Rank variables that share no index are independent, so every answer is a product of small sums.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from einmap.einsum.einsum import TensorAccess
from einmap.einsum.projection import Affine, Relevance
from einmap.errors import NotSupportedError
from einmap.model.path import EinsumPath, Loop
from einmap.model.tiles import Count, Take, Tiles, cut, number_of

type Takes = tuple[Take, ...]
"""For each loop of the path, which of its iterations are counted."""

MAX_ENUMERATED = 20_000_000
"""Index positions that are enumerated to count the distinct elements of a tile with holes."""


@dataclass(frozen=True)
class _Group:
    """Indices that share rank variables, and these variables."""

    indices: tuple[Affine, ...]
    variables: tuple[str, ...]


def _groups(access: TensorAccess) -> tuple[_Group, ...]:
    groups: list[tuple[list[Affine], set[str]]] = []
    for _, index in access.projection:
        variables = {v for v, _ in index.terms}
        joined = [g for g in groups if g[1] & variables]
        groups = [g for g in groups if not g[1] & variables]
        merged = (
            [i for g in joined for i in g[0]] + [index],
            set().union(variables, *(g[1] for g in joined)),
        )
        groups.append(merged)
    return tuple(_Group(tuple(i), tuple(sorted(v))) for i, v in groups if v)


class VariableTiles:
    """The tiles of each rank variable of a path, remembered."""

    def __init__(self, path: EinsumPath) -> None:
        self.path = path
        self._known: dict[tuple[str, Takes], Tiles] = {}

    def of(self, variable: str, takes: Takes) -> Tiles:
        """Tiles of `variable` under its loops; `takes` has one entry for each loop of the path."""
        own = self.path.loops_of[variable]
        chosen = [takes[i] for i in own]
        while chosen and chosen[-1] is Take.SKIP:
            chosen.pop()
        return self._prefix(variable, own, tuple(chosen))

    def _prefix(self, variable: str, own: tuple[int, ...], chosen: Takes) -> Tiles:
        key = (variable, chosen)
        found = self._known.get(key)
        if found is None:
            if not chosen:
                found = [(self.path.einsum.extents[variable], 1)]
            else:
                loop = self.path.loops[own[len(chosen) - 1]]
                outside = self._prefix(variable, own, chosen[:-1])
                found = cut(outside, loop.shape, loop.initial, chosen[-1], loop.divides)
            self._known[key] = found
        return found


@dataclass
class TensorCounts:
    """Counting for one tensor on one path."""

    path: EinsumPath
    access: TensorAccess
    tiles: VariableTiles
    relevance: dict[str, Relevance] = field(init=False)

    def __post_init__(self) -> None:
        self.relevance = {v: self.access.relevance(v) for v in self.path.einsum.rank_variables}
        self._known: dict[Takes, Count] = {}
        self._groups = _groups(self.access)
        self._irrelevant = tuple(v for v, r in self.relevance.items() if r is Relevance.NONE)
        self._loop_relevance = tuple(self.relevance[loop.variable] for loop in self.path.loops)

    def relevance_of(self, loop: int) -> Relevance:
        """What the loop's variable is to the tensor."""
        return self._loop_relevance[loop]

    def merges(self, loop: Loop) -> bool:
        """Whether the lanes of a spatial loop use one copy of the tensor's tile."""
        assert loop.dimension is not None
        irrelevant = self.relevance[loop.variable] is Relevance.NONE
        return irrelevant and self.access.tensor in loop.dimension.may_reuse

    def values(self, takes: Takes) -> Count:
        """Footprints summed over the counted iterations: values moved when each visit moves its tile."""
        return self.relevant(takes) * self.repeats(takes)

    def repeats(self, takes: Takes) -> Count:
        """Iterations of the irrelevant loops; one below the point counts once."""
        total: Count = 1
        # a loop below is no tile boundary for an irrelevant variable, whatever stands inside it
        once = tuple(Take.FIRST if t is Take.SKIP else t for t in takes)
        for variable in self._irrelevant:
            total = total * number_of(self.tiles.of(variable, once))
        return total

    def relevant(self, takes: Takes) -> Count:
        """Footprints summed over the counted iterations of relevant and partially relevant loops."""
        known = self._known.get(takes)
        if known is None:
            known = self._known[takes] = self._relevant(takes)
        return known

    def _relevant(self, takes: Takes) -> Count:
        total: Count = 1
        for group in self._groups:
            total = total * self._group_sum(group, takes)
        return total

    def _group_sum(self, group: _Group, takes: Takes) -> Count:
        if len(group.variables) == 1 and len(group.indices) == 1:
            ((_, a),) = group.indices[0].terms
            total: Count = 0
            for extent, count in self.tiles.of(group.variables[0], takes):
                total = total + (extent if abs(a) == 1 else abs(a) * (extent - 1) + 1) * count
            return total
        return self._joint(group, takes, 0, {}, 1)

    def _joint(self, group: _Group, takes: Takes, at: int, extents: dict[str, Count], count: Count) -> Count:
        if at == len(group.variables):
            for index in group.indices:
                count = count * index.extent(extents)
            return count
        variable = group.variables[at]
        total: Count = 0
        for extent, times in self.tiles.of(variable, takes):
            total = total + self._joint(group, takes, at + 1, {**extents, variable: extent}, count * times)
        return total

    def tile_values(self, takes: Takes) -> Count:
        """Footprint of the one tile that `takes` leaves (no ALL in it)."""
        return self.relevant(takes)

    # distinct elements

    def distinct(self, outer: Takes, inner: Takes) -> Count:
        """Sum over the visits of `outer` of the distinct elements that tiles of `inner` cover there.

        Only relevant loops matter. `inner` counts at least the loops of `outer`. Where consecutive inner tiles
        leave no gap that is the outer footprint; with strides or holes the covered elements are counted.
        """
        total: Count = 1
        for group in self._groups:
            total = total * self._group_distinct(group, outer, inner)
        return total

    def _group_distinct(self, group: _Group, outer: Takes, inner: Takes) -> Count:
        if len(group.variables) == 1 and len(group.indices) == 1:
            # distinct tiles of one variable never overlap: all inner tiles are new elements
            return self._group_sum(group, inner)
        if len(group.indices) > 1:
            if not self._is_dense(group, inner, outer):
                raise NotSupportedError(
                    f"{self.access.tensor!r}: an output with one rank variable in several ranks is not supported yet"
                )
            return self._group_sum(group, outer)
        return self._covered(group, outer, inner)

    def _is_dense(self, group: _Group, inner: Takes, outer: Takes) -> bool:
        return all(inner[i] == outer[i] for v in group.variables for i in self.path.loops_of[v])

    def _covered(self, group: _Group, outer: Takes, inner: Takes) -> int:
        """Distinct indices of one rank with several terms, summed over the visits of `outer`."""
        (index,) = group.indices
        starts: list[dict[tuple[int, int], list[tuple[int, int]]]] = []
        for variable, _ in index.terms:
            starts.append(_nested_tiles(self.path, variable, outer, inner))
        total = 0
        for combination, weight in _combinations(starts):
            total += weight * _union_size(index, combination)
        return total


def _nested_tiles(
    path: EinsumPath, variable: str, outer: Takes, inner: Takes
) -> dict[tuple[int, int], list[tuple[int, int]]]:
    """For each outer tile (extent, a number that tells them apart): the inner tiles in it as (start, extent).

    Outer tiles with the same inner tiles are alike; the second number is how many there are.
    """
    found: dict[tuple[tuple[int, int], ...], int] = {}
    for begin, extent in _intervals(path, variable, outer, 0, path.einsum.extents[variable]):
        inside = tuple(
            (start - begin, size)
            for start, size in _intervals(path, variable, inner, 0, path.einsum.extents[variable])
            if begin <= start < begin + extent
        )
        found[inside] = found.get(inside, 0) + 1
    return {(times, n): list(inside) for n, (inside, times) in enumerate(found.items())}


def _intervals(path: EinsumPath, variable: str, takes: Takes, start: int, extent: int) -> Sequence[tuple[int, int]]:
    intervals = [(start, extent)]
    for i in path.loops_of[variable]:
        loop, take = path.loops[i], takes[i]
        if take is Take.SKIP:
            continue
        cutting: list[tuple[int, int]] = []
        for begin, size in intervals:
            tiles = _tiles_of(begin, size, loop)
            chosen = {Take.ALL: tiles, Take.SECOND: tiles[1:2]}.get(take, tiles[:1])
            cutting += chosen
        intervals = cutting
        if len(intervals) > MAX_ENUMERATED:
            raise NotSupportedError("too many tiles to count the distinct elements of an output with overlapping tiles")
    return intervals


def _tiles_of(begin: int, size: int, loop: Loop) -> list[tuple[int, int]]:
    first = min(loop.shape if loop.initial is None else loop.initial, size)
    tiles = [(begin, first)]
    position = begin + first
    while position < begin + size:
        tiles.append((position, min(loop.shape, begin + size - position)))
        position += loop.shape
    return tiles


def _combinations(
    starts: list[dict[tuple[int, int], list[tuple[int, int]]]],
) -> list[tuple[list[list[tuple[int, int]]], int]]:
    combined: list[tuple[list[list[tuple[int, int]]], int]] = [([], 1)]
    for table in starts:
        combined = [
            ([*chosen, inside], weight * times) for chosen, weight in combined for (times, _), inside in table.items()
        ]
    return combined


def _union_size(index: Affine, tiles: list[list[tuple[int, int]]]) -> int:
    """Indices covered by the boxes of all combinations of one tile for each term."""
    low = 0
    edges = np.zeros(1, dtype=np.int64)
    reach = np.zeros(1, dtype=np.int64)
    for (_, a), intervals in zip(index.terms, tiles, strict=True):
        begin = np.array([s if a > 0 else s + e - 1 for s, e in intervals], dtype=np.int64) * a
        length = np.array([abs(a) * (e - 1) for _, e in intervals], dtype=np.int64)
        if edges.size * begin.size > MAX_ENUMERATED:
            raise NotSupportedError("too many tiles to count the distinct elements of an output with overlapping tiles")
        edges = (edges[:, None] + begin[None, :]).ravel()
        reach = (reach[:, None] + length[None, :]).ravel()
        pairs = np.unique(np.stack([edges, reach]), axis=1)
        edges, reach = pairs[0], pairs[1]
    low = int(edges.min())
    marks = np.zeros(int((edges + reach).max()) - low + 2, dtype=np.int64)
    np.add.at(marks, edges - low, 1)
    np.add.at(marks, edges + reach - low + 1, -1)
    return int((np.cumsum(marks)[:-1] > 0).sum())
