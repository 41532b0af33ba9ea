"""The operations of one visit of the innermost loops: what becomes of them, and of the values that they take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from einmap.arch.component import Memory
from einmap.arrays import Bools, Ints
from einmap.einsum.einsum import TensorAccess
from einmap.errors import SpecError
from einmap.execute.zeros.encode import encoded
from einmap.execute.zeros.zeros import Zeros
from einmap.schedule.routes import Hold, Instance, Route, chain_to_memory

MOST_POINTS = 30_000_000
"""Points of one visit of the innermost loops that are looked at, lanes included."""

type LiveBefore = Mapping[str, Mapping[Instance, Bools]]
"""For each output, by instance of its innermost memory, the values that had a result before the visit."""


@dataclass(frozen=True, eq=False)
class Points:
    """All points of one visit, as arrays of times (rows) and lanes (columns), in the order in which they are run."""

    route: Route
    loops: tuple[Any, Any, Any]
    """Trips, variable and radix of the temporal loops."""
    lane_part: tuple[Any, Any]
    """For each lane and variable the number of its own lane combination, and how many there are."""
    zeros: Zeros
    tables: Sequence[Any]
    boxes: Mapping[str, Mapping[Instance, Any]]
    """By tensor and instance the box of the tile in the innermost memory."""
    live: LiveBefore

    @cached_property
    def lanes(self) -> list[Instance]:
        """Instances of the compute."""
        return self.route.lanes(self.route.unit_level)

    def count(self) -> None:
        """Count the visit. Raises SpecError for too many points."""
        route, zeros = self.route, self.zeros
        savings = zeros.sparsity[route.einsum.name].at(route.unit.name, None)
        state = np.zeros(self.inside.shape, dtype=np.int8)
        for access in (a for a in route.einsum.accesses if not a.output):
            state = np.maximum(state, self._passed(access))
        for access in (a for a in route.einsum.accesses if a.output):
            self._passed(access)
        for saving in savings:
            empty = ~np.logical_and.reduce([self.nonzero(leader) for leader in saving.on])
            state = np.maximum(state, empty * np.int8(saving.state))
        for n, lane in enumerate(self.lanes):
            for which in range(3):
                key = (route.einsum.name, route.unit.name, None, "compute", which)
                zeros.add(zeros.counts, key, lane, int((self.inside[:, n] & (state[:, n] == which)).sum()))

    @cached_property
    def values(self) -> list[Ints]:
        """Value of each rank variable at each point, -1 where there is none."""
        trips, variables, radix = self.loops
        part, width = self.lane_part
        steps = int(np.prod(trips, dtype=np.int64))
        if steps * len(self.lanes) > MOST_POINTS:
            raise SpecError(
                f"{steps * len(self.lanes):,} points below the innermost storage node are too many to look at "
                f"their zeros (at most {MOST_POINTS:,})",
                hint="hold a tensor further in, below some of the loops",
            )
        time = np.indices(tuple(trips)).reshape(len(trips), steps)
        found = []
        for v, table in enumerate(self.tables):
            at = radix[variables == v] @ time[variables == v]
            found.append(table[at[:, None] * width[v] + part[None, :, v]])
        return found

    @cached_property
    def inside(self) -> Bools:
        """Whether there is a point."""
        steps = int(np.prod(self.loops[0], dtype=np.int64))
        inside = np.ones((steps, len(self.lanes)), dtype=bool)
        for values in self.values:
            inside &= values >= 0
        return inside

    def indices(self, tensor: str) -> list[Ints]:
        """The index of a tensor along each rank at each point, 0 where there is no point."""
        route = self.route
        first = dict(route.einsum.first_values)
        found = []
        for index in route.indices[tensor]:
            at: Any = np.full(self.inside.shape, index.constant, dtype=np.int64)
            for v, a in index.terms:
                at = at + a * (self.values[route.einsum.rank_variables.index(v)] + first.get(v, 0))
            found.append(np.where(self.inside, at, 0))
        return found

    def nonzero(self, tensor: str) -> Bools:
        """Whether the value of a tensor is nonzero at each point."""
        mask = self.zeros.masks.get(tensor)
        found: Bools = self.inside if mask is None else mask[tuple(self.indices(tensor))] & self.inside
        return found

    def _passed(self, access: TensorAccess) -> Any:
        """Count what passes between the innermost memory and the compute; the state of each point's value."""
        route, zeros, tensor = self.route, self.zeros, access.tensor
        *tolls, memory = chain = chain_to_memory(route, tensor, None)
        merged = route.merged_between(tensor, route.unit_level, [h.level for h in chain])
        state = self._state(tensor, memory, merged[-1])
        nonzero = self.nonzero(tensor)
        ways = [("up", self.inside), ("down", self._found(access, memory, merged[-1]))] if access.output else []
        for station, group in zip((*tolls, memory), merged, strict=True):
            for n, lane in enumerate(self.lanes):
                if any(lane[i] for i in group):
                    continue
                instance = route.outward(lane, route.unit_level, station.level)
                for way, moved in ways or [("down", self.inside)]:
                    action = self._action(station, tensor, way)
                    if action is None:
                        continue
                    form = station if isinstance(station.component, Memory) or way == "up" else memory
                    if form is memory and zeros.has_parts(route, memory):
                        self._count_parts(station, memory, action, n, (moved[:, n], state[:, n]))
                        continue
                    columns = (moved[:, n], nonzero[:, n], state[:, n])
                    self._count(zeros, station, form, action, instance, columns)
        return state

    def _action(self, station: Hold, tensor: str, way: str) -> str | None:
        if isinstance(station.component, Memory):
            return "read" if way == "down" else "write"
        other = "up" if way == "down" else "down"
        return None if station.component.directions[tensor] == other else "read"

    def _count(
        self, zeros: Zeros, station: Hold, form: Hold, action: str, instance: Instance, columns: tuple[Any, Any, Any]
    ) -> None:
        moved, nonzero, state = columns
        einsum, tensor = self.route.einsum.name, station.tensor
        sparsity = zeros.sparsity[einsum]
        fmt = sparsity.formats.get((form.component.name, tensor)) if station is form else None
        one, zero = 0, 0
        if fmt is not None:
            shape = tuple(1 for _ in sparsity.ranks[tensor])
            one, zero = (encoded(fmt.levels, np.full(shape, there))[1] for there in (True, False))
        for which in range(3):
            here = moved & (state == which)
            filled = int((here & nonzero).sum())
            empty = int(here.sum()) - filled
            key = (einsum, station.component.name, tensor, action, which)
            leaves_out = sparsity.compresses(form.component.name, tensor)
            zeros.add(zeros.counts, key, instance, filled if leaves_out else filled + empty)
            zeros.add(zeros.metadata, key, instance, one * filled + zero * empty)

    def _count_parts(self, station: Hold, memory: Hold, action: str, n: int, columns: tuple[Any, Any]) -> None:
        """Count single values of a tile in a format with blocks or padding, of the lane at a position."""
        route, zeros, tensor = self.route, self.zeros, memory.tensor
        moved, state = columns
        if not moved.any():
            return
        lane = self.lanes[n]
        box = zeros.tile(route, memory, route.outward(lane, route.unit_level, memory.level))
        places = tuple(at[:, n] - low for at, (low, _) in zip(self.indices(tensor), box, strict=True))
        instance = route.outward(lane, route.unit_level, station.level)
        values, bits = zeros.parted(route, memory, box).singles
        for which in range(3):
            here = moved & (state == which)
            key = (route.einsum.name, station.component.name, tensor, action, which)
            taken = tuple(at[here] for at in places)
            zeros.add(zeros.counts, key, instance, int(values[taken].sum()))
            if station is memory:
                zeros.add(zeros.metadata, key, instance, int(bits[taken].sum()))

    def _state(self, tensor: str, memory: Hold, merged: tuple[int, ...]) -> Any:
        """State of a tensor's value at each point: savings of its memory, and of those further out."""
        route, zeros = self.route, self.zeros
        state = np.zeros(self.inside.shape, dtype=np.int8)
        for n, lane in enumerate(self.lanes):
            outer = zeros.state(route, tensor, memory, route.outward(lane, route.unit_level, memory.level))
            state[:, n] = outer
        groups: dict[Instance, list[int]] = {}
        for n, lane in enumerate(self.lanes):
            groups.setdefault(tuple(-1 if i in merged else x for i, x in enumerate(lane)), []).append(n)
        for saving in zeros.sparsity[route.einsum.name].at(memory.component.name, tensor):
            for leader in saving.on:
                used = self.nonzero(leader)
                for columns in groups.values():
                    empty = ~used[:, columns].any(axis=1)
                    for n in columns:
                        state[:, n] = np.maximum(state[:, n], empty * np.int8(saving.state))
        return state

    def _found(self, access: TensorAccess, memory: Hold, merged: tuple[int, ...]) -> Bools:
        """Points at which a lane reads an output: those with a result, or all if a first read is not skipped."""
        route = self.route
        unit = memory.component
        assert isinstance(unit, Memory)
        skips = route.unit.skip_initial_output_write and unit.skip_initial_output_write
        found = self.inside.copy()
        takes_part = np.array([not any(lane[i] for i in merged) for lane in self.lanes])
        found[:, ~takes_part] = False
        if not skips:
            return found
        of_lane = [route.outward(lane, route.unit_level, memory.level) for lane in self.lanes]
        indices = self.indices(access.tensor)
        for instance in dict.fromkeys(of_lane):
            columns = [n for n, at in enumerate(of_lane) if at == instance]
            box = self.boxes[access.tensor].get(instance)
            if box is None:
                continue
            shape = tuple(high - low for low, high in box)
            inside = self.inside[:, columns].ravel()
            places = [(at[:, columns].ravel() - low) * inside for at, (low, _) in zip(indices, box, strict=True)]
            flat: Any = np.ravel_multi_index(tuple(places), shape) if shape else np.zeros(inside.shape, dtype=np.int64)
            order = np.flatnonzero(inside)
            _, firsts = np.unique(flat[order], return_index=True)
            first = np.zeros(inside.shape, dtype=bool)
            first[order[firsts]] = True
            fresh = first & ~self.live[access.tensor][instance].ravel()[flat]
            found[:, columns] &= ~fresh.reshape(-1, len(columns))
        return found
