"""Tiles that pass between memories: what is saved of them, and what they take in their formats."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np

from einmap.arch.component import Memory
from einmap.arrays import Bools
from einmap.errors import NotSupportedError
from einmap.execute.results.result import Held, StateKey, ZeroCounts
from einmap.execute.zeros.encode import encoded
from einmap.execute.zeros.parted import PartedTile
from einmap.mapping.nodes import Address
from einmap.schedule.boxes import Box, box_of
from einmap.schedule.routes import Hold, Instance, Route, chain_to_memory
from einmap.sparse.savings import Sparsity

MOST_TILES = 64
"""Tiles in formats with blocks or padding that are remembered, at most."""

type Sums = dict[StateKey, dict[Instance, float]]


@dataclass(frozen=True)
class Moved:
    """Values of a box that pass: `where` they do, and which of these are nonzero."""

    box: Box
    where: Bools
    nonzero: Bools


@dataclass
class Zeros:
    """Counts on masks while a mapping runs. `masks`: true where a value is nonzero, ranks as in buffers.

    `clock`: iterations of the running temporal loops. `counts`: values and operations; `metadata`: bits.
    """

    sparsity: Mapping[str, Sparsity]
    masks: Mapping[str, Bools]
    clock: Mapping[Address, int] = field(default_factory=dict)
    counts: Sums = field(default_factory=dict)
    metadata: Sums = field(default_factory=dict)
    held: dict[tuple[str, str, str], Held] = field(default_factory=dict)
    tiles: dict[tuple[str, str, str, Box], PartedTile] = field(default_factory=dict)

    def result(self) -> ZeroCounts:
        """All that has been counted."""
        return ZeroCounts(self.masks, self.counts, self.metadata, self.held)

    def nonzero(self, tensor: str, box: Box) -> Bools:
        """Where the values of a box are nonzero."""
        mask = self.masks.get(tensor)
        if mask is None:
            return np.ones(tuple(high - low for low, high in box), dtype=bool)
        return mask[tuple(slice(low, high) for low, high in box)]

    def add(self, sums: Sums, key: StateKey, instance: Instance, amount: float) -> None:
        """Add to a count of an instance."""
        if amount:
            of_key = sums.setdefault(key, {})
            of_key[instance] = of_key.get(instance, 0) + amount

    def state(self, route: Route, tensor: str, hold: Hold, lane: Instance) -> int:
        """State of a holder's exchange in this visit: the most that it, or one further out, is saved."""
        chain = chain_to_memory(route, tensor, hold)
        if not chain:
            return 0
        merged = route.merged_between(tensor, hold.level, [h.level for h in chain])[-1]
        group = [
            other
            for other in route.lanes(hold.level)
            if all(a == b for i, (a, b) in enumerate(zip(other, lane, strict=True)) if i not in merged)
        ]
        own = self.own_state(route, tensor, chain[-1], lambda leader: self._used(route, leader, hold, group))
        return max(own, self.state(route, tensor, chain[-1], route.outward(lane, hold.level, chain[-1].level)))

    def own_state(self, route: Route, tensor: str, parent: Hold, used: Callable[[str], bool]) -> int:
        """The state that savings at a holder set; `used`: whether a visit uses a nonzero of a tensor."""
        savings = self.sparsity[route.einsum.name].at(parent.component.name, tensor)
        return max((s.state for s in savings if not all(used(leader) for leader in s.on)), default=0)

    def _used(self, route: Route, leader: str, hold: Hold, group: list[Instance]) -> bool:
        for lane in group:
            intervals = route.intervals(self.clock, lane, hold.level, hold.position)
            if intervals is not None and self.nonzero(leader, box_of(route, leader, intervals)).any():
                return True
        return False

    def passes(
        self,
        route: Route,
        hold: Hold,
        chain: list[Hold],
        merged: list[tuple[int, ...]],
        lane: Instance,
        box: Box,
        where: Bools,
        *,
        down: bool,
    ) -> None:
        """A lane's values of a tile, those of `box` that `where` says, go into a holder or out of it."""
        if route.einsum.name not in self.sparsity or not where.any():
            return
        state = self.state(route, hold.tensor, hold, lane)
        nonzero = self.nonzero(hold.tensor, box) & where
        moved = Moved(box, where, nonzero)
        self._pass(route, hold, (hold, box), "write" if down else "read", (lane, state), moved)
        tiles = {hold: box, chain[-1]: self.tile(route, chain[-1], route.outward(lane, hold.level, chain[-1].level))}
        sender = chain[-1] if down else hold
        for station, group in zip(chain, merged, strict=True):
            if any(lane[i] for i in group):
                continue
            at = route.outward(lane, hold.level, station.level), state
            if isinstance(station.component, Memory):
                self._pass(route, station, (station, tiles[station]), "read" if down else "write", at, moved)
            elif station.component.directions[hold.tensor] != ("up" if down else "down"):
                self._pass(route, station, (sender, tiles[sender]), "read", at, moved)

    def tile(self, route: Route, hold: Hold, lane: Instance) -> Box:
        """The part of a tensor that a memory holds now for an Einsum."""
        intervals = route.intervals(self.clock, lane, hold.level, hold.position)
        assert intervals is not None
        return box_of(route, hold.tensor, intervals)

    def has_parts(self, route: Route, hold: Hold) -> bool:
        """Whether a memory stores a tensor in a format with blocks or padding, of whose tiles parts are taken."""
        fmt = self.sparsity[route.einsum.name].formats.get((hold.component.name, hold.tensor))
        return fmt is not None and not fmt.is_plain

    def parted(self, route: Route, hold: Hold, box: Box) -> PartedTile:
        """A tile in such a format."""
        key = route.einsum.name, hold.component.name, hold.tensor, box
        if key not in self.tiles:
            if len(self.tiles) >= MOST_TILES:
                self.tiles.pop(next(iter(self.tiles)))
            fmt = self.sparsity[route.einsum.name].formats[hold.component.name, hold.tensor]
            self.tiles[key] = PartedTile(fmt, self.nonzero(hold.tensor, box), box)
        return self.tiles[key]

    def _pass(
        self,
        route: Route,
        station: Hold,
        form: tuple[Hold, Box],
        action: str,
        at: tuple[Instance, int],
        moved: Moved,
    ) -> None:
        """Count values at a station, in the form in which a memory stores its tile, with their metadata."""
        (memory, tile), (instance, state) = form, at
        sparsity, tensor = self.sparsity[route.einsum.name], memory.tensor
        key = (route.einsum.name, station.component.name, tensor, action, state)
        if self.has_parts(route, memory):
            if not moved.where.all():
                raise NotSupportedError(f"{tensor!r} passes in parts, which formats with blocks or padding do not know")
            values, bits = self.parted(route, memory, tile).taken(moved.box)
        else:
            leaves_out = sparsity.compresses(memory.component.name, tensor)
            values = int(moved.nonzero.sum() if leaves_out else moved.where.sum())
            fmt = sparsity.formats.get((memory.component.name, tensor))
            is_told = fmt is not None and station is memory and moved.where.all()
            bits = encoded(fmt.levels, moved.nonzero)[1] if fmt is not None and is_told else 0
        self.add(self.counts, key, instance, values)
        if station is memory:
            self.add(self.metadata, key, instance, bits)

    def opened(self, route: Route, hold: Hold, box: Box) -> None:
        """A memory holds a tile from now on."""
        sparsity, memory = self.sparsity.get(route.einsum.name), hold.component
        if sparsity is None or not isinstance(memory, Memory) or hold.tensor not in sparsity.densities:
            return
        key = (route.einsum.name, memory.name, hold.tensor)
        tile = self.nonzero(hold.tensor, box)
        fmt = sparsity.formats.get((memory.name, hold.tensor))
        if self.has_parts(route, hold):
            values, bits = self.parted(route, hold, box).taken(box)
        else:
            values, bits = (tile.size, 0) if fmt is None else encoded(fmt.levels, tile)
        before, width = self.held.get(key, Held()), memory.bits[hold.tensor]
        most = (before.values, before.metadata)
        if values * width + bits > most[0] * width + most[1]:
            most = (values, bits)
        sums = (before.sum_values + values, before.sum_metadata + bits, before.tiles + 1)
        self.held[key] = Held(*most, *sums)
