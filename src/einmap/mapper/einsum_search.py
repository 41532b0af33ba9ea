"""The best mappings of one Einsum over all its compute paths, proven: lanes in chunks, dataplacements by their bounds.

Where there are many uses of the fanouts, those that promise most come first, a few at a time; what is found with them
rules most others out by a bound that needs no tables (`lane_bounds`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Compute, Leaf, Memory, Toll
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.einsum.projection import Relevance
from einmap.mapper import kernels
from einmap.mapper.charges import Pricer, latency_is_linear
from einmap.mapper.dataplacement import Dataplacement, dataplacements
from einmap.mapper.decode import mapping_of
from einmap.mapper.lanes import LaneTable, lane_table, limited_variables
from einmap.mapper.lattice import Lattice, lattice_of
from einmap.mapper.listing import Walk, listed, share_of
from einmap.mapper.optimal import Archive, Compiled, PathSearch, goal_codes
from einmap.mapper.steps import Plan, Planner
from einmap.mapper.tally import Census, Loops, Tally
from einmap.mapping.mapping import Mapping
from einmap.model.semantics import Semantics
from einmap.progress import Progress
from einmap.units import format_si

type Floats = NDArray[np.float64]

TIE = 1e-10
"""Costs that differ by less than this fraction count as equal."""
FIRST_LANES = 16
"""Uses of the fanouts that are searched first."""
FIRST_PLANS = 16
"""Dataplacements that are searched first."""
MOST_PLANS = 4096
"""Dataplacements that get their tables at a time."""
PLANNING = 0.2
"""Part of the time that each step of planning may take."""
PATIENCE = 1.0
"""Seconds for which a search goes on after its time while it has found nothing."""
POOL_BYTES = 80_000_000
"""Room for cost-to-go tables."""
MOST_POINTS = 2_000_000
"""Largest lattice that is searched with tables."""
WORK = 1_000_000
"""Choices that one call of the kernel looks at, about 20 ms."""
UNITS = {"energy": "J", "latency": "s", "energy_delay_product": "J*s", "dynamic_energy": "J", "leak_energy": "J"}
"""Units of objectives."""


@dataclass(frozen=True)
class Request:
    """What is asked for. `goals`: objectives, all to be minimised; `tolerance`: how far from the best is fine."""

    goals: tuple[str, ...]
    rules: Semantics
    force_hierarchy_order: bool = True
    tolerance: float = 0.0
    prune: bool = True


@dataclass
class Optimum:
    """What was found: rows of objectives (one instance of the Einsum) with their mappings, best first.

    `bound`: nothing is better than this, for each objective; `complete`: nothing was left out. `plans`, `searched`:
    dataplacements and how many of them were searched; `lanes`: uses of the fanouts; `nodes`, `work`: nodes of the
    search and choices looked at; `size`: mappings of the whole mapspace, variables that are alike taken as one;
    `points`: of the lattices; `tally`: what became of the mapspace, None where brute force does not know.
    """

    values: list[tuple[float, ...]]
    mappings: list[Mapping]
    complete: bool
    bound: tuple[float, ...]
    plans: int = 0
    searched: int = 0
    nodes: int = 0
    work: int = 0
    lanes: int = 0
    size: float = 0.0
    points: int = 0
    tally: Tally | None = None


def why_not(einsum: Einsum, arch: Architecture) -> str | None:
    """Why an Einsum cannot be searched with tables, None if it can."""
    if einsum.is_copy:
        return "it is a copy"
    if einsum.n_computes != math.prod(b for _, b in einsum.bounds):
        return "its iteration space is no box"
    for access in einsum.accesses:
        if access.output and not _is_plain_output(einsum, access.tensor):
            return f"output {access.tensor!r} is indexed by sums"
    if sum(a.output for a in einsum.accesses) > 1:
        return "it has several outputs"
    for unit in arch.computes:
        if not unit.enabled:
            continue
        for leaf in arch.path(unit.name):
            if isinstance(leaf, Memory | Toll) and not latency_is_linear(leaf, einsum.name):
                return f"total_latency of {leaf.name!r} is no sum or maximum of its actions' times"
            if isinstance(leaf, Toll) and leaf.placement is not None and leaf.placement.tile_shape:
                return f"Toll {leaf.name!r} limits tile shapes"
    return None


def _long_over(progress: Progress) -> bool:
    return progress.deadline is None or time.monotonic() > progress.deadline + PATIENCE


def _is_plain_output(einsum: Einsum, tensor: str) -> bool:
    seen: set[str] = set()
    for _, index in einsum.by_tensor[tensor].projection:
        if len(index.terms) > 1 or any(abs(a) != 1 or v in seen for v, a in index.terms):
            return False
        seen |= {v for v, _ in index.terms}
    return True


@dataclass
class EinsumSearch:
    """The search of one Einsum. `progress` says when to stop, `max_work` how many choices may be looked at."""

    einsum: Einsum
    arch: Architecture
    request: Request
    progress: Progress
    instances: int = 1
    max_work: float = math.inf

    def prepare(self) -> None:
        """List the dataplacements and lanes of all paths."""
        self.paths = []
        self.tally = Tally()
        with self.tally.timed("planning"):
            for unit in self.arch.computes:
                if unit.enabled:
                    path = Path(self.einsum, self.arch, self.arch.path(unit.name), self.request)
                    path.make_plans(self.progress)
                    self.tally.plan(path.plans)
                    self.paths.append(path)

    def run(self) -> Optimum:
        """Search all paths; ends early with the best so far when the progress token says so."""
        self.archive = Archive(len(self.request.goals))
        self.decoders: list[tuple[PathSearch, Compiled]] = []
        self.left: list[Floats] = []
        self.then = self.later = math.inf
        self.floor = 0.0
        self.searched = self.nodes = self.work = 0
        with self.tally.timed("planning"):
            groups = {id(path): list(path.groups()) for path in self.paths}
            for group in (group for own in groups.values() for group in own):
                self.tally.mapspace += group.census.total()
                self.tally.subspaces += len(group.plans) * len(group.lanes)
        self.waiting = sum(len(own) for own in groups.values())
        for path in self.paths:
            self.search_path(path, groups[id(path)])
        return self.result()

    @property
    def stopped(self) -> bool:
        """Whether time or budget is over; with nothing found yet the search goes on for a while."""
        if self.work >= self.max_work:
            return True
        return self.progress.stopped and (self.archive.n > 0 or _long_over(self.progress))

    @property
    def slack(self) -> float:
        """How much better a mapping must be to be looked for."""
        return max(self.request.tolerance, TIE)

    def search_path(self, path: Path, groups: Sequence[Group]) -> None:
        """All dataplacements on one path."""
        if path.lattice.size > MOST_POINTS:
            self.left.append(np.zeros(len(self.request.goals)))
            return
        if not path.all_plans:
            self.left.append(np.zeros(len(self.request.goals)))
        for group in groups:
            self.waiting -= 1
            self.search_group(path, group)

    def search_group(self, path: Path, group: Group) -> None:
        """Dataplacements that admit the same lanes: lanes in chunks, the promising ones first."""
        plans, lanes = group.plans, group.lanes
        with self.tally.timed("bounds"):
            known = Bounds(path, plans, lanes, share_of(self.progress, PLANNING))
        waiting = np.argsort(known.of_lanes[:, 0], kind="stable")
        size = min(FIRST_LANES, path.most_lanes())
        while len(waiting):
            chunk, waiting = np.sort(waiting[:size]), waiting[size:]
            if self.stopped:
                self.left.append(known.of_lanes[[*chunk, *waiting]].min(axis=0))
                return
            self.later = float(known.of_lanes[waiting, 0].min(initial=np.inf))
            self.search_lanes(path, plans, lanes.only(chunk), known.of_plans(chunk), group.census.weights(chunk))
            beaten = np.array([self.archive.beats(known.of_lanes[i], self.slack) for i in waiting], dtype=bool)
            self.tally.add("lane bounds", int(beaten.sum()) * len(plans), group.census.total(waiting[beaten]))
            waiting = waiting[~beaten]
            size = path.most_lanes()

    def search_lanes(
        self, path: Path, plans: list[Plan], lanes: LaneTable, bounds: Floats, weights: dict[Loops, float]
    ) -> None:
        """All plans with some lanes, the promising ones first; as many at a time as there is room for tables.

        `weights`: mappings of a plan with these lanes, by its loops.
        """
        waiting = [int(i) for i in np.argsort(bounds[:, 0], kind="stable")]
        size = FIRST_PLANS
        while waiting:
            beaten = [i for i in waiting if self.archive.beats(bounds[i], self.slack)]
            self.count("plan bounds", [plans[i] for i in beaten], lanes, weights)
            waiting = [i for i in waiting if i not in set(beaten)]
            if waiting and self.stopped:
                self.left.append(bounds[waiting].min(axis=0))
                return
            with self.tally.timed("tables"):
                search = path.search(lanes, self.instances)
                taken = search.take([plans[i] for i in waiting[:size]], POOL_BYTES)
            tried, waiting = waiting[:taken], waiting[taken:]
            size = MOST_PLANS
            unfit = {id(plans[i]): plans[i] for i in tried}
            for compiled in search.compiled:
                del unfit[id(compiled.plan)]
            self.count("root bounds", list(unfit.values()), lanes, weights)
            self.then = float(bounds[waiting, 0].min(initial=np.inf))
            self.search_plans(search, weights)
            search.forget_tables()

    def count(self, outcome: str, plans: Sequence[Plan], lanes: LaneTable, weights: dict[Loops, float]) -> None:
        """Say what became of some plans with some lanes."""
        self.tally.add(outcome, len(plans) * len(lanes), math.fsum(weights[plan.loops] for plan in plans))

    def search_plans(self, search: PathSearch, weights: dict[Loops, float]) -> None:
        """Plans that have their tables, in the order of the bounds that these give."""
        compiled = search.compiled
        self.archive.widen(max((len(c.levels) for c in compiled), default=0))
        bounds = [search.bound(c) for c in compiled]
        for i in np.argsort([b[0] for b in bounds], kind="stable"):
            plan = [compiled[i].plan]
            if not np.isfinite(bounds[i]).all() or self.archive.beats(bounds[i], self.slack):
                self.count("root bounds", plan, search.lanes, weights)
                continue
            if self.stopped:
                self.left.append(bounds[i])
                continue
            self.floor = min(float(bounds[i][0]), self.then, self.later)
            if self.search_plan(search, compiled[i], bounds[i]):
                self.count("searched", plan, search.lanes, weights)

    def search_plan(self, search: PathSearch, compiled: Compiled, bound: Floats) -> bool:
        """Search one plan until it is done or time is over; whether it is done."""
        walk = search.start(compiled)
        if walk is None:
            return True
        number = len(self.decoders)
        self.decoders.append((search, compiled))
        self.searched += 1
        done = False
        while not done:
            before = walk.work
            budget = int(min(WORK, max(self.max_work - self.work, 1)))
            with self.tally.timed("search"):
                done = search.step(compiled, number, walk, self.archive, self.slack, budget)
            self.work += walk.work - before
            self.say()
            if not done and self.stopped:
                self.left.append(bound)
                break
        self.nodes += walk.nodes
        return done

    def say(self) -> None:
        """Report what has been done."""
        if self.progress.callback is None:
            return
        done = sum(self.tally.subspaces_by.values())
        self.progress.report(f"{self.einsum.name}: {self.tally.shown()}", done, self.tally.subspaces, self.shown())

    def shown(self) -> str | None:
        """The best so far, and how far it may be above the optimum where that is known."""
        if not self.archive.n:
            return None
        goal, best = self.request.goals[0], float(self.archive.values[: self.archive.n, 0].min())
        text = f"{goal.replace('_', ' ')} {format_si(best, UNITS.get(goal, ''))}"
        known = len(self.request.goals) == 1 and not self.waiting and not self.left and 0 < self.floor < np.inf
        return f"{text}, gap at most {max(best / self.floor - 1, 0):.2%}" if known else text

    def result(self) -> Optimum:
        """The archive as mappings, sorted by the objectives."""
        archive = self.archive
        order = np.lexsort(archive.values[: archive.n].T[::-1])
        values, mappings = [], []
        for i in order:
            number, prefix = (int(x) for x in archive.paths[i, :2])
            search, compiled = self.decoders[number]
            points = [int(x) for x in archive.paths[i, 2 : 2 + len(compiled.levels)]]
            mappings.append(mapping_of(search, compiled, prefix, points))
            values.append(tuple(float(x) for x in archive.values[i]))
        bound = np.full(len(self.request.goals), np.inf)
        for row in (*self.left, *archive.values[: archive.n]):
            bound = np.minimum(bound, row)
        return Optimum(
            values,
            mappings,
            complete=not self.left,
            bound=tuple(float(b) for b in bound),
            plans=sum(len(path.plans) for path in self.paths),
            searched=self.searched,
            nodes=self.nodes,
            work=self.work,
            lanes=sum(len(path.lanes) for path in self.paths),
            size=self.tally.mapspace,
            points=sum(path.lattice.size for path in self.paths),
            tally=self.tally,
        )


@dataclass(frozen=True)
class Group:
    """Dataplacements that admit the same uses of the fanouts, and how many mappings that makes."""

    plans: list[Plan]
    lanes: LaneTable
    census: Census


@dataclass
class Path:
    """What is the same for all dataplacements on one path."""

    einsum: Einsum
    arch: Architecture
    leaves: tuple[Leaf, ...]
    request: Request

    @cached_property
    def lattice(self) -> Lattice:
        """Tile shapes; variables that constraints speak of are not merged with others."""
        apart = limited_variables(self.leaves)
        for leaf in self.leaves:
            if isinstance(leaf, Memory | Toll) and leaf.placement is not None:
                apart = apart.union(*(limit.variables for limit in leaf.placement.tile_shape))
        return lattice_of(self.einsum, apart)

    @cached_property
    def lanes(self) -> LaneTable:
        """Uses of the fanouts."""
        return lane_table(self.einsum, self.leaves, self.lattice)

    @cached_property
    def pricer(self) -> Pricer:
        """Coefficients of costs."""
        return Pricer(self.einsum, self.arch, self.leaves, self.lattice, self.request.rules)

    @cached_property
    def fanouts(self) -> tuple[int, ...]:
        """Levels of the components whose fanouts may be used."""
        lanes = self.lanes
        used = {int(level) for i, level in enumerate(lanes.levels) if (lanes.bounds[:, i] > 1).any()}
        return tuple(sorted(used))

    def make_plans(self, progress: Progress) -> None:
        """All dataplacements as chains of steps; a fair part of them where there are too many or time runs out."""
        reducing = frozenset(
            a.tensor
            for a in self.einsum.accesses
            if a.output
            and self.request.rules.lane_first_touch == "one lane"
            and bool((self.pricer.merged(self.lanes, a.tensor, -1, len(self.leaves)) > 1).any())
        )
        prune = self.request.prune and self._costs_nothing_less()
        planner = Planner(self.einsum, self.leaves, self.lattice, self.request.rules, self.fanouts, reducing, prune)
        placed, self.all_plans = listed(self._placements, np.random.default_rng(0), share_of(progress, PLANNING))
        self.plans: list[Plan] = []
        planning = share_of(progress, PLANNING)
        for placement in placed:
            if self.plans and planning.stopped:
                self.all_plans = False
                break
            self.plans.append(planner.plan(placement))

    def _placements(self, walk: Walk) -> Iterator[Dataplacement]:
        return dataplacements(
            self.einsum,
            self.leaves,
            backed_outside=self.einsum.tensors,
            force_hierarchy_order=self.request.force_hierarchy_order,
            walk=walk,
        )

    def _costs_nothing_less(self) -> bool:
        """Whether no action has a negative energy."""
        units = [leaf for leaf in self.leaves if isinstance(leaf, Memory | Toll | Compute)]
        return all(action.energy >= 0 for unit in units for action in unit.actions)

    def groups(self) -> Iterator[Group]:
        """Plans with the lanes that they admit: none above the outermost storage of a tensor that it does not index."""
        found: dict[tuple[frozenset[str], ...], list[Plan]] = {}
        for plan in self.plans:
            waiting = tuple(self.waiting(plan, level) for level in self.fanouts)
            found.setdefault(waiting, []).append(plan)
        for waiting, plans in found.items():
            admitted = np.ones(len(self.lanes), dtype=bool)
            for level, tensors in zip(self.fanouts, waiting, strict=True):
                for tensor in tensors:
                    own = self.lanes.levels == level
                    none = np.array([r is Relevance.NONE for r in self.pricer.axis_relevance[tensor]], dtype=bool)
                    admitted &= self.lanes.over(own, none) == 1
            rows = np.flatnonzero(admitted)
            if len(rows):
                lanes = self.lanes.only(rows)
                yield Group(plans, lanes, Census(self.lattice, plans, lanes))

    def waiting(self, plan: Plan, level: int) -> frozenset[str]:
        """Tensors that are held nowhere above the fanout at `level`."""
        return self.einsum.tensors - plan.builder.held_above(plan.builder.place_of(self.leaves[level].name))

    def search(self, lanes: LaneTable, instances: int) -> PathSearch:
        """A search with some of the lanes."""
        return PathSearch(
            self.einsum,
            self.arch,
            self.leaves,
            self.lattice,
            self.request.rules,
            lanes,
            self.fanouts,
            self.request.goals,
            instances,
        )

    def most_lanes(self) -> int:
        """Uses of the fanouts whose tables have room at a time."""
        table = self.lattice.size * self.pricer.columns.n * 8
        return int(max(1, min(512, POOL_BYTES // (table * 12))))


class Bounds:
    """Objectives that no mapping is below, for each way of holding the tensors and each use of the lanes.

    Each tensor fills each of its nodes at least once for every lane that uses a part of it; the order of nodes and what
    fits do not matter here, so this needs no tables.
    """

    def __init__(self, path: Path, plans: Sequence[Plan], lanes: LaneTable, progress: Progress) -> None:
        self.path = path
        self.lanes = lanes
        numbers: dict[object, int] = {}
        self.way_of = [numbers.setdefault(tuple(sorted(plan.chains.items())), len(numbers)) for plan in plans]
        goals = len(path.request.goals)
        self.values = np.zeros((len(numbers), len(lanes), goals))
        if len(lanes) > FIRST_LANES or len(plans) > FIRST_PLANS:
            seen: set[int] = set()
            for plan, way in zip(plans, self.way_of, strict=True):
                if way not in seen and not progress.stopped:
                    seen.add(way)
                    self.values[way] = self._objectives(self._costs(plan))

    @property
    def of_lanes(self) -> Floats:
        """The least over all plans, for each use of the lanes."""
        found: Floats = self.values.min(axis=0)
        return found

    def of_plans(self, chunk: NDArray[np.int64]) -> Floats:
        """The least over some uses of the lanes, for each plan."""
        found: Floats = self.values[:, chunk].min(axis=1)[self.way_of]
        return found

    def _objectives(self, costs: Floats) -> Floats:
        goals = goal_codes(self.path.request.goals, self.path.leaves)
        found = np.empty((len(costs), len(goals)))
        nothing, room = np.zeros(len(self.path.leaves) + 1), np.ones(len(self.path.leaves) + 1)
        for row, leak, out in zip(costs, self.path.pricer.leak_power(self.lanes), found, strict=True):
            kernels.objectives(row, float(leak), nothing, room, goals, out)
        return found

    def _costs(self, plan: Plan) -> Floats:
        """Columns of cost, a row for each use of the lanes."""
        path, lanes = self.path, self.lanes
        costs = path.pricer.constants(lanes, dict(plan.chains))
        for step in plan.steps:
            if step.node is None or step.node.backing:
                continue
            tensor = step.node.tensor
            rates, fixed = path.pricer.node(lanes, tensor, plan.chains[tensor], step.node.level)
            size = path.lattice.values(path.einsum, tensor)[path.lattice.top]
            none = np.array([r is Relevance.NONE for r in path.pricer.axis_relevance[tensor]], dtype=bool)
            copies = lanes.over(lanes.levels <= step.node.level, none)
            # where lanes reduce, more visits may save something: then nothing is said
            costs = costs + fixed + np.where(rates >= 0, rates * (size * copies)[:, None], -np.inf)
        return np.maximum(costs, 0.0) if (costs == -np.inf).any() else costs
