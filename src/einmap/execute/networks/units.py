"""Memories of an array that are several units: every value has a place in one of them, or in several.

Which lanes need a value of a tile is found by going through the iterations below the storage node. Lanes that need the
same values are in some units: these have copies of them all, or are dealt them out in turn, in the order of the tile.
The rules are those of docs/networks.md, as in `model.counting.units`; they are written a second time on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Memory
from einmap.execute.tiles.buffers import Mask
from einmap.schedule.boxes import Box, box_of
from einmap.schedule.routes import Hold, Instance, Route, Turn

_EVERY = 2**62
"""A position below all nodes."""
type Unit = tuple[int, ...]
"""Number of a unit along each dimension of its array."""
type Counts = NDArray[np.int64]
type Shape = tuple[int, ...]


def is_spread(hold: Hold) -> bool:
    """Whether a memory is several units."""
    return isinstance(hold.component, Memory) and hold.component.is_spread


@dataclass
class Homes:
    """Where the values of a tile lie: for each unit which of them. `shape`: of the tile."""

    shape: Shape
    of_unit: dict[Unit, Mask] = field(default_factory=dict)

    def amounts(self, where: Counts | Mask, corner: Sequence[int]) -> Iterator[tuple[Unit, int]]:
        """How many values of a part of the tile, which begins at `corner`, each unit has, weighted with `where`."""
        part = tuple(slice(low, low + n) for low, n in zip(corner, where.shape, strict=True))
        for unit, mask in self.of_unit.items():
            found = int((where * mask[part]).sum())
            if found:
                yield unit, found


@dataclass
class Units:
    """The homes of tiles. Tiles of one shape at one node are laid out alike."""

    known: dict[object, Homes] = field(default_factory=dict)

    def homes(self, route: Route, hold: Hold, shape: Shape) -> Homes:
        """Where the values of a tile of this shape lie."""
        key = route.einsum.name, hold.address, hold.tensor, shape
        if key not in self.known:
            self.known[key] = _laid_out(route, hold, shape)
        return self.known[key]

    def held(self, route: Route, hold: Hold, shape: Shape) -> list[tuple[Unit, int]]:
        """How many values of a tile each unit has."""
        return [(unit, int(mask.sum())) for unit, mask in self.homes(route, hold, shape).of_unit.items()]

    def by_unit(self, route: Route, hold: Hold, box: Box, part: Box, where: Counts | Mask) -> list[tuple[Unit, int]]:
        """How many values of a part of the tile `box` each unit has, weighted with `where`."""
        shape = tuple(high - low for low, high in box)
        corner = [low - begin for (low, _), (begin, _) in zip(part, box, strict=True)]
        return list(self.homes(route, hold, shape).amounts(where, corner))


def array_level(route: Route, memory: Memory) -> int:
    """Where the fanout of a memory's array stands on the architecture path."""
    return next(i for i, leaf in enumerate(route.arch.path(route.unit.name)) if leaf.name == memory.array)


def array_turns(route: Route, hold: Hold, inner: int) -> list[list[tuple[int, Turn]]]:
    """For each dimension of a memory's array the loops over it, with their place in a lane of level `inner`."""
    memory = hold.component
    assert isinstance(memory, Memory)
    level = array_level(route, memory)
    turns = list(enumerate(t for t in route.lane_turns if (t.level or 0) <= inner))
    return [
        [(i, t) for i, t in turns if t.level == level and t.dimension is not None and t.dimension.name == units.name]
        for units in memory.units
    ]


def place_in_array(route: Route, hold: Hold, lane: Instance, inner: int | None = None) -> tuple[int, ...]:
    """Where a lane of level `inner` (of the compute) stands along each dimension of the memory's array."""
    places = []
    for turns in array_turns(route, hold, route.unit_level if inner is None else inner):
        place = 0
        for at, turn in turns:
            place = place * route.iterations[turn.address] + lane[at]
        places.append(place)
    return tuple(places)


def unit_of(route: Route, hold: Hold, lane: Instance, inner: int) -> Unit:
    """The unit that a lane of level `inner`, which is below the array, is next to."""
    memory = hold.component
    assert isinstance(memory, Memory)
    places = place_in_array(route, hold, lane, inner)
    return tuple(place // units.stride for place, units in zip(places, memory.units, strict=True))


def place_of(hold: Hold, unit: Unit) -> dict[str, int]:
    """Where a unit stands along each dimension of its array: at the first of its lanes."""
    memory = hold.component
    assert isinstance(memory, Memory)
    return {units.name: number * units.stride for units, number in zip(memory.units, unit, strict=True)}


def first_of_units(
    route: Route, hold: Hold, merged: Sequence[int], lanes: Iterable[Instance], inner: int
) -> dict[Instance, Unit]:
    """Of lanes that share copies those that fetch one, with the unit that they fetch it from: the first of each."""
    over = {i for turns in array_turns(route, hold, inner) for i, _ in turns}
    seen: set[tuple[Instance, Unit]] = set()
    found: dict[Instance, Unit] = {}
    for lane in sorted(lanes):
        unit = unit_of(route, hold, lane, inner)
        alike = tuple(0 if i in merged else n for i, n in enumerate(lane))
        if not any(lane[i] for i in merged if i not in over) and (alike, unit) not in seen:
            seen.add((alike, unit))
            found[lane] = unit
    return found


def _laid_out(route: Route, hold: Hold, shape: Shape) -> Homes:
    memory = hold.component
    assert isinstance(memory, Memory)
    needed = _needed(route, hold, shape)
    table = np.stack([mask.ravel() for mask in needed.values()])
    classes: dict[tuple[Instance, ...], list[int]] = {}
    for value in range(table.shape[1]):
        needing = tuple(lane for lane, needs in zip(needed, table[:, value], strict=True) if needs)
        classes.setdefault(needing, []).append(value)
    homes = Homes(shape)
    shared: dict[tuple[Unit, ...], list[int]] = {}
    for needing in sorted(classes, key=lambda lanes: min(place_in_array(route, hold, lane) for lane in lanes)):
        units = tuple(sorted({unit_of(route, hold, lane, route.unit_level) for lane in needing}))
        shared.setdefault(units, []).extend(classes[needing])
    for units, values in shared.items():
        for number, unit in enumerate(units):
            mask = homes.of_unit.setdefault(unit, np.zeros(shape, dtype=bool))
            own = values if hold.tensor in memory.replicate else values[number :: len(units)]
            mask.reshape(-1)[own] = True
    return homes


def _needed(route: Route, hold: Hold, shape: Shape) -> dict[Instance, Mask]:
    """For each lane of the array, as one of the compute, which values of a tile it needs at any time."""
    array = {i for turns in array_turns(route, hold, route.unit_level) for i, _ in turns}
    used = route.einsum.by_tensor[hold.tensor].variables
    clock = {t.address: 0 for t in route.turns if t.level is None}
    start = route.intervals(clock, route.lanes(hold.level)[0], hold.level, hold.position)
    assert start is not None
    origin = [low for low, _ in box_of(route, hold.tensor, start)]
    below = [t for t in route.turns if t.level is None and t.position > hold.position and t.variable in used]
    times = [range(route.iterations[t.address]) for t in below]
    lanes, deeper = [], []
    for i, turn in enumerate(route.lane_turns):
        every = range(route.iterations[turn.address])
        lanes.append(every if i in array else range(1))
        inside = (turn.level or 0) > hold.level and i not in array and turn.variable in used
        deeper.append(every if inside else range(1))
    over = {t.variable for i, t in enumerate(route.lane_turns) if i in array and route.iterations[t.address] > 1}
    indices = enumerate(route.indices[hold.tensor])
    whole = tuple(axis for axis, index in indices if over.isdisjoint(variable for variable, _ in index.terms))
    found = {}
    for lane in product(*lanes):
        mask = np.zeros(shape, dtype=bool)
        for now, more in product(product(*times), product(*deeper)):
            at_time = {**clock, **{t.address: n for t, n in zip(below, now, strict=True)}}
            full = tuple(a + b for a, b in zip(lane, more, strict=True))
            values = route.intervals(at_time, full, route.unit_level, _EVERY)
            if values is not None:
                # irrelevant loops leave indices as they are
                box = box_of(route, hold.tensor, values)
                mask[tuple(slice(a - o, b - o) for (a, b), o in zip(box, origin, strict=True))] = True
        # what strides leave out counts as data of the lane, as in every tile
        found[lane] = mask | mask.any(axis=whole, keepdims=True)
    return found
