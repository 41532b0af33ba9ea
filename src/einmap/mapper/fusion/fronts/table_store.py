"""The dataplacements of an Einsum with the uses of the fanouts that they admit, and the searches that look at them.

Tables are made for as many of them at once as have room. Dataplacements that are alike inside have most of their tables
in common, and so have most uses of the fanouts: these stay together.
"""

# Tables are shared before they are split: portions of unrelated dataplacements made the same tables tens of times.

from __future__ import annotations

import math
from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.branch_and_bound.path_search import PathSearch, TemplateTables
from einmap.mapper.branch_and_bound.sparse_search import new_search
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.cost_bounds.relaxed_bounds import FIRST_LANES, Bounds
from einmap.mapper.fusion.fronts.nests.growing import Listed
from einmap.mapper.fusion.fronts.nests.pruned_bounds import PrunedBounds
from einmap.mapper.fusion.growing_tables import GrowingTables, without_tables
from einmap.mapper.fusion.meter import Meter
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.problem.request import Remainder
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapper.templates.groups import Group

MOST_READY = 5_000
"""Uses of the fanouts whose tables may be looked at all together. Most of them share tables."""
FEW, FEW_TABLES = 1_000, 5_000_000
"""Uses of the fanouts, and bytes of tables, that are few."""
# processor time of a chain of 12 products on three levels, 344 uses: 0.75 to 0.8 times of that with 5 MB
FEW_OF_MANY = 2_000_000
"""Bytes of tables of all dataplacements that are few where uses of the fanouts are many: most of these are left out
before others are made.
"""
FAR_BETTER = 20.0
"""Ratio of bounds by tables to those without where tables of everything are worth it."""
MOST_MADE = 8
"""Searches of an Einsum that are kept for when the same dataplacements are looked at again."""
AT_ONCE = 40_000_000
"""Bytes of tables that are made at once, in each thread."""
OF_FIRST = 1.5
"""Tables that are made at once where these are many, in units of the tables of one dataplacement."""
MOST_AT_ONCE = 300_000_000
"""Bytes of tables of one dataplacement beyond which not all uses of the fanouts are looked at together."""
NO_LIMIT = 2**62
"""Bytes of tables, where there may be as many as there are."""


@dataclass
class TableStore:
    """Searches of all Einsums of a cascade whose tables are kept: as many as there is room for (bytes), the latest.

    What an Einsum filled last stays until it says that it is done: Einsums are looked at in several threads.
    `each`: bytes of tables of an Einsum that are worth making whole, to be looked at again and again.
    """

    room: float
    each: float
    held: dict[PathSearch, Hashable] = field(default_factory=dict)
    """By search who filled it, the latest one last."""
    _in_use: dict[Hashable, PathSearch] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def fill(self, search: PathSearch, user: Hashable) -> None:
        """Make sure that a search has its tables."""
        with self._lock:
            self.held.pop(search, None)
            self._in_use[user] = search
            self._free(search.tables.bytes)
            self.held[search] = user
        if not search.has_tables:
            search.tables.fill(lambda: False)
            search.gather()

    def _free(self, wanted: float) -> None:
        """Free the tables that were used longest ago, until there is room for others of so many bytes."""
        used = set(self._in_use.values())
        taken = sum(search.tables.bytes for search in self.held) + wanted
        for search in [search for search in self.held if search not in used]:
            if taken <= self.room:
                break
            taken -= search.tables.bytes
            del self.held[search]
            search.forget_tables()

    def done(self, user: Hashable) -> None:
        """The user needs no tables for now."""
        with self._lock:
            self._in_use.pop(user, None)

    def release(self, user: Hashable, kept: Iterable[PathSearch]) -> None:
        """Free all tables of a user but those of some searches."""
        with self._lock:
            self._in_use.pop(user, None)
            keep = set(kept)
            for search in [search for search, of in self.held.items() if of == user and search not in keep]:
                del self.held[search]
                search.forget_tables()


@dataclass(eq=False)
class Groups:
    """The groups of one Einsum, on all paths. `tables`: those that are kept."""

    meter: Meter
    memory: float
    """Bytes that may be used."""
    tables: TableStore
    all: list[tuple[Path, Group]] = field(default_factory=list)
    _relaxed: dict[int, Bounds] = field(default_factory=dict)
    """Bounds by group that need no tables, once they are asked for."""
    uses: float = math.inf
    """Uses of the fanouts of each group that are looked at, those that seem best."""
    _ready: dict[int, PathSearch] = field(default_factory=dict)
    """Searches by group whose tables are kept."""
    _growing: dict[int, GrowingTables] = field(default_factory=dict)
    """Of these the ones that have tables of some dataplacements."""
    _roots: dict[ChainTemplate, Floats] = field(default_factory=dict)
    """For a dataplacement objectives that no mapping is below, in all, where its tables were made."""
    _made: dict[tuple[int, bytes, tuple[ChainTemplate, ...]], tuple[PathSearch, int]] = field(default_factory=dict)
    """The latest searches by group, lanes and plans, with the number of plans that had room."""
    _portions: dict[int, int] = field(default_factory=dict)
    _user: object = field(default_factory=object)
    """Stands for these groups in the store, which would keep them alive."""

    def add(self, path: Path, group: Group) -> None:
        """One more group."""
        self.all.append((path, replace(group, plans=sorted(group.plans, key=_from_inside))))

    def new_search(self, path: Path, lanes: LaneTable) -> PathSearch:
        """A search of a path with some uses of the fanouts, without dataplacements yet."""
        return new_search(path, lanes, 1)

    def may_grow(self, path: Path) -> bool:
        """Whether tables of some dataplacements may be made before others."""
        return not path.is_sparse

    def relaxed(self, number: int) -> Bounds:
        """Bounds of a group that need no tables; where there are tables of all nobody asks for them."""
        if number not in self._relaxed:
            path, group = self.all[number]
            self._relaxed[number] = Bounds(path, group.plans, group.lanes, self.meter.progress, True)
        return self._relaxed[number]

    @cached_property
    def bounds(self) -> list[tuple[ChainTemplate, Floats]]:
        """Dataplacements with objectives that no mapping is below, in all.

        By tables; those without where these say little more, or there are too many of them.
        """
        return list(self._bounds())

    def _bounds(self) -> Iterator[tuple[ChainTemplate, Floats]]:
        for number, (path, group) in enumerate(self.all):
            if (growing := self._begin_growing(number)) is not None:
                yield from growing.bounds(self._roots)
                continue
            waiting = group.plans
            search, worth = (None, False) if self.meter.stopped else self._worth_tables(number)
            while waiting and worth and not self.meter.stopped:
                taken = len(waiting)
                if search is None:
                    search = self.new_search(path, group.lanes)
                    taken = self._take(search, waiting)
                if taken == len(group.plans) and search.tables.bytes <= self.tables.each:
                    self._ready[number] = search
                self.fill(search)
                for compiled in search.compiled:
                    roots = self._roots[compiled.plan] = search.root_values(compiled)
                    yield compiled.plan, roots
                waiting, search = waiting[taken:], None
                self.tables.release(self._user, self._ready.values())
            if waiting:
                relaxed = self.relaxed(number)
                ways = zip(waiting, relaxed.way_of[len(group.plans) - len(waiting) :], strict=True)
                yield from without_tables(relaxed, ways)

    def _begin_growing(self, number: int) -> GrowingTables | None:
        """Tables of what bounds the mappings of a group, kept; None where these or uses of the fanouts are many."""
        path, group = self.all[number]
        if len(group.lanes) > FEW or not self.may_grow(path):
            return None
        growing = GrowingTables(self.new_search(path, group.lanes), group.plans, self.relaxed(number))
        room, roots = min(self._room, FEW_TABLES), dict[ChainTemplate, Floats]()
        of_all = FEW_OF_MANY if len(group.lanes) > FIRST_LANES else math.inf
        for new in growing.bounding(room, of_all):
            self.fill(growing.search)
            for compiled in growing.search.compiled:
                if compiled.plan in new:
                    values = roots[compiled.plan] = growing.search.root_values(compiled)
                    growing.told(compiled.plan, values)
        if growing.is_cut:
            if self._has_room(growing.search, number):
                self._portions[number] = len(group.lanes)
            self.tables.release(self._user, self._ready.values())
            return None
        self._ready[number], self._growing[number] = growing.search, growing
        self._roots |= roots
        return growing

    @property
    def _room(self) -> float:
        """Bytes of tables of a group that may be kept."""
        return min(self.memory / 2, self.tables.each)

    def left_out(
        self, plan: ChainTemplate, remainder: Remainder | None, of: tuple[PathSearch, TemplateTables] | None = None
    ) -> Floats | None:
        """Objectives that no mapping of a dataplacement is below, if none can be a part of something good; else None.

        None too where no tables were made of it. `of`: a search with its tables, which bounds what it looks at.
        """
        roots = self._roots.get(plan)
        if roots is None and of is not None and remainder is not None:
            roots = of[0].root_values(of[1])
        return None if roots is None or survivors(remainder, roots).any() else roots

    def searches(
        self, limits: Mapping[ChainTemplate, Remainder | None], pruned: Mapping[ChainTemplate, PrunedBounds]
    ) -> Iterator[PathSearch]:
        """Searches with their tables of all that may be a part of something good, and what is left out.

        `limits`, `pruned`: by plan; what is taken out of `limits` meanwhile is not looked at any more.
        """
        for number, (path, group) in enumerate(self.all):
            has: Container[ChainTemplate] = ()
            if number in self._ready:
                if any(plan in limits for plan in group.plans):
                    self._grow(number, limits)
                    self.fill(self._ready[number])
                    yield self._ready[number]
                if number not in self._growing:
                    continue
                has = self._growing[number].has
            relaxed = self.relaxed(number)
            ways = zip(group.plans, relaxed.way_of, strict=True)
            asked = [(plan, way) for plan, way in ways if plan in limits and plan not in has]
            plans = []
            good: dict[int, Bools] = {}
            for plan, way in asked:
                if (roots := self.left_out(plan, limits[plan])) is not None:
                    pruned[plan].add(roots)
                    continue
                remainder, without = limits[plan], pruned[plan]
                plans.append((plan, way))
                if way not in good:
                    # a way of holding the tensors is one of one signature class, with the same limit for all its
                    # dataplacements
                    good[way] = survivors(remainder, relaxed.values[way])
                    without.add(relaxed.values[way][~good[way]])
            lanes = self._chosen(relaxed, good)
            while len(lanes) and not self.meter.stopped:
                chunk = lanes[: self._with_room(number)]
                lanes = lanes[len(chunk) :]
                waiting = [plan for plan, way in plans if plan in limits and good[way][chunk].any()]
                while waiting and not self.meter.stopped:
                    key = number, chunk.tobytes(), tuple(waiting)
                    if key not in self._made:
                        search = self.new_search(path, group.lanes.only(chunk))
                        self._made[key] = search, self._take(search, waiting)
                        if len(self._made) > MOST_MADE:
                            del self._made[next(iter(self._made))]
                    search, taken = self._made[key]
                    self.fill(search)
                    yield search
                    waiting = [plan for plan in waiting[taken:] if plan in limits]
        self.tables.done(self._user)

    def _grow(self, number: int, limits: Mapping[ChainTemplate, Remainder | None]) -> None:
        """Make tables, as far as there is room, of what may be a part of something good and has none."""
        growing = self._growing.get(number)
        if growing is None or len(growing.has) == len(growing.plans):
            return
        good: dict[int, bool] = {}
        for plan, way in zip(growing.plans, growing.relaxed.way_of, strict=True):
            if plan in limits and way not in good:
                good[way] = bool(survivors(limits[plan], growing.relaxed.values[way]).any())
        wanted = [plan for plan in growing.plans if plan in limits and good[growing.way_of[plan]]]
        growing.take(wanted, self._room)

    def kept(self, plans: Container[ChainTemplate]) -> Iterator[tuple[PathSearch, list[TemplateTables]]] | None:
        """Searches with their tables, and what they have of some dataplacements; None where tables are not kept."""
        numbers = [n for n, (_, group) in enumerate(self.all) if any(plan in plans for plan in group.plans)]
        are_kept = self._ready.keys() >= set(numbers) and all(
            self._growing[n].take([plan for plan in self.all[n][1].plans if plan in plans], self._room)
            for n in numbers if n in self._growing
        )  # fmt: skip
        return self._kept(numbers, plans) if are_kept else None

    def _kept(
        self, numbers: Sequence[int], plans: Container[ChainTemplate]
    ) -> Iterator[tuple[PathSearch, list[TemplateTables]]]:
        for search in (self._ready[number] for number in numbers):
            self.fill(search)
            yield search, [compiled for compiled in search.compiled if compiled.plan in plans]
        self.tables.done(self._user)

    def _chosen(self, relaxed: Bounds, good: Mapping[int, Bools]) -> Ints:
        """Uses of the fanouts that may be a part of something good: all of them, or the few that seem best."""
        lanes = np.flatnonzero(np.any(list(good.values()), axis=0)) if good else np.arange(0)
        if len(lanes) <= self.uses:
            return lanes
        values = relaxed.values[list(good)][:, lanes]
        values = (values / values.min(axis=(0, 1))).sum(axis=2).min(axis=0)
        best: Ints = np.sort(lanes[np.argsort(values, kind="stable")[: int(self.uses)]])
        return best

    def fill(self, search: PathSearch) -> None:
        """Make sure that a search of these groups has its tables."""
        self.tables.fill(search, self._user)

    def release(self) -> None:
        """Free the tables of all searches that may not be looked at again."""
        self.tables.release(self._user, [*self._ready.values(), *(search for search, _ in self._made.values())])

    def _worth_tables(self, number: int) -> tuple[PathSearch | None, bool]:
        """Whether tables of all dataplacements and uses of the fanouts are few, or say far more than bounds without.

        That is tried with the dataplacement and the uses of the fanouts that seem best and fit. Where they are few also
        the search that has them.
        """
        path, group = self.all[number]
        if len(group.lanes) > MOST_READY:
            return None, False
        if len(group.lanes) <= FEW and not self.may_grow(path):
            search = self.new_search(path, group.lanes)
            if search.take(group.plans, FEW_TABLES) == len(group.plans):
                has_room = search.tables.bytes <= min(FEW_TABLES, self.memory / 2)
                return (search if has_room else None), search.tables.bytes <= FEW_TABLES
        relaxed = self.relaxed(number)
        values = relaxed.values.prod(axis=2)
        for way in np.argsort(values.min(axis=1), kind="stable"):
            lanes = np.sort(np.argsort(values[way], kind="stable")[:FIRST_LANES])
            search = self.new_search(path, group.lanes.only(lanes))
            search.take([group.plans[relaxed.way_of.index(way)]], NO_LIMIT)
            self.fill(search)
            least = [search.root_values(compiled) for compiled in search.compiled]
            self.tables.release(self._user, self._ready.values())
            if least and len(least[0]):
                return None, bool(least[0].prod(axis=1).min() > FAR_BETTER * values[way, lanes].min())
        return None, False

    def _take(self, search: PathSearch, plans: Sequence[ChainTemplate]) -> int:
        """Compile the first of some dataplacements; neighbours have most of their tables in common."""
        return search.take(plans, min(self.memory / 2, AT_ONCE), OF_FIRST)

    def _with_room(self, number: int) -> int:
        """How many uses of the fanouts have room for the tables of one dataplacement of a group."""
        if number not in self._portions:
            path, group = self.all[number]
            n = len(group.lanes)
            while n > 1 and not self._has_room(self.new_search(path, group.lanes.only(np.arange(n))), number):
                n //= 2
            self._portions[number] = n
        return self._portions[number]

    def _has_room(self, search: PathSearch, number: int) -> bool:
        """Whether a search has room for the tables of the longest dataplacement of a group beside those that it has."""
        longest = max(self.all[number][1].plans, key=lambda plan: len(plan.steps))
        return search.compile(longest) is None or search.tables.bytes <= min(self.memory / 2, MOST_AT_ONCE)


def _from_inside(plan: ChainTemplate) -> list[tuple[tuple[int, ...], int, str]]:
    """An order in which dataplacements that are alike inside, which have tables in common, are neighbours."""
    nodes = [(step.axes or (), step.node) for step in reversed(plan.steps)]
    return [(axes, -1, "") if node is None else (axes, node.level, node.tensor) for axes, node in nodes]


def survivors(remainder: Remainder | None, values: Floats) -> Bools:
    """Which rows of objectives may be a part of something good."""
    return np.ones(len(values), dtype=bool) if remainder is None else ~remainder.exceeds_cutoff(values)


def with_few_tables(plans: list[list[Listed]]) -> list[list[Listed]]:
    """Outer nests of one search, by dataplacement, in a search that has only these."""
    search = plans[0][0][0].emptied()
    search.take([outer_nests[0][1].compiled.plan for outer_nests in plans], NO_LIMIT)
    return [
        [(search, outer_nest._replace(compiled=compiled)) for _, outer_nest in outer_nests]
        for outer_nests, compiled in zip(plans, search.compiled, strict=True)
    ]
