"""Branch and bound where tensors have zeros: columns of cost are lower bounds, and the model judges what is left."""

from __future__ import annotations

from collections.abc import Container, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from heapq import heapify, heappop, heappush

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.errors import NotSupportedError
from einmap.mapper.branch_and_bound import kernels
from einmap.mapper.branch_and_bound.decode import mapping_of
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch, SearchRun
from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.branch_and_bound.path_search import NOTHING, Descent, PathSearch, TemplateTables
from einmap.mapper.branch_and_bound.stalled import offer
from einmap.mapper.branch_and_bound.zeros_parts import Part, Parting, SeenParts, left_of
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.cost_bounds.relaxed_bounds import bounds_of_uses
from einmap.mapper.cost_bounds.tile_limits import within_limits
from einmap.mapper.cost_bounds.zeros.looking import Look, Tile
from einmap.mapper.cost_bounds.zeros.path import Zeros, ZerosPath
from einmap.mapper.cost_bounds.zeros.rates import ZerosPricer
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.objective import objective_kernels
from einmap.mapper.templates.chain_template import ChainTemplate, Held
from einmap.mapper.templates.groups import Group
from einmap.mapper.templates.statistics import Loops
from einmap.mapping.mapping import Mapping

MOST_PRICERS = 500
"""Windows whose coefficients are kept."""
FEW_CHOICES = 100_000
"""Choices between two mappings that are looked at before anything is proven, about 2 ms."""
FEW_MAPPINGS = 8
"""Mappings of a part that are looked at before anything is proven."""
MOST_REFUSED = 4
"""Mappings of one dataplacement and use of the lanes that the model does not know, after which others are left out."""


@dataclass(eq=False)
class ZerosPathSearch(PathSearch):
    """Some dataplacements with some lanes, of one Einsum with zeros on one path."""

    zeros: Zeros = field(kw_only=True)

    @property
    def knows_costs(self) -> bool:
        """Whether an outer nest that costs more so far than one that goes on alike may be left out."""
        return not self.ragged

    @property
    def is_exact(self) -> bool:
        """Whether columns of cost are what the model says."""
        assert isinstance(self.pricer, ZerosPricer)
        return self.pricer.is_exact

    def windowed(self, pricer: ZerosPricer) -> ZerosPathSearch:
        """This search, without dataplacements, where chances further out are in the windows of a pricer."""
        other = self.emptied()
        other.pricer, other.computed, other.zeros = pricer, {}, Zeros(pricer.tables, self.zeros.cost_of)
        with suppress(AttributeError):
            del other.ragged
        other.tables = other.new_tables(self.tables.columns)
        return other

    def _window_of(self, node: Held) -> Bools | None:
        """Points at which chances and tiles of a node are in their windows, and cut no blocks; None: everywhere."""
        pricer, found = self.pricer, list[Bools]()
        assert isinstance(pricer, ZerosPricer)
        for place in pricer.windows or ():
            if place.tensor != node.tensor:
                continue
            if node.level == (place.child if isinstance(place, Look) else place.parent):
                found.append(pricer.is_within(place))
            if isinstance(place, Tile) and node.level == place.child:
                found.append(pricer.has_parts(place))
        if self.is_stored(node) and pricer.is_parted(node.level, node.tensor):
            memory = self.memory(node.level).name
            found.append(pricer.tables.keeps_blocks(memory, node.tensor, pricer.extents_at_points(node.tensor)))
        return np.logical_and.reduce(found) if found else None

    @cached_property
    def ragged(self) -> bool:
        """Whether a mapping that the kernel comes to may cost more, or not fit."""
        formats = self.zeros.tables.sparsity.formats
        limited = {self.leaves[i].name for i in self.memories if np.isfinite(self.memory(i).size_bits)}
        return not self.is_exact or any(memory in limited for memory, _ in formats)

    # room: exactly for a node by itself, at least for several together

    def is_stored(self, node: Held) -> bool:
        """Whether a node's memory has a format for its tensor."""
        return (self.leaves[node.level].name, node.tensor) in self.zeros.tables.sparsity.formats

    def room(self, node: Held) -> Floats:
        """Bits that the fullest tile of a node takes in its format, for each point."""
        assert isinstance(self.pricer, ZerosPricer)
        memory, tables, kept = self.memory(node.level), self.zeros.tables, self.pricer.remembered
        key = "room", node.tensor, memory.name, tables.mark(memory.name, node.tensor)
        if key not in kept:
            extents = tables.extents(node.tensor, self.pricer.shapes)
            bits = tables.room(memory.name, node.tensor, extents, memory.bits[node.tensor])
            kept[key] = np.broadcast_to(np.asarray(bits, dtype=np.float64), (self.lattice.size,))
        room: Floats = kept[key]
        return room

    def allowed(self, node: Held) -> Bools:
        """Points at which a node fits by itself, keeps the limits on tile shapes, and has chances in their windows."""
        window = self._window_of(node)
        if window is None:
            return self._allowed(node)
        key = "allowed in windows", node
        if key not in self.computed:
            self.computed[key] = self._allowed(node) & window
        allowed: Bools = self.computed[key]
        return allowed

    def _allowed(self, node: Held) -> Bools:
        """Points at which a node fits by itself and keeps the limits on tile shapes."""
        size = self.memory(node.level).size_bits
        if not self.is_stored(node) or not np.isfinite(size):
            return super().allowed(node)
        key = "allowed as stored", node
        if key not in self.computed:
            fits = self.room(node) <= size
            placement = self.memory(node.level).placement
            self.computed[key] = fits & within_limits(placement, self.lattice) if node.first else fits
        allowed: Bools = self.computed[key]
        return allowed

    def inside(self, node: Held) -> Ints:
        """Points inside of some point at which a node may stand by itself, in order."""
        some = self.is_stored(node) or self._window_of(node) is not None
        return np.arange(self.lattice.size) if some else super().inside(node)

    def bits_of(self, node: Held) -> float:
        """Least bits of each value of a node's tile in its memory, where the tile fits by itself."""
        if not self.is_stored(node):
            return super().bits_of(node)
        each = self.room(node) / self.values[self.tensors.index(node.tensor)]
        fits = self.room(node) <= self.memory(node.level).size_bits
        return float(each[fits].min()) if fits.any() else 0.0

    def lowers(self, node: Held) -> bool:
        """Whether its space is reserved below the loops that follow it: not in a format."""
        return not self.is_stored(node) and super().lowers(node)

    def fits(self, compiled: TemplateTables, points: Sequence[int], occupied: Floats) -> bool:
        """Whether the fullest tiles fit together. `occupied`: bits in use, least ones of what has a format."""
        return bool((np.round(occupied + self.more_room(compiled, points), 6) <= self.capacity).all())

    def more_room(
        self, compiled: TemplateTables, points: Sequence[int], but: Container[str] = (), outer: int = 0
    ) -> Floats:
        """Bits that the fullest tiles take in each memory beyond the least ones of what has a format.

        Without the outermost nodes of some tensors (`but`). Nodes of the first `outer` levels had the least bits of
        any tile.
        """
        bits = np.zeros(len(self.capacity))
        for i, (level, point) in enumerate(zip(compiled.levels, points, strict=True)):
            node = level.node if level.last else None
            if node is None or not self.is_stored(node) or (node.backing and node.tensor in but):
                continue
            if np.isfinite(self.memory(node.level).size_bits):
                each = self.bits_of(node) if i >= outer else self.bits_outside(node.level, node.tensor)
                least = self.values[self.tensors.index(node.tensor), point] * each
                bits[self.memories.index(node.level)] += self.room(node)[point] - least
        return bits

    def bits_outside(self, level: int, tensor: str) -> float:
        """Least bits of each value of a tensor in a memory as other Einsums see it."""
        node = Held(tensor, level, backing=False, first=False)
        if not self.is_stored(node):
            return super().bits_outside(level, tensor)
        return float((self.room(node) / self.values[self.tensors.index(tensor)]).min())

    def fits_lowered(self, node: Held) -> Bools:
        """Points after the following loops at which a lowered node can fit."""
        return np.ones(self.lattice.size, dtype=bool) if self.is_stored(node) else super().fits_lowered(node)

    def occupied(self, plan: ChainTemplate) -> Floats:
        """Bits that the nodes of the outermost memory take."""
        bits = super().occupied(plan)
        for held in plan.outer:
            if self.is_stored(held):
                dense = self.stored(held.tensor, self.sizes[self.tensors.index(held.tensor)])
                times = self.instances if self.einsum.by_tensor[held.tensor].persistent else 1
                more = float(self.room(held)[self.lattice.top]) - dense * self.memory(held.level).bits[held.tensor]
                bits[self.memories.index(held.level)] += more * times
        return bits

    def judged(self, mapping: Mapping, occupied: Floats) -> Floats | None:
        """Objectives of a mapping; None where it does not fit. Raises NotSupportedError."""
        cost = self.zeros.cost(mapping)
        if cost is None:
            return None
        values: Floats = np.empty(len(self.goal_codes))
        objective_kernels.objectives(np.array(cost), 0.0, occupied, self.capacity, NOTHING, self.goal_codes, values)
        return values


@dataclass
class ZerosEinsumSearch(EinsumSearch):
    """The search of one Einsum with zeros.

    `uncounted`: why the model does not know some mappings; `seen`: parts that a search for one objective has bounded.
    """

    uncounted: NotSupportedError | None = None
    seen: SeenParts = field(default_factory=SeenParts)

    def run(self) -> Optimum:
        """Search all paths; ends early with the best so far when the progress token says so."""
        return ZerosRun(self).optimum()

    def cost_of(self, found: Optimum) -> tuple[float, float]:
        """Energy and latency of one instance, with the first mapping that was found."""
        path = self.paths[0]
        assert isinstance(path, ZerosPath)
        cost = path.zeros.cost_of(found.tables[0].sparsity)
        return cost(found.mappings[0]) or (np.inf, np.inf)


class ZerosRun(SearchRun):
    """One run of a search, whose mappings the model judges."""

    def __init__(self, search: ZerosEinsumSearch) -> None:
        super().__init__(search)
        self.search = search
        self.refused: dict[tuple[int, int], int] = {}
        self.pricers: dict[object, ZerosPricer] = {}
        self.parting = Parting(search.seen)
        self.unknown = np.full(len(self.request.goals), np.inf)
        """Nothing that the model does not know is better than this, as far as it may be better than what was found."""

    def without_plans(self, path: Path, lanes: LaneTable, chosen: Ints) -> PathSearch:
        """A search with some uses of the fanouts, in order; the last one is there again where it had the same."""
        chosen = np.sort(chosen)
        if self.last_search is None or self.last_search[0] != (path, lanes, chosen.tobytes()):
            assert isinstance(path, ZerosPath)
            asked = path.request.goals, path.request.known_remainder, self.instances, path.of_tables, None
            search = ZerosPathSearch(path.pricer, lanes.only(chosen), path.fanouts, *asked, zeros=path.zeros)
            self.last_search = (path, lanes, chosen.tobytes()), search
        return self.last_search[1].emptied()

    # chances further out: windows, in halves where these promise something

    def search_lanes(
        self, path: Path, plans: list[ChainTemplate], begun: PathSearch, bounds: Floats, weights: dict[Loops, float]
    ) -> None:
        """All plans with some lanes; where costs depend on chances further out or on formats, part by part of these."""
        assert isinstance(path, ZerosPath)
        pricer = path.zeros_pricer
        if pricer.is_exact:
            super().search_lanes(path, plans, begun, bounds, weights)
            return
        searched: set[int] = set()
        waiting = self.parting.parts_of(pricer, plans, range(len(plans)), bounds, {})
        heapify(waiting)
        while waiting:
            part = heappop(waiting).only(lambda rows: ~self.ruled_out(rows))
            if self.stopped:
                for left in (part, *waiting):
                    self.left.append(left.bounds.min(axis=0, initial=np.inf))
                return
            if part.numbers:
                self.search_part(path, plans, begun, part, waiting, searched)
        for outcome, numbers in (("searched", searched), ("root bounds", {*range(len(plans))} - searched)):
            self.count(outcome, [plans[i] for i in numbers], begun.lanes, weights)

    def search_part(
        self, path: ZerosPath, plans: list[ChainTemplate], begun: PathSearch, part: Part, waiting: list[Part],
        searched: set[int],
    ) -> None:  # fmt: skip
        """Some plans with some windows: find their bounds, and put halves on the heap or search them."""
        assert isinstance(begun, ZerosPathSearch)
        key = sha256(begun.lanes.bounds.tobytes()).digest(), tuple(part.windows.items()), left_of(part.tables)
        again = self.parting.seen_before(key, part, plans, self.request.goals, self.ruled_out)
        if again is not None:
            for one in again:
                heappush(waiting, one)
            return
        pricer = self.pricer_of(path, part)
        with self.tally.timed("tables"):
            search = begun.windowed(pricer)
            taken = search.take([plans[i] for i in part.numbers], self.request.room)
            filled = taken > 0 and search.tables_filled(lambda: self.stopped)
            search.gather()
        if not taken and not search.ended:
            # no room for the tables of one plan
            path.short_of_room += 1
            self.unlisted += 1
            self.left.append(part.bounds[0])
            taken = 1
        elif not filled:
            heappush(waiting, part)
            return
        if taken < len(part.numbers):
            heappush(waiting, part.from_number(taken))
        number_of = {plans[i]: i for i in part.numbers}
        found = [(search.bound(compiled), compiled) for compiled in search.compiled] if filled else []
        if taken == len(part.numbers) and filled and len(self.request.goals) == 1:
            self.search.seen.keep(key, self.request.goals[0], {c.plan: float(bound[0]) for bound, c in found})
        found = [(b, c) for b, c in found if np.isfinite(b).all() and not self.ruled_out(b[None, :])[0]]
        if not found:
            search.forget_tables()
            return
        found.sort(key=lambda pair: float(pair[0][0]))
        rows, numbers = np.array([b for b, _ in found]), [number_of[c.plan] for _, c in found]
        parts, least = self.parting.halves(pricer, plans, numbers, rows), tuple(rows.min(axis=0))
        if parts and (self.first_only or self.progress.deadline is not None):
            self.dive(search, found)
        if parts or (not part.is_known and waiting and waiting[0].least < least):
            search.forget_tables()
            self.search.seen.parted(key, parts, plans)
            known = Part(least, next(self.parting.numbers), part.windows, numbers, rows, part.tables, is_known=True)
            for one in parts or [known]:
                heappush(waiting, one)
            return
        self.archive.widen(max(len(compiled.levels) for _, compiled in found))
        for bound, compiled in found:
            if self.ruled_out(bound[None, :])[0]:
                continue
            if self.stopped:
                self.left.append(bound)
                continue
            self.floor = min([float(bound[0]), self.later, *(other.least[0] for other in waiting)])
            searched.add(number_of[compiled.plan])
            self.search_plan(search, compiled, bound)
        search.forget_tables()

    def dive(self, search: PathSearch, found: Sequence[tuple[Floats, TemplateTables]]) -> None:
        """Some mappings of the plan of the least bound, or any of the others, so that a search that is stopped has one.

        Bounds of large parts lead to good ones without proving anything.
        """
        self.archive.widen(max(len(compiled.levels) for _, compiled in found))
        for _, compiled in found:
            walk, number = search.start(compiled), len(self.decoders)
            self.decoders.append((search, compiled))
            for _ in range(FEW_MAPPINGS if walk is not None else 0):
                assert walk is not None
                before = walk.work
                ended = search.step(compiled, number, walk, self.archive, self.slack, FEW_CHOICES)
                self.work += walk.work - before
                if ended != kernels.LEAF:
                    break
                self.judge(search, compiled, number, walk)
            if not (self.archive.paths[: self.archive.n, 0] == number).any():
                self.decoders.pop()
            if self.archive.n or self.stopped:
                return

    def pricer_of(self, path: ZerosPath, part: Part) -> ZerosPricer:
        """Coefficients where chances further out are in some windows, and some formats are left."""
        key = path, tuple(part.windows.items()), left_of(part.tables)
        if key not in self.pricers:
            if len(self.pricers) >= MOST_PRICERS:
                self.pricers.clear()
                path.zeros_pricer.forget()
            self.pricers[key] = path.zeros_pricer.with_windows(part.windows, part.tables)
        return self.pricers[key]

    def judge(self, search: PathSearch, compiled: TemplateTables, number: int, walk: Descent) -> None:
        """Find the cost of the mapping that the kernel has come to, and put it into the archive."""
        n = len(compiled.levels)
        prefix = int(walk.prefix_at[n])
        if self.refused.get((number, prefix), 0) >= MOST_REFUSED:
            self.unknown = np.minimum(self.unknown, least_of(search, walk, n))
            return
        points = [int(x) for x in walk.point_at[1 : n + 1]]
        assert isinstance(search, ZerosPathSearch)
        if not search.fits(compiled, points, walk.occupied[n]):
            return
        if search.is_exact:
            offer(self.archive, least_of(search, walk, n), walk, prefix, number)
            return
        mapping = mapping_of(search, compiled, prefix, points)
        try:
            values = search.judged(mapping, walk.occupied[n])
        except NotSupportedError as error:
            self.search.uncounted = error
            self.refused[number, prefix] = self.refused.get((number, prefix), 0) + 1
            self.unknown = np.minimum(self.unknown, least_of(search, walk, n))
            return
        if values is not None:
            offer(self.archive, values, walk, prefix, number)

    def search_path(self, path: Path, groups: Sequence[Group]) -> None:
        """All dataplacements on one path; of lanes that the model does not know there is a bound."""
        super().search_path(path, groups)
        assert isinstance(path, ZerosPath)
        for plans, lanes in path.unknown:
            least, _ = bounds_of_uses(path, plans, lanes, self.progress)
            self.unlisted += 1
            self.left.append(least.min(axis=0))

    def result(self) -> Optimum:
        """The archive as mappings, sorted by the objectives."""
        if self.refused:
            self.unlisted += 1
            self.left.append(self.unknown)
        found = super().result()
        order = np.lexsort(self.archive.values[: self.archive.n].T[::-1])
        for i in order:
            search, _ = self.decoders[int(self.archive.paths[i, 0])]
            assert isinstance(search, ZerosPathSearch)
            found.tables.append(search.zeros.tables)
        return found


def least_of(search: PathSearch, walk: Descent, depth: int) -> Floats:
    """Least objectives of the mapping that a walk has come to."""
    values: Floats = np.empty(len(search.value_codes))
    leak = float(search.leak[int(walk.prefix_at[depth])])
    of_walk = walk.acc[depth], leak, walk.occupied[depth]
    objective_kernels.objectives(*of_walk, search.capacity, walk.kept, search.value_codes, values)
    return values
