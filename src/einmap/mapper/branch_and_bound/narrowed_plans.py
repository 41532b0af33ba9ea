"""Dataplacements that may be better than a good mapping, where all of them are too many to list.

Bounds over all dataplacements at once (`cost_bounds.before_plans`) say for each use of the fanouts what no mapping
is below, and lead to good mappings. Dataplacements up to what is known then are listed and searched; where they are too
many, up to a cutoff that is raised until what is found is below it: all that is not listed costs at least as much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import numpy as np

from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.cost_bounds.before_plans.free_tables import FreeTables, Nodes, TooManyError
from einmap.mapper.cost_bounds.before_plans.keeping import keeping
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.mapspace.dataplacement import Dataplacement
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.mapper.problem.request import Remainder, Request
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapper.templates.statistics import MappingCounts, SubspaceTally
from einmap.progress import Progress

GOALS = (("energy",), ("energy_delay_product",))
"""Objectives of which few dataplacements are near the best: many reach the least latency."""
FEW_PLACEMENTS, MANY_PLACEMENTS = 500, 20_000
"""Dataplacements up to which all are listed; up to which they are, where that takes less time than tables."""
OF_LISTING = 100_000
"""Numbers in tables, for all uses of the fanouts, that take less time than one dataplacement: of most uses none are."""
MOST_WORK = 20_000_000_000
"""Numbers in tables that are made: about 1.5 ns each."""
FEW_STEPS, MOST_STEPS = 4_000, 20_000
"""Steps on the way to dataplacements up to what is known, up to a lower cutoff: 0.1 ms each with 1,000 points."""
FEW_USES = 3
"""Uses of the fanouts with which mappings are looked for before dataplacements are listed."""
FIRST_USES = 16
"""Uses of the fanouts that are bounded before anything is searched."""
FIRST_STEP, WIDENING = 1e-3, 2.0
"""How far the first cutoff is above the least bound, as a fraction; how many times as far the next ones are."""
FAR = 100.0
"""How far above the least bound cutoffs are tried; then what is found is the cutoff."""


def planned(
    einsum: Einsum, arch: Architecture, request: Request, progress: Progress, instances: int = 1
) -> EinsumSearch:
    """A search over the paths to all compute units, their dataplacements listed as far as they matter."""
    if request.given is not None or request.goals not in GOALS:
        return EinsumSearch.over_all(einsum, arch, request, progress, instances)
    search = EinsumSearch(einsum, arch, request, progress, [], instances)
    with search.tally.timed("planning"):
        for unit in arch.computes:
            if unit.enabled:
                path = Path(einsum, arch, arch.path(unit.name), request)
                if not narrowed(search, path, progress):
                    path.make_plans(progress)
                search.tally.plan(path.plans)
                search.paths.append(path)
    return search


def narrowed(search: EinsumSearch, path: Path, progress: Progress) -> bool:
    """List the dataplacements of a path that may be the best; False where all may be listed, or nothing is known.

    Where there is no time for all of them `path.beyond` bounds the others.
    """
    kept = keeping(path)
    if kept is None or kept.size <= FEW_PLACEMENTS or kept.size > path.request.most_plans:
        return False
    if not path.has_all_uses(progress) or path.tile_shapes.is_coarse or path.tile_shapes.is_sparse:
        return False
    tables = FreeTables(path, kept)
    if kept.size <= MANY_PLACEMENTS and tables.work * len(path.lanes) > OF_LISTING * kept.size:
        return False
    if tables.work > MOST_WORK or tables.bytes > path.request.sparse_room:
        return False
    narrowing = Narrowing(search, path, tables, progress)
    found = narrowing.run()
    if found is None:
        return False
    path.plans, path.all_plans = found, narrowing.done
    path.beyond, path.hurried = narrowing.cutoff, progress.deadline is not None or progress.stopped
    _count_others(search, path, narrowing)
    return True


@dataclass
class Narrowing:
    """The dataplacements of one path up to a `cutoff`; `done`: whether nothing beyond it is better than the best."""

    search: EinsumSearch
    path: Path
    tables: FreeTables
    progress: Progress
    cutoff: float = 0.0
    done: bool = False
    best: float = math.inf
    bounds: dict[int, float] = field(default_factory=dict)
    """Of uses of the fanouts, by number, that have been bounded with tables."""

    def __post_init__(self) -> None:
        self.least, order = self.tables.bounds_of_uses(self.progress)
        self.waiting = order.tolist()
        self.work = 0
        self.plans: dict[Nodes, ChainTemplate] = {}
        """Plans by their nodes."""

    def run(self) -> list[ChainTemplate] | None:
        """Plans of the dataplacements; None where nothing is known."""
        self.bound_uses(FIRST_USES)
        if not self.bounds:
            return None
        plans = self.likely()
        self.bound_uses(len(self.waiting))
        plans |= self.likely()
        plans |= self.listed()
        others = float(self.least[self.waiting].min(initial=math.inf))
        self.cutoff, self.done = min(self.cutoff, others), self.done and self.limit <= others
        return [*plans] if plans else None

    def likely(self) -> dict[ChainTemplate, None]:
        """Plans to which the least bounds lead with the most promising uses of the fanouts; they are looked at."""
        plans = dict[ChainTemplate, None]()
        for number in sorted(self.bounds, key=lambda number: self.bounds[number])[:FEW_USES]:
            nodes = self.tables.likely(number) if self.bounds[number] <= self.limit else None
            if nodes is not None and nodes not in self.plans:
                self.look_at([self.plan(nodes)], [number])
                plans[self.plan(nodes)] = None
        return plans

    def bound_uses(self, most: int) -> None:
        """Bound the uses of the fanouts that may be better than the best, at most so many, while there is time."""
        while self.waiting and most > 0 and self.least[self.waiting[0]] <= self.limit:
            if self.progress.stopped or self.work > MOST_WORK:
                break
            number = self.waiting.pop(0)
            self.bounds[number] = self.tables.bound(number)
            self.work += self.tables.work
            most -= 1

    @property
    def limit(self) -> float:
        """Objective above which a mapping is neither better than the best nor as good."""
        return self.best * (1 + 4 * ROUNDING)

    def listed(self) -> dict[ChainTemplate, None]:
        """Plans of the dataplacements up to a cutoff that is raised until what is found is below it.

        The first one is what is known already: mostly few are better.
        """
        least, step, soon = min(self.bounds.values()), FIRST_STEP, math.isfinite(self.best)
        plans = dict[ChainTemplate, None]()
        while math.isfinite(least) and not self.progress.stopped:
            near = least * (1 + step) if step < FAR else math.inf
            cutoff = self.limit if soon else min(near, self.limit)
            uses = [number for number, bound in self.bounds.items() if bound <= cutoff]
            try:
                steps = FEW_STEPS if soon else MOST_STEPS
                found = [nodes for number in uses for nodes in self.tables.placements(number, cutoff, steps)]
            except TooManyError:
                if not soon:
                    break
                soon = False
                continue
            new = [plan for plan in dict.fromkeys(map(self.plan, found)) if plan not in plans]
            self.look_at(new, uses)
            plans |= dict.fromkeys(new)
            self.cutoff, self.done = cutoff, self.limit <= cutoff
            if self.done:
                break
            step, soon = WIDENING * step, False
        return plans

    def plan(self, nodes: Nodes) -> ChainTemplate:
        """The plan of a dataplacement."""
        if nodes in self.plans:
            return self.plans[nodes]
        path, tables = self.path, self.tables
        names = [path.leaves[level].name for level in tables.levels]
        outer = tuple((names[0], tensor) for tensor in tables.tensors)
        inner = tuple((names[memory], tables.tensors[t]) for memory, t in nodes)
        self.plans[nodes] = path.planner.plan(Dataplacement((*outer, *inner), len(outer), ()))
        return self.plans[nodes]

    def look_at(self, plans: list[ChainTemplate], uses: list[int]) -> None:
        """Search some dataplacements with some uses of the fanouts for something better than the best."""
        if not plans:
            return
        request = self.path.request
        if self.best < math.inf:
            request = replace(request, remainder=Remainder(np.zeros((1, 1)), self.best))
        lanes = self.path.lanes.only(np.sort(np.array(uses, dtype=np.int64)))
        path = self.path.with_plans(request, plans).with_lanes(lanes)
        asked = replace(self.search, request=request, progress=self.progress, paths=[path], tally=SubspaceTally())
        found = asked.run()
        if found.values:
            self.best = min(self.best, float(found.values[0][0]))


def _count_others(search: EinsumSearch, path: Path, narrowing: Narrowing) -> None:
    """Count the dataplacements that are not listed as ruled out by bounds."""
    kept, tally = narrowing.tables.keeping, search.tally
    loops = {n: (n + 1,) * len(path.lattice.axes) for n in kept.by_nodes}
    listed = [sum(plan.loops == loops[n] for plan in path.plans) for n in loops]
    empty = [replace(path.plans[0], loops=loops[n]) for n in loops]
    weights = MappingCounts(path.lattice, empty, path.lanes).weights()
    for (n, times), known in zip(kept.by_nodes.items(), listed, strict=True):
        others, mappings = times - known, (times - known) * weights[loops[n]]
        tally.subspaces += others * len(path.lanes)
        tally.mapspace += mappings
        if path.all_plans:
            tally.add("plan bounds", others * len(path.lanes), mappings)
