"""Tables over all dataplacements at once: what is left to pay, whatever memories further in keep, and in which order.

For one use of the fanouts a state is a memory and what holds each tensor last; over the lattice its table says what
the rest costs at least. A node needs room beside all nodes of its memory further out, whose tiles are no smaller than
they would be where it stands. So the table of the first state bounds all mappings with that use of the fanouts, and
with costs so far the tables bound what begins with some nodes: dataplacements are found from the outside in, and only
those are completed that may be better than a cutoff.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from einmap.arch.component import Memory
from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.cost_bounds.before_plans import placement_kernels as kernels
from einmap.mapper.cost_bounds.before_plans.keeping import Keeping, Masks
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.cost_bounds.relaxed_bounds import bounds_of_ways
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.tile_lattice import positions_after
from einmap.mapper.objective.objectives import goal_codes, table_columns
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.progress import Progress

ALL_COLUMNS = 100_000_000
"""Bytes up to which every column of cost that matters has tables; beyond, energy alone."""

type Nodes = tuple[tuple[int, int], ...]
"""Storage nodes below the outermost memory, from the outside in: number of the memory, of the tensor."""


class TooManyError(Exception):
    """More dataplacements than are worth looking at may be better than a cutoff."""


@dataclass(frozen=True)
class Use:
    """Costs of one use of the fanouts; arrays as `placement_kernels.least_to_go` takes them.

    `row`: all columns of cost, with what those without tables are at least. `leak`: W.
    """

    after: Ints
    rates: Floats
    fixed: Floats
    ends: Floats
    row: Floats
    leak: float


@dataclass(eq=False)
class FreeTables:
    """Tables of a path for one use of its fanouts at a time, by its number in `path.lanes`."""

    path: Path
    keeping: Keeping

    def __post_init__(self) -> None:
        path = self.path
        self.levels, self.lattice, self.pricer = self.keeping.levels, path.lattice, path.pricer
        self.tensors = [access.tensor for access in path.einsum.accesses]
        self.values, self.fills = self.lattice.filled(path.einsum)
        tensors = len(self.tensors)
        every = sorted(self.keeping.states, key=lambda s: (-s[0], -self._mask(*s).bit_count(), s[1]))
        self.number = {state: s for s, state in enumerate(every)}
        """States by memory and by what holds each tensor."""
        self.states = np.full((len(every), 2), -1, dtype=np.int64)
        self.placed = np.full((len(every), tensors, 2), -1, dtype=np.int64)
        self.may_end = np.zeros(len(every), dtype=np.bool_)
        self.room_of = np.zeros(len(every), dtype=np.int64)
        self.room = self._describe_states()
        """Arrays of states, as `placement_kernels.least_to_go` takes them."""
        self._pool: Floats = np.empty((0, 0, 0))
        self._filled = -1
        self.columns = table_columns(path.request.goals, self.pricer.columns.n)
        """Columns of cost that have tables."""
        if self.bytes > ALL_COLUMNS:
            self.columns = self.columns[:1]
        of_components = self.pricer.columns.of_components(path.leaves)
        self.codes = goal_codes(path.request.goals, path.leaves, of_components, self.pricer.columns.n - 1)

    @property
    def work(self) -> int:
        """Numbers in the tables of one use."""
        return len(self.states) * self.lattice.size * len(self.columns)

    @property
    def bytes(self) -> int:
        """Room that the tables of one use need."""
        return self.work * 8

    def bounds_of_uses(self, progress: Progress) -> tuple[Floats, Ints]:
        """Bounds of the objective without tables, by use, and uses in their order; see `bounds_of_ways`."""
        least, order = bounds_of_ways(self.path, self.keeping.ways, self.path.lanes, progress)
        return least[:, 0], order

    def _describe_states(self) -> Floats:
        """Write down where each state leads, and give the room of the sets of tensors that memories keep in some."""
        rooms: list[Floats] = []
        known: dict[tuple[int, int], int] = {}
        for (m, held), s in self.number.items():
            mask = self._mask(m, held)
            self.states[s] = m, self.number.get((m + 1, held), -1)
            self.may_end[s] = mask in self.keeping.kept[m]
            for t, holder in enumerate(held):
                other = self.number.get((m, (*held[:t], m, *held[t + 1 :])), -1)
                self.placed[s, t] = holder, -1 if holder == m else other
            if (m, mask) not in known:
                known[m, mask] = len(rooms)
                rooms.append(np.where(self._fit(m, mask), 0.0, np.inf))
            self.room_of[s] = known[m, mask]
        return np.stack(rooms)

    @staticmethod
    def _mask(memory: int, held: Masks) -> int:
        """Tensors that a memory keeps in a state, as a mask."""
        return sum(1 << t for t, holder in enumerate(held) if holder == memory)

    def _fit(self, memory: int, mask: int) -> Bools:
        """Points at which a memory has room for the tiles of some tensors, all of them as they would be there."""
        leaf = self.path.leaves[self.levels[memory]]
        assert isinstance(leaf, Memory)
        bits = np.zeros(self.lattice.size)
        for t, tensor in enumerate(self.tensors):
            if mask >> t & 1:
                bits += self.values[t] * leaf.bits[tensor]
        return bits <= leaf.size_bits * (1 + ROUNDING)

    @cached_property
    def packed(self) -> tuple[Ints, Ints, Ints, Ints, Ints]:
        """The lattice as the kernels take it."""
        lattice = self.lattice
        return lattice.radices, lattice.strides, lattice.offsets, *lattice.packed("covers")

    # costs of a use

    def use(self, number: int) -> Use:
        """Costs of one use of the fanouts."""
        table = self.path.lanes.only(np.array([number]))
        n, tensors, k = len(self.levels), len(self.tensors), len(self.columns)
        rates, fixed = np.zeros((2, n, tensors, n, k))
        exchanged = np.zeros((tensors, n, k))
        unit = len(self.path.leaves) - 1
        for t, access in enumerate(self.path.einsum.accesses):
            for holder, level in enumerate(self.levels):
                exchanged[t, holder] = self.pricer.innermost(table, access, (level, unit))[0, self.columns]
                for m in range(holder + 1, n):
                    rates[m, t, holder], fixed[m, t, holder] = self._node(table, t, holder, m)
        row = self.pricer.operations(table, unit + 1)[0]
        operations = row[self.columns]
        ends = np.zeros((len(self.states), k))
        for (_, held), s in self.number.items():
            ends[s] = operations + sum(exchanged[t, holder] for t, holder in enumerate(held))
        return Use(self._after(table), rates, fixed, ends, row, float(self.pricer.leak_power(table)[0]))

    def _node(self, table: LaneTable, t: int, holder: int, memory: int) -> tuple[Floats, Floats]:
        """Rates and fixed costs of a node, of an output the least over what may hold it further in."""
        access, levels = self.path.einsum.accesses[t], self.levels
        inner = range(memory + 1, len(levels)) if access.output else range(0)
        each = []
        for below in (some for size in range(len(inner) + 1) for some in combinations(inner, size)):
            chain = tuple(levels[m] for m in sorted({0, holder, memory, *below}))
            each.append(self.pricer.node(table, access.tensor, (*chain, len(self.path.leaves) - 1), levels[memory], -1))
        rates, fixed = (np.min([node[i][0] for node in each], axis=0)[self.columns] for i in (0, 1))
        return rates, fixed

    def _after(self, table: LaneTable) -> Ints:
        """For each memory and point the one below the lanes that follow the memory, -1 where there is none."""
        lattice, ends = self.lattice, [*self.levels[1:], len(self.path.leaves)]
        after = np.zeros((len(self.levels), lattice.size), dtype=np.int64)
        for m, (level, end) in enumerate(zip(self.levels, ends, strict=True)):
            between = (table.levels > level) & (table.levels <= end)
            divisors = table.bounds[0, between].prod(axis=0)
            for a, axis in enumerate(lattice.axes):
                at = np.array(positions_after(axis, int(divisors[a])), dtype=np.int64)[lattice.coord[:, a]]
                after[m] = np.where((after[m] < 0) | (at < 0), -1, after[m] + at * lattice.strides[a])
        return after

    # tables

    def fill(self, number: int, use: Use) -> None:
        """Fill the tables for one use of the fanouts, unless they are there."""
        if self._filled == number:
            return
        if not self._pool.size:
            self._pool = np.empty((len(self.states), len(self.columns), self.lattice.size))
        kernels.least_to_go(
            self._pool, self.states, self.placed, self.may_end, use.after, use.ends, use.rates, use.fixed, self.fills,
            self.room, self.room_of, self.packed,
        )  # fmt: skip
        self._filled = number

    def bound(self, number: int) -> float:
        """The objective that no mapping with one use of the fanouts is below."""
        use = self.use(number)
        self.fill(number, use)
        return self._least(use, self._first(use), self._pool[self.number[1, (0,) * len(self.tensors)]])

    def placements(self, number: int, cutoff: float, most: int) -> list[Nodes]:
        """All dataplacements that with one use of the fanouts may be no worse than a cutoff, the best bounds first.

        `most`: steps that may be looked at. Raises TooManyError where these are not enough.
        """
        use = self.use(number)
        self.fill(number, use)
        found = []
        begin = 1, (0,) * len(self.tensors)
        for bound, nodes in self._completed(use, begin, (self.keeping.kept_at_top,), self._first(use), (), cutoff):
            most -= 1
            if most < 0:
                raise TooManyError
            if nodes is not None:
                found.append((bound, nodes))
        return [nodes for _, nodes in sorted(found)]

    def likely(self, number: int) -> Nodes | None:
        """A dataplacement that follows the least bounds with one use of the fanouts; None where these are infinite."""
        use = self.use(number)
        self.fill(number, use)
        state: tuple[int, Masks] = 1, (0,) * len(self.tensors)
        kept: Masks = (self.keeping.kept_at_top,)
        costs = self._first(use)
        nodes: Nodes = ()
        while True:
            steps = self._steps(use, state, kept, costs)
            bound, after, costs, further = min(steps, key=lambda step: step[0])
            if not math.isfinite(bound) or after is None:
                return nodes if math.isfinite(bound) else None
            kept = kept if after[0] == state[0] else (*kept, self._mask(*state))
            state, nodes = after, nodes + further

    def _completed(
        self, use: Use, state: tuple[int, Masks], kept: Masks, costs: Floats, nodes: Nodes, cutoff: float
    ) -> Iterator[tuple[float, Nodes | None]]:
        """Dataplacements that begin with some nodes; None at each step on the way. `kept`: in memories further out."""
        yield 0.0, None
        for bound, after, below, further in self._steps(use, state, kept, costs):
            if bound > cutoff:
                continue
            if after is None:
                yield bound, nodes
                continue
            held = kept if after[0] == state[0] else (*kept, self._mask(*state))
            yield from self._completed(use, after, held, below, nodes + further, cutoff)

    def _steps(
        self, use: Use, state: tuple[int, Masks], kept: Masks, costs: Floats
    ) -> Iterator[tuple[float, tuple[int, Masks] | None, Floats, Nodes]]:
        """Steps that may follow costs so far: bound, state (None at the end), costs there at least, nodes between."""
        memory, held = state
        number = self.number[state]
        if (*kept, self._mask(memory, held)) in self.keeping.begun:
            below = np.full_like(costs, np.inf)
            kernels.with_lanes(costs, use.after[memory], below)
            following = self.states[number, 1]
            if following < 0:
                to_go = np.zeros_like(costs) + use.ends[number][:, None]
                yield self._least(use, below, to_go), None, below, ()
            else:
                kernels.with_loops(below, self.packed)
                yield self._least(use, below, self._pool[following]), (memory + 1, held), below, ()
        for t, holder in enumerate(held):
            if holder < memory:
                after = memory, (*held[:t], memory, *held[t + 1 :])
                if (other := self.number.get(after, -1)) < 0:
                    continue
                below = costs.copy()
                rates, fixed = use.rates[memory, t, holder], use.fixed[memory, t, holder]
                kernels.with_node(below, rates, fixed, self.fills[t], self.room[self.room_of[other]])
                kernels.with_loops(below, self.packed)
                yield self._least(use, below, self._pool[other]), after, below, ((memory, t),)

    def _first(self, use: Use) -> Floats:
        """Costs so far at each point below the lanes that follow the outermost memory."""
        costs = np.full((len(self.columns), self.lattice.size), np.inf)
        costs[:, self.lattice.top] = 0.0
        kernels.with_loops(costs, self.packed)
        below = np.full_like(costs, np.inf)
        kernels.with_lanes(costs, use.after[0], below)
        kernels.with_loops(below, self.packed)
        return below

    def _least(self, use: Use, costs: Floats, to_go: Floats) -> float:
        nothing, value = np.zeros(0), np.empty(1)
        least: float = kernels.least_value(
            costs, to_go, use.leak, self.codes, use.row.copy(), self.columns, nothing, value
        )
        return least
