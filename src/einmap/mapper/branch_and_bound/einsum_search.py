"""The best mappings of one Einsum over all its compute paths, proven: lanes in chunks, dataplacements by their bounds.

Where there are many uses of the fanouts, those that promise most come first, a few at a time; what is found with them
rules most others out by a bound that needs no tables (`lane_bounds`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from einmap.arch.tree import Architecture
from einmap.arrays import Bools, Floats, Ints
from einmap.einsum.einsum import Einsum
from einmap.errors import NoMappingError
from einmap.mapper.branch_and_bound import kernels
from einmap.mapper.branch_and_bound.decode import mapping_of, nodes_of
from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.branch_and_bound.path_search import Descent, PathSearch, TemplateTables
from einmap.mapper.branch_and_bound.smallest_tiles import fits_nowhere
from einmap.mapper.branch_and_bound.sparse_search import new_search
from einmap.mapper.branch_and_bound.stalled import offer, offer_stalled, settled
from einmap.mapper.branch_and_bound.taken_plans import TakenPlans, lanes_with_room
from einmap.mapper.cost_bounds.compute_path import PLANNING, Path
from einmap.mapper.cost_bounds.relaxed_bounds import FIRST_LANES, FIRST_PLANS, FIRST_USES, MOST_LANES, Bounds
from einmap.mapper.cost_bounds.relaxed_bounds import bounds_of_uses as of_uses
from einmap.mapper.given.alignment import unlike
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.mapspace.lanes.fanout_table import FEW_USES, LaneTable
from einmap.mapper.mapspace.template import joined
from einmap.mapper.objective.metrics import METRICS
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.objective.tolerances import TIE
from einmap.mapper.problem.memory_limit import Ceiling
from einmap.mapper.problem.request import Remainder, Request
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapper.templates.groups import Group
from einmap.mapper.templates.statistics import Loops, SubspaceTally
from einmap.model.batch.einsum_cost import einsum_cost
from einmap.model.counting.path import path_of
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.progress import Progress
from einmap.units import format_si

MOST_PLANS = 4096
"""Dataplacements that get their tables at a time."""
PART_OF_ROOM = 0.5
"""Part of the room for tables that those of a single dataplacement may take, so that others fit beside it."""
CHOICES_AT_A_TIME = 1_000_000
"""Choices that one call of the kernel looks at, about 20 ms."""
DECIDING = 5.0
"""Seconds for whether anything fits at all; mostly milliseconds are enough."""


@dataclass
class EinsumSearch:
    """The search of one Einsum over some paths. `progress` says when to stop, `instances` how often the Einsum runs.

    `max_work`: how many choices may be looked at. `first_only`: the first mapping that fits ends the search, which
    reports nothing. `tally`: what became of the mapspace.
    """

    einsum: Einsum
    arch: Architecture
    request: Request
    progress: Progress
    paths: list[Path]
    instances: int = 1
    max_work: float = math.inf
    first_only: bool = False
    tally: SubspaceTally = field(default_factory=SubspaceTally)

    @staticmethod
    def over_all(
        einsum: Einsum, arch: Architecture, request: Request, progress: Progress, instances: int = 1,
        *, first_only: bool = False,
    ) -> EinsumSearch:  # fmt: skip
        """A search over the paths to all compute units, their dataplacements listed."""
        search = EinsumSearch(einsum, arch, request, progress, [], instances, first_only=first_only)
        given = request.given
        with search.tally.timed("planning"):
            for unit in arch.computes:
                if unit.enabled and (given is None or given.compute in (None, unit.name)):
                    path = Path(einsum, arch, arch.path(unit.name), request)
                    path.make_plans(progress)
                    search.tally.plan(path.plans)
                    search.paths.append(path)
        return search

    def fits_nowhere(self, progress: Progress) -> bool:
        """Whether it is certain, and found out soon, that no mapping fits."""
        return fits_nowhere(self.einsum, self.request, self.instances, self.paths, progress.within(DECIDING))

    def nothing(self) -> Optimum:
        """The result where no mapping fits."""
        plans, lanes = sum(len(path.plans) for path in self.paths), sum(len(path.lanes) for path in self.paths)
        return Optimum([], [], True, (math.inf,) * len(self.request.goals), plans=plans, lanes=lanes)

    def unlike(self) -> NoMappingError:
        """The error when no mapping of the mapspace has the given nodes."""
        return unlike(self.einsum.name, [path.given.aligner for path in self.paths if path.given is not None])

    def run(self) -> Optimum:
        """Search all paths; ends early with the best so far when the progress token says so."""
        return SearchRun(self).optimum()

    def narrow(self, remainder: Remainder) -> None:
        """Look only for what can be a part of a good product of sums (see `Request.remainder`)."""
        self.request = replace(self.request, remainder=remainder)
        for path in self.paths:
            path.request = self.request

    def alone(self, goal: str, tolerance: float, progress: Progress, max_work: float = math.inf) -> Optimum:
        """The best mapping for one objective, by itself."""
        request = replace(self.request, goals=(goal,), tolerance=tolerance, remainder=None)
        paths, tally = [path.with_plans(request, path.plans) for path in self.paths], SubspaceTally()
        return replace(self, request=request, progress=progress, paths=paths, max_work=max_work, tally=tally).run()

    def cost_of(self, found: Optimum) -> tuple[float, float]:
        """Energy and latency of one instance, with the first mapping that was found."""
        path = path_of(found.mappings[0], self.einsum, self.arch)
        cost = einsum_cost(path, EinsumTraffic(path, self.request.rules), self.arch)
        return float(cost.energy), float(cost.latency)

    @cached_property
    def ceiling(self) -> Ceiling:
        """Ceiling of the process's memory."""
        return Ceiling(self.request.ceiling)

    @property
    def pruned(self) -> tuple[str, ...]:
        """Parts of the Einsum's mapspace that were left out for other reasons than time, in words."""
        texts = tuple(text for path in self.paths for text in path.pruned)
        reached = f"other mappings of {self.einsum.name}, since memory_limit was reached"
        return (*texts, reached) if self.ceiling.reached else texts


class SearchRun:
    """One run of a search, with what is known so far. `left`: bounds of what was not searched."""

    def __init__(self, search: EinsumSearch) -> None:
        self.einsum, self.arch = search.einsum, search.arch
        self.request, self.progress = search.request, search.progress
        self.paths, self.instances, self.max_work = search.paths, search.instances, search.max_work
        self.tally, self.ceiling, self.first_only = search.tally, search.ceiling, search.first_only
        self.archive = Archive(len(self.request.goals))
        self.last_search: tuple[tuple[object, ...], PathSearch] | None = None
        self.decoders: list[tuple[PathSearch, TemplateTables]] = []
        """The plan of each mapping of the archive, by number."""
        self.left: list[Floats] = []
        self.then = self.later = self.last = math.inf
        """Least values of the first objective of plans, of lanes and of further lanes whose turn comes later."""
        self.floor = 0.0
        """Lower bound of the first objective, in all that is listed."""
        self.unlisted = 0
        """How many of `left` were not left out for want of time."""
        self.searched = self.nodes = self.work = self.waiting = 0
        """Plans searched; nodes; choices looked at; groups of plans that were not begun."""

    def optimum(self) -> Optimum:
        """Search all paths."""
        with self.tally.timed("planning"):
            groups = {path: list(self.groups_of(path)) for path in self.paths}
            for group in (group for of_path in groups.values() for group in of_path):
                self.waiting += 1
                self.tally.subspaces += len(group.plans) * len(group.lanes)
                # of what there was no time to count nothing is said
                self.tally.mapspace += -math.inf if self.progress.stopped else group.size
        self.tally.mapspace = max(self.tally.mapspace, 0.0)
        for path in self.paths:
            self.search_path(path, groups[path])
        return self.result()

    def groups_of(self, path: Path) -> Iterable[Group]:
        """Dataplacements and uses of the fanouts that are searched."""
        return path.groups()

    @property
    def stopped(self) -> bool:
        """Whether time, budget or memory is over, or the first mapping found where that is enough."""
        if self.first_only and self.archive.n:
            return True
        return self.work >= self.max_work or self.progress.stopped or self.ceiling.is_near()

    @property
    def slack(self) -> float:
        """How much better a mapping must be to be looked for."""
        return max(self.request.tolerance, TIE)

    def ruled_out(self, rows: Floats) -> Bools:
        """Which bounds are no better than what was found, or cannot lead to a better product with the other Einsums."""
        return self.archive.beats_each(rows, self.slack) | self.request.known_remainder.exceeds_cutoff(rows)

    def search_path(self, path: Path, groups: Sequence[Group]) -> None:
        """All dataplacements on one path."""
        if path.pruned:
            self.unlisted += 1
            self.left.append(np.full(len(self.request.goals), path.beyond))
        for group in groups:
            self.waiting -= 1
            self.search_group(path, group)

    def search_group(self, path: Path, group: Group) -> None:
        """Dataplacements that admit the same lanes; of many lanes those first that promise most."""
        if len(group.lanes) <= FEW_USES or not path.costs_nothing_less:
            self.search_uses(path, group)
            return
        with self.tally.timed("bounds"):
            least, waiting = of_uses(path, group.plans, group.lanes, share_of(self.progress, PLANNING))
        size = FIRST_USES
        while len(waiting):
            if self.stopped:
                self.left.append(least[waiting].min(axis=0))
                break
            some, waiting, size = np.sort(waiting[:size]), waiting[size:], FEW_USES
            self.last = float(least[waiting, 0].min(initial=np.inf))
            self.search_uses(path, group.only(some))
            beaten = self.ruled_out(least[waiting])
            self.tally.add("lane bounds", int(beaten.sum()) * len(group.plans), group.only(waiting[beaten]).size)
            waiting = waiting[~beaten]

    def search_uses(self, path: Path, group: Group) -> None:
        """Dataplacements that admit the same lanes: lanes in chunks, the promising ones first."""
        plans, lanes = group.plans, group.lanes
        with self.tally.timed("bounds"):
            group_bounds = Bounds(path, plans, lanes, share_of(self.progress, PLANNING))
        waiting = group_bounds.order
        most, size = MOST_LANES, min(FIRST_LANES, MOST_LANES)
        while len(waiting):
            chosen = self.with_room(path, plans, lanes, waiting[:size])
            if len(chosen) < min(size, len(waiting)):
                most = min(2 * len(chosen), most)
            chunk, waiting = np.sort(chosen), waiting[len(chosen) :]
            if self.stopped:
                self.left.append(group_bounds.of_lanes[[*chunk, *waiting]].min(axis=0))
                return
            self.later = min(float(group_bounds.of_lanes[waiting, 0].min(initial=np.inf)), self.last)
            self.search_chunk(path, group, group_bounds, chunk)
            beaten = self.ruled_out(group_bounds.of_lanes[waiting])
            self.tally.add("lane bounds", int(beaten.sum()) * len(plans), group.mapping_counts.total(waiting[beaten]))
            waiting, size = waiting[~beaten], most

    def search_chunk(self, path: Path, group: Group, group_bounds: Bounds, chunk: Ints) -> None:
        """All plans with some lanes; where tables are dear, only with those that the bounds of each leave to it."""
        plans, lanes, mapping_counts = group.plans, group.lanes, group.mapping_counts
        if not path.is_sparse:
            for part in path.pricer.units.alike(lanes, chunk):
                begun, bounds = self.without_plans(path, lanes, part), group_bounds.of_plans(part)
                self.search_lanes(path, plans, begun, bounds, mapping_counts.weights(part))
            return
        parts: dict[bytes, list[int]] = {}
        left = [~self.ruled_out(needed[chunk]) for needed in group_bounds.values]
        for number, way in enumerate(group_bounds.way_of):
            parts.setdefault(left[way].tobytes(), []).append(number)
        bounds = group_bounds.of_plans(chunk)
        for flags, numbers in sorted(parts.items(), key=lambda part: float(bounds[part[1], 0].min())):
            needed = np.frombuffer(flags, dtype=bool)
            some = [plans[i] for i in numbers]
            self.count("lane bounds", some, lanes.only(chunk[~needed]), mapping_counts.weights(chunk[~needed]))
            if needed.any():
                begun, weights = self.without_plans(path, lanes, chunk[needed]), mapping_counts.weights(chunk[needed])
                self.search_lanes(path, some, begun, bounds[numbers], weights)

    def without_plans(self, path: Path, lanes: LaneTable, chosen: Ints) -> PathSearch:
        """A search with some uses of the fanouts, in order; the last one is there again where it had the same."""
        chosen = np.sort(chosen)
        if self.last_search is None or self.last_search[0] != (path, lanes, chosen.tobytes()):
            self.last_search = (path, lanes, chosen.tobytes()), new_search(path, lanes.only(chosen), self.instances)
        return self.last_search[1].emptied()

    def with_room(self, path: Path, plans: list[ChainTemplate], lanes: LaneTable, chosen: Ints) -> Ints:
        """The first of some uses of the fanouts, as many as leave room for tables of several templates."""
        room = self.request.room * PART_OF_ROOM
        # for few lanes room is there without looking
        while not path.is_sparse and len(chosen) > max(1, lanes_with_room(path)):
            search = self.without_plans(path, lanes, chosen)
            if not any(search.compile(plan) is not None for plan in plans) or search.tables.bytes <= room:
                break
            fraction = min(room / search.tables.bytes, 0.75)
            chosen = chosen[: max(1, int(len(chosen) * fraction))]
        return chosen

    def search_lanes(
        self, path: Path, plans: list[ChainTemplate], begun: PathSearch, bounds: Floats, weights: dict[Loops, float]
    ) -> None:
        """All plans with some lanes, the promising ones first; as many at a time as there is room for tables.

        `begun`: a search with these lanes; `weights`: mappings of a plan with them, by its loops.
        """
        with TakenPlans(self, begun, plans) as tables:
            self.search_taken(path, plans, begun, bounds, weights, tables)

    def search_taken(
        self, path: Path, plans: list[ChainTemplate], begun: PathSearch, bounds: Floats, weights: dict[Loops, float],
        tables: TakenPlans,
    ) -> None:  # fmt: skip
        """As `search_lanes`, with `tables` of the plans that it takes."""
        lanes, waiting = begun.lanes, [int(i) for i in np.argsort(bounds[:, 0], kind="stable")]
        size = 1 if path.is_sparse else FIRST_PLANS
        while waiting:
            out = self.ruled_out(bounds[waiting])
            self.count("plan bounds", [plans[waiting[i]] for i in np.flatnonzero(out)], lanes, weights)
            waiting = [waiting[i] for i in np.flatnonzero(~out)]
            if not waiting:
                return
            if self.stopped:
                self.left.append(bounds[waiting].min(axis=0))
                return
            with self.tally.timed("tables"):
                search, taken = tables.take([plans[i] for i in waiting[:size]])
                filled = taken > 0 and search.tables_filled(lambda: self.stopped)
                search.gather()
            if not taken and not search.ended and len(lanes) > 1:
                tables.forget()
                for half in np.array_split(np.arange(len(lanes)), 2):
                    begun, part = self.without_plans(path, lanes, half), len(half) / len(lanes)
                    fewer = {loops: weight * part for loops, weight in weights.items()}
                    self.search_lanes(path, [plans[i] for i in waiting], begun, bounds[waiting], fewer)
                return
            if not taken and not search.ended:
                # one plan with one use of the fanouts, and no room for its tables
                path.short_of_room += 1
                self.unlisted += 1
                self.left.append(bounds[waiting[0]])
                waiting = waiting[1:]
                continue
            if not filled:
                self.left.append(bounds[waiting].min(axis=0))
                return
            tried, waiting = waiting[:taken], waiting[taken:]
            size = FIRST_PLANS if size < FIRST_PLANS else MOST_PLANS
            unfit = {plans[i]: plans[i] for i in tried}
            for compiled in search.compiled:
                del unfit[compiled.plan]
            self.count("root bounds", list(unfit.values()), lanes, weights)
            self.then = float(bounds[waiting, 0].min(initial=np.inf))
            self.search_plans(search, weights)

    def count(
        self, outcome: str, plans: Sequence[ChainTemplate], lanes: LaneTable, weights: dict[Loops, float]
    ) -> None:
        """Say what became of some plans with some lanes."""
        self.tally.add(outcome, len(plans) * len(lanes), math.fsum(weights[plan.loops] for plan in plans))

    def search_plans(self, search: PathSearch, weights: dict[Loops, float]) -> None:
        """Plans that have their tables, in the order of the bounds that these give."""
        compiled = search.compiled
        self.archive.widen(max((len(c.levels) for c in compiled), default=0))
        bounds = self.table_bounds(search)
        for i in np.argsort([b[0] for b in bounds], kind="stable"):
            plan = [compiled[i].plan]
            if not np.isfinite(bounds[i]).all() or self.ruled_out(bounds[i][None, :])[0]:
                self.count("root bounds", plan, search.lanes, weights)
                continue
            if self.stopped:
                self.left.append(bounds[i])
                continue
            self.floor = min(float(bounds[i][0]), self.then, self.later)
            if self.search_plan(search, compiled[i], bounds[i]):
                self.count("searched", plan, search.lanes, weights)

    def table_bounds(self, search: PathSearch) -> list[Floats]:
        """Objectives that no mapping of each plan is below."""
        return [search.bound(compiled) for compiled in search.compiled]

    def search_plan(self, search: PathSearch, compiled: TemplateTables, bound: Floats) -> bool:
        """Search one plan until it is done or time is over; whether it is done."""
        walk = search.start(compiled)
        if walk is None:
            return True
        number, done = len(self.decoders), False
        self.decoders.append((search, compiled))
        self.searched += 1
        while not done:
            before, left = walk.work, max(self.max_work - self.work, 1)
            budget = CHOICES_AT_A_TIME if left > CHOICES_AT_A_TIME else -int(left)
            with self.tally.timed("search"):
                ended = search.step(compiled, number, walk, self.archive, self.slack, budget)
                if ended == kernels.LEAF:
                    self.judge(search, compiled, number, walk)
            done = ended == kernels.DONE
            self.work += walk.work - before
            self.say()
            if not done and self.stopped:
                self.left.append(bound)
                break
        self.nodes += walk.nodes
        return done

    def judge(self, search: PathSearch, compiled: TemplateTables, number: int, walk: Descent) -> None:
        """Find the true cost of the mapping that the kernel has come to, and put it into the archive."""
        if search.machine is not None:
            least = offer_stalled(self.archive, search, compiled, walk, number)
            if least is not None:
                self.unlisted += 1
                self.left.append(least)
            return
        n = len(compiled.levels)
        prefix = int(walk.prefix_at[n])
        mapping = mapping_of(search, compiled, prefix, [int(x) for x in walk.point_at[1 : n + 1]])
        values = search.judged(mapping, walk.occupied[n])
        if values is not None:
            offer(self.archive, values, walk, prefix, number)

    def say(self) -> None:
        """Report what has been done."""
        if self.progress.callback is None or self.first_only:
            return
        done, text = sum(self.tally.subspaces_by.values()), f"{self.einsum.name}: {self.tally.shown()}"
        self.progress.report(text, done, self.tally.subspaces, self.shown())

    def shown(self) -> str | None:
        """The best so far, and how far it may be above the optimum where that is known."""
        if not self.archive.n:
            return None
        goal, best = self.request.goals[0], float(self.archive.values[: self.archive.n, 0].min())
        text = f"{goal.replace('_', ' ')} {format_si(best, METRICS[goal].unit if goal in METRICS else '')}"
        has_bound = len(self.request.goals) == 1 and not self.waiting and not self.left and 0 < self.floor < np.inf
        return f"{text}, gap at most {max(best / self.floor - 1, 0):.2%}" if has_bound else text

    @property
    def bound(self) -> tuple[float, ...]:
        """Nothing is better than this, for each objective, once all is looked at."""
        none, found = np.full(len(self.request.goals), np.inf), self.archive.values[: self.archive.n]
        return tuple(float(b) for b in np.min([none, *self.left, *found], axis=0))

    def result(self) -> Optimum:
        """The archive as mappings, sorted by the objectives."""
        archive = self.archive
        order = np.lexsort(archive.values[: archive.n].T[::-1])
        values, mappings = [], []
        for i in order:
            number, prefix = (int(x) for x in archive.paths[i, :2])
            search, compiled = self.decoders[number]
            points = [int(x) for x in archive.paths[i, 2 : 2 + len(compiled.levels)]]
            mappings.append(joined(settled(search, nodes_of(search, compiled, prefix, points))))
            values.append(tuple(float(x) for x in archive.values[i]))
        return Optimum(
            values, mappings, complete=not self.left, bound=self.bound,
            plans=sum(len(path.plans) for path in self.paths), searched=self.searched, nodes=self.nodes,
            work=self.work, lanes=sum(len(path.lanes) for path in self.paths), size=self.tally.mapspace,
            points=sum(path.lattice.size for path in self.paths), tally=self.tally,
            cut=(len(self.left) > self.unlisted and not self.ceiling.reached) or any(path.cut for path in self.paths),
        )  # fmt: skip
