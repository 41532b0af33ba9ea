"""Cost-to-go tables: what the rest of a dataplacement costs at least, for each point of the lattice and each column."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.cost_bounds.cost_to_go import dense_kernels
from einmap.mapper.cost_bounds.cost_to_go.kept_room import KEPT_ROOM
from einmap.mapper.cost_bounds.cost_to_go.supports import Supports
from einmap.mapper.cost_bounds.cost_to_go.table_blocks import Recipe, TableBlocks, numbered
from einmap.mapper.cost_bounds.path_costs import FEW_POINTS, PathCosts
from einmap.mapper.given.lane_rule import LaneRule
from einmap.mapper.given.slots import Positions

NO_MOVES: Ints = np.zeros((0, 2), dtype=np.int32)


class Tables(TableBlocks):
    """Blocks of tables with the columns of cost `columns`; `fill` computes them.

    The tables of a block have a row for each of its `points`; elsewhere they are infinite. They lie one after the other
    in `pool`.
    """

    def __init__(self, costs: PathCosts, columns: Ints) -> None:
        super().__init__(costs, columns)
        self._innermost = np.zeros(1, dtype=np.int64)
        self.supports: Supports = costs.of_path.setdefault(("supports",), Supports())
        self._all = np.ones(costs.lattice.size, dtype=bool)
        self.recipes: list[Recipe] = []
        self.stands_for: list[Ints] = []
        """For each block and table the first prefix that has it."""
        self.points: list[Ints] = []
        """For each block the points of its tables, in order: where these can be finite, and what loops pass there."""
        self.finite: list[Ints] = []
        """For each block the points at which its tables can be finite."""
        self.with_points: list[int] = []
        """For each block the first one that has its points: many have the same ones."""
        self.all_slots: Ints = np.zeros((0, costs.lattice.size), dtype=np.int64)
        """Rows of `slots`, of as many blocks as were asked for."""
        self._slot_rows: dict[int, int] = {}
        """By the first block with the points."""
        self._begins: list[Ints] = []
        self._all_begins: tuple[Ints, Ints] | None = None
        self._moves: dict[tuple[int, tuple[int, ...]], Ints] = {}
        """Pairs of rows that loops may lead from and to, by the first block and the axes, while blocks are filled."""
        self._room: Floats = np.empty(0)
        """Where `pool` lies."""
        self.n_filled = 0
        """Blocks whose tables are filled, the first ones."""
        self.first_row: Ints = np.zeros(1, dtype=np.int64)
        """For each block the row of `pool` at which its tables begin, once they are filled."""

    @property
    def bytes(self) -> int:
        """Room that all tables need."""
        return self.n_rows * len(self.columns) * 8

    def block(self, key: object, recipe: Recipe) -> int:
        """Number of the block of this key."""
        number = self.blocks.setdefault(key, len(self.blocks))
        if number == len(self.recipes):
            self.recipes.append(recipe)
            one = self.width(recipe.level.r) == 1
            table, first = (self._innermost, self._innermost) if one else numbered(self.alike(recipe))
            self.table_of.append(table)
            self.stands_for.append(first)
            points, finite = self.support(recipe)
            self.finite.append(finite)
            same = (block for block, other in enumerate(self.points) if other is points)
            self.with_points.append(next(same, number))
            self.points.append(points)
            self.n_rows += len(first) * len(points)
        return number

    def support(self, recipe: Recipe) -> tuple[Ints, Ints]:
        """Points of a block, and those at which its tables can be finite."""
        level, inner = recipe.level, recipe.inner
        if inner is None:
            return self.supports.innermost()
        below = self.finite[recipe.below]
        if inner.axes is None:
            return self.supports.above_lanes(self.costs, below, level.r)
        assert level.node is not None
        return self.supports.above_gap(self.costs, below, inner.axes, inner.lowers, level.node)

    def slots(self, block: int) -> Ints:
        """For each point of the lattice its row in the tables of a block, -1 where there is none."""
        row = self.slot_row(block)
        slots: Ints = self.all_slots[row]
        return slots

    def slot_row(self, block: int) -> int:
        """The row of `all_slots` that is a block's."""
        first, points = self.with_points[block], self.points[block]
        if first not in self._slot_rows:
            row = self._slot_rows[first] = len(self._slot_rows)
            if row == len(self.all_slots):
                # who has the rows before keeps them
                more = np.full((max(row, 8), self.costs.lattice.size), -1, dtype=np.int64)
                self.all_slots = np.concatenate([self.all_slots, more])
            self.all_slots[row, points] = np.arange(len(points))
        return self._slot_rows[first]

    def moves(self, block: int, axes: tuple[int, ...]) -> Ints:
        """Pairs of rows of a block's tables, what loops over some axes may do."""
        costs, key = self.costs, (self.with_points[block], axes)
        if key in self._moves:
            return self._moves[key]
        moves = NO_MOVES if not axes else dense_kernels.moves_inside(
            self.points[block], self.slots(block), self.flags(axes),
            costs.coord, costs.lattice.strides, costs.lattice.offsets, *costs.covers,
        )  # fmt: skip
        if costs.lattice.size <= FEW_POINTS:
            self._moves[key] = moves
        return moves

    @property
    def all_begins(self) -> tuple[Ints, Ints]:
        """For each prefix of each block the row of `pool` at which its table begins; where those of each block are."""
        if self._all_begins is None:
            self._all_begins = np.concatenate(self._begins), np.cumsum([0, *map(len, self._begins)])
        return self._all_begins

    def begins(self, block: int) -> Ints:
        """For each prefix of a block the row of `pool` at which its table begins."""
        return self._begins[block]

    def rows(self, block: int, chosen: Ints) -> Floats:
        """Chosen rows of the table of a block's first prefix, without infinite ones."""
        rows = self.pool[chosen + self._begins[block][0]]
        finite: Floats = rows[rows[:, 0] < np.inf]
        return finite

    def fill(self, stopped: Callable[[], bool]) -> bool:
        """Compute the tables of blocks that have none, inner ones first; False when it was stopped before the end."""
        sizes = [len(prefixes) * len(points) for prefixes, points in zip(self.stands_for, self.points, strict=True)]
        self.first_row = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        each = zip(self.first_row.tolist(), self.table_of, self.points, strict=False)
        self._begins = [first + table * len(points) for first, table, points in each]
        self._all_begins = None
        self._make_room()
        try:
            for index, recipe in enumerate(self.recipes[self.n_filled :], self.n_filled):
                if stopped():
                    return False
                self.fill_block(index, recipe)
                self.n_filled = index + 1
        finally:
            self._moves.clear()
        return True

    def _make_room(self) -> None:
        """Have `pool` take the tables of all blocks, behind those that are filled."""
        n, room, filled = self.n_rows * len(self.columns), self._room, self.pool[: self.first_row[self.n_filled]]
        if n > len(room):
            self._room = KEPT_ROOM.take(n)
        self.pool = self._room[:n].reshape(self.n_rows, len(self.columns))
        if self._room is not room and len(room):
            self.pool[: len(filled)] = filled
            KEPT_ROOM.give(room)

    @property
    def is_filled(self) -> bool:
        """Whether there are tables, and all are filled."""
        return super().is_filled and self.n_filled == len(self.recipes)

    def forget(self) -> None:
        """Free the tables."""
        self.pool, self.n_filled = np.empty((0, len(self.columns))), 0
        if len(self._room):
            KEPT_ROOM.give(self._room)
            self._room = np.empty(0)
        self.all_slots = self.all_slots[:0].copy()
        self._slot_rows = {}

    def fill_block(self, index: int, recipe: Recipe) -> None:
        """Tables of one block: what the rest costs at least once the level's choice is made."""
        self.fill_free(index, recipe)
        if recipe.level.given is not None:
            points = self.points[index]
            for p, begin in enumerate(self.begins(index)):
                allowed = self.allowed_by(p, recipe.level.r, *recipe.level.given)[points]
                self.pool[begin : begin + len(points)][~allowed] = np.inf

    def allowed_by(self, p: int, r: int, positions: Positions, lanes: LaneRule | None) -> Bools:
        """Points that a given mapping allows with one prefix of the first r fanouts."""
        costs = self.costs
        key = ("given", r, lanes)
        if key not in costs.computed:
            costs.computed[key] = lanes.allowed(costs.prefixes.tables[r], costs.lattice) if lanes else []
        points = np.ones(costs.lattice.size, dtype=bool)
        for axis, allowed in positions:
            flags = np.zeros(int(costs.lattice.radices[axis]), dtype=bool)
            flags[list(allowed)] = True
            points &= flags[costs.coord[:, axis]]
        for axis, rows in costs.computed[key]:
            points &= rows[p, costs.coord[:, axis]]
        return points

    def fill_free(self, index: int, recipe: Recipe) -> None:
        """The tables without what is given."""
        level, inner, costs = recipe.level, recipe.inner, self.costs
        first, begins = self.stands_for[index], self._begins
        begin, end = self.first_row[index], self.first_row[index + 1]
        if inner is None:
            self.pool[begin:end] = costs.constants_of(recipe.chains)[first][:, self.columns]
            return
        if inner.axes is None:
            self.pool[begin:end] = np.inf
            self.over_lanes(index, level.r, recipe.below)
            return
        node = level.node
        assert node is not None
        fits = self._all if inner.lowers is None else costs.fits_lowered(inner.lowers)
        t, coefficients = costs.tensors.index(node.tensor), costs.rates_of(recipe.chains, node, level.r)
        rates, fixed, per_visit = (self.columns_in(rows).take(first, axis=0) for rows in coefficients)
        dense_kernels.with_gap_and_node(
            self.pool, begins[recipe.below][first], self.slots(recipe.below), begins[index][first],
            self.points[index], self.moves(index, inner.axes), fits, rates, fixed, per_visit, costs.fills[t],
            costs.lattice.tiles, costs.values[t], costs.lines_of(recipe.chains, node), costs.allowed(node),
        )  # fmt: skip

    def over_lanes(self, index: int, r: int, below: int) -> None:
        """For each prefix the least over the lanes of the next fanout."""
        costs = self.costs
        first, first_below = costs.prefixes.first[r], costs.prefixes.first[r + 1]
        begins, slots = self.begins(below), self.slots(index)
        for p, begin in enumerate(self.begins(index)):
            children = costs.children[costs.child_start[first + p] : costs.child_start[first + p + 1]]
            dense_kernels.over_lanes(
                self.pool, begins[children - first_below], self.points[below], begin, slots,
                costs.coord, costs.lattice.strides, costs.divides[children], costs.multiples,
            )  # fmt: skip
