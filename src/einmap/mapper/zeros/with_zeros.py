"""The search of one Einsum whose tensors have zeros: every mapping is bounded, and the promising ones are evaluated.

Bounds of whole arrays of mappings (`model.batch.zeros`) are the expected costs themselves wherever tiles are alike.
Mappings are evaluated in the order of their bounds until what is left cannot be better, so that the best found is the
best there is.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Compute, Memory, Toll
from einmap.arch.tree import Architecture
from einmap.arrays import Bools, Floats
from einmap.errors import CapacityError, MappingError, NotSupportedError
from einmap.mapper.exhaustive.brute_force import COMPLETE_LIMIT, Search, Searched
from einmap.mapper.exhaustive.brute_force import Budget as Evaluations
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.mapspace.mapspace import MOST_SUBSPACES, BuildingEffort, Subspace, mapspace_of
from einmap.mapper.objective.metrics import of_energy_and_latency
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.mapper.problem.problem import Budget, NotTogetherError, Problem
from einmap.mapper.result.outcome import Outcome, ended_after, evaluated, narrowed_by
from einmap.mapper.result.result import MapStats
from einmap.mapper.zeros.by_tables import by_tables, why_nothing
from einmap.mapper.zeros.dense_bound import least_cost
from einmap.mapper.zeros.expected_cost import limits_of_blocks
from einmap.model.batch.batch import BatchCost
from einmap.model.batch.zero_tables import ZeroTables
from einmap.model.batch.zeros import ZerosBatch
from einmap.model.evaluate import without_advice
from einmap.pareto import nondominated
from einmap.sparse.savings import Sparsity
from einmap.spec.spec import Spec

BUILDING = 1 / 3
"""Part of the time that building the mapspace may take."""
FOR_BOUND = 2.0
"""Seconds for the lower bound of a search that was stopped, or as long as that took."""
MOST_REFUSED = 4
"""Mappings of one subspace that the model does not know, after which the others of it are left out."""


@dataclass
class ZerosSearch(Search):
    """The search of the one Einsum of a specification.

    `judges`: whether all mappings are evaluated, whatever bounds say. `refused`: by subspace, how many of its mappings
    the model did not know.
    """

    spec: Spec
    tables: ZeroTables
    judges: bool
    refused: dict[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        einsum = self.space.einsum
        self.instances = self.spec.workload.n_instances * einsum.n_instances

    def batch_of(self, subspace: Subspace) -> ZerosBatch:
        """Bounds the tile shapes of a subspace."""
        return ZerosBatch(subspace.template, self.space.einsum, self.space.arch, self.semantics, self.tables)

    def offer(self, index: int, points: NDArray[np.int64], cost: BatchCost) -> None:
        """Evaluate the points of a subspace that may be better than what was found, the most promising ones first."""
        first = of_energy_and_latency(self.objectives[0], cost.energy, cost.latency)
        second = cost.energy if self.objectives[0] == "latency" else cost.latency
        rows = np.flatnonzero(cost.fits & np.isfinite(cost.energy))  # those that cut blocks of a format have none
        rows = rows[np.lexsort((second[rows], first[rows]))]
        while True:
            if not self.judges:
                rows = rows[self._may_be_better(cost.energy[rows], cost.latency[rows])]
            if not len(rows) or self.refused.get(index, 0) >= MOST_REFUSED:
                return
            if self._stopped and self.front.energy:
                self.cut = True
                return
            at = tuple(int(x) for x in points[rows[0]])
            rows = rows[1:]
            self._evaluate(index, at)

    def _evaluate(self, index: int, at: tuple[int, ...]) -> None:
        """The cost of one mapping by the model itself, offered to the front."""
        self.budget.used += 1
        try:
            cost = without_advice(self.spec, self.space.subspaces[index].mapping(at))
        except (CapacityError, MappingError):
            return
        except NotSupportedError as error:
            self.uncounted = error
            self.refused[index] = self.refused.get(index, 0) + 1
            return
        energy, latency = np.array([cost.energy / self.instances]), np.array([cost.latency / self.instances])
        self.front.offer(energy, latency, np.ones(1, dtype=bool), lambda _: (index, at))

    def _may_be_better(self, energy: Floats, latency: Floats) -> Bools:
        """Which mappings of at least these costs may be better than all that were found."""
        found = np.array([self.front.energy, self.front.latency])
        if not found.size:
            return np.ones(len(energy), dtype=bool)
        goal = self.objectives[0]
        better: Bools
        if len(self.objectives) == 1 and goal in ("energy", "latency"):
            first, other = (energy, latency) if goal == "energy" else (latency, energy)
            best, its_other = found[:, 0] if goal == "energy" else found[::-1, 0]
            better = first < best * (1 - ROUNDING)
            better |= (first <= best * (1 + ROUNDING)) & (other < its_other * (1 - ROUNDING))
            return better
        if goal == "energy_delay_product":
            better = energy * latency < np.min(found[0] * found[1]) * (1 - ROUNDING)
            return better
        no_worse = (found[0][:, None] * (1 - ROUNDING) <= energy) & (found[1][:, None] * (1 - ROUNDING) <= latency)
        better = ~no_worse.any(axis=0)
        return better


def with_zeros(problem: Problem, budget: Budget) -> Outcome:
    """The best mappings of the one Einsum at its expected costs, with a bound where the search is stopped.

    Raises NoMappingError, NotSupportedError where the model knows no mapping of it, and NotTogetherError for open
    formats whose mappings are tried one by one.
    """
    start = time.perf_counter()
    spec, options = problem.spec, problem.options
    for einsum in spec.workload.einsums:
        _refuse(spec.archs[einsum.name], spec.sparsity[einsum.name])
    if not options.brute_force:
        found = by_tables(problem, budget)
        if found is not None:
            return found
    if problem.formats:
        raise NotTogetherError
    (einsum,) = spec.workload.einsums
    arch, sparsity = spec.archs[einsum.name], spec.sparsity[einsum.name]
    work = min(budget.work, COMPLETE_LIMIT)
    rng = np.random.default_rng([options.seed, 0])
    effort = BuildingEffort(
        share_of(budget.progress, BUILDING), int(min(MOST_SUBSPACES, max(work, 1_000))), int(rng.integers(1 << 30))
    )
    space = mapspace_of(
        einsum,
        arch,
        backed_outside=einsum.tensors,
        first_partial_matters=options.rules.lowering,
        force_hierarchy_order=options.force_memory_hierarchy_order,
        effort=effort,
    )
    goals = ("energy_delay_product", "front") if options.goals == ("energy_delay_product",) else options.goals
    tables = ZeroTables(einsum, sparsity)
    search = ZerosSearch(
        space, options.rules, goals, rng, budget.progress, Evaluations(int(work)), spec, tables, options.brute_force
    )
    searched = search.run()
    if not search.front.energy:
        raise why_nothing(einsum.name, search.uncounted, search.space.size, complete=searched.complete)
    return _outcome(problem, search, searched, start, budget)


def _refuse(arch: Architecture, sparsity: Sparsity) -> None:
    """Raise NotSupportedError where fewer actions need not cost less."""
    negative = {name for (name, _), energy in sparsity.energies.items() if energy < 0}
    for name, unit in arch.components.items():
        actions = unit.actions if isinstance(unit, Memory | Toll | Compute) else ()
        if name in negative or any(action.energy < 0 for action in actions):
            raise NotSupportedError(
                f"{name!r} has an action of negative energy, beside which the mapper does not know sparsity yet",
                about=name,
            )


def _outcome(problem: Problem, search: ZerosSearch, searched: Searched, start: float, budget: Budget) -> Outcome:
    """Outcome of what was found, evaluated, and what may be claimed of it."""
    options, space = problem.options, search.space
    front = search.front
    values = [of_energy_and_latency(goal, np.array(front.energy), np.array(front.latency)) for goal in options.goals]
    best = [int(i) for i in nondominated(np.stack(values, axis=1))]
    points = tuple(evaluated(problem.spec, space.decode(front.what[i]), options.rules, strict=True) for i in best)
    name, uncounted = space.einsum.name, search.uncounted
    left_out = (f"mappings of {name} that cannot be counted ({uncounted.message})",) if uncounted else ()
    bound = None
    if (uncounted or not searched.complete) and len(options.goals) == 1:
        spent = time.perf_counter() - start
        bound = least_cost(problem, budget.progress.within(max(FOR_BOUND, spent)), search.tables.sparsity)
    part = {
        "mapspace_size": float(space.size),
        "templates": len(space.subspaces),
        "searched": searched.subspaces,
        "lanes": 0,
        "nodes": 0,
        "evaluated": searched.evaluated,
        "complete": searched.complete and not uncounted,
        "same_as": None,
        "brute_force": "its tensors have zeros, and what mappings cost is bounded for arrays of them",
    }
    stats = MapStats(float(space.size), len(space.subspaces), searched.evaluated, by_einsum={name: part})
    ended = None
    if not searched.complete:
        ended = f"{ended_after(searched.evaluated)} in a mapspace of {space.size:.1e} mappings; {name} not covered"
    return Outcome(
        options.goals,
        points,
        stats,
        every="other mapping of the Einsum" if left_out else "mapping of the Einsum",
        by_trying=search.judges,
        narrowed=(*narrowed_by(options, fused=False), *limits_of_blocks(problem.spec)),
        ended=ended,
        left_out=left_out,
        bound=bound,
        ties_broken=searched.complete,
    )
