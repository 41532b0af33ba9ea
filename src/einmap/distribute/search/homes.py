"""Where a tensor may be kept: one placement, or two of which the second is made from the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.hops.shortest import Paths
from einmap.progress import checkpoint

type Numbers = NDArray[np.intp]
type Costs = NDArray[np.float64]

MAX_PAIRS, MAX_LIMITED_PAIRS = 1000, 200
"""Pairs of homes of one tensor that are listed at first, and where memory is limited."""
MAX_TRIED = 60_000
"""Pairs of placements up to which it is tried which of them serve as homes."""


@dataclass(frozen=True, slots=True)
class HomeRole:
    """The role of a tensor: the homes that are `allowed`, where each reader may read it, where it may come out
    (None: a graph input), whether it is pinned to `allowed`, and whether memory is `limited` or its ends
    have to match those of others, so that no home replaces another one.
    """

    allowed: tuple[int, ...]
    needs: tuple[tuple[int, ...], ...]
    produced: tuple[int, ...] | None
    pinned: bool
    limited: bool


@dataclass(frozen=True, eq=False)
class Homes:
    """Where a tensor may be kept. `first`, `second`: numbers of placements, equal where there is one home only;
    `costs`: of making the second from the first; `nearest`: whether the second is nearer to each placement;
    `reach`: the cost from the nearer home to each placement; `cut`: whether any second home is allowed for each first
    one, without being listed.
    """

    paths: Paths
    role: HomeRole
    first: Numbers
    second: Numbers
    costs: Costs
    nearest: NDArray[np.bool_]
    reach: Costs
    cut: bool = False

    @classmethod
    def listed(cls, paths: Paths, role: HomeRole, first: Numbers, second: Numbers, cut: bool = False) -> Homes:
        """These pairs."""
        distances = paths.distances
        nearest = distances[second] < distances[first]
        reach = np.where(nearest, distances[second], distances[first])
        return cls(paths, role, first, second, distances[first, second], nearest, reach, cut)

    def only(self, kept: NDArray[np.bool_] | Numbers) -> Homes:
        """Some of them."""
        return Homes(
            self.paths, self.role, self.first[kept], self.second[kept], self.costs[kept], self.nearest[kept],
            self.reach[kept], self.cut,
        )  # fmt: skip


@lru_cache(maxsize=1000)
def homes_of(paths: Paths, role: HomeRole) -> Homes:
    """One home of those allowed, or two where that may save something."""
    cut = False
    allowed = role.allowed
    if len(role.needs) == 1 and not role.pinned and not role.limited and set(role.needs[0]) <= set(allowed):
        # nothing is better than to keep it where its only reader reads it
        allowed = role.needs[0]
    pairs = [(home, home) for home in allowed]
    if role.pinned and role.produced is not None and (role.needs or role.limited):
        # on its way to where it is asked for it may rest elsewhere
        (end,) = role.allowed
        ways_there = np.isfinite(paths.distances[:, end])
        if not role.needs:
            ways_there &= _needs_less(paths, role.produced, end)
        pairs += [(int(first), end) for first in np.nonzero(ways_there)[0] if first != end]
    first, second = np.array(pairs, dtype=np.intp).T
    if len(role.needs) >= (2 if role.pinned or (role.limited and role.produced is None) else 3):
        cut = len(role.allowed) * len(paths.distances) > MAX_TRIED
        more_first, more_second = (first, second) if cut else _second_homes(paths.distances, role)
        cut |= not role.pinned and len(more_first) > (MAX_LIMITED_PAIRS if role.limited else MAX_PAIRS)
        if not cut:
            first, second = np.concatenate([first, more_first]), np.concatenate([second, more_second])
    homes = Homes.listed(paths, role, first, second, cut)
    return homes if role.limited else _without_replaced(homes)


def pairs_of_homes(homes: Homes, kept: NDArray[np.bool_]) -> Homes:
    """Listed pairs of homes that were not. `kept[i, j]`: whether the first home `i` may go with placement `j`."""
    rows, second = np.nonzero(kept)
    first = homes.first[rows]
    useful = first == second
    for begin in range(0, len(first), 1000):
        part = slice(begin, begin + 1000)
        useful[part] |= _saves(homes.paths.distances, homes.role, first[part], second[part])
    listed = Homes.listed(homes.paths, homes.role, first[useful], second[useful])
    return listed if homes.role.limited else _without_replaced(listed)


def _second_homes(distances: Costs, role: HomeRole) -> tuple[Numbers, Numbers]:
    """Pairs of homes whose second saves the readers more than it costs."""
    every = np.arange(len(distances))
    useful = []
    for first in role.allowed:
        checkpoint()
        useful.append(_saves(distances, role, np.full(len(distances), first), every))
    rows, second = np.nonzero(np.array(useful))
    return np.array(role.allowed, dtype=np.intp)[rows], second


def _needs_less(paths: Paths, produced: Sequence[int], end: int) -> NDArray[np.bool_]:
    """For each placement whether a result needs less memory that rests there on its way to `end`."""
    values, every = paths.places.values, np.arange(len(paths.distances))
    lies = np.array(produced, dtype=np.intp)[:, None]
    straight = paths.held_while_moving(lies, np.array(end))
    resting = np.maximum(paths.held_while_moving(lies, every), values + paths.temporary(every, np.array(end)))
    return np.asarray(((resting < straight) & np.isfinite(paths.distances[lies, every])).any(axis=0))


def _saves(distances: Costs, role: HomeRole, first: Numbers, second: Numbers) -> NDArray[np.bool_]:
    """Whether the second home saves the readers more than it costs, pair by pair."""
    saved = np.zeros(len(first))
    for reader in role.needs:
        columns = np.array(reader, dtype=np.intp)
        before, after = distances[np.ix_(first, columns)], distances[np.ix_(second, columns)]
        with np.errstate(invalid="ignore"):
            gain = np.where(np.isfinite(before), before - after, 0.0)
        saved += gain.max(axis=1, initial=0.0)
    cost = distances[first, second]
    return np.isfinite(cost) & (saved > cost)


def _without_replaced(homes: Homes) -> Homes:
    """All single homes, and the pairs that no single home replaces at the same cost for all readers and producers."""
    single = homes.first == homes.second
    if single.all():
        return homes
    role = homes.role
    every = sorted({need for reader in role.needs for need in reader})
    columns = [homes.reach[:, every]]
    if role.produced is not None:
        columns.append(homes.paths.distances[np.ix_(list(role.produced), homes.first)].T + homes.costs[:, None])
    else:
        columns.append(homes.costs[:, None])
    table = np.hstack(columns)
    replaced = single.copy()
    for row in table[single]:
        left = np.nonzero(~replaced)[0]
        replaced[left] = (row <= table[left]).all(axis=1)
    return homes.only(single | ~replaced)
