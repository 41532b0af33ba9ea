"""The best mappings of one Einsum over all its compute paths, proven: lanes in chunks, dataplacements by their bounds.

Where there are many uses of the fanouts, those that promise most come first, a few at a time; what is found with them
rules most others out by a bound that needs no tables (`lane_bounds`).
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Compute, Leaf, Memory, Toll
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.einsum.projection import Relevance
from einmap.errors import NoMappingError
from einmap.mapper import kernels
from einmap.mapper.charges import Pricer, latency_is_linear
from einmap.mapper.dataplacement import Dataplacement, dataplacements
from einmap.mapper.decode import mapping_of
from einmap.mapper.given.alignment import unlike
from einmap.mapper.given.pattern import Pattern
from einmap.mapper.given_plans import GivenPlanner
from einmap.mapper.lanes import LaneTable, lane_table, limited_variables
from einmap.mapper.lattice import Axis, Lattice, lattice_of
from einmap.mapper.listing import Walk, listed, share_of
from einmap.mapper.optimal import Archive, Compiled, Descent, PathSearch, goal_codes, table_columns
from einmap.mapper.steps import Plan, Planner
from einmap.mapping.mapping import Mapping
from einmap.model.einsum_cost import einsum_cost
from einmap.model.path import path_of
from einmap.model.semantics import Semantics
from einmap.model.traffic import EinsumTraffic
from einmap.progress import Progress

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
POOL_BYTES = 96_000_000
"""Room for cost-to-go tables."""
PLAN_TABLES = 12
"""Tables of a dataplacement of middling depth; so many must have room."""
WORK = 1_000_000
"""Choices that one call of the kernel looks at, about 20 ms."""


@dataclass(frozen=True)
class Request:
    """What is asked for. `goals`: objectives, all to be minimised; `tolerance`: how far from the best is fine.

    `prune`: leave out loops that are never better. `uneven_loops`, `uneven_lanes`: tile shapes of temporal loops, of
    lanes, need not divide the bound. `coarseness`: see `lattice_of`. `most_plans`: dataplacements that are looked at.
    `memory`: bytes that may be used. `given`: the mapping must be like this.
    `others`: least energy and latency of the other Einsums, and what the product of the sums may be (in units of one
    instance; the objectives are then energy and latency).
    """

    goals: tuple[str, ...]
    rules: Semantics
    force_hierarchy_order: bool = True
    tolerance: float = 0.0
    prune: bool = True
    uneven_loops: bool = False
    uneven_lanes: bool = False
    coarseness: float = 1.0
    most_plans: float = math.inf
    memory: float = math.inf
    given: Pattern | None = None
    others: tuple[float, float, float] = (0.0, 0.0, math.inf)

    @property
    def room(self) -> int:
        """Bytes for cost-to-go tables."""
        return int(min(POOL_BYTES, self.memory / 2))


@dataclass
class Optimum:
    """What was found: rows of objectives (one instance of the Einsum) with their mappings, best first.

    `bound`: nothing is better than this, for each objective; `complete`: nothing was left out. `plans`, `searched`:
    dataplacements and how many of them were searched; `lanes`: uses of the fanouts; `nodes`, `work`: nodes of the
    search and choices looked at; `size`: mappings of the whole mapspace, variables that are alike taken as one.
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
        given = self.request.given
        for unit in self.arch.computes:
            if unit.enabled and (given is None or given.compute in (None, unit.name)):
                path = Path(self.einsum, self.arch, self.arch.path(unit.name), self.request)
                path.make_plans(self.progress)
                self.paths.append(path)

    def unlike(self) -> NoMappingError:
        """The error when no mapping of the mapspace has the given nodes."""
        return unlike(self.einsum.name, [path.given.aligner for path in self.paths if path.given is not None])

    def run(self) -> Optimum:
        """Search all paths; ends early with the best so far when the progress token says so."""
        self.archive = Archive(len(self.request.goals))
        self.decoders: list[tuple[PathSearch, Compiled]] = []
        self.left: list[Floats] = []
        self.searched = self.nodes = self.work = 0
        for path in self.paths:
            self.search_path(path)
        return self.result()

    def narrow(self, others: tuple[float, float, float]) -> None:
        """Look only for what can be a part of a good product of sums (see `Request.others`)."""
        self.request = replace(self.request, others=others)
        for path in self.paths:
            path.request = self.request

    def alone(self, goal: str, tolerance: float, progress: Progress) -> Optimum | None:
        """The best mapping for one objective; None when none was found, or not with certainty."""
        other = EinsumSearch(
            self.einsum, self.arch, replace(self.request, goals=(goal,), tolerance=tolerance), progress
        )
        other.paths = [replace_request(path, other.request) for path in self.paths]
        found = other.run()
        return found if found.mappings and found.complete else None

    def cost_of(self, mapping: Mapping) -> tuple[float, float]:
        """Energy and latency of one instance."""
        path = path_of(mapping, self.einsum, self.arch)
        cost = einsum_cost(path, EinsumTraffic(path, self.request.rules), self.arch)
        return float(cost.energy), float(cost.latency)

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

    def ruled_out(self, rows: Floats) -> NDArray[np.bool_]:
        """Which bounds are no better than what was found, or cannot lead to a better product with the other Einsums."""
        found = self.archive.beats_each(rows, self.slack)
        energy, latency, most = self.request.others
        if math.isfinite(most):
            found |= (rows[:, 0] + energy) * (rows[:, 1] + latency) > most
        return found

    def search_path(self, path: Path) -> None:
        """All dataplacements on one path."""
        if not path.all_plans or path.is_coarse:
            self.left.append(np.zeros(len(self.request.goals)))
        for plans, lanes in path.groups():
            self.search_group(path, plans, lanes)

    def search_group(self, path: Path, plans: list[Plan], lanes: LaneTable) -> None:
        """Dataplacements that admit the same lanes: lanes in chunks, the promising ones first."""
        known = Bounds(path, plans, lanes, share_of(self.progress, PLANNING))
        waiting = np.argsort(known.of_lanes[:, 0], kind="stable")
        size = min(FIRST_LANES, path.most_lanes())
        while len(waiting):
            chunk, waiting = np.sort(waiting[:size]), waiting[size:]
            if self.stopped:
                self.left.append(known.of_lanes[[*chunk, *waiting]].min(axis=0))
                return
            self.search_lanes(path, plans, lanes.only(chunk), known.of_plans(chunk))
            waiting = waiting[~self.ruled_out(known.of_lanes[waiting])]
            size = path.most_lanes()

    def search_lanes(self, path: Path, plans: list[Plan], lanes: LaneTable, bounds: Floats) -> None:
        """All plans with some lanes, the promising ones first; as many at a time as there is room for tables."""
        waiting = [int(i) for i in np.argsort(bounds[:, 0], kind="stable")]
        size = FIRST_PLANS
        while waiting:
            out = self.ruled_out(bounds[waiting])
            waiting = [i for i, ruled in zip(waiting, out, strict=True) if not ruled]
            if waiting and self.stopped:
                self.left.append(bounds[waiting].min(axis=0))
                return
            search = path.search(lanes, self.instances)
            taken = search.take([plans[i] for i in waiting[:size]], self.request.room)
            if not search.fill(lambda: self.stopped):
                self.left.append(bounds[waiting].min(axis=0))
                return
            waiting = waiting[taken:]
            size = MOST_PLANS
            self.search_plans(search)
            search.forget_tables()

    def search_plans(self, search: PathSearch) -> None:
        """Plans that have their tables, in the order of the bounds that these give."""
        compiled = search.compiled
        self.archive.widen(max((len(c.levels) for c in compiled), default=0))
        bounds = [search.bound(c) for c in compiled]
        for i in np.argsort([b[0] for b in bounds], kind="stable"):
            if not np.isfinite(bounds[i]).all() or self.ruled_out(bounds[i][None, :])[0]:
                continue
            if self.stopped:
                self.left.append(bounds[i])
                continue
            self.search_plan(search, compiled[i], bounds[i])

    def search_plan(self, search: PathSearch, compiled: Compiled, bound: Floats) -> None:
        """Search one plan until it is done or time is over."""
        walk = search.start(compiled)
        if walk is None:
            return
        number = len(self.decoders)
        self.decoders.append((search, compiled))
        self.searched += 1
        done = False
        while not done:
            before = walk.work
            budget = int(min(WORK, max(self.max_work - self.work, 1)))
            ended = search.step(compiled, number, walk, self.archive, self.slack, budget)
            done = ended == kernels.DONE
            if ended == kernels.LEAF:
                self.judge(search, compiled, number, walk)
            self.work += walk.work - before
            self.say()
            if not done and self.stopped:
                self.left.append(bound)
                break
        self.nodes += walk.nodes

    def judge(self, search: PathSearch, compiled: Compiled, number: int, walk: Descent) -> None:
        """Find the true cost of the mapping that the kernel has come to, and put it into the archive."""
        n = len(compiled.levels)
        prefix = int(walk.prefix_at[n])
        mapping = mapping_of(search, compiled, prefix, [int(x) for x in walk.point_at[1 : n + 1]])
        path = path_of(mapping, self.einsum, self.arch)
        cost = einsum_cost(path, EinsumTraffic(path, self.request.rules), self.arch)
        values = np.empty(len(search.goal_codes))
        columns = np.array([cost.dynamic, cost.latency], dtype=np.float64)
        kernels.objectives(
            columns, float(cost.leak_power), walk.occupied[n], search.capacity, search.goal_codes, values
        )
        archive = self.archive
        if archive.beats(values, TIE):
            return
        if archive.n == len(archive.values):
            archive.grow()
        point = walk.point_at[1:]
        archive.n = kernels.take(values, point, prefix, number, archive.values, archive.paths, archive.n)

    def say(self) -> None:
        """Report what has been done."""
        best = float(self.archive.values[: self.archive.n, 0].min()) if self.archive.n else None
        goal = self.request.goals[0].replace("_", " ")
        shown = None if best is None else f"{goal} {best:.4g}"
        self.progress.report(
            f"{self.einsum.name}: {self.searched} of {sum(len(p.plans) for p in self.paths)} dataplacements",
            self.work,
            None,
            shown,
        )

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
            size=sum(path.size() for path in self.paths),
        )


@dataclass
class Path:
    """What is the same for all dataplacements on one path."""

    einsum: Einsum
    arch: Architecture
    leaves: tuple[Leaf, ...]
    request: Request

    @cached_property
    def lattice(self) -> Lattice:
        """Tile shapes; a coarser choice of them where there is no room for tables of all."""
        coarseness = self.request.coarseness
        found = self._lattice(coarseness)
        most = self.request.room // (PLAN_TABLES * 8 * (2 + 2 * len(self.leaves)))
        while found.size > max(most, 2 ** len(found.axes)):
            coarseness *= 1.5
            found = self._lattice(coarseness)
        self.is_coarse = coarseness != self.request.coarseness
        return found

    def _lattice(self, coarseness: float) -> Lattice:
        """Variables that constraints speak of are not merged with others."""
        apart = limited_variables(self.leaves)
        for leaf in self.leaves:
            if isinstance(leaf, Memory | Toll) and leaf.placement is not None:
                apart = apart.union(*(limit.variables for limit in leaf.placement.tile_shape))
        if self.request.given is not None:
            apart |= self.request.given.variables
        options = self.request
        return lattice_of(
            self.einsum,
            apart,
            ragged=options.uneven_loops or options.uneven_lanes,
            loose=options.uneven_loops,
            coarseness=coarseness,
        )

    @cached_property
    def lanes(self) -> LaneTable:
        """Uses of the fanouts."""
        given = self.request.given
        named = given.dimensions if given is not None else frozenset()
        return lane_table(self.einsum, self.leaves, self.lattice, named, uneven=self.request.uneven_lanes)

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
        prune = self.request.prune and self.costs_nothing_less
        given = self.request.given
        planner = Planner(
            self.einsum, self.leaves, self.lattice, self.request.rules, self.fanouts, reducing, prune and given is None
        )
        self.given = GivenPlanner(planner, given, self.lanes, prune) if given is not None else None
        placed, self.all_plans = listed(self._placements, np.random.default_rng(0), share_of(progress, PLANNING))
        self.plans: list[Plan] = []
        planning = share_of(progress, PLANNING)
        for placement in placed:
            if len(self.plans) >= self.request.most_plans or (self.plans and planning.stopped):
                self.all_plans = False
                break
            self.plans += [planner.plan(placement)] if self.given is None else self.given.plans(placement)

    def _placements(self, walk: Walk) -> Iterator[Dataplacement]:
        found = dataplacements(
            self.einsum,
            self.leaves,
            backed_outside=self.einsum.tensors,
            force_hierarchy_order=self.request.force_hierarchy_order,
            walk=walk,
        )
        return found if self.given is None else filter(self.given.may_hold, found)

    @cached_property
    def costs_nothing_less(self) -> bool:
        """Whether no action has a negative energy."""
        units = [leaf for leaf in self.leaves if isinstance(leaf, Memory | Toll | Compute)]
        return all(action.energy >= 0 for unit in units for action in unit.actions)

    def groups(self) -> Iterator[tuple[list[Plan], LaneTable]]:
        """Plans with the lanes that they admit: none above the outermost storage of a tensor that it does not index."""
        found: dict[tuple[tuple[frozenset[str], ...], bytes], list[Plan]] = {}
        for plan in self.plans:
            waiting = tuple(self.waiting(plan, level) for level in self.fanouts)
            found.setdefault((waiting, b"" if plan.lanes is None else plan.lanes.tobytes()), []).append(plan)
        for (waiting, _), plans in found.items():
            allowed = plans[0].lanes
            admitted = np.ones(len(self.lanes), dtype=bool) if allowed is None else allowed.copy()
            for level, tensors in zip(self.fanouts, waiting, strict=True):
                for tensor in tensors:
                    own = self.lanes.levels == level
                    none = np.array([r is Relevance.NONE for r in self.pricer.axis_relevance[tensor]], dtype=bool)
                    admitted &= self.lanes.over(own, none) == 1
            rows = np.flatnonzero(admitted)
            if len(rows):
                yield plans, self.lanes.only(rows)

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
            np.array(self.request.others),
            instances,
        )

    def size(self) -> float:
        """Mappings of the whole mapspace, before any pruning; memory sizes and given tile shapes are not looked at."""
        total = 0.0
        counted: dict[tuple[tuple[int, ...], bytes], float] = {}
        even = np.where(self.lanes.shapes > 0, 1, self.lanes.bounds).prod(axis=1)
        shapes = self.lanes.shapes.max(axis=1, initial=0)
        left = np.where(shapes > 0, shapes, self.lanes.tops) // even
        for plan in self.plans:
            key = (plan.loops, b"" if plan.lanes is None else plan.lanes.tobytes())
            if key not in counted:
                ways = np.ones(len(self.lanes)) if plan.lanes is None else plan.lanes.astype(np.float64)
                for a, axis in enumerate(self.lattice.axes):
                    at = np.searchsorted(axis.sizes, left[:, a], side="right") - 1
                    ways *= _chains(axis, plan.loops[a])[at]
                counted[key] = float(ways.sum())
            total += counted[key]
        return total

    def most_lanes(self) -> int:
        """Uses of the fanouts whose tables have room at a time."""
        table = self.lattice.size * len(table_columns(self.request.goals, self.pricer.columns.n)) * 8
        return int(max(1, min(512, self.request.room // (table * PLAN_TABLES))))


def _chains(axis: Axis, loops: int) -> Floats:
    """Ways to bring each tile shape of an axis down to 1 with so many loops."""
    ways = np.zeros(len(axis.sizes))
    ways[0] = 1.0
    for _ in range(loops):
        ways = np.array([ways[list(inner)].sum() for inner in axis.below])
    return ways


def replace_request(path: Path, request: Request) -> Path:
    """The same path with its plans, for other objectives."""
    other = Path(path.einsum, path.arch, path.leaves, request)
    other.__dict__.update({name: value for name, value in path.__dict__.items() if name != "request"})
    return other


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
        # with negative energies nothing is known without tables
        self.values = np.full((len(numbers), len(lanes), goals), 0.0 if path.costs_nothing_less else -np.inf)
        if path.costs_nothing_less and (len(lanes) > FIRST_LANES or len(plans) > FIRST_PLANS):
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
        leak = self.path.pricer.leak_power(self.lanes)
        kernels.many_objectives(costs, leak, np.ones(len(self.path.leaves) + 1), goals, found)
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
