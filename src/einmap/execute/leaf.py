"""One visit of everything below the last storage node of an Einsum: set up the kernel, run it, count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from einmap.arch.component import Memory, is_carrying
from einmap.einsum.einsum import TensorAccess
from einmap.errors import MappingError, NotSupportedError
from einmap.execute.kernel.kernel import REDUCTION, leaf_kernel, program
from einmap.execute.lines import LineTransfers, group_of, layout_of, lines_of, rounds_of
from einmap.execute.networks.unit_traffic import InUnits, Moving, Touches
from einmap.execute.networks.units import Units, is_spread
from einmap.execute.recorder import Recorder
from einmap.execute.tiles.buffers import Flags, Heap, Mask, Tile
from einmap.execute.tiles.visits import Visits
from einmap.execute.zeros.points import Points
from einmap.execute.zeros.zeros import Zeros
from einmap.schedule.boxes import Box
from einmap.schedule.routes import Clock, Hold, Instance, Route, Turn, chain_to_memory
from einmap.schedule.spaces import space_mask

type Tiles = Mapping[str, Mapping[Instance, Tile]]
"""For each tensor the tiles of its innermost memory."""


@dataclass
class Leaf:
    """The inner part of one Einsum; `run` executes one visit."""

    route: Route
    visits: Visits | None = None
    units: Units = field(default_factory=Units)

    def __post_init__(self) -> None:
        einsum = self.route.einsum
        assert einsum.operation.map is not None  # a schedule has no others
        self._tables: dict[object, Any] = {}
        self.inputs = [a for a in einsum.accesses if not a.output]
        self.outputs = [a for a in einsum.accesses if a.output]
        self.code = program(einsum.operation.map, [a.tensor for a in self.inputs])
        self.variables = einsum.rank_variables
        self.lanes = self.route.lanes(self.route.unit_level)

    @cached_property
    def inner(self) -> tuple[Turn, ...]:
        """Temporal loops that the kernel runs."""
        return tuple(t for t in self.route.turns if t.level is None and t.position > self.route.leaf_start)

    @cached_property
    def loops(self) -> tuple[Any, Any, Any]:
        """Trips, variable and radix of the inner loops."""
        trips = [self.route.iterations[t.address] for t in self.inner]
        variables = [self.variables.index(t.variable) for t in self.inner]
        radix = []
        for i, turn in enumerate(self.inner):
            later = [n for t, n in zip(self.inner[i + 1 :], trips[i + 1 :], strict=True) if t.variable == turn.variable]
            radix.append(int(np.prod(later, dtype=np.int64)))
        return tuple(np.array(x, dtype=np.int64) for x in (trips, variables, radix))  # type: ignore[return-value]

    @cached_property
    def lane_part(self) -> tuple[Any, Any]:
        """For each lane and variable the number of its own lane combination, and how many there are."""
        part = np.zeros((len(self.lanes), len(self.variables)), dtype=np.int64)
        width = np.ones(len(self.variables), dtype=np.int64)
        for position, turn in enumerate(self.route.lane_turns):
            v = self.variables.index(turn.variable)
            n = self.route.iterations[turn.address]
            width[v] *= n
            part[:, v] = part[:, v] * n + np.array([lane[position] for lane in self.lanes])
        return part, width

    def table(self, variable: str, clock: Clock) -> Any:
        """Value of a variable by (time index, lane index), -1 where there is none."""
        turns = [t for t in self.route.turns if t.variable == variable]
        outside = tuple(clock[t.address] for t in turns if t.level is None and t.position < self.route.leaf_start)
        key = (variable, outside)
        if key not in self._tables:
            self._tables[key] = self._make_table(variable, turns, clock)
        return self._tables[key]

    @cached_property
    def mask(self) -> tuple[Flags, Any]:
        """Which points of the box are in the iteration space, flat (empty: all), and each variable's step in it."""
        inside = space_mask(self.route.einsum)
        step = np.zeros(len(self.variables), dtype=np.int64)
        if inside is None:
            return np.zeros(0, dtype=np.uint8), step
        # a variable that no constraint names has one place
        for v in range(len(self.variables)):
            step[v] = np.prod(inside.shape[v + 1 :], dtype=np.int64) if inside.shape[v] > 1 else 0
        return inside.astype(np.uint8).ravel(), step

    def _make_table(self, variable: str, turns: list[Turn], clock: Clock) -> Any:
        timed = [t for t in turns if t.level is None and t.position > self.route.leaf_start]
        lanes = [t for t in turns if t in self.route.lane_turns]
        # loops of one iteration are not axes: an array has room for few, and there may be a thousand
        axes = [t for t in (*timed, *lanes) if self.route.iterations[t.address] > 1]
        shape = [self.route.iterations[t.address] for t in axes]
        index = dict(zip((t.address for t in axes), np.indices(shape, sparse=True), strict=True)) if axes else {}
        start: Any = np.zeros(shape, dtype=np.int64)
        size: Any = np.full(shape, self.route.einsum.extents[variable], dtype=np.int64)
        for turn in turns:
            i = index.get(turn.address, clock.get(turn.address, 0))
            begin = np.where(np.asarray(i) == 0, 0, turn.first + (np.asarray(i) - 1) * turn.shape)
            most = np.where(np.asarray(i) == 0, turn.first, turn.shape)
            size = np.where(size > 0, np.clip(size - begin, 0, most), 0)
            start = start + begin
        return np.where(size > 0, start, -1).astype(np.int64).ravel()

    def run(self, clock: Clock, tiles: Tiles, heap: Heap, recorder: Recorder) -> None:
        """Execute one visit. Raises MappingError when a value is read that is not there."""
        tables = [self.table(v, clock) for v in self.variables]
        # an Einsum of scalars has no rank variables
        table = np.concatenate(tables) if tables else np.zeros(0, dtype=np.int64)
        starts = np.cumsum([0, *(len(t) for t in tables[:-1])]).astype(np.int64)[: len(tables)]
        part, width = self.lane_part
        accesses = [*self.inputs, *self.outputs]
        linear = np.zeros((len(accesses), len(self.lanes), len(self.variables)), dtype=np.int64)
        constant = np.zeros((len(accesses), len(self.lanes)), dtype=np.int64)
        for t, access in enumerate(accesses):
            self._offsets(access, tiles[access.tensor], linear[t], constant[t])
        chains = {a.tensor: self._chain(a.tensor) for a in accesses}
        takes_part = np.ones((len(self.outputs), len(self.lanes)), dtype=np.uint8)
        for o, access in enumerate(self.outputs):
            merged = chains[access.tensor][1][-1]
            takes_part[o] = [all(lane[i] == 0 for i in merged) for lane in self.lanes]
        executed = np.zeros(len(self.lanes), dtype=np.int64)
        live = np.zeros((len(self.outputs), len(self.lanes)), dtype=np.int64)
        fresh, completed = np.zeros_like(live), np.zeros_like(live)
        operation = self.route.einsum.operation
        live_before = {
            a.tensor: {at: tile.live(tile.box).astype(bool) for at, tile in tiles[a.tensor].items()}
            for a in accesses
            if is_spread(chains[a.tensor][0][-1])
        }
        zeros = (
            recorder.zeros if self.route.einsum.name in (recorder.zeros.sparsity if recorder.zeros else ()) else None
        )
        points = None if zeros is None else self._zeros_at(zeros, tables, tiles)
        products_only = _only_products(self.code, len(self.inputs))
        failed = leaf_kernel()(
            *self.loops, table, starts, width, part, linear, constant, len(self.inputs),
            heap.values, heap.present, heap.live, self.code, products_only, REDUCTION[operation.reduction],
            takes_part, heap.added, self.points, *self.mask, executed, live, fresh, completed,
        )  # fmt: skip
        if failed >= 0:
            raise MappingError(
                f"Einsum {self.route.einsum.name!r} reads a value of {self.inputs[failed].tensor!r} that is not in "
                f"{self.route.holds[self.inputs[failed].tensor][-1].component.name!r} when it is needed"
            )
        if points is not None:
            points.count()
        together = self._together(tables, executed)
        for access in accesses:
            seen = live_before.get(access.tensor)
            by_unit = None if seen is None else self._in_units(access, chains[access.tensor], (tables, seen), tiles)
            self._count(access, chains[access.tensor], tiles[access.tensor], together, live, fresh, recorder, by_unit)
            holds, lanes_merged = chains[access.tensor]
            layout = layout_of(holds[-1])
            if layout is not None and layout.together:
                self._share_lines(access, (holds[-1], lanes_merged[-1]), tables, recorder)
        for o, access in enumerate(self.outputs):
            self._count_complete(access, chains[access.tensor][0], completed[o], recorder)
        for lane, n in zip(self.lanes, executed, strict=True):
            recorder.count((self.route.einsum.name, self.route.unit.name, None, "compute"), lane, int(n))
        recorder.step += int(executed.sum())

    def _zeros_at(self, zeros: Zeros, tables: list[Any], tiles: Tiles) -> Points:
        """The points of a visit, before they are run."""
        outputs = {a.tensor: tiles[a.tensor] for a in self.outputs}
        live = {t: {at: tile.live(tile.box).astype(bool) for at, tile in of.items()} for t, of in outputs.items()}
        boxes = {t: {at: tile.box for at, tile in of.items()} for t, of in outputs.items()}
        return Points(self.route, self.loops, self.lane_part, zeros, tables, boxes, live)

    def _offsets(self, access: TensorAccess, tiles: Mapping[Instance, Tile], linear: Any, constant: Any) -> None:
        hold = innermost(self.route, access.tensor)
        first = dict(self.route.einsum.first_values)
        for n, lane in enumerate(self.lanes):
            tile = tiles.get(self.route.outward(lane, self.route.unit_level, hold.level))
            if tile is None:
                continue
            constant[n] = tile.offset
            for index, step, (low, _) in zip(self.route.indices[access.tensor], tile.strides(), tile.box, strict=True):
                constant[n] += (index.constant - low) * step
                for v, a in index.terms:
                    linear[n, self.variables.index(v)] += a * step
                    constant[n] += a * first.get(v, 0) * step

    def _chain(self, tensor: str) -> tuple[list[Hold], list[tuple[int, ...]]]:
        """Stations from the compute outward to the innermost memory, and which lanes are merged there."""
        chain = chain_to_memory(self.route, tensor, None)
        return chain, self.route.merged_between(tensor, self.route.unit_level, [h.level for h in chain])

    @cached_property
    def points(self) -> Any:
        """Points that make up a result of each output, 0 where nobody asks whether it is complete."""
        asked = [points_of(self.route, access) if access.partial_bits is not None else 0 for access in self.outputs]
        return np.array(asked, dtype=np.int64)

    def _count_complete(self, access: TensorAccess, chain: list[Hold], completed: Any, recorder: Recorder) -> None:
        """Of the values that go up, those to which nothing is added any more; a part of the lanes' sum is not one."""
        for hold in chain:
            later = self.route.summing_between(access.tensor, hold.level, chain[-1].level)
            for n, lane in enumerate(self.lanes):
                if completed[n] and all(lane[i] == 0 for i in later):
                    instance = self.route.outward(lane, self.route.unit_level, hold.level)
                    passing = Passing(0, 0, complete=int(completed[n]))
                    charge(recorder, self.route, hold, instance, passing, child=None, box=None)

    def _count(
        self,
        access: TensorAccess,
        chain: tuple[list[Hold], list[tuple[int, ...]]],
        tiles: Mapping[Instance, Tile],
        together: Sequence[Mapping[Instance, int]],
        live: Any,
        fresh: Any,
        recorder: Recorder,
        by_unit: InUnits | None,
    ) -> None:
        memory = chain[0][-1].component
        assert isinstance(memory, Memory)
        skips = self.route.unit.skip_initial_output_write and memory.skip_initial_output_write
        level, outer = self.route.unit_level, chain[0][-1].level
        done: Counter[Instance] = Counter()
        for lanes in together:
            done.update(lanes)
        if by_unit is not None:
            by_unit.carry(recorder.wires, access.tensor, output=access.output, skips=skips)
        else:
            for lanes in together:
                recorder.wires.carry(self.route, access.tensor, (outer, level), lanes, up=access.output)
        if access.output and by_unit is None:
            o = self.outputs.index(access)
            back = {lane: int(live[o, n]) + (0 if skips else int(fresh[o, n])) for n, lane in enumerate(self.lanes)}
            recorder.wires.carry(self.route, access.tensor, (outer, level), back, up=False)
        for hold, merged in zip(*chain, strict=True):
            for n, lane in enumerate(self.lanes):
                if lane not in done:
                    continue
                instance = self.route.outward(lane, self.route.unit_level, hold.level)
                counted = all(lane[i] == 0 for i in merged)
                down = done[lane] if counted and not access.output else 0
                up = done[lane] if counted and access.output else 0
                new = 0
                if access.output:
                    o = self.outputs.index(access)
                    new = int(fresh[o, n]) if skips else 0
                    down = int(live[o, n]) + int(fresh[o, n]) - new
                tile = tiles.get(self.route.outward(lane, self.route.unit_level, chain[0][-1].level))
                box = None if tile is None else tile.box
                if by_unit is not None and hold is chain[0][-1]:
                    for unit, some in by_unit.passing(lane, counted, output=access.output, skips=skips):
                        charge(recorder, self.route, hold, (*instance, *unit), Passing(*some), child=None, box=box)
                    continue
                charge(recorder, self.route, hold, instance, Passing(down, up, new), child=None, box=box)

    def _together(self, tables: Sequence[Any], executed: Any) -> list[dict[Instance, int]]:
        """Operations by lane: where a tree's links depend on it, one part for each set of lanes at work at one time."""
        done = {lane: int(n) for lane, n in zip(self.lanes, executed, strict=True) if n}
        path = self.route.arch.path(self.route.unit.name)
        if len({*done.values()}) < 2 or not any(is_carrying(leaf) and leaf.topology == "tree" for leaf in path):
            return [done]
        trips, variables, radix = self.loops
        steps = np.indices(tuple(trips)).reshape(len(trips), -1)
        part, width = self.lane_part
        at_work = np.ones((steps.shape[1], len(self.lanes)), dtype=bool)
        for v, table in enumerate(tables):
            at = radix[variables == v] @ steps[variables == v]
            at_work &= table[at[:, None] * width[v] + part[None, :, v]] >= 0
        sets, counts = np.unique(at_work, axis=0, return_counts=True)
        return [
            {lane: int(n) for lane, works in zip(self.lanes, some, strict=True) if works}
            for some, n in zip(sets, counts, strict=True)
        ]

    def _steps(self, access: TensorAccess, tables: Sequence[Any]) -> Iterator[list[tuple[Instance, tuple[int, ...]]]]:
        """The points of a visit in the order of the kernel, lanes at work together: each with its index of a tensor."""
        part, width = self.lane_part
        first = dict(self.route.einsum.first_values)
        for step in product(*(range(int(n)) for n in self.loops[0])):
            at = [0] * len(self.variables)
            for i, v, radix in zip(step, *self.loops[1:], strict=True):
                at[v] += i * int(radix)
            together = []
            for n, lane in enumerate(self.lanes):
                values = {v: int(tables[i][at[i] * width[i] + part[n, i]]) for i, v in enumerate(self.variables)}
                if min(values.values(), default=0) >= 0:
                    indices = self.route.indices[access.tensor]
                    index = (i.constant + sum(a * (values[v] + first.get(v, 0)) for v, a in i.terms) for i in indices)
                    together.append((lane, tuple(index)))
            yield together

    def _in_units(
        self,
        access: TensorAccess,
        chain: tuple[list[Hold], list[tuple[int, ...]]],
        before: tuple[list[Any], dict[Instance, Mask]],
        tiles: Tiles,
    ) -> InUnits:
        """The operations of a visit told by the unit that has the value; `before`: tables, and which values were live.

        The points are gone through once more.
        """
        hold, merged = chain[0][-1], chain[1][-1]
        tables, live = before
        of_lane = {lane: self.route.outward(lane, self.route.unit_level, hold.level) for lane in self.lanes}
        shape = {lane: tiles[access.tensor][at].shape for lane, at in of_lane.items() if at in tiles[access.tensor]}
        counts = {lane: Touches.none(n) for lane, n in shape.items()}
        for step in self._steps(access, tables):
            for lane, index in step:
                box = tiles[access.tensor][of_lane[lane]].box
                at = tuple(i - low for i, (low, _) in zip(index, box, strict=True))
                counts[lane].touch(at, live[of_lane[lane]], takes_part=all(lane[i] == 0 for i in merged))
        moving = Moving(self.units, self.route, hold, self.route.unit_level)
        boxes = {lane: tiles[access.tensor][of_lane[lane]].box for lane in counts}
        return InUnits(moving, counts, boxes, moving.fetching(merged, counts))

    def _share_lines(
        self, access: TensorAccess, source: tuple[Hold, tuple[int, ...]], tables: list[Any], recorder: Recorder
    ) -> None:
        """Count the lines that lanes read together, step by step. `source`: the memory, and lanes that are merged."""
        hold, merged = source
        key = self.route.einsum.name, hold.component.name, access.tensor, "read"
        for step in self._steps(access, tables):
            touched: dict[tuple[Instance, Instance], set[tuple[int, ...]]] = {}
            for lane, index in step:
                if any(lane[i] for i in merged):
                    continue
                instance = self.route.outward(lane, self.route.unit_level, hold.level)
                group = instance, group_of(self.route, hold, lane, self.route.unit_level)
                lines = lines_of(self.route, hold, tuple((i, i + 1) for i in index))
                touched.setdefault(group, set()).update(lines)
            for (instance, _), shared in touched.items():
                rounds = rounds_of(self.route, hold, shared)
                recorder.lines(key, instance, len(shared), rounds, self.route.unit.name)


def _only_products(code: Any, inputs: int) -> bool:
    """Whether a program multiplies all its operands, in order."""
    operands = [row[1] for row in code if row[0] == 1]
    return bool(all(row[0] in (1, 2) for row in code) and operands == [*range(inputs)])


def innermost(route: Route, tensor: str) -> Hold:
    """The last memory that holds a tensor."""
    return [h for h in route.holds[tensor] if isinstance(h.component, Memory)][-1]


class Passing(NamedTuple):
    """Values that pass a station inward and outward, and fills that are not made since there is no result yet.

    `complete`: those of the values that go outward, here or in another call, that are as wide as results.
    """

    down: int
    up: int
    skipped: int = 0
    complete: int = 0


def points_of(route: Route, access: TensorAccess) -> int:
    """Points of the iteration space that are summed into one value of an output."""
    return int(np.prod([n for v, n in route.einsum.bounds if v not in access.variables], dtype=np.int64))


def _narrower(hold: Hold, action: str, passing: Passing) -> float:
    """By how many partial sums' worth complete values are narrower."""
    if not passing.complete:
        return 0
    unit = hold.component.action(action)
    return passing.complete * unit.saved_by_complete.get(hold.tensor, 0.0) / unit.actions_per_value[hold.tensor]


def charge(
    recorder: Recorder,
    route: Route,
    hold: Hold,
    instance: Instance,
    passing: Passing,
    *,
    child: Hold | None,
    box: Box | None,
    transfers: tuple[LineTransfers, Instance] | None = None,
) -> None:
    """Values that pass a station: a memory is read for what goes to the other side and written for what comes.

    `child`: who is filled and writes back, None for the Compute; every other station is on the outer side of the
    exchange, or a toll between. `box`: the tile they belong to. `transfers`: where lines are moved, with the lane of
    the child; lines that lanes of the compute share are counted apart.

    Raises NotSupportedError for lines of a tensor whose partial sums have a width of their own.
    """
    below = () if child is None else child.address
    filled = route.unit.name if child is None else child.component.name
    recorder.exchange((route.einsum.name, hold.tensor, below, hold.address), *passing[:3])
    name = (route.einsum.name, hold.component.name, hold.tensor)
    if not isinstance(hold.component, Memory):
        way = hold.component.directions[hold.tensor]
        outward = passing.up - _narrower(hold, "read", passing)
        paid = (passing.down if way != "up" else 0) + (outward if way != "down" else 0)
        recorder.count((*name, "read"), instance, paid, box, filled)
        return
    down = passing.down
    up = passing.up - _narrower(hold, "read" if hold is child else "write", passing)
    read, write = (up, down) if hold is child else (down, up)
    layout = layout_of(hold)
    for action, amount in (("read", read), ("write", write)):
        if layout is None:
            recorder.count((*name, action), instance, amount, box, filled)
        elif amount < 0 or (amount and child is not None and transfers is None):
            raise NotSupportedError(f"lines of {hold.tensor!r} beside partial_bits_per_value are not supported yet")
        elif child is not None and transfers is not None:
            transfers[0].touch(route, hold, child, action, transfers[1], box, amount)
        elif not layout.together:
            # single values, each of which is a line
            recorder.lines((*name, action), instance, amount, amount, filled)
