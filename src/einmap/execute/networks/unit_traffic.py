"""Values on their way between the units of an array's memory and the lanes below."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from einmap.arch.component import Memory
from einmap.execute.networks.routing import Wires
from einmap.execute.networks.units import Counts, Unit, Units, array_level, first_of_units, is_spread, place_of, unit_of
from einmap.execute.tiles.buffers import Mask
from einmap.schedule.boxes import Box
from einmap.schedule.routes import Hold, Instance, Route

type Amounts = tuple[int, int, int]
"""Values that go down and up, and fills that are not made."""


@dataclass
class Moving:
    """Exchange of lanes of level `inner` with the units of a memory, by unit. Nothing if that is one unit."""

    units: Units
    route: Route
    parent: Hold
    inner: int
    amounts: dict[Unit, dict[Instance, int]] = field(default_factory=dict)

    @property
    def copied(self) -> bool:
        """Whether each unit has the values that its lanes need, and these read them there."""
        memory = self.parent.component
        if not is_spread(self.parent) or not isinstance(memory, Memory) or self.parent.tensor not in memory.replicate:
            return False
        return self.inner >= array_level(self.route, memory)

    def fetching(self, merged: Sequence[int], lanes: Iterable[Instance]) -> dict[Instance, Unit]:
        """Where each unit has copies: the lanes that fetch one for all that share it, with their unit."""
        return first_of_units(self.route, self.parent, merged, lanes, self.inner) if self.copied else {}

    def add(self, lane: Instance, whole: Box, part: Box, where: Counts | Mask) -> list[tuple[Unit, int]]:
        """Values of a part of the parent's tile that a lane exchanges, weighted with `where`; by unit."""
        if not is_spread(self.parent):
            return []
        if self.copied:
            found = [(unit_of(self.route, self.parent, lane, self.inner), int(where.sum()))]
        else:
            found = self.units.by_unit(self.route, self.parent, whole, part, where)
        for unit, n in found:
            of_unit = self.amounts.setdefault(unit, {})
            of_unit[lane] = of_unit.get(lane, 0) + n
        return found

    def carry(self, wires: Wires, tensor: str, *, up: bool) -> None:
        """Route all that has been added."""
        memory = self.parent.component
        assert isinstance(memory, Memory)
        level = str(array_level(self.route, memory))
        for unit, amounts in self.amounts.items():
            home = {(level, name): at for name, at in place_of(self.parent, unit).items()}
            wires.carry(self.route, tensor, (self.parent.level, self.inner), amounts, up=up, home=home)


@dataclass
class Touches:
    """How often a lane of the compute uses each value of the tile that its memory holds.

    `used`: operations; `live`, `fresh`: of those of an output that it reads first, those that find a result and those
    that find none.
    """

    used: Counts
    live: Counts
    fresh: Counts

    @staticmethod
    def none(shape: tuple[int, ...]) -> Touches:
        """Nothing has been used."""
        return Touches(*(np.zeros(shape, dtype=np.int64) for _ in range(3)))

    def touch(self, index: tuple[int, ...], live: Mask, *, takes_part: bool) -> None:
        """An operation uses a value; `live`: which values have results, which is true of this one from now on."""
        self.used[index] += 1
        if takes_part:
            (self.live if live[index] else self.fresh)[index] += 1
        live[index] = True


@dataclass
class InUnits:
    """The operations of one visit, lane by lane. `fetching`: of copies, the lanes that fetch one, with their unit."""

    moving: Moving
    touches: Mapping[Instance, Touches]
    boxes: Mapping[Instance, Box]
    fetching: Mapping[Instance, Unit]

    def _by_unit(self, lane: Instance, where: Counts) -> Iterator[tuple[Unit, int]]:
        box = self.boxes[lane]
        yield from self.moving.units.by_unit(self.moving.route, self.moving.parent, box, box, where)

    def carry(self, wires: Wires, tensor: str, *, output: bool, skips: bool) -> None:
        """Route the values over the networks between the units and the lanes."""
        for up in (True, False) if output else (False,):
            self.moving.amounts.clear()
            for lane, touched in self.touches.items():
                down = touched.live + (0 if skips else touched.fresh) if output else touched.used
                self.moving.add(lane, self.boxes[lane], self.boxes[lane], touched.used if up else down)
            self.moving.carry(wires, tensor, up=up)

    def passing(self, lane: Instance, counted: bool, *, output: bool, skips: bool) -> Iterator[tuple[Unit, Amounts]]:
        """Exchange of a lane with each unit; `counted`: whether it does so for all that share the values."""
        touched = self.touches[lane]
        if self.moving.copied:
            if lane in self.fetching:
                yield self.fetching[lane], (int(touched.used.sum()), 0, 0)
            return
        if counted:
            for unit, n in self._by_unit(lane, touched.used):
                yield unit, (0, n, 0) if output else (n, 0, 0)
        if output:
            for unit, n in self._by_unit(lane, touched.live):
                yield unit, (n, 0, 0)
            for unit, n in self._by_unit(lane, touched.fresh):
                yield unit, (0, 0, n) if skips else (n, 0, 0)
