"""Blocks of cost-to-go tables: which places of which chains have tables in common, whatever their rows are.

A block has the tables of one place of a chain, for every prefix of the lanes that are chosen there. Equal inner parts
of dataplacements have their blocks in common, and prefixes whose coefficients are equal from there on have one table:
rates depend on a few products of lanes only, so that hundreds of uses of the fanouts need some tens of tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from weakref import ref

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.cost_bounds.coefficients import Chain
from einmap.mapper.cost_bounds.path_costs import PathCosts
from einmap.mapper.given.lane_rule import LaneRule
from einmap.mapper.given.slots import Positions
from einmap.mapper.templates.chain_template import Held


@dataclass(frozen=True)
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
    rising: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Around:
    """Surroundings of a block: axes over which only lanes stand above its level, and the tensors that take room there.

    `pinned`: no loop over these axes stands above; `beside`: tensors of nodes further out in the memory of the
    level's node, whose tiles are at least as large as at the level's point.
    """

    pinned: frozenset[int]
    beside: frozenset[str]


@dataclass(frozen=True)
class Recipe:
    """How the tables of a block are made: `below` is the block of the next level, -1 for the last.

    `around`: what stands above, where the rows that a table has depend on it.
    """

    level: Level
    inner: Level | None
    chains: Mapping[str, Chain]
    below: int
    around: Around | None = None


type Place = tuple[int, Level, Level | None, Around | None]
"""One place of a plan: the number of all that its tables depend on, its level, the next level, what stands above."""


def places_of(
    levels: Sequence[Level],
    around: Sequence[Around | None],
    tails: Sequence[Chain | None],
    numbers: dict[tuple[object, ...], int],
) -> list[Place]:
    """The places of a plan from the inside out. `tails`: for each level that of its node's chain; see `Pricer.tail`.

    `numbers`: by what tables depend on but for those below them, of all plans; taken over and added to.
    """
    places = list[Place]()
    inner: Level | None = None
    for level, above, tail in zip(reversed(levels), reversed(around), reversed(tails), strict=True):
        gap = (inner.axes, inner.lowers) if inner else None
        key = level.r, level.last, level.node, tail, level.given, above, gap
        places.append((numbers.setdefault(key, len(numbers)), level, inner, above))
        inner = level
    return places


class TableBlocks:
    """Blocks of tables with the columns of cost `columns`, whose rows lie in `pool`."""

    def __init__(self, costs: PathCosts, columns: Ints) -> None:
        self._costs, self.columns = ref(costs), columns
        self.has_all_columns = np.array_equal(columns, np.arange(costs.columns))
        self.blocks: dict[object, int] = {}
        self.table_of: list[Ints] = []
        """For each block and prefix the number of its table."""
        self.pool: Floats = np.empty((0, len(columns)))
        self.n_rows = 0
        """Rows of all tables."""

    @property
    def costs(self) -> PathCosts:
        """Whose tables these are; it has them, and without it they are gone, too."""
        costs = self._costs()
        assert costs is not None
        return costs

    @property
    def is_filled(self) -> bool:
        """Whether there are tables."""
        return bool(self.pool.size)

    def alike(self, recipe: Recipe) -> Floats | Ints:
        """A row for each prefix, equal for those that have the same table."""
        level, inner = recipe.level, recipe.inner
        if level.given is not None or (inner is not None and inner.axes is None):
            return np.arange(self.width(level.r))[:, None]
        if inner is None:
            return self.costs.constants_of(recipe.chains)[:, self.columns]
        assert level.node is not None
        costs = self.costs.rates_of(recipe.chains, level.node, level.r)
        return np.hstack([self.table_of[recipe.below][:, None], *map(self.columns_in, costs)])

    def columns_in(self, rows: Floats) -> Floats:
        """The columns of the tables of coefficients that may have none, or each column several times."""
        if self.has_all_columns or not rows.shape[1]:
            return rows
        n = self.costs.columns
        if rows.shape[1] == n:
            return rows[:, self.columns]
        return rows[:, np.concatenate([begin + self.columns for begin in range(0, rows.shape[1], n)])]

    def width(self, r: int) -> int:
        """Prefixes of the first r fanouts."""
        return self.costs.prefixes.first[r + 1] - self.costs.prefixes.first[r]

    def flags(self, axes: tuple[int, ...] | frozenset[int]) -> Bools:
        """Axes as flags."""
        flags = np.zeros(len(self.costs.lattice.axes), dtype=bool)
        flags[list(axes)] = True
        return flags


def numbered(rows: Floats | Ints) -> tuple[Ints, Ints]:
    """Numbers of the distinct rows in the order in which they come: that of each row, and the first row of each."""
    whole = np.dtype((np.void, rows.dtype.itemsize * rows.shape[1]))
    firsts: dict[object, int] = {}
    every = np.ascontiguousarray(rows).view(whole).ravel().tolist()
    first_of = np.array([firsts.setdefault(row, i) for i, row in enumerate(every)], dtype=np.int64)
    first = np.array([*firsts.values()], dtype=np.int64)
    return np.searchsorted(first, first_of), first
