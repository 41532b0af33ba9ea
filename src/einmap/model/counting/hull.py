"""One buffer for several Einsums: the hull of what they use of a tensor in each visit.

A tile is, rank by rank, the interval from the smallest to the largest index that the Einsums below the node use
(definition 2 of docs/definitions.md). Where all of them use the same tile that is their tile; otherwise the visits
of the loops above the node are enumerated here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np

from einmap.einsum.einsum import TensorAccess
from einmap.einsum.spaces.projection import Affine, Lookup, Rank
from einmap.errors import NotSupportedError
from einmap.mapping.nodes import Address
from einmap.model.counting.path import EinsumPath, Loop, Station, applies
from einmap.model.counting.reuse import Takes
from einmap.model.counting.tiles import ALL

MAX_VISITS = 5_000_000
"""Visits of a shared node that are enumerated."""


@dataclass(frozen=True)
class User:
    """One Einsum that uses the shared buffer."""

    path: EinsumPath
    access: TensorAccess
    station: Station

    @cached_property
    def loops(self) -> dict[Address, Loop]:
        """Loops that apply at the node, by address."""
        return {loop.address: loop for loop in self.path.loops if applies(loop, self.station)}

    @cached_property
    def lanes(self) -> tuple[object, ...]:
        """How the Einsum spreads the node over lanes."""
        return tuple((lp.level, lp.iterations) for lp in self.loops.values() if lp.level is not None)

    @cached_property
    def signature(self) -> tuple[object, ...]:
        """How the tile moves over the tensor: users with equal signatures use equal tiles in every visit."""
        ranks: list[tuple[object, ...]] = []
        for rank, index in sorted(self.access.written, key=itemgetter(0)):
            if isinstance(index, Lookup):
                ranks.append((rank, 0, ("all", index.size)))
                continue
            terms = tuple(sorted(self._term(v, a) for v, a in index.terms))
            first = dict(self.path.einsum.first_values)
            shift = index.constant + sum(a * first.get(v, 0) for v, a in index.terms)
            ranks.append((rank, shift, terms))
        return tuple(ranks)

    def _term(self, variable: str, a: int) -> tuple[object, ...]:
        moves = tuple(
            (loop.address, a * loop.shape, None if loop.initial is None else a * loop.initial)
            for loop in self.loops.values()
            if loop.variable == variable
        )
        return (moves, a, self.path.einsum.extents[variable])


@dataclass(frozen=True)
class Hull:
    """The shared tile of one tensor at one node; `users` in execution order."""

    users: tuple[User, ...]

    @cached_property
    def loops(self) -> tuple[Address, ...]:
        """Addresses of the loops above. Raises NotSupportedError when the Einsums do not share them."""
        first = tuple(self.users[0].loops)
        for user in self.users[1:]:
            if tuple(user.loops) != first:
                raise NotSupportedError(
                    f"{user.access.tensor!r} is held once for several Einsums that spread it over lanes in different "
                    "ways; that is not supported yet",
                    hint="hold the tensor in each branch instead",
                )
        return first

    def values(self, path: EinsumPath, takes: Takes, slides: Address | None = None) -> int:
        """Hull footprints summed over the visits that `takes` (of the loops of `path`) counts.

        `slides`: the temporal loop whose next iteration keeps what it needs of the tile before.
        """
        chosen = self._chosen(path, takes)
        kept = 0 if slides is None else self._kept(chosen, self.loops.index(slides))
        return int(self._footprints(chosen).sum()) - kept

    def largest(self, most: Mapping[Rank, int]) -> int:
        """The largest hull of any visit; of some ranks no more than `most` indices are kept at a time."""
        used, ranks = self._bounds(self._chosen(self.users[0].path, None))
        lengths = [
            np.where(used, np.minimum(high - low + 1, most.get(rank, np.iinfo(np.int64).max)), 0)
            for rank, (low, high) in ranks.items()
        ]
        return int(_product(used, lengths).max())

    def _kept(self, indices: list[Any], axis: int) -> int:
        """Values that each hull has in common with the one before along `axis`, added up."""
        used, ranks = self._bounds(indices)
        n = used.shape[axis]
        now, before = np.arange(1, n), np.arange(n - 1)
        parts = []
        for low, high in ranks.values():
            begin = np.maximum(low.take(now, axis), low.take(before, axis))
            end = np.minimum(high.take(now, axis), high.take(before, axis))
            parts.append(np.clip(end - begin + 1, 0, None))
        return int(_product(used.take(now, axis) & used.take(before, axis), parts).sum())

    def covers(self, user: User, slides: Address | None = None) -> bool:
        """Whether `user` alone uses the whole hull in every visit, as far as it ever uses the tensor.

        `slides`: a loop whose next iteration keeps what it needs of the hull before; that need not be used again.
        """
        indices = self._chosen(user.path, None)
        alone = Hull((user,))
        exists = user.path.einsum.index_range(user.access)
        used, ranks = self._bounds(indices)
        _, alone_ranks = alone._bounds(indices, self.loops)
        ranks, alone_ranks = clipped(ranks, exists), clipped(alone_ranks, exists)
        whole = _volume(ranks) * used
        part = _volume(alone_ranks) * used
        if slides is None:
            return bool((whole == part).all())
        axis = self.loops.index(slides)
        kept = {rank: (_before(low, axis), _before(high, axis)) for rank, (low, high) in ranks.items()}
        again = _common(ranks, kept)
        covered = part + _volume(again) - _volume(_common(again, alone_ranks))
        first = np.arange(used.shape[axis]).reshape([-1 if i == axis else 1 for i in range(used.ndim)]) == 0
        return bool((whole == np.where(first, part, covered * used)).all())

    def _chosen(self, path: EinsumPath, takes: Takes | None) -> list[Any]:
        taken = {} if takes is None else {loop.address: take for loop, take in zip(path.loops, takes, strict=True)}
        chosen = []
        for address in self.loops:
            n = max(_iterations(user, address) for user in self.users)
            take = taken.get(address, ALL)
            if take == ALL:
                chosen.append(np.arange(n))
            else:
                lane = max(take, 0)
                chosen.append(np.arange(lane, min(n, lane + 1)))
        if math.prod(len(c) for c in chosen) > MAX_VISITS:
            raise NotSupportedError(
                f"too many visits of the storage that several Einsums share for {self.users[0].access.tensor!r}"
            )
        return chosen

    def _footprints(self, indices: list[Any], loops: tuple[Address, ...] | None = None) -> Any:
        used, ranks = self._bounds(indices, loops)
        return _product(used, [np.where(used, high - low + 1, 0) for low, high in ranks.values()])

    def _bounds(self, indices: list[Any], loops: tuple[Address, ...] | None = None) -> tuple[Any, dict[str, Any]]:
        """Which visits there are, and for each rank the first and the last index of the hull."""
        grid = dict(zip(loops or self.loops, np.meshgrid(*indices, indexing="ij", sparse=True), strict=True))
        shape = tuple(len(i) for i in indices)
        intervals = [intervals_of(user.path, user.access, user.loops, grid) for user in self.users]
        used = np.zeros(shape, dtype=bool)
        for active, _ in intervals:
            used = used | active
        bounds = {}
        for rank, _ in self.users[0].access.written:
            low: Any = np.full(shape, np.iinfo(np.int64).max)
            high: Any = np.full(shape, np.iinfo(np.int64).min)
            for active, ranks in intervals:
                begin, end = ranks[rank]
                low = np.where(active, np.minimum(low, begin), low)
                high = np.where(active, np.maximum(high, end), high)
            bounds[rank] = (low, high)
        return used, bounds


type _Box = Mapping[str, tuple[Any, Any]]


def _volume(ranks: _Box) -> Any:
    return _product(np.bool_(True), [np.clip(high - low + 1, 0, None) for low, high in ranks.values()])


def _product(used: Any, parts: list[Any]) -> Any:
    """The product of numbers of values, 0 where there is no visit; of Python's integers where 64 bits are too few."""
    most = math.prod(int(part.max(initial=0)) for part in parts) * np.size(used)
    total: Any = np.asarray(used).astype(np.int64 if most < 2**62 else object)
    for part in parts:
        total = total * part
    return total


def _common(a: _Box, b: _Box) -> _Box:
    return {rank: (np.maximum(low, b[rank][0]), np.minimum(high, b[rank][1])) for rank, (low, high) in a.items()}


def clipped(ranks: _Box, exists: Mapping[str, tuple[int, int]]) -> dict[str, tuple[Any, Any]]:
    """Intervals without what lies beyond the first and the last index of each rank in `exists`."""
    return {r: (np.maximum(low, exists[r][0]), np.minimum(high, exists[r][1])) for r, (low, high) in ranks.items()}


def _before(values: Any, axis: int) -> Any:
    """Values of the iteration before along `axis`; what the first one gets means nothing."""
    return np.roll(values, 1, axis)


def _iterations(user: User, address: Address) -> int:
    extent = user.path.einsum.extents[user.loops[address].variable]
    for other, loop in user.loops.items():
        if loop.variable != user.loops[address].variable:
            continue
        first = min(extent, loop.shape if loop.initial is None else loop.initial)
        if other == address:
            return 1 + int(-(-(extent - first) // loop.shape))
        extent = max(first, min(loop.shape, extent - first))
    raise AssertionError(address)


def intervals_of(
    path: EinsumPath, access: TensorAccess, loops: Mapping[Address, Loop], grid: Mapping[Address, Any]
) -> tuple[Any, dict[str, tuple[Any, Any]]]:
    """Where an Einsum has points at all, and for each rank the first and last index that it uses.

    Of a rank that it looks up it may use all.
    `grid`: iterations of `loops` as arrays that broadcast.
    """
    first = dict(path.einsum.first_values)
    start: dict[str, Any] = {v: np.int64(first.get(v, 0)) for v in path.einsum.rank_variables}
    extent: dict[str, Any] = {v: np.int64(n) for v, n in path.einsum.bounds}
    for address, loop in loops.items():
        index = grid[address]
        head = loop.shape if loop.initial is None else loop.initial
        begin = np.where(index > 0, head + (index - 1) * loop.shape, 0)
        size = np.where(index > 0, loop.shape, head)
        start[loop.variable] = start[loop.variable] + begin
        extent[loop.variable] = np.clip(extent[loop.variable] - begin, 0, size)
    active: Any = np.bool_(True)
    for size in extent.values():
        active = active & (size > 0)
    return active, {
        rank: (np.int64(0), np.int64(index.size - 1)) if isinstance(index, Lookup) else _ends(index, start, extent)
        for rank, index in access.written
    }


def _ends(index: Affine, start: dict[str, Any], extent: dict[str, Any]) -> tuple[Any, Any]:
    low: Any = np.int64(index.constant)
    high: Any = np.int64(index.constant)
    for variable, a in index.terms:
        near, far = a * start[variable], a * (start[variable] + extent[variable] - 1)
        low, high = low + np.minimum(near, far), high + np.maximum(near, far)
    return low, high
