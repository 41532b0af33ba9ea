"""Chances at places further out, by which what is paid further in is known.

What a saving decides further out depends on the tile of the leader there, and holds for all that passes further in. So
a search takes one window of chances for granted after another: within it nodes stand only where the leader's tile has
such a chance, and what is paid further in is at least that with the smallest of them. A window of one chance makes it
exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from einmap.arch.component import Memory
from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.cost_bounds.zeros.looking import Look, Tile, Windows
from einmap.mapper.cost_bounds.zeros.tiles import TilesPricer
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.model.batch.zero_tables import SURE, Chance

SAME = 1e-11
"""Relative difference up to which chances count as one level."""
NEAR = 1e-3
"""Relative difference of chances up to which a window is not parted where costs are lower bounds in any case."""


@dataclass(eq=False)
class WindowedPricer(TilesPricer):
    """Coefficients with zeros: chances at all points and in windows."""

    def chance_at_points(self, leader: str, lanes: int) -> Chance:
        """Chances that the tiles of some lanes have a nonzero, for each point."""
        key = "points", leader, lanes
        if key not in self.remembered:
            extents = self.tables.extents(leader, self.shapes)
            self.remembered[key] = self.tables.of_lanes(leader, extents, lanes)
        found: Chance = self.remembered[key]
        return found

    def ranks(self, leader: str) -> tuple[Ints, Floats]:
        """The level of chance of each point, in order, and the least chance of each level."""
        key = "ranks", leader
        if key not in self.remembered:
            least = np.broadcast_to(np.asarray(self.chance_at_points(leader, 1).least), (self.lattice.size,))
            values, of_point = np.unique(least, return_inverse=True)
            is_new = np.diff(values, prepend=-1.0) > SAME * values
            self.remembered[key] = (np.cumsum(is_new) - 1)[of_point.ravel()], values[is_new]
        found: tuple[Ints, Floats] = self.remembered[key]
        return found

    def is_within(self, look: Look | Tile) -> Bools:
        """Points at which the leader's tile has a chance in the window of a place, or a tile is one of the window."""
        assert self.windows is not None
        first, end = self.windows[look]
        of_point = self.ranks(look.leader)[0] if isinstance(look, Look) else self.tiles_of(look).of_point
        within: Bools = (first <= of_point) & (of_point < end)
        return within

    def chance_of(self, look: Look, lanes: Any) -> Chance:
        """Least and greatest chance in the window of a place; `lanes`: that look together, one number or several."""
        each = np.asarray(lanes).astype(np.int64)
        found = {n: self._chance_of(look, n) for n in np.unique(each).tolist()}
        if not each.ndim:
            return found[int(each)]
        least, most = (np.empty(each.shape) for _ in range(2))
        for n, chance in found.items():
            least[each == n], most[each == n] = chance.least, chance.most
        return Chance(least, most)

    def _chance_of(self, look: Look, lanes: int) -> Chance:
        assert self.windows is not None
        key = "window", look.leader, self.windows[look], lanes
        if key not in self.remembered:
            chance, within = self.chance_at_points(look.leader, lanes), self.is_within(look)
            size = (self.lattice.size,)
            least, most = (np.broadcast_to(np.asarray(x), size)[within] for x in (chance.least, chance.most))
            self.remembered[key] = Chance(float(least.min(initial=1.0)), float(most.max(initial=0.0)))
        found: Chance = self.remembered[key]
        return found

    @cached_property
    def windows_are_exact(self) -> bool:
        """Whether the chances that are taken for granted are known, not only between two bounds."""
        return all(self.spread(look) <= 1 + 2 * SAME for look in self.windows or ())

    def spread(self, look: Look | Tile) -> float:
        """The greatest chance, or number of a part, in the window of a place by the least one."""
        if isinstance(look, Tile):
            return self.spread_of(look)
        lanes = np.unique(self.lanes_of(self.every_use, look)).astype(np.int64).tolist()
        chances = [self._chance_of(look, n) for n in lanes]
        return max(chance.most / chance.least if chance.least else np.inf for chance in chances)

    def whole(self, looks: Sequence[Look | Tile]) -> Windows:
        """The windows that say nothing of some places, but where the whole tensor is held."""
        windows: dict[Look | Tile, tuple[int, int]] = {}
        for look in looks:
            if isinstance(look, Look):
                windows[look] = 0, len(self.ranks(look.leader)[1])
            else:
                top = self.top_of(look)
                windows[look] = (top, top + 1) if look.whole else (0, len(self.tiles_of(look)))
        return windows

    @property
    def greatest_spread(self) -> float:
        """The greatest spread of a place whose window can be parted; 0 where none can."""
        assert self.windows is not None
        return max((self.spread(look) for look, (first, end) in self.windows.items() if end - first > 1), default=0.0)

    def width(self, place: tuple[str, str]) -> float:
        """Bits of a value of a tensor in a memory of this path; 1 in others."""
        memories = (leaf for leaf in self.leaves if isinstance(leaf, Memory) and leaf.name == place[0])
        return next((float(memory.bits[place[1]]) for memory in memories), 1.0)

    def halves(self) -> tuple[Windows, Windows] | None:
        """The windows in two parts, at the place of which least is known; None where that would say no more."""
        assert self.windows is not None
        spreads = {look: self.spread(look) for look, (first, end) in self.windows.items() if end - first > 1}
        look = max(spreads, key=lambda look: spreads[look], default=None)
        if look is None or spreads[look] <= 1 + (2 * SAME if self.may_be_exact else NEAR):
            return None
        first, end = self.windows[look]
        at = (first + end) // 2
        return {**self.windows, look: (first, at)}, {**self.windows, look: (at, end)}

    def parted(self, looks: Sequence[Look | Tile], most: int) -> list[Windows]:
        """Windows of some places that together leave nothing out: as many as make costs exact, or `most`.

        Those of which least is known are parted first.
        """
        whole, done = replace(self, windows=self.whole(looks)), list[Windows]()
        waiting = [(whole.greatest_spread, whole)]
        while waiting:
            _, widest = waiting.pop(max(range(len(waiting)), key=lambda i: waiting[i][0]))
            halves = widest.halves() if len(waiting) + len(done) + 2 <= most else None
            if halves is None:
                assert widest.windows is not None
                done.append(widest.windows)
            else:
                parts = [replace(self, windows=windows) for windows in halves]
                waiting += [(part.greatest_spread, part) for part in parts]
        return done

    def granted_chances(self, table: LaneTable, tensor: str, parent: int) -> tuple[Chance, Chance]:
        """Chances in windows that what passes of a tensor below a memory is done, and that it takes time.

        For each use of the lanes, without those of leaders at which the memory looks in no window.
        """
        done = timed = SURE
        for leader in self.leaders(tensor, parent)[1] if self.windows is not None else ():
            done = done.both(self._granted(table, leader, [(tensor, parent)], skipping=False))
            timed = timed.both(self._granted(table, leader, [(tensor, parent)], skipping=True))
        return done, timed

    def _granted(self, table: LaneTable, leader: str, of: Sequence[tuple[str, int]], *, skipping: bool) -> Chance:
        """Chance of a leader in the windows on which depends what passes; `of`: tensors and memories."""
        chance = SURE
        for tensor, parent in of:
            own = self.leaders(tensor, parent)[0]
            if own.get(leader, False) if skipping else leader in own:
                continue
            looks = [x for x in self.granted(tensor, parent) if x.leader == leader and (x.skips or not skipping)]
            if looks:
                # the boxes of the innermost one lie in those of the others
                look = max(looks, key=lambda look: look.parent)
                chance = chance.smaller(self.chance_of(look, self.lanes_of(table, look)))
        return chance

    def most_done(self, table: LaneTable, tensor: str, levels: tuple[int, int]) -> Any:
        """Greatest chance that what passes of a tensor between two levels is done, for each use of the lanes."""
        most = self.granted_chances(table, tensor, levels[0])[0].most
        for leader in self.leaders(tensor, levels[0])[0] if levels[1] == len(self.leaves) - 1 else ():
            lanes = self.together(table, tensor, levels, leader)
            extents = self.tables.extents(leader, dict.fromkeys(self.einsum.rank_variables, 1))
            most = most * np.asarray(self.tables.of_lanes(leader, extents, lanes).most)
        return most
