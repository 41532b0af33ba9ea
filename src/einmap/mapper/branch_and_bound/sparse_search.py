"""The search of one Einsum on one path where tables have few rows: of large lattices, and where loops lead to few."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from math import prod

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.branch_and_bound.path_search import PathSearch, TemplateTables
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.cost_bounds.cost_to_go.sparse_tables import Limit, NoRoomError, SparseTables
from einmap.mapper.cost_bounds.cost_to_go.table_blocks import Around, Level
from einmap.mapper.cost_bounds.least_of_nodes import LeastOutside
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.layout import least_fills
from einmap.mapper.templates.chain_template import ChainTemplate, Held


class SparseSearch(PathSearch):
    """Some dataplacements with some lanes: as `PathSearch`, but no array has an element for each point."""

    tables: SparseTables  # type: ignore[assignment]
    limit: Limit | None = None
    """Limit from mappings found before."""
    ahead: Sequence[ChainTemplate] = ()
    """All plans that are taken, where these are more than are taken at first."""
    stopped: Callable[[], bool] | None = None
    """Whether filling tables must end."""

    def new_tables(self, columns: Ints) -> SparseTables:  # type: ignore[override]
        """Tables without blocks."""
        return SparseTables(self, columns, self.goal_codes)

    # plans

    def take(self, plans: Sequence[ChainTemplate], room: float, of_first: float = 0.0) -> int:
        """Compile plans and fill their tables, as many as have room (bytes); how many these are."""
        del of_first
        self.compiled = []
        self.tables.make_room(room)
        every, limited = self.ahead or plans, self.tables.limit is not None
        if self.limit is not None and (limited or all(self.never_negative(plan) for plan in every)):
            self.tables.bound(self.limit, self.tables.outside or LeastOutside(self, every))
        for taken, plan in enumerate(plans):
            if self.stopped is not None and self.stopped():
                self.ended = True
                return taken
            try:
                compiled = self.compile(plan)
            except NoRoomError:
                return taken
            if compiled is not None:
                self.compiled.append(compiled)
        return len(plans)

    def tables_filled(self, stopped: Callable[[], bool]) -> bool:
        """Whether the tables are filled; taking plans does that."""
        del stopped
        return not self.ended

    def stands_at_top(self, node: Held) -> bool:
        """Whether a node holds the whole of its tensor."""
        memory = self.memory(node.level)
        values = self.sizes[self.tensors.index(node.tensor)]
        needed = (self.stored(node.tensor, values) if node.backing else values) * memory.bits[node.tensor]
        if not self.lowers(node) and needed > memory.size_bits:
            return False
        limits = memory.placement.tile_shape if node.first and memory.placement is not None else ()
        return all(bool(limit.holds_each(dict(self.einsum.bounds))) for limit in limits)

    def around(self, levels: Sequence[Level]) -> Sequence[Around]:
        """For each level what stands above it."""
        around = []
        pinned = frozenset(range(len(self.lattice.axes)))
        held: dict[int, frozenset[str]] = {}
        for level in levels:
            pinned -= frozenset(level.axes or ())
            beside = frozenset[str]()
            if level.node is not None:
                beside = held.get(level.node.level, beside)
                if not self.lowers(level.node):
                    held[level.node.level] = beside | {level.node.tensor}
            around.append(Around(pinned, beside))
        return around

    def never_negative(self, plan: ChainTemplate) -> bool:
        """Whether no node of a plan costs less than nothing, wherever it stands.

        Each tensor fills a node at least once for every lane that uses it; so where a fill costs something, the least
        that a node costs is that of these fills, with the costs that are the same for all tile shapes.
        """
        levels = self.levels(plan)
        for level in levels:
            if level.node is None:
                continue
            node = level.node
            key = ("positive", node.tensor, node.level, level.r, self.pricer.tail(plan.chains[node.tensor], node.level))
            if key not in self.computed:
                self.computed[key] = self._costs_something(plan, node, level.r)
            if not self.computed[key]:
                return False
        return True

    def _costs_something(self, plan: ChainTemplate, node: Held, r: int) -> bool:
        rates, fixed, _ = self.rates_of(plan.chains, node, r)
        table = self.prefixes.tables[r]
        none = np.array([r is Relevance.NONE for r in self.pricer.axis_relevance[node.tensor]], dtype=bool)
        copies = table.over(table.levels <= node.level, none)
        least = rates * (self.least[self.tensors.index(node.tensor)] * copies)[:, None] + fixed
        return bool((rates >= 0).all() and (least >= -1e-12 * np.abs(fixed)).all())

    @cached_property
    def least(self) -> Floats:
        """Least values in all fills of each tensor."""
        return least_fills(self.lattice, self.einsum)

    # searching

    def root_rows(self, compiled: TemplateTables) -> Floats:
        """Rows of the tables for each choice in the first gap of a plan."""
        points, rows = self.tables.rows(compiled.blocks[0])
        axes = compiled.levels[0].axes or ()
        reached = np.ones(len(points), dtype=bool)
        for axis, (stride, radix) in enumerate(zip(self.lattice.strides, self.lattice.radices, strict=True)):
            if axis not in axes:
                reached &= points // stride % radix == radix - 1
        return rows[reached]

    def kernel_tables(self, compiled: TemplateTables) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
        """Where the tables of each level and prefix begin and end, and the points of all rows."""
        n = [len(self.tables.table_of[block]) for block in compiled.blocks]
        firsts = np.cumsum([0, *n[:-1]]) - [self.prefixes.first[level.r] for level in compiled.levels]
        begins, ends = (
            np.concatenate([of(b) for b in compiled.blocks]) for of in (self.tables.begins, self.tables.ends)
        )
        return firsts, np.zeros_like(firsts), begins, np.zeros((0, 0), dtype=np.int64), ends, self.tables.points

    def kept_numbers(self, compiled: TemplateTables) -> int:
        """About how many numbers the arguments of the kernel have that other plans have not."""
        return super().kept_numbers(compiled) + 2 * len(compiled.levels) * self.prefixes.n

    def widest(self, compiled: TemplateTables) -> int:
        """Choices of a level, at most."""
        gaps = [lv.axes for lv in compiled.levels if lv.axes is not None]
        longest = [max(map(len, axis.below)) for axis in self.lattice.axes]
        most = max((prod(longest[a] for a in axes) for axes in gaps), default=1)
        return min(max(most, len(self.children) + 1), 2**40)

    def forget_tables(self) -> None:
        """Free what only the search needs."""
        super().forget_tables()
        self.limit, self.ahead, self.stopped = None, (), None


def new_search(path: Path, lanes: LaneTable, instances: int) -> PathSearch:
    """A search of a path with some uses of the fanouts, without dataplacements yet; on large lattices a SparseSearch.

    `instances`: how often the Einsum runs.
    """
    kind = SparseSearch if path.is_sparse else PathSearch
    return kind(
        path.pricer,
        lanes,
        path.fanouts,
        path.request.goals,
        path.request.known_remainder,
        instances,
        path.of_tables,
        path.machine,
    )
