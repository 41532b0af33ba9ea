"""Branch and bound over the dataplacements of one Einsum on one path: the best mappings, proven.

For each dataplacement tables over the lattice say what the rest of the chain costs at least, for every column of
cost by itself and without the coupling of capacities; equal inner parts of dataplacements share them. The search goes
from the outside in, dataplacements in the order of their bounds.
"""

# Searches and tables do not refer to themselves in a circle: full garbage collections are rare where a compiler is
# loaded, and what a search made is to be freed with it.

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Self

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.branch_and_bound import kernels
from einmap.mapper.cost_bounds.coefficients import NodeCosts
from einmap.mapper.cost_bounds.cost_to_go.dense_tables import Tables
from einmap.mapper.cost_bounds.cost_to_go.table_blocks import Around, Level, Place, Recipe, places_of
from einmap.mapper.cost_bounds.path_costs import PathCosts
from einmap.mapper.cost_bounds.stalling_machine import StallingMachine
from einmap.mapper.objective import objective_kernels
from einmap.mapper.objective.objectives import goal_codes, table_columns
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.problem.request import Remainder, Request
from einmap.mapper.templates.chain_template import ChainTemplate, Held
from einmap.mapping.mapping import Mapping
from einmap.model.batch.einsum_cost import einsum_cost
from einmap.model.counting.path import EinsumPath, path_of
from einmap.model.occupancy.occupancy import buffers_of
from einmap.model.traffic.einsum_traffic import EinsumTraffic

NOTHING = np.zeros(0)
MOST_KEPT = 1_000_000
"""Numbers in arguments of the kernel that are kept for when a plan is looked at again, in all plans of a search."""


@dataclass(frozen=True, eq=False)
class TemplateTables:
    """A plan with its levels and the block of tables of each."""

    plan: ChainTemplate
    levels: list[Level]
    blocks: list[int]


class Descent:
    """The state of a depth-first search of one plan, so that it can be left and taken up again."""

    def __init__(self, depth: int, columns: int, memories: int, widest: int) -> None:
        self.state = np.zeros(2, dtype=np.int64)
        self.kept = NOTHING
        self.acc = np.zeros((depth + 1, columns))
        self.occupied = np.zeros((depth + 1, memories))
        self.point_at = np.zeros(depth + 1, dtype=np.int64)
        self.prefix_at = np.zeros(depth + 1, dtype=np.int64)
        self.cand = np.empty((depth, widest))
        self.cand_point = np.empty((depth, widest), dtype=np.int64)
        self.cand_prefix = np.empty((depth, widest), dtype=np.int64)
        self.cand_n = np.full(depth, -1, dtype=np.int64)
        self.cand_next = np.zeros(depth, dtype=np.int64)
        self.arrays: tuple[Any, ...] | None = None
        self.nodes = 0
        self.work = 0


@dataclass(eq=False)
class PathSearch(PathCosts):
    """Some dataplacements with some lanes, of one Einsum on one path."""

    goals: tuple[str, ...]
    remainder: Remainder
    instances: int = 1
    of_tables: Ints | None = None
    """Columns of cost whose tables are worth their time, if not all that the objectives need."""
    machine: StallingMachine | None = None
    """The machine whose latency is to be found for each mapping, where columns of cost are lower bounds."""
    ended = False
    """Whether making tables ended because the search was stopped."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.goal_codes = self.value_codes = self.codes_of_goals()
        """Objectives; values kept of each mapping: these, and bits in use where a cascade needs these."""
        self.compiled: list[TemplateTables] = []
        self.row_of: dict[tuple[Any, ...], int] = {}
        """The first row in `rates` and `fixed` of a node with the coefficients of this key."""
        self.rates = self.fixed = self.per_visit = np.zeros((0, self.columns))
        self._arrays: dict[TemplateTables, tuple[Any, ...]] = {}
        """Arguments of the kernel by plan, as long as the coefficients and tables are the same."""
        self.line_set, self.lines = np.zeros(0, dtype=np.int64), np.zeros((1, 0, 0))
        """Coefficients of the nodes, once they are gathered."""
        columns = table_columns(self.goals, self.columns) if self.of_tables is None else self.of_tables
        self.tables = self.new_tables(columns)

    def codes_of_goals(self) -> Ints:
        """The objectives as the kernels know them."""
        of_components = self.pricer.columns.of_components(self.leaves)
        return goal_codes(self.goals, self.leaves, of_components, self.columns - 1)

    def new_tables(self, columns: Ints) -> Tables:
        """Tables without blocks."""
        return Tables(self, columns)

    def emptied(self) -> Self:
        """This search without dataplacements; what it knows of the uses of the fanouts is not made anew."""
        other = copy(self)
        other.computed, other.ended = dict(self.computed), False
        other.compiled, other.row_of, other._arrays = [], {}, {}
        other.rates = other.fixed = other.per_visit = np.zeros((0, self.columns))
        other.tables = other.new_tables(self.tables.columns)
        return other

    def asking(self, request: Request, compiled: list[TemplateTables]) -> PathSearch:
        """This search with some of its dataplacements, for some of its objectives, by the tables of all of them."""
        other = copy(self)
        other.goals, other.remainder, other.compiled = request.goals, request.known_remainder, compiled
        other.goal_codes = other.value_codes = other.codes_of_goals()
        return other

    # plans as arrays

    def levels(self, plan: ChainTemplate) -> list[Level]:
        """One level for each choice of a plan."""
        levels: list[Level] = []
        r = 0
        for step in plan.steps:
            slot, n = step.given, len(step.fanouts)
            after, at_node = None, None
            if slot is not None:
                after = slot.after, None
                at_node = (step.at_node if n else (*slot.after, *step.at_node)), slot.lanes
            passed = None if slot is None else slot.passed
            node = None if n else step.node
            levels.append(Level(step.axes, r, node, step.lowers, n == 0, after if n else at_node, passed, step.rising))
            for i in range(n):
                r, last = r + 1, i == n - 1
                node = step.node if last else None
                levels.append(Level(None, r, node, None, last, at_node if last else None))
        return levels

    def compile(self, plan: ChainTemplate) -> TemplateTables | None:
        """The plan as arrays; None when a node of the outermost memory breaks its limits."""
        if not all(self.stands_at_top(node) for node in plan.outer):
            return None
        levels, places = self._places(plan)
        ends = tuple((t, self.pricer.last_exchange(plan.chains[t])) for t in self.tensors)
        key: object = ("end", ends, self.pricer.ends_of_ways(plan.chains))
        blocks: list[int] = []
        for place, level, inner, around in places:
            below = blocks[-1] if blocks else -1
            known = self.tables.blocks.get((place, key))
            if known is None:
                known = self.tables.block((place, key), Recipe(level, inner, plan.chains, below, around))
            key = known
            blocks.append(known)
        return TemplateTables(plan, levels, list(reversed(blocks)))

    def _places(self, plan: ChainTemplate) -> tuple[list[Level], list[Place]]:
        """The levels of a plan, and from the inside out what the tables of each depend on, but for those below it."""
        known = self.of_path.setdefault(("places",), {})
        if plan not in known:
            levels, numbers = self.levels(plan), self.of_path.setdefault(("numbers of places",), {})
            nodes = [level.node if level.last else None for level in levels]
            tails = [self.pricer.tail(plan.chains[node.tensor], node.level) if node else None for node in nodes]
            known[plan] = levels, places_of(levels, self.around(levels), tails, numbers)
        found: tuple[list[Level], list[Place]] = known[plan]
        return found

    def stands_at_top(self, node: Held) -> bool:
        """Whether a node of the outermost memory fits by itself and keeps its limits: it holds its tensor whole."""
        return bool(self.allowed(node)[self.lattice.top])

    def around(self, levels: Sequence[Level]) -> Sequence[Around | None]:
        """For each level what stands above it, where the rows of its tables depend on that."""
        return [None] * len(levels)

    # searching

    def take(self, plans: Sequence[ChainTemplate], room: float, of_first: float = 0.0) -> int:
        """Compile plans, as many as there is room for (bytes) for their tables; the number of them.

        There is room for so many times the tables of the first one at least.
        """
        self.compiled = []
        taken = 0
        for plan in plans:
            compiled = self.compile(plan)
            taken += 1
            if compiled is not None:
                if not self.compiled:
                    room = max(room, of_first * self.tables.bytes)
                self.compiled.append(compiled)
            if self.tables.bytes > room:
                break
        return taken

    def tables_filled(self, stopped: Callable[[], bool]) -> bool:
        """Fill the tables; False when that was stopped before the end."""
        return self.tables.fill(stopped)

    def gather(self) -> None:
        """Put the coefficients of all nodes into one array for the kernel."""
        nodes: list[NodeCosts] = []
        self.row_of = {}
        self._arrays = {}
        total = 0
        for key, value in self.computed.items():
            if key[0] == "rates":
                self.row_of[key] = total
                nodes.append(value)
                total += len(value.rates)
        empty = np.zeros((1, self.columns))
        self.rates = np.concatenate([*(node.rates for node in nodes), empty])
        self.fixed = np.concatenate([*(node.fixed for node in nodes), empty])
        self.per_visit = np.concatenate([node.per_visit for node in nodes] or [empty[:, :0]])
        self.line_set, self.lines = self._gathered_lines()

    def _gathered_lines(self) -> tuple[Ints, Floats]:
        """Which set of lines belongs to a row of `per_visit`, and for each set and kind those at each point."""
        line_set = np.zeros(len(self.per_visit), dtype=np.int64)
        if not self.pricer.kinds:
            return line_set, np.zeros((1, 0, 0))
        found: dict[object, Floats] = {}
        for (_, tensor, *_, tail), row in self.row_of.items():
            key = tensor, self.pricer.exchanges(tail)[0]
            line_set[row:] = list(found).index(key) if key in found else len(found)
            found.setdefault(key, self.lines_between(*key))
        return line_set, np.stack(list(found.values())) if found else np.zeros((1, 0, 0))

    def bound(self, compiled: TemplateTables) -> Floats:
        """Objectives that no mapping of a plan is below; infinite where nothing fits."""
        least: Floats = self.root_values(compiled).min(axis=0, initial=np.inf)
        return least

    def root_values(self, compiled: TemplateTables) -> Floats:
        """Objectives that no mapping of a plan is below, a row for each choice in its first gap or fanout."""
        costs = rows = self.root_rows(compiled)
        if not self.tables.has_all_columns:
            costs = np.zeros((len(rows), self.columns))
            costs[:, self.tables.columns] = rows
        values = np.empty((len(rows), len(self.goal_codes)))
        leak = np.full(len(rows), self.leak[0])
        objective_kernels.many_objectives(
            costs, leak, self.occupied(compiled.plan), self.capacity, self.goal_codes, values
        )
        return values

    def root_rows(self, compiled: TemplateTables) -> Floats:
        """Rows of the tables for each choice in the first gap or fanout of a plan."""
        block, axes = compiled.blocks[0], compiled.levels[0].axes or ()
        key = "roots", self.tables.with_points[block], *axes
        if key not in self.computed:
            self.computed[key] = self.reach(axes)[self.tables.points[block]].nonzero()[0]
        return self.tables.rows(block, self.computed[key])

    def reach(self, axes: Sequence[int]) -> Bools:
        """Points that loops over some axes can come to from the bounds."""
        key = ("reach", *axes)
        if key not in self.computed:
            tops = np.array(self.lattice.radices, dtype=np.int64) - 1
            fixed = [axis for axis in range(len(tops)) if axis not in axes]
            self.computed[key] = (self.coord[:, fixed] == tops[fixed]).all(axis=1)
        reached: Bools = self.computed[key]
        return reached

    def arrays(self, compiled: TemplateTables) -> tuple[Any, ...]:
        """The arguments of the kernel that describe a plan and the lanes."""
        if compiled in self._arrays:
            return self._arrays[compiled]
        lanes = self.child_start, self.children, self.divides
        arrays = *self._plan_arrays(compiled), *lanes, self.final_constants(compiled), self.leak
        if (len(self._arrays) + 1) * self.kept_numbers(compiled) <= MOST_KEPT:
            self._arrays[compiled] = arrays
        return arrays

    def kept_numbers(self, compiled: TemplateTables) -> int:
        """About how many numbers the arguments of the kernel have that other plans have not."""
        return len(compiled.levels) * (3 * len(self.lattice.axes) + 20)

    def _plan_arrays(self, compiled: TemplateTables) -> tuple[Any, ...]:
        n, axes = len(compiled.levels), len(self.lattice.axes)
        kind = np.array([kernels.GAP if lv.axes is not None else kernels.PLACE for lv in compiled.levels])
        mask = np.zeros((n, axes), dtype=np.bool_)
        lowered = np.full((n, 2 + axes), -1, dtype=np.int64)
        node = np.full((n, 3), -2, dtype=np.int64)
        bits, lowered_bits = np.zeros(n), np.zeros(n)
        for i, level in enumerate(compiled.levels):
            first = self.prefixes.first[level.r]
            if level.axes is not None:
                mask[i, list(level.axes)] = True
            above = level.lowers
            if above is not None and self.lowers(above) and math.isfinite(self.memory(above.level).size_bits):
                lowered[i, 0] = self.tensors.index(above.tensor)
                lowered[i, 1] = self.memories.index(above.level)
                relevance = self.pricer.axis_relevance[above.tensor]
                lowered[i, 2:] = [_PASSED[r] for r in relevance] if level.passed is None else level.passed
                lowered_bits[i] = self.memory(above.level).bits[above.tensor]
            if not level.last:
                continue
            if level.node is None:
                node[i] = (-1, -1, -self.prefixes.first[-2])
                continue
            row = self.row_of[self.rates_key(compiled.plan.chains, level.node, level.r)]
            memory = self.memory(level.node.level)
            counted = math.isfinite(memory.size_bits) and not self.lowers(level.node)
            place = self.memories.index(level.node.level) if counted else -1
            node[i] = (self.tensors.index(level.node.tensor), place, row - first)
            bits[i] = self.bits_of(level.node)
            # a node whose following gap does not lower it (a toll stands between) takes its place itself
            following = compiled.levels[i + 1]
            if self.lowers(level.node) and math.isfinite(memory.size_bits) and following.lowers is None:
                node[i, 1] = self.memories.index(level.node.level)
        tables = self.kernel_tables(compiled)
        coefficients = self.rates, self.fixed, self.per_visit, self.line_set, self.lines
        return kind, mask, tables, lowered, node, *coefficients, bits, lowered_bits

    def kernel_tables(self, compiled: TemplateTables) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        """Where the tables of each level and prefix begin, and the row in them of each level and point: see `row_of`.

        The last two are not looked at: tables have their points in common.
        """
        tables, nothing = self.tables, np.zeros(0, dtype=np.int64)
        begins, first_of = tables.all_begins
        places = zip(compiled.levels, compiled.blocks, strict=True)
        firsts = np.array([first_of[block] - self.prefixes.first[level.r] for level, block in places], dtype=np.int64)
        rows = np.array([tables.slot_row(block) for block in compiled.blocks], dtype=np.int64)
        return firsts, rows, begins, tables.all_slots, nothing, nothing

    def occupied(self, plan: ChainTemplate) -> Floats:
        """Bits that the nodes of the outermost memory take."""
        bits = np.zeros(len(self.capacity))
        for held in plan.outer:
            memory = self.memory(held.level)
            values = self.stored(held.tensor, self.sizes[self.tensors.index(held.tensor)])
            times = self.instances if self.einsum.by_tensor[held.tensor].persistent else 1
            bits[self.memories.index(held.level)] += values * memory.bits[held.tensor] * times
        return bits

    def judged(self, mapping: Mapping, occupied: Floats) -> Floats | None:
        """Objectives of a mapping whose columns of cost are lower bounds; None where it does not fit.

        `occupied`: bits in use as the search counts them, which is what they are but in units of an array.
        """
        arch = self.pricer.arch
        path = path_of(mapping, self.einsum, arch)
        traffic = EinsumTraffic(path, self.rules)
        if self.pricer.units.levels:
            occupied = self._in_units(path, traffic)
            if (occupied > self.capacity).any():
                return None
        cost = einsum_cost(path, traffic, arch)
        values: Floats = np.empty(len(self.goal_codes))
        columns = np.array([cost.dynamic, cost.latency], dtype=np.float64)
        objective_kernels.objectives(
            columns, float(cost.power), occupied, self.capacity, NOTHING, self.goal_codes, values
        )
        return values

    def _in_units(self, path: EinsumPath, traffic: EinsumTraffic) -> Floats:
        """Bits that a mapping takes in each memory, of several units in the fullest one."""
        bits = np.zeros(len(self.capacity))
        numbers = {self.leaves[level].name: number for number, level in enumerate(self.memories)}
        counts = {tensor.access.tensor: tensor.counts for tensor in traffic.tensors}
        for buffer in buffers_of(path, self.rules, counts, self.instances):
            bits[numbers[buffer.memory.name]] += float(buffer.bits)
        return bits

    def stored(self, tensor: str, values: float) -> float:
        """Values that the outermost memory keeps of a tensor of which its Einsum moves so many: all of a table."""
        access = self.einsum.by_tensor[tensor]
        is_whole = not access.gathered and access.kept is None
        return values if is_whole else float(access.stored(round(values), self.einsum.extents))

    def start(self, compiled: TemplateTables) -> Descent | None:
        """The state of a search that has not begun; None when the outermost memory is too small."""
        occupied = self.occupied(compiled.plan)
        if (occupied > self.capacity).any():
            return None
        n = len(compiled.levels)
        walk = Descent(n, self.columns, len(self.capacity), self.widest(compiled))
        walk.occupied[0] = occupied
        walk.point_at[0] = self.lattice.top
        return walk

    def widest(self, compiled: TemplateTables) -> int:
        """Choices of a level, at most."""
        del compiled
        return max(self.lattice.size, len(self.children) + 1)

    def step(
        self, compiled: TemplateTables, number: int, walk: Descent, archive: Archive, slack: float, budget: int
    ) -> int:
        """Go on for a while; how that ended (see `kernels`). The archive takes what it can use."""
        if walk.arrays is None:
            walk.arrays = self.arrays(compiled)
        ended, archive.n, nodes, work = kernels.search(
            self.layout, *self.below, self.quotients, *walk.arrays,
            self.tables.pool, self.tables.columns, self.remainder.rows, self.remainder.most, self.capacity, walk.kept,
            self.value_codes, slack, number, not self.ragged,
            archive.values, archive.paths, archive.n,
            walk.state, walk.acc, walk.occupied, walk.point_at, walk.prefix_at,
            walk.cand, walk.cand_point, walk.cand_prefix, walk.cand_n, walk.cand_next, budget,
        )  # fmt: skip
        walk.nodes += nodes
        walk.work += work
        if ended == kernels.FULL:
            archive.grow()
        return int(ended)

    @cached_property
    def ragged(self) -> bool:
        """Whether columns of cost are lower bounds only: where tiles, lanes or units are not alike, or turns stall."""
        uneven = any(axis.uneven for axis in self.lattice.axes)
        return self.machine is not None or uneven or bool(self.pricer.units.levels)

    @property
    def has_tables(self) -> bool:
        """Whether the tables are filled."""
        return self.tables.is_filled

    def forget_tables(self) -> None:
        """Free what only the search needs."""
        self.tables.forget()
        self.computed.clear()
        self._arrays = {}
        self.rates = self.fixed = self.per_visit = np.zeros((0, self.columns))

    def final_constants(self, compiled: TemplateTables) -> Floats:
        """Constants of the uses of all fanouts, once for plans whose innermost exchanges are the same."""
        key = "constants", self.pricer.on_which_constants_depend(compiled.plan.chains)
        if key not in self.computed:
            self.computed[key] = np.ascontiguousarray(self.constants_of(compiled.plan.chains))
        constants: Floats = self.computed[key]
        return constants


_PASSED = {Relevance.FULL: 2, Relevance.PARTIAL: 1, Relevance.NONE: 0}
