"""Branch and bound over the dataplacements of one Einsum on one path: the best mappings, proven.

For each dataplacement tables over the lattice say what the rest of the chain costs at least, for every column of
cost by itself and without the coupling of capacities; equal inner parts of dataplacements share them. The search goes
from the outside in, dataplacements in the order of their bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Leaf, Memory
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.einsum.projection import Relevance
from einmap.mapper import kernels
from einmap.mapper.archive import Archive
from einmap.mapper.charges import Chain, Pricer
from einmap.mapper.given.lane_rule import LaneRule
from einmap.mapper.given.slots import Positions
from einmap.mapper.lanes import LaneTable
from einmap.mapper.lattice import Lattice
from einmap.mapper.limits import limit_holds
from einmap.mapper.prefixes import Prefixes
from einmap.mapper.request import Others
from einmap.mapper.steps import Held, Plan
from einmap.model.semantics import Semantics

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]

NOTHING = np.zeros(0)

GOALS = {"energy": kernels.ENERGY, "latency": kernels.LATENCY, "energy_delay_product": kernels.PRODUCT,
         "dynamic_energy": kernels.DYNAMIC, "leak_energy": kernels.LEAK}  # fmt: skip


@dataclass
class Level:
    """One choice of a plan: the loops of a gap (`axes`), or the lanes of a fanout (None).

    `r`: fanouts whose lanes are chosen once this choice is made. `last`: the step's node follows. `given`: what a given
    mapping allows after this choice; `passed`: how far each axis lowers the space of the node above, None for fully.
    """

    axes: tuple[int, ...] | None
    r: int
    node: Held | None
    lowers: Held | None
    last: bool
    given: tuple[Positions, LaneRule | None] | None = None
    passed: tuple[int, ...] | None = None


@dataclass(frozen=True)
class Recipe:
    """How the tables of a block are made: `below` is the block of the next level, -1 for the last."""

    level: Level
    inner: Level | None
    chains: Mapping[str, Chain]
    below: int


@dataclass(frozen=True)
class Compiled:
    """A plan with its levels and the block of tables of each."""

    plan: Plan
    levels: list[Level]
    blocks: list[int]


def table_columns(goals: Sequence[str], columns: int) -> Ints:
    """Columns whose cost to go is worth a table, for these objectives."""
    if {"latency", "energy_delay_product", "leak_energy"} & set(goals):
        return np.arange(columns)
    return np.array([0, columns - 1])


def goal_codes(goals: Sequence[str], leaves: Sequence[Leaf]) -> Ints:
    """Objectives as the kernel knows them; `usage of M` is that of a memory, 0 where it is not on the path."""
    memories = [leaf.name for leaf in leaves if isinstance(leaf, Memory)]
    codes = []
    for goal in goals:
        if goal in GOALS:
            codes.append(GOALS[goal])
        else:
            name = goal.removeprefix("usage of ")
            codes.append(kernels.USAGE + (memories.index(name) if name in memories else len(memories)))
    return np.array(codes, dtype=np.int64)


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


@dataclass
class PathSearch:
    """Some dataplacements with some lanes, of one Einsum on one path."""

    einsum: Einsum
    arch: Architecture
    leaves: tuple[Leaf, ...]
    lattice: Lattice
    rules: Semantics
    lanes: LaneTable
    fanouts: tuple[int, ...]
    goals: tuple[str, ...]
    others: Others
    instances: int = 1

    def __post_init__(self) -> None:
        self.goal_codes = goal_codes(self.goals, self.leaves)
        self.wanted = self.goal_codes
        self.pricer = Pricer(self.einsum, self.arch, self.leaves, self.lattice, self.rules)
        self.prefixes = Prefixes(self.lattice, self.fanouts, self.lanes)
        self.tensors = [a.tensor for a in self.einsum.accesses]
        self.values = np.stack([self.lattice.values(self.einsum, t) for t in self.tensors])
        self.fills = self.values * self.lattice.tiles
        self.coord = np.stack([self.lattice.positions(a) for a in range(len(self.lattice.axes))], axis=1) if (
            self.lattice.axes) else np.zeros((1, 0), dtype=np.int64)  # fmt: skip
        self.below = self.lattice.packed("below")
        self.covers = self.lattice.packed("covers")
        self.divides, self.quotients = self.prefixes.divisors()
        self.child_start, self.children = self.prefixes.children()
        self.memories = [i for i, leaf in enumerate(self.leaves) if isinstance(leaf, Memory)]
        # the last one stands for memories of other paths
        self.capacity = np.array([*(self._memory(i).size_bits for i in self.memories), math.inf], dtype=np.float64)
        self.leak = self._leak()
        self.known: dict[tuple[Any, ...], Any] = {}
        self.compiled: list[Compiled] = []
        self.blocks: dict[object, int] = {}
        self.recipes: list[Recipe] = []
        self.pool = np.empty((0, 0, 0))

    def _memory(self, level: int) -> Memory:
        leaf = self.leaves[level]
        assert isinstance(leaf, Memory)
        return leaf

    def _leak(self) -> Floats:
        """Least leakage of each prefix."""
        found = np.full(self.prefixes.n, np.inf)
        last = self.prefixes.tables[-1]
        begin = self.prefixes.first[len(self.prefixes.tables) - 1]
        found[begin:] = self.pricer.leak_power(last)
        parents = np.concatenate(self.prefixes.parents)
        for p in range(self.prefixes.n - 1, 0, -1):
            found[parents[p]] = min(found[parents[p]], found[p])
        return found

    def lanes_of(self, prefix: int) -> tuple[Ints, Ints]:
        """Bounds and uneven tile shapes of each dimension and axis for a prefix of all fanouts."""
        table = self.prefixes.tables[-1]
        row = prefix - self.prefixes.first[len(self.prefixes.tables) - 1]
        return table.bounds[row], table.shapes[row]

    @cached_property
    def table_columns(self) -> Ints:
        """Columns of cost that tables have: of latency all where it is an objective, else that of the compute alone."""
        return table_columns(self.goals, self.columns)

    @property
    def columns(self) -> int:
        """Number of columns of cost."""
        return self.pricer.columns.n

    def allowed(self, node: Held) -> NDArray[np.bool_]:
        """Points at which a node fits by itself and keeps the limits on tile shapes."""
        key = ("allowed", node)
        if key not in self.known:
            memory = self._memory(node.level)
            found = np.ones(self.lattice.size, dtype=bool)
            if math.isfinite(memory.size_bits) and not self.lowers(node):
                found &= self.values[self.tensors.index(node.tensor)] * memory.bits[node.tensor] <= memory.size_bits
            if node.first and memory.placement is not None:
                for limit in memory.placement.tile_shape:
                    found &= limit_holds(limit, self.lattice.extents)
            self.known[key] = found
        allowed: NDArray[np.bool_] = self.known[key]
        return allowed

    def lowers(self, node: Held) -> bool:
        """Whether its space is reserved below the loops that follow it."""
        return self.rules.lowering and not node.backing

    # plans as arrays

    def levels(self, plan: Plan) -> list[Level]:
        """One level for each choice of a plan."""
        found: list[Level] = []
        r = 0
        for step in plan.steps:
            found.append(Level(step.axes, r, None, step.lowers, not step.fanouts))
            for i in range(len(step.fanouts)):
                r += 1
                found.append(Level(None, r, None, None, i == len(step.fanouts) - 1))
            found[-1].node = step.node
            if step.given is not None:
                gap = found[-1 - len(step.fanouts)]
                gap.given, gap.passed = (step.given.after, None), step.given.passed
                below = (*step.given.after, *step.at_node) if found[-1] is gap else step.at_node
                found[-1].given = (below, step.given.lanes)
        return found

    def compile(self, plan: Plan) -> Compiled | None:
        """The plan as arrays; None when a node of the outermost memory breaks its limits."""
        top = self.lattice.top
        if not all(self.allowed(node)[top] for node in plan.outer):
            return None
        levels = self.levels(plan)
        key: object = ("end", tuple((t, self.last_exchange(plan.chains[t])) for t in self.tensors))
        blocks: list[int] = []
        for i in reversed(range(len(levels))):
            level, inner = levels[i], levels[i + 1] if i + 1 < len(levels) else None
            tail = self.tail(plan.chains, level.node) if level.last and level.node else None
            own = (
                level.r,
                level.last,
                level.node,
                tail,
                level.given,
                (inner.axes, inner.lowers) if inner else None,
                key,
            )
            key = self.blocks.setdefault(own, len(self.blocks))
            if key == len(self.recipes):
                self.recipes.append(Recipe(level, inner, plan.chains, blocks[-1] if blocks else -1))
            blocks.append(key)
        return Compiled(plan, levels, list(reversed(blocks)))

    def last_exchange(self, chain: Chain) -> Chain:
        """The compute, its innermost memory and the tolls between."""
        *_, last = self.pricer.exchanges(chain)
        return last

    def tail(self, chains: Mapping[str, Chain], node: Held) -> Chain:
        """The part of the tensor's chain on which the node's cost depends."""
        chain = chains[node.tensor]
        begin = 0
        for exchange in self.pricer.exchanges(chain):
            if exchange[-1] == node.level:
                begin = chain.index(exchange[0])
        return chain[begin:]

    # tables

    def fill(self, stopped: Callable[[], bool]) -> bool:
        """Compute the tables of all blocks, inner ones first; False when it was stopped before the end."""
        widths = [self.width(recipe.level.r) for recipe in self.recipes]
        self.begin = np.concatenate([[0], np.cumsum(widths)]).astype(np.int64)
        width = len(self.table_columns)
        self.pool = np.empty((int(self.begin[-1]), self.lattice.size, width))
        for index, recipe in enumerate(self.recipes):
            if stopped():
                return False
            self.fill_block(index, recipe)
        self.gather()
        return True

    def width(self, r: int) -> int:
        """Prefixes of the first r fanouts."""
        return self.prefixes.first[r + 1] - self.prefixes.first[r]

    def fill_block(self, index: int, recipe: Recipe) -> None:
        """Tables of one block, for each prefix: what the rest costs at least once the level's choice is made."""
        self.fill_free(index, recipe)
        if recipe.level.given is not None:
            begin = int(self.begin[index])
            for p in range(self.width(recipe.level.r)):
                self.pool[begin + p][~self.allowed_by(p, recipe.level.r, *recipe.level.given)] = np.inf

    def allowed_by(self, p: int, r: int, positions: Positions, lanes: LaneRule | None) -> NDArray[np.bool_]:
        """Points that a given mapping allows with one prefix of the first r fanouts."""
        key = ("given", r, lanes)
        if key not in self.known:
            self.known[key] = lanes.allowed(self.prefixes.tables[r], self.lattice) if lanes else []
        found = np.ones(self.lattice.size, dtype=bool)
        for axis, allowed in positions:
            flags = np.zeros(int(self.lattice.radices[axis]), dtype=bool)
            flags[list(allowed)] = True
            found &= flags[self.coord[:, axis]]
        for axis, rows in self.known[key]:
            found &= rows[p, self.coord[:, axis]]
        return found

    def fill_free(self, index: int, recipe: Recipe) -> None:
        """The tables without what is given."""
        level, inner = recipe.level, recipe.inner
        first = self.prefixes.first[level.r]
        begin = int(self.begin[index])
        if inner is not None and inner.axes is None:
            self.over_lanes(begin, first, level.r, int(self.begin[recipe.below]))
            return
        width = self.width(level.r)
        if inner is None:
            self.pool[begin : begin + width] = np.inf
            self.pool[begin : begin + width, 0] = self.constants_of(recipe.chains)[:, self.table_columns]
            return
        assert level.node is not None
        everywhere = np.ones(self.lattice.size, dtype=bool)
        fits = everywhere if inner.lowers is None else self.fits_lowered(inner.lowers)
        rates, fixed = (
            np.ascontiguousarray(rows[:, self.table_columns])
            for rows in self.rates_of(recipe.chains, level.node, level.r)
        )
        kernels.with_gap_and_node(
            self.pool, int(self.begin[recipe.below]), begin, width, fits, self.mask(inner.axes),
            self.coord, self.lattice.strides, self.lattice.offsets, *self.covers,
            rates, fixed, self.fills[self.tensors.index(level.node.tensor)], self.allowed(level.node),
        )  # fmt: skip

    def over_lanes(self, begin: int, first: int, r: int, inner_begin: int) -> None:
        """For each prefix the least over the lanes of the next fanout."""
        inner_first = self.prefixes.first[r + 1]
        for p in range(self.width(r)):
            out = self.pool[begin + p]
            out[:] = np.inf
            for c in self.children[self.child_start[first + p] : self.child_start[first + p + 1]]:
                kernels.after_lanes(
                    self.pool[inner_begin + c - inner_first],
                    out,
                    self.coord,
                    self.lattice.strides,
                    self.divides[c],
                    self.quotients,
                )

    def mask(self, axes: tuple[int, ...] | None) -> NDArray[np.bool_]:
        """Axes as flags."""
        found = np.zeros(len(self.lattice.axes), dtype=bool)
        found[list(axes or ())] = True
        return found

    def fits_lowered(self, node: Held) -> NDArray[np.bool_]:
        """Points after the following loops at which a lowered node can fit."""
        memory = self._memory(node.level)
        if any(r is Relevance.PARTIAL for r in self.pricer.axis_relevance[node.tensor]):
            return np.ones(self.lattice.size, dtype=bool)
        found: NDArray[np.bool_] = (
            self.values[self.tensors.index(node.tensor)] * memory.bits[node.tensor] <= memory.size_bits
        )
        return found

    def rates_of(self, chains: Mapping[str, Chain], node: Held, r: int) -> tuple[Floats, Floats]:
        """Rows of `pricer.node` for the prefixes of the first r fanouts, the same for chains with the same tail."""
        key = ("rates", node.tensor, node.level, r, self.tail(chains, node))
        if key not in self.known:
            self.known[key] = self.pricer.node(self.prefixes.tables[r], node.tensor, chains[node.tensor], node.level)
        found: tuple[Floats, Floats] = self.known[key]
        return found

    def constants_of(self, chains: Mapping[str, Chain]) -> Floats:
        """Rows of `pricer.constants` for the uses of all fanouts."""
        key = ("constants", tuple(self.last_exchange(chains[t]) for t in self.tensors))
        if key not in self.known:
            self.known[key] = self.pricer.constants(self.prefixes.tables[-1], dict(chains))
        found: Floats = self.known[key]
        return found

    # searching

    def take(self, plans: Sequence[Plan], room: int) -> int:
        """Compile plans, as many as there is room for (bytes) for their tables; the number of them."""
        self.compiled = []
        table = self.lattice.size * len(self.table_columns) * 8
        taken = 0
        for plan in plans:
            compiled = self.compile(plan)
            taken += 1
            if compiled is not None:
                self.compiled.append(compiled)
            if sum(self.width(recipe.level.r) for recipe in self.recipes) * table > room:
                break
        return taken

    def gather(self) -> None:
        """Put the coefficients of all nodes into one array for the kernel."""
        rows: list[Floats] = []
        fixed: list[Floats] = []
        self.row_of: dict[int, int] = {}
        total = 0
        for (kind, *_), value in self.known.items():
            if kind == "rates":
                self.row_of[id(value)] = total
                rows.append(value[0])
                fixed.append(value[1])
                total += len(value[0])
        empty = np.zeros((1, self.columns))
        self.rates = np.concatenate([*rows, empty])
        self.fixed = np.concatenate([*fixed, empty])

    def bound(self, compiled: Compiled) -> Floats:
        """Objectives that no mapping of a plan is below; infinite where nothing fits."""
        goals = self.goal_codes
        found = np.empty(len(goals))
        least = self.least(compiled)
        occupied = self.occupied(compiled.plan)
        kernels.objectives(least, float(self.leak[0]), occupied, self.capacity, NOTHING, goals, found)
        return found

    def least(self, compiled: Compiled) -> Floats:
        """Least cost of a plan, column by column; infinite where nothing fits."""
        table = self.pool[self.begin[compiled.blocks[0]]]
        axes = compiled.levels[0].axes or ()
        reach = np.ones(self.lattice.size, dtype=bool)
        for axis in range(len(self.lattice.axes)):
            if axis not in axes:
                reach &= self.coord[:, axis] == self.lattice.radices[axis] - 1
        bound = np.zeros(self.columns)
        bound[self.table_columns] = table[reach].min(axis=0)
        return bound

    def arrays(self, compiled: Compiled) -> tuple[Any, ...]:
        """The arguments of the kernel that describe a plan."""
        n, axes = len(compiled.levels), len(self.lattice.axes)
        kind = np.array([kernels.GAP if lv.axes is not None else kernels.PLACE for lv in compiled.levels])
        mask = np.zeros((n, axes), dtype=np.bool_)
        tables = np.zeros((n, self.prefixes.n), dtype=np.int64)
        lowered = np.full((n, 2 + axes), -1, dtype=np.int64)
        node = np.full((n, 3), -2, dtype=np.int64)
        bits, lowered_bits = np.zeros(n), np.zeros(n)
        for i, level in enumerate(compiled.levels):
            first = self.prefixes.first[level.r]
            tables[i] = self.begin[compiled.blocks[i]] - first + np.arange(self.prefixes.n)
            if level.axes is not None:
                mask[i, list(level.axes)] = True
            if level.lowers is not None and math.isfinite(self._memory(level.lowers.level).size_bits):
                lowered[i, 0] = self.tensors.index(level.lowers.tensor)
                lowered[i, 1] = self.memories.index(level.lowers.level)
                relevance = self.pricer.axis_relevance[level.lowers.tensor]
                lowered[i, 2:] = [_PASSED[r] for r in relevance] if level.passed is None else level.passed
                lowered_bits[i] = self._memory(level.lowers.level).bits[level.lowers.tensor]
            if not level.last:
                continue
            if level.node is None:
                node[i] = (-1, -1, 0)
                continue
            value = self.rates_of(compiled.plan.chains, level.node, level.r)
            memory = self._memory(level.node.level)
            counted = math.isfinite(memory.size_bits) and not self.lowers(level.node)
            place = self.memories.index(level.node.level) if counted else -1
            node[i] = (self.tensors.index(level.node.tensor), place, self.row_of[id(value)] - first)
            bits[i] = memory.bits[level.node.tensor]
            # a node whose following gap does not lower it (a toll stands between) takes its place itself
            following = compiled.levels[i + 1]
            if self.lowers(level.node) and math.isfinite(memory.size_bits) and following.lowers is None:
                node[i, 1] = self.memories.index(level.node.level)
        return kind, mask, tables, lowered, node, self.rates, self.fixed, bits, lowered_bits

    def occupied(self, plan: Plan) -> Floats:
        """Bits that the nodes of the outermost memory take."""
        found = np.zeros(len(self.capacity))
        for held in plan.outer:
            memory = self._memory(held.level)
            values = self.values[self.tensors.index(held.tensor), self.lattice.top]
            times = self.instances if self.einsum.by_tensor[held.tensor].persistent else 1
            found[self.memories.index(held.level)] += values * memory.bits[held.tensor] * times
        return found

    def start(self, compiled: Compiled) -> Descent | None:
        """The state of a search that has not begun; None when the outermost memory is too small."""
        occupied = self.occupied(compiled.plan)
        if (occupied > self.capacity).any():
            return None
        n = len(compiled.levels)
        walk = Descent(n, self.columns, len(self.capacity), max(self.lattice.size, len(self.children) + 1))
        walk.occupied[0] = occupied
        walk.point_at[0] = self.lattice.top
        return walk

    def step(self, compiled: Compiled, number: int, walk: Descent, archive: Archive, slack: float, budget: int) -> int:
        """Go on for a while; how that ended (see `kernels`). The archive takes what it can use."""
        if walk.arrays is None:
            walk.arrays = (*self.arrays(compiled), self.child_start, self.children, self.divides,
                           self.final_constants(compiled), self.leak)  # fmt: skip
        ended, archive.n, nodes, work = kernels.search(
            self.coord, self.lattice.strides, self.lattice.offsets, *self.below, self.quotients,
            self.values, self.fills, *walk.arrays,
            self.pool, self.table_columns, self.others.rows, self.others.most, self.capacity, walk.kept,
            self.wanted, slack, number, not self.ragged,
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
        """Whether columns of cost are lower bounds only: where tiles or lanes are not all alike."""
        return any(axis.uneven for axis in self.lattice.axes)

    @property
    def has_tables(self) -> bool:
        """Whether the tables are filled."""
        return bool(self.pool.size)

    def forget_tables(self) -> None:
        """Free what only the search needs."""
        self.pool = np.empty((0, 0, 0))
        self.known.clear()

    def final_constants(self, compiled: Compiled) -> Floats:
        """Constants by number of prefix."""
        own = self.constants_of(compiled.plan.chains)
        found = np.zeros((self.prefixes.n, self.columns))
        found[self.prefixes.n - len(own) :] = own
        return found


_PASSED = {Relevance.FULL: 2, Relevance.PARTIAL: 1, Relevance.NONE: 0}
