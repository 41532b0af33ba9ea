"""Cost-to-go tables of large lattices: rows only where something better than what was found may come of them.

A table has a row for a point if a node may stand there, some way leads on from there, and what that costs at least is
not ruled out by what has been found. On a large lattice that leaves a small part of the points. What is left out is
never needed: whatever is spent further out is not negative (`SparseSearch.never_negative`), and no less than what the
nodes there cost wherever they stand (`LeastOutside`), so nothing good goes through it.

Tables lie one after the other in a pool of a fixed number of rows, each sorted by point. The pool takes no memory
before it is written to.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.cost_bounds.cost_to_go import sparse_kernels
from einmap.mapper.cost_bounds.cost_to_go.table_blocks import Recipe, TableBlocks, numbered
from einmap.mapper.cost_bounds.least_of_nodes import LeastOutside, Places
from einmap.mapper.cost_bounds.path_costs import PathCosts
from einmap.mapper.cost_bounds.tile_limits import limit_rows
from einmap.mapper.mapspace.tile_lattice import Lattice
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.problem.request import Remainder
from einmap.mapper.templates.chain_template import Held

# 100,000 and 10,000,000 take as long within 5 % (shipped eyeriss and simba, all tables sparse): it limits room
PAIRS = 1_000_000
"""Rows of inner tables that are brought together at a time."""
NOWHERE = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True)
class Limit:
    """Results so far, and costs that the other Einsums of a cascade add: rows that it beats are left out."""

    archive: Archive
    slack: float
    remainder: Remainder


class NoRoomError(Exception):
    """The pool is full."""


class SparseTables(TableBlocks):
    """Blocks of tables with the columns of cost `columns`; each block is filled when it is asked for first.

    `goal_codes`: the objectives, by which rows are left out (see `Limit`).
    """

    def __init__(self, costs: PathCosts, columns: Ints, goal_codes: Ints) -> None:
        super().__init__(costs, columns)
        self._goal_codes = goal_codes
        self.first_row: list[Ints] = []
        """For each block and table where it begins."""
        self.end_row: list[Ints] = []
        self.points: Ints = NOWHERE
        self.limit: Limit | None = None
        self.outside: LeastOutside | None = None
        """Least costs of nodes further out; nothing where it is None."""
        self._inside: list[tuple[Places, ...]] = []
        """For each block and tensor its nodes from there on."""
        self._planes: dict[tuple[int, ...], tuple[object, ...]] = {}
        self._kernel_limit: tuple[int, tuple[object, ...]] | None = None
        """The limit as kernels take it, for so many points in the archive."""

    @property
    def bytes(self) -> int:
        """Room that all tables take."""
        return self.n_rows * (len(self.columns) + 1) * 8

    def make_room(self, room: float) -> None:
        """Begin a pool of so many bytes, unless there is one."""
        if len(self.points):
            return
        rows = max(int(room // ((len(self.columns) + 1) * 8)), 1)
        self.pool, self.points = np.empty((rows, len(self.columns))), np.empty(rows, dtype=np.int64)

    def bound(self, limit: Limit, outside: LeastOutside | None) -> None:
        """Leave out of further tables what a limit rules out. `outside`: what nodes further out cost at least."""
        self.limit, self.outside, self._kernel_limit = limit, outside, None

    def forget(self) -> None:
        """Free the tables."""
        self.pool, self.points = np.empty((0, len(self.columns))), NOWHERE
        self._planes.clear()
        self.limit = self.outside = self._kernel_limit = None

    def block(self, key: object, recipe: Recipe) -> int:
        """Number of the block of this key. Raises NoRoomError; then nothing has changed."""
        if key in self.blocks:
            return self.blocks[key]
        before = self.n_rows
        pins = self.pins(recipe)
        table, first = numbered(self.alike(recipe))
        if pins is not None:
            table, first = numbered(np.hstack([table[:, None], pins]))
        try:
            begins, ends = self.fill(recipe, table, first, pins)
        except NoRoomError:
            self.n_rows = before
            raise
        self._inside.append(self.inside(recipe))
        self.table_of.append(table)
        self.first_row.append(begins)
        self.end_row.append(ends)
        self.blocks[key] = len(self.blocks)
        return self.blocks[key]

    def begins(self, block: int) -> Ints:
        """For each prefix of a block where its table begins."""
        begins: Ints = self.first_row[block][self.table_of[block]]
        return begins

    def ends(self, block: int) -> Ints:
        """For each prefix of a block where its table ends."""
        ends: Ints = self.end_row[block][self.table_of[block]]
        return ends

    def rows(self, block: int) -> tuple[Ints, Floats]:
        """Points and costs of the table of a block's first prefix."""
        rows = slice(int(self.begins(block)[0]), int(self.ends(block)[0]))
        return self.points[rows], self.pool[rows]

    def inside(self, recipe: Recipe) -> tuple[Places, ...]:
        """The nodes from a block on, of each tensor."""
        tensors, node = self.costs.tensors, recipe.level.node
        below = self._inside[recipe.below] if recipe.below >= 0 else ((),) * len(tensors)
        if node is None or node.backing:
            return below
        return tuple(
            ((node.level, node.within), *at) if tensor == node.tensor else at
            for tensor, at in zip(tensors, below, strict=True)
        )

    # one table

    def fill(self, recipe: Recipe, table: Ints, first: Ints, pins: Ints | None) -> tuple[Ints, Ints]:
        """Write the tables of a block behind the others; where each begins and ends.

        `table`: number of each prefix's table, `first`: the first prefix of each.
        """
        if recipe.inner is not None and recipe.inner.axes is not None:
            return self.with_gap_and_node(recipe, table, first, pins)
        ends = [self.n_rows]
        for prefix in first.tolist():
            if recipe.inner is None:
                is_there = pins is None or bool(np.isin(pins[prefix], (-1, 0)).all())
                costs = self.costs.constants_of(recipe.chains)[prefix : prefix + is_there, self.columns]
                self.n_rows += self.write(np.zeros(int(is_there), dtype=np.int64), costs)
            else:
                self.n_rows += self.write(*self.over_lanes(recipe, prefix))
            ends.append(self.n_rows)
        return np.array(ends[:-1], dtype=np.int64), np.array(ends[1:], dtype=np.int64)

    def pins(self, recipe: Recipe) -> Ints | None:
        """Positions that axes must have since only lanes stand above, a row for each prefix; -1 where they are open.

        None where all are open.
        """
        assert recipe.around is not None
        pinned = self.flags(recipe.around.pinned)
        if not pinned.any():
            return None
        first = self.costs.prefixes.first
        r = recipe.level.r
        return np.where(pinned, self.costs.below_lanes[first[r] : first[r + 1]], -1)

    def write(self, points: Ints, costs: Floats) -> int:
        """Put rows, sorted by point, behind the others."""
        if self.n_rows + len(points) > len(self.points):
            raise NoRoomError
        rows = slice(self.n_rows, self.n_rows + len(points))
        self.points[rows], self.pool[rows] = points, costs
        return len(points)

    def over_lanes(self, recipe: Recipe, prefix: int) -> tuple[Ints, Floats]:
        """The least over the lanes of the next fanout at each point."""
        costs, r = self.costs, recipe.level.r
        first = costs.prefixes.first[r] + prefix
        children = costs.children[costs.child_start[first] : costs.child_start[first + 1]]
        numbers = children - costs.prefixes.first[r + 1]
        begins, ends = self.begins(recipe.below)[numbers], self.ends(recipe.below)[numbers]
        pins = self.pins(recipe)
        pin = np.full(len(costs.lattice.axes), -1, dtype=np.int64) if pins is None else pins[prefix]
        least = np.empty((0, len(self.columns)))
        at = NOWHERE
        waiting: list[tuple[Ints, Ints]] = []
        n = 0
        for child, begin, end in zip(children.tolist(), begins.tolist(), ends.tolist(), strict=True):
            outer = np.empty(end - begin, dtype=np.int64)
            sparse_kernels.outer_points(
                self.points, begin, end, costs.layout, costs.divides[child], costs.multiples, pin, outer
            )
            there = np.flatnonzero(outer >= 0)
            waiting.append((outer[there], there + begin))
            n += len(there)
            if n > PAIRS:
                at, least = self.gathered(at, least, waiting)
                waiting, n = [], 0
        return self.gathered(at, least, waiting)

    def gathered(self, at: Ints, least: Floats, waiting: list[tuple[Ints, Ints]]) -> tuple[Ints, Floats]:
        """Points with their least costs, from earlier ones (`at`, sorted) and rows of the pool for more points."""
        if not waiting:
            return at, least
        more = np.concatenate([points for points, _ in waiting])
        rows = np.concatenate([rows for _, rows in waiting])
        points, slots = np.unique(np.concatenate([at, more]), return_inverse=True)
        costs = np.full((len(points), len(self.columns)), np.inf)
        costs[slots[: len(at)]] = least
        sparse_kernels.take_least(costs, slots[len(at) :], rows, self.pool)
        return points, costs

    def with_gap_and_node(self, recipe: Recipe, table: Ints, first: Ints, pins: Ints | None) -> tuple[Ints, Ints]:
        """Effect of loops in the inner gap, and the costs of the node above it."""
        costs, level, inner, around = self.costs, recipe.level, recipe.inner, recipe.around
        assert around is not None
        assert level.node is not None
        assert inner is not None
        assert inner.axes is not None
        rates, fixed, per_visit = (
            np.ascontiguousarray(self.columns_in(rows)[first])
            for rows in costs.rates_of(recipe.chains, level.node, level.r)
        )
        lowered = self.holding({} if inner.lowers is None else self.lowered(inner.lowers), inner.lowers)
        held = {} if costs.lowers(level.node) else dict.fromkeys([*sorted(around.beside), level.node.tensor])
        node = (costs.tensors.index(level.node.tensor), *self.holding(held, level.node), self.limits(level.node))
        if pins is None:
            pins = np.full((int(first[-1]) + 1, len(costs.lattice.axes)), -1, dtype=np.int64)
        outside = np.zeros((len(first), costs.columns))
        if self.outside is not None and self.limit is not None:
            outside = np.full_like(outside, np.inf)
            np.minimum.at(outside, table, self.outside.least(self.inside(recipe), level.r))
        below = np.stack([self.begins(recipe.below)[first], self.ends(recipe.below)[first]], axis=1)
        ends = np.full(len(first) + 1, self.n_rows, dtype=np.int64)
        has_room = sparse_kernels.rows_above_gap(
            self.pool, self.points, below, ends, costs.layout, self.plane(inner.axes), lowered, node,
            rates, fixed, per_visit, pins[first], outside, self.kernel_limit(),
        )  # fmt: skip
        if not has_room:
            raise NoRoomError
        self.n_rows = int(ends[-1])
        return ends[:-1], ends[1:]

    def holding(self, tensors: dict[str, None], node: Held | None) -> tuple[Ints, Floats, float]:
        """Numbers of some tensors, the bits of their values in the memory of a node, and its size."""
        if node is None or not tensors:
            return NOWHERE, np.zeros(0), np.inf
        memory = self.costs.memory(node.level)
        numbers = np.array([self.costs.tensors.index(t) for t in tensors], dtype=np.int64)
        return numbers, np.array([float(memory.bits[t]) for t in tensors]), float(memory.size_bits)

    def lowered(self, node: Held) -> dict[str, None]:
        """The tensor of a node whose space is reserved below the following loops, unless these leave open how much."""
        partial = any(r is Relevance.PARTIAL for r in self.costs.pricer.axis_relevance[node.tensor])
        return {} if partial else {node.tensor: None}

    def limits(self, node: Held) -> tuple[Ints, Ints, Floats]:
        """Limits on the tile shapes of a node, as `sparse_kernels.keeps` takes them."""
        return limit_rows(self.costs.memory(node.level).placement if node.first else None, self.costs.lattice)

    def plane(self, axes: tuple[int, ...]) -> tuple[object, ...]:
        """All tile shapes of some axes together, see `sparse_kernels.rows_above_gap`."""
        key = tuple(sorted(axes))
        if key not in self._planes:
            self._planes[key] = _plane(self.costs.lattice, key)
        return self._planes[key]

    def kernel_limit(self) -> tuple[object, ...]:
        """The limit as kernels take it."""
        costs, limit, codes = self.costs, self.limit, self._goal_codes
        n = limit.archive.n if limit is not None else 0
        if self._kernel_limit is None or self._kernel_limit[0] != n:
            nothing, no_rows = np.zeros(0), np.zeros((0, len(codes)))
            if limit is not None:
                values, slack, remainder = limit.archive.values, limit.slack, limit.remainder
            else:
                values, slack, remainder = no_rows, 0.0, Remainder(no_rows, np.inf)
            arguments = (
                values, n, slack, remainder.rows, float(remainder.most), codes, float(costs.leak[0]), costs.capacity,
                np.zeros(len(costs.capacity)), self.columns, nothing,
            )  # fmt: skip
            self._kernel_limit = n, arguments
        return self._kernel_limit[1]


def _plane(lattice: Lattice, axes: tuple[int, ...]) -> tuple[object, ...]:
    mask = np.zeros(len(lattice.axes), dtype=bool)
    mask[list(axes)] = True
    radices = [len(lattice.axes[a].sizes) for a in axes]
    size = prod(radices)
    offset = np.zeros(size, dtype=np.int64)
    numbers, stride = np.arange(size), 1
    moves: list[Ints] = []
    for a, radix in zip(axes, radices, strict=True):
        position = numbers // stride % radix
        offset += position * lattice.strides[a]
        for i, inner in enumerate(lattice.axes[a].covers):
            outer = numbers[position == i]
            moves += [np.stack([outer, outer + (j - i) * stride], axis=1) for j in inner]
        stride *= radix
    pairs = np.concatenate([np.zeros((0, 2), dtype=np.int64), *moves])
    pairs = pairs[np.argsort(pairs[:, 0], kind="stable")]
    return mask, offset, np.searchsorted(pairs[:, 0], np.arange(size + 1)), pairs[:, 1].astype(np.int32)
