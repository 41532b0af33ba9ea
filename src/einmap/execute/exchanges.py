"""Exchanges between a buffer and the next holder outward: fills and write-backs, value by value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Memory
from einmap.einsum.gather import Places, checked_places, lookup_grid, rows_of
from einmap.einsum.spaces.projection import Lookup
from einmap.execute.leaf import Passing, charge, points_of
from einmap.execute.lines import LineTransfers, moved
from einmap.execute.networks.unit_traffic import Moving
from einmap.execute.networks.units import Units, is_spread
from einmap.execute.recorder import Recorder
from einmap.execute.tiles.buffers import Flags, Heap, Mask, Tile
from einmap.execute.tiles.visits import Visit, Visits
from einmap.mapping.nodes import Address
from einmap.schedule.boxes import Box, hull
from einmap.schedule.place import NodeTensor, Place
from einmap.schedule.routes import Hold, Instance, Route, chain_to_memory

_REDUCE = {"sum": np.add, "max": np.maximum, "min": np.minimum}


@dataclass(frozen=True)
class Gathering:
    """Reads tables by position: what a gather finds in the outermost holder, at the indices that are there now.

    That holder keeps the table as it is; everything further in holds rows by position. Where an index is not there yet,
    or a row, nothing is there; whoever reads it finds that out.

    `ranks`: the order of each tensor's ranks in its buffers."""

    visits: Visits
    heap: Heap
    ranks: Mapping[str, tuple[str, ...]]

    def rows(self, route: Route, tensor: str, boxes: Mapping[Instance, list[Box]]) -> dict[Instance, Tile]:
        """For each instance of the outermost holder a tile with the rows that are asked for; the caller frees it."""
        hold = route.holds[tensor][0]
        held = self.visits.of(hold.address, tensor).tiles
        return {
            instance: self._tile(route, tensor, held[instance], hull(asked))
            for instance, asked in boxes.items()
            if asked and instance in held
        }

    def _tile(self, route: Route, tensor: str, table: Tile, box: Box) -> Tile:
        access = route.einsum.by_tensor[tensor]
        tile = Tile(self.heap, box)
        ranges = {rank: ends for (rank, _), ends in zip(access.projection, box, strict=True)}
        shape = tuple(high - low for low, high in box)
        places: dict[str, Places] = {}
        known = np.ones(shape, dtype=bool)
        for rank, index in access.lookups.items():
            grid = lookup_grid(access, index, ranges)
            values, there = self._indices(route, index, grid, shape)
            places[rank] = checked_places(route.einsum, access, rank, np.where(there, values, 0), grid)
            known &= there
        where, real = rows_of(access, ranges, places)
        by_rank = {rank: at for (rank, _), at in zip(access.written, where, strict=True)}
        ordered = [by_rank[rank] - low for rank, (low, _) in zip(self.ranks[tensor], table.box, strict=True)]
        inside = known & real
        for at, length in zip(ordered, table.shape, strict=True):
            inside &= (at >= 0) & (at < length)
        reach = tuple(np.where(inside, at, 0) for at in ordered)
        values, present = table.values(table.box)[reach], table.present(table.box)[reach].astype(bool)
        tile.values(box)[...] = np.where(inside, values, 0.0)
        tile.present(box)[...] = np.where(real, inside & present, known)
        return tile

    def _indices(
        self, route: Route, index: Lookup, grid: tuple[Places | int, ...], shape: tuple[int, ...]
    ) -> tuple[NDArray[np.float64], Mask]:
        """Values of an index tensor at the places `grid`, and which of them are in one of its buffers now."""
        by_rank = dict(zip((rank for rank, _ in index.projection), grid, strict=True))
        values, there = np.zeros(shape), np.zeros(shape, dtype=bool)
        keys = [(hold.address, index.tensor) for hold in route.holds[index.tensor]]
        for tile in (tile for key in keys if key in self.visits.open for tile in self.visits.open[key].tiles.values()):
            at = [by_rank[rank] - low for rank, (low, _) in zip(self.ranks[index.tensor], tile.box, strict=True)]
            inside = np.ones(shape, dtype=bool)
            for part, length in zip(at, tile.shape, strict=True):
                inside &= (part >= 0) & (part < length)
            reach = tuple(np.where(inside, part, 0) for part in at)
            here = inside & tile.present(tile.box)[reach].astype(bool)
            values = np.where(here, tile.values(tile.box)[reach], values)
            there |= here
        return values, there


def is_gathered(route: Route, tensor: str, address: Address) -> bool:
    """Whether a node is the outermost holder of a table of which the Einsum looks up rows."""
    access = route.einsum.by_tensor.get(tensor)
    return access is not None and bool(access.gathered) and route.holds[tensor][0].address == address


@dataclass(frozen=True)
class Exchanges:
    """Moves values into and out of the open visits, and has them counted."""

    places: Mapping[NodeTensor, Place]
    visits: Visits
    recorder: Recorder
    gathering: Gathering
    units: Units = field(default_factory=Units)

    def _parent(self, route: Route, tensor: str, hold: Hold) -> tuple[Visit, list[Hold], list[tuple[int, ...]]]:
        chain = chain_to_memory(route, tensor, hold)
        merged = route.merged_between(tensor, hold.level, [h.level for h in chain])
        return self.visits.of(chain[-1].address, tensor), chain, merged

    def ensure(self, route: Route, tensor: str, hold: Hold) -> None:
        """Fill a buffer for an Einsum, unless that has been done in this visit."""
        place, visit = self.places[hold.address, tensor], self.visits.of(hold.address, tensor)
        name = route.einsum.name
        if name in visit.filled or place.is_backing():
            return
        visit.filled.add(name)
        if tensor in route.einsum.outputs:
            visit.produced = True
            self._fill_output(route, tensor, hold, visit)
        elif not any(u.einsum.name in visit.filled for u in place.consumers if u is not route):
            self._fill_input(route, tensor, hold, visit)

    def _fill_input(self, route: Route, tensor: str, hold: Hold, visit: Visit) -> None:
        """Fill the whole tile, or the part of it that no earlier producer has touched."""
        parent, chain, merged = self._parent(route, tensor, hold)
        producer = self.places[hold.address, tensor].producer
        moved: dict[Instance, int] = {}
        moving = Moving(self.units, route, chain[-1], hold.level)
        fetching = moving.fetching(merged[-1], visit.tiles)
        sources = parent.tiles
        gathers = is_gathered(route, tensor, chain[-1].address)
        if gathers:
            asked: dict[Instance, list[Box]] = {}
            for lane, tile in visit.tiles.items():
                asked.setdefault(route.outward(lane, hold.level, chain[-1].level), []).append(tile.box)
            sources = self.gathering.rows(route, tensor, asked)
        for lane, tile in visit.tiles.items():
            missing: Flags = np.ones(tile.shape, dtype=np.uint8)
            if visit.produced and producer is not None:
                produced = visit.boxes[producer.einsum.name].get(lane)
                if produced is not None:
                    Part(tile.box).of(missing, produced)[...] = 0
            if lane in visit.kept:
                Part(tile.box).of(missing, visit.kept[lane])[...] = 0
            amount = moved[lane] = int(missing.sum())
            source = sources[route.outward(lane, hold.level, chain[-1].level)]
            mask = missing.astype(bool)
            tile.values(tile.box)[mask] = source.values(tile.box)[mask]
            tile.present(tile.box)[mask] = source.present(tile.box)[mask]
            if visit.produced:
                visit.copied[lane] = mask
            self._charge(route, hold, hold, lane, Passing(amount, 0), tile.box, Values(tile.box, tile.box, mask))
            if amount:
                self._transfer(route, hold, (hold, lane, "write"), amount, tile.box)
            moving.add(lane, source.box, tile.box, mask)
            if self.recorder.zeros is not None:
                self.recorder.zeros.passes(route, hold, chain, merged, lane, tile.box, mask, down=True)
            for station, group in zip(chain, merged, strict=True):
                if fetching and station is chain[-1]:
                    if lane in fetching:
                        at = (*route.outward(lane, hold.level, station.level), *fetching[lane])
                        charge(self.recorder, route, station, at, Passing(amount, 0), child=hold, box=tile.box)
                elif all(lane[i] == 0 for i in group):
                    at = route.outward(lane, hold.level, station.level)
                    if amount:
                        self._transfer(route, hold, (station, at, "read"), amount, tile.box)
                    passed = Values(source.box, tile.box, mask)
                    self._charge(route, station, hold, lane, Passing(amount, 0), tile.box, passed)
        for tile in sources.values() if gathers else ():
            tile.free()
        self.transfers.settle()
        self._carry(route, hold, chain, moved, up=False, moving=moving)

    def _charge(
        self, route: Route, station: Hold, child: Hold, lane: Instance, passing: Passing, box: Box, values: Values
    ) -> None:
        """Values of a lane's tile pass a station on their way into or out of the child; `values`: which ones."""
        at = route.outward(lane, child.level, station.level)
        transfers = self.transfers, lane
        if is_spread(station):
            for unit, n in self.units.by_unit(route, station, values.whole, values.part, values.where):
                some = Passing(n if passing.down else 0, n if passing.up else 0)
                charge(self.recorder, route, station, (*at, *unit), some, child=child, box=box)
            key = route.einsum.name, child.tensor, child.address, station.address
            self.recorder.exchange(key, 0, 0, passing.skipped)
            return
        charge(self.recorder, route, station, at, passing, child=child, box=box, transfers=transfers)

    @cached_property
    def transfers(self) -> LineTransfers:
        """Lines that move now."""
        return LineTransfers(self.recorder)

    def _transfer(self, route: Route, child: Hold, through: tuple[Hold, Instance, str], amount: int, box: Box) -> None:
        """`amount` values of a tile pass a station on their way into or out of its child; `through`: with the action.

        A toll is passed by all that a memory inside of it writes or reads.
        """
        station, instance, action = through
        way = "in" if (action == "write") == (station is child) else "out"
        if isinstance(station.component, Memory):
            key = (route.einsum.name, station.component.name, child.tensor, action, child.component.name)
            self.recorder.transfer(key, instance)
        else:
            key = (route.einsum.name, station.component.name, child.tensor, "read", child.component.name)
            if station.component.directions[child.tensor] == ("up" if way == "in" else "down"):
                return
        if (route.einsum.name, child.tensor, child.address, way) not in self.recorder.seen:
            self.recorder.first_time(key, instance, moved(route, station, box, amount))

    def _carry(
        self,
        route: Route,
        hold: Hold,
        chain: list[Hold],
        moved: Mapping[Instance, int],
        *,
        up: bool,
        moving: Moving,
    ) -> None:
        """Route moved values over the networks between a holder and its parent, the last thing that is done there."""
        seen = route.einsum.name, hold.tensor, hold.address, "out" if up else "in"
        if is_spread(chain[-1]):
            moving.carry(self.recorder.wires, hold.tensor, up=up)
        else:
            first, levels = seen not in self.recorder.seen, (chain[-1].level, hold.level)
            self.recorder.wires.carry(route, hold.tensor, levels, moved, up=up, first=first)
        self.recorder.seen.add(seen)

    def _fill_output(self, route: Route, tensor: str, hold: Hold, visit: Visit) -> None:
        """Fill an output tile: results come in live; elements without one are skipped where both sides skip them."""
        parent, chain, merged = self._parent(route, tensor, hold)
        memory, outer = hold.component, chain[-1].component
        assert isinstance(memory, Memory)
        assert isinstance(outer, Memory)
        skips = memory.skip_initial_output_write and outer.skip_initial_output_write
        written: dict[Instance, Flags] = {}
        moved: dict[Instance, int] = {}
        moving = Moving(self.units, route, chain[-1], hold.level)
        for lane, box in visit.boxes[route.einsum.name].items():
            if not all(lane[i] == 0 for i in merged[-1]):
                continue
            tile = visit.tiles[lane]
            above = route.outward(lane, hold.level, chain[-1].level)
            source = parent.tiles[above]
            covered = written.setdefault(above, np.zeros(source.shape, dtype=np.uint8))
            before = Part(source.box).of(covered, box)
            live = source.live(box) | before
            comes = np.ones(live.shape, dtype=bool)
            if lane in visit.kept:
                Part(box).of(comes, visit.kept[lane])[...] = False
            new = int((~live[comes].astype(bool)).sum()) if skips else 0
            amount = moved[lane] = int(comes.sum()) - new
            tile.values(box)[comes] = source.values(box)[comes]
            tile.present(box)[comes] = source.present(box)[comes]
            source.present(box)[comes] = 0
            tile.added(box)[comes] = source.added(box)[comes]
            source.added(box)[comes] = 0
            tile.live(box)[comes] = live[comes]
            before[comes] = 1
            paid = comes & live.astype(bool) if skips else comes
            passing, source_values = Passing(amount, 0, new), Values(source.box, box, paid)
            self._charge(route, hold, hold, lane, passing, box, Values(tile.box, box, paid))
            moving.add(lane, source.box, box, paid)
            if self.recorder.zeros is not None:
                self.recorder.zeros.passes(route, hold, chain, merged, lane, box, paid, down=True)
            self._transfer(route, hold, (hold, lane, "write"), amount, box)
            for station in chain:
                at = route.outward(lane, hold.level, station.level)
                self._transfer(route, hold, (station, at, "read"), amount, box)
                self._charge(route, station, hold, lane, passing, box, source_values)
        self.transfers.settle()
        self._carry(route, hold, chain, moved, up=False, moving=moving)

    def write_back(self, place: Place, visit: Visit, producer: Route) -> None:
        """Values that the producer has made leave the buffer unless they stay for the next visit."""
        hold = place.holds[producer.einsum.name]
        parent, chain, merged = self._parent(producer, hold.tensor, hold)
        moved: dict[Instance, int] = {}
        moving = Moving(self.units, producer, chain[-1], hold.level)
        for lane, tile in visit.tiles.items():
            leaves = np.ones(tile.shape, dtype=bool)
            if lane in visit.left:
                Part(tile.box).of(leaves, visit.left[lane])[...] = False
            amount = moved[lane] = int(leaves.sum())
            target = parent.tiles[producer.outward(lane, hold.level, chain[-1].level)]
            own = Values(tile.box, tile.box, leaves)
            self._charge(producer, hold, hold, lane, Passing(0, amount), tile.box, own)
            moving.add(lane, target.box, tile.box, leaves)
            if self.recorder.zeros is not None:
                self.recorder.zeros.passes(producer, hold, chain, merged, lane, tile.box, leaves, down=False)
            self._transfer(producer, hold, (hold, lane, "read"), amount, tile.box)
            for station, group in zip(chain, merged, strict=True):
                if all(lane[i] == 0 for i in group):
                    at = producer.outward(lane, hold.level, station.level)
                    self._transfer(producer, hold, (station, at, "write"), amount, tile.box)
                    passed = Values(target.box, tile.box, leaves)
                    self._charge(producer, station, hold, lane, Passing(0, amount), tile.box, passed)
            if lane in visit.copied:
                # the parent has these values still: writing them once more changes nothing
                tile.present(tile.box)[visit.copied[lane]] = 0
            before = target.added(tile.box).copy()
            reduce_into(target, tile, producer)
            target.live(tile.box)[leaves] = 1
            if producer.einsum.by_tensor[hold.tensor].partial_bits is not None:
                whole = points_of(producer, producer.einsum.by_tensor[hold.tensor])
                complete = int(((target.added(tile.box) == whole) & (before < whole)).sum())
                self._complete(producer, hold, lane, [hold, *chain], complete)
        self.transfers.settle()
        self._carry(producer, hold, chain, moved, up=True, moving=moving)

    def _complete(self, route: Route, hold: Hold, lane: Instance, chain: list[Hold], complete: int) -> None:
        """Values of a lane that are complete where the lanes' parts come together, at the stations on their way."""
        for station in chain:
            later = route.summing_between(hold.tensor, station.level, chain[-1].level)
            if complete and all(lane[i] == 0 for i in later):
                at = route.outward(lane, hold.level, station.level)
                charge(self.recorder, route, station, at, Passing(0, 0, complete=complete), child=hold, box=None)


class Values(NamedTuple):
    """Which values of a part of a tile pass; `whole`: all of the tile."""

    whole: Box
    part: Box
    where: Mask


@dataclass(frozen=True)
class Part:
    """An array that covers the indices `box`."""

    box: Box

    def of[A: (Flags, Mask)](self, array: A, box: Box) -> A:
        """The part of the array that covers `box`."""
        view: A = array[tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(box, self.box, strict=True))]
        return view


def reduce_into(target: Tile, tile: Tile, route: Route) -> None:
    """Values that are in `tile` go to `target`, reduced with what is there."""
    reduce = _REDUCE[route.einsum.operation.reduction]
    box = tile.box
    here, there = tile.present(box).astype(bool), target.present(box).astype(bool)
    old, new = target.values(box), tile.values(box)
    old[...] = np.where(here & there, reduce(old, new), np.where(here, new, old))
    target.present(box)[...] |= tile.present(box)
    target.added(box)[...] += tile.added(box)
    target.live(box)[...] |= tile.live(box)


def move(tile: Tile, target: Tile, box: Box) -> None:
    """Values in a part of `tile` go to `target`, and leave the tile."""
    here = tile.present(box).astype(bool)
    target.values(box)[here] = tile.values(box)[here]
    target.present(box)[...] |= tile.present(box)
    target.live(box)[...] |= tile.live(box)
    target.added(box)[...] += tile.added(box)
    for flags in (tile.present(box), tile.live(box), tile.added(box)):
        flags[...] = 0
