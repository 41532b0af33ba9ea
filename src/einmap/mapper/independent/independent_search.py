"""Search every Einsum of a workload by itself, alike ones once, and put the best parts into one tree."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from einmap.arch.constraint import Names
from einmap.einsum.einsum import Einsum
from einmap.einsum.isomorphism import Renaming
from einmap.errors import NoMappingError
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.branch_and_bound.smallest_tiles import why_not_smallest
from einmap.mapper.branch_and_bound.tied_search import run_at_floor_first, with_ties_broken
from einmap.mapper.exhaustive.brute_force import brute_force
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.given.pattern import Pattern
from einmap.mapper.independent.einsum_result import EinsumResult, not_found, optimum_of
from einmap.mapper.independent.first import LONGEST, first_mapping, objectives_of
from einmap.mapper.independent.front_limits import CORNER, limit_fronts
from einmap.mapper.independent.joined import joined
from einmap.mapper.independent.planning import is_hardly_planned, plan_all
from einmap.mapper.independent.whole_tensors import tensors_exchanged_whole
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.objective.pareto_sums import PARTS, sums
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.request import Request
from einmap.mapper.problem.searchable import why_not_searchable
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.renamed import renamed_nodes
from einmap.pareto import nondominated
from einmap.progress import Progress
from einmap.spec.spec import Spec

FOR_PLANS, FOR_PROBE = 0.1, 0.025
"""Part of a limited time in which all choices are listed, or good mappings come before; where some are there."""
FOR_DESCENTS = 0.8
"""Part of a limited time for good mappings of all Einsums whose choices take long to list."""
FOR_QUICK = 0.5
"""Part of a limited time for good mappings of all Einsums: without them GPT-3 on `edge` is twice as bad within 1 s."""
ANY = 1e9
"""A tolerance with which the first mapping is good enough."""
OF_CASCADE = 4.0
"""Seconds for the reason why one of several Einsums has no mapping."""
GRACE = 0.75
"""Seconds for better mappings than the first ones when time is over."""
IMPROVING = 200_000
"""Choices that are looked at to improve a first mapping."""
VERY_FEW, FEW = 50, 5_000
"""Mappings that brute force tries where any will do, and where none of the first ones fits."""


@dataclass
class IndependentSearch:
    """A workload with what is asked for; `run` fills `parts`."""

    spec: Spec
    options: Options
    given: Mapping[str, Pattern] = field(default_factory=dict)
    """Given mappings, by Einsum; those not named are free."""
    parts: dict[str, EinsumResult] = field(default_factory=dict)
    together: bool = True
    """Whether the parts are to be put into one tree; else each is searched as if there were no other Einsum."""

    def __post_init__(self) -> None:
        self.workload = self.spec.workload
        self.single = len(self.workload.einsums) == 1
        self.goals = self._goals()
        self.late: Progress | None = None
        """The token for mappings of Einsums for which there was no time."""
        self.lock = Lock()

    def _goals(self) -> tuple[str, ...]:
        """Objectives of each Einsum's search: those asked for, or what they are made of."""
        goals = self.options.goals
        if "resource_usage" in goals:
            return (*(g for g in goals if g != "resource_usage"), *self._usages())
        if self.single:
            return goals
        return tuple(dict.fromkeys(part for goal in goals for part in PARTS[goal]))

    def _usages(self) -> list[str]:
        memories = self.spec.bound[self.workload.einsums[0].name].arch.memories
        # where all have room for everything, each is used by 0 of what it holds
        sized = [memory for memory in memories if math.isfinite(memory.size_bits)] or memories
        return [f"usage of {memory.name}" for memory in sized]

    @property
    def goal(self) -> str:
        """The objective of mappings that are found soon: the first one, or how full one memory is."""
        goal = self.options.goals[0]
        return self.goals[0] if goal == "resource_usage" else goal

    @cached_property
    def exchanged_whole(self) -> Names:
        """Tensors that Einsums exchange whole below the outermost memory."""
        return tensors_exchanged_whole(self.spec) if self.together else frozenset()

    def weight(self, einsum: Einsum) -> int:
        """How often an Einsum runs."""
        return self.workload.n_instances * einsum.n_instances

    def run(self, token: Progress, most: float = math.inf, longer: Progress | None = None) -> None:
        """Search each distinct Einsum once; time and the choices that may be looked at (`most`) are shared out evenly.

        Where time or evaluations are over before a mapping of an Einsum is found, it gets one that is found soon.
        Where time is limited good mappings of all come first, so that it does not go into those of a few, and where
        lists of choices are long they come before these (`longer`: the token for that, `token` if None).
        """
        is_limited = token.deadline is not None and math.isinf(most)
        if is_limited:
            listing = FOR_PROBE if any(part.early for part in self.parts.values()) else FOR_PLANS
            self.prepare(share_of(token, listing), plan_first=False)
            if not self.is_planned:
                self.descend(share_of(longer or token, FOR_DESCENTS))
                if longer is not None and is_hardly_planned(self.parts):
                    self._search_in_turn(self.distinct, token.within(0))
                    return
                self.prepare(token)
        self.prepare_once(token)
        distinct = self.distinct
        if is_limited and len(distinct) > 1 and all(part.search is not None and not part.early for part in distinct):
            with suppress(NoMappingError):
                self.quick_mapping(share_of(token, FOR_QUICK))
        self.decide(token)
        self.share_evaluations(most)
        if self.goals == ("energy", "latency") and self.options.goals == ("energy_delay_product",):
            self.limit_fronts(token)
        if len(distinct) == 1:
            self._search_in_turn(distinct, token)
            return
        with ThreadPoolExecutor(self.options.workers) as executor:
            # a search begins when a worker is free: its share is reckoned then
            n = len(distinct)
            waiting = [executor.submit(self._search, part, token, i, n) for i, part in enumerate(distinct)]
            for part, future in zip(distinct, waiting, strict=True):
                part.optimum = future.result()
                if not part.optimum.mappings:
                    executor.shutdown(wait=False, cancel_futures=True)
                    raise self.nothing(part, token)

    def _search_in_turn(self, parts: list[EinsumResult], token: Progress) -> None:
        """Search some Einsums one after the other. Raises NoMappingError."""
        for part in parts:
            part.optimum = self._search(part, token, 0, 1)
            if not part.optimum.mappings:
                raise self.nothing(part, token)

    def decide(self, token: Progress) -> None:
        """Find out whether each Einsum has a mapping at all, before any is searched. Raises NoMappingError."""
        for part in self.distinct:
            search = part.search or (self.feasibility_search(part, token) if self.options.brute_force else None)
            if search is not None and not (part.early or token.stopped) and search.fits_nowhere(token):
                part.optimum = search.nothing()
                raise self.nothing(part, token)

    def feasibility_search(self, part: EinsumResult, token: Progress) -> EinsumSearch | None:
        """Search that tells whether an Einsum of brute force fits; None where only brute force can."""
        einsum, arch = part.einsum, self.spec.bound[part.einsum.name].arch
        if why_not_searchable(einsum, arch, self.goals) is not None:
            return None
        search = EinsumSearch.over_all(einsum, arch, self.request(einsum.name), token, self.weight(einsum))
        return None if any(path.lanes_above() for path in search.paths) else search

    def why_nothing(self, name: str, token: Progress) -> NoMappingError:
        """Why an Einsum, of which not even the smallest tiles fit, has no mapping."""
        einsum = self.workload.by_name[name]
        arch = self.spec.bound[name].arch
        search = EinsumSearch.over_all(einsum, arch, self.request(name), token, self.weight(einsum))
        return self.nothing(EinsumResult(einsum, search, None, optimum=search.nothing()), token)

    def share_evaluations(self, most: float) -> None:
        """Give each distinct Einsum its part of the choices that may be looked at, as even as whole numbers are."""
        distinct = self.distinct
        for i, part in enumerate(distinct):
            part.budget = most if math.isinf(most) else most * (i + 1) // len(distinct) - most * i // len(distinct)

    @property
    def distinct(self) -> list[EinsumResult]:
        """The distinct Einsums."""
        return [part for part in self.parts.values() if part.same_as is None]

    @property
    def is_planned(self) -> bool:
        """Whether all that is searched with tables has its dataplacements and uses of the fanouts listed."""
        return len(self.parts) == len(self.workload.einsums) and all(part.is_planned for part in self.distinct)

    def descend(self, token: Progress) -> None:
        """A good mapping of each distinct Einsum that is searched with tables, as far as there is none."""
        waiting = [part for part in self.distinct if part.why is None and not part.early and not self.is_given(part)]
        for position, part in enumerate(waiting):
            token.report(f"{part.einsum.name}: a first mapping", position, len(waiting))
            arch, request = self.spec.bound[part.einsum.name].arch, self.request(part.einsum.name)
            share = share_of(token, 1 / (len(waiting) - position))
            first = first_mapping(part.einsum, arch, request, self.goal, self.weight(part.einsum), share, math.inf)
            part.early += first.mappings

    def is_given(self, part: EinsumResult) -> bool:
        """Whether the mapping of an Einsum must be like a given one."""
        return part.einsum.name in self.given

    def quick_mapping(
        self, token: Progress, budget: float = math.inf, goal: str | None = None, late: bool = True
    ) -> LoopTree:
        """A good mapping of each Einsum by itself for one objective, for when there is no time for the best.

        `budget`: choices that may be looked at. `goal`: the objective, the first one by default. `late`: whether the
        work goes on when time is over, as far as a mapping of each needs it. Raises NoMappingError when there is none.
        """
        goal = goal or self.options.goals[0]
        self.prepare_once(token)
        distinct = self.distinct
        if token.stopped and late:
            self.descend(self.late_token(token))
        self.share_evaluations(budget)
        for position, part in enumerate(distinct):
            token.report(f"{part.einsum.name}: a first mapping", position, len(distinct))
            share, most = share_of(token, 1 / (len(distinct) - position)), part.budget
            part.optimum = part.alone.get(goal)
            if part.optimum is not None:
                continue
            if token.stopped and not late:
                raise NoMappingError("there was no time for a mapping of each Einsum")
            if part.search is not None and not share.stopped and most > 0:
                part.optimum = part.search.alone(goal, CORNER, share, most)
                most -= part.optimum.work
                if part.optimum.mappings and part.optimum.complete:
                    part.alone[goal] = part.optimum
            if part.optimum is None or not (part.optimum.mappings or part.optimum.complete):
                part.optimum = self.any_mapping(part, share, most)
            if not part.optimum.mappings:
                raise self.nothing(part, token)
            part.early += part.optimum.mappings[:1]
        return joined(self.spec, self.exchanged_whole, [self.mapping(einsum, 0) for einsum in self.workload.einsums])

    def first_found(self) -> LoopTree | None:
        """Some mapping of each Einsum by itself, put together; None where none of some Einsum is found soon.

        They may not fit together.
        """
        over = Progress().within(0)
        self.prepare(over, plan_first=False)
        for part in self.distinct:
            part.optimum = self.any_mapping(part, over, 0)
            if not part.optimum.mappings:
                return None
        return joined(self.spec, self.exchanged_whole, [self.mapping(einsum, 0) for einsum in self.workload.einsums])

    def any_mapping(self, part: EinsumResult, token: Progress, budget: float) -> Optimum:
        """Any mapping of an Einsum, soon, where there was no time or budget for a search; a good one while there is.

        Time that is over is lengthened a little, once for all Einsums.
        """
        einsum, request = part.einsum, self.request(part.einsum.name)
        arch, times = self.spec.bound[einsum.name].arch, self.weight(einsum)
        before = part.optimum or Optimum([], [], False, least_costs(einsum, arch, self.goals), cut=True)
        if einsum.name in self.given:
            assert part.search is not None
            return part.search.alone(self.goals[0], ANY, Progress(token.callback).within(LONGEST))
        if part.why is not None:
            rng, request = np.random.default_rng(self.options.seed), self.tried(einsum.name)
            some = brute_force(einsum, arch, request, Progress().within(LONGEST), VERY_FEW, rng)
            return some if some.mappings else brute_force(einsum, arch, request, Progress().within(LONGEST), FEW, rng)
        if part.early:
            values = [objectives_of(m, einsum, arch, request, times) for m in part.early]
            return replace(before, complete=False).with_points(list(zip(values, part.early, strict=True)))
        token = self.late_token(token) if token.stopped else token
        first = first_mapping(einsum, arch, request, self.goal, times, token, min(budget, IMPROVING))
        if not first.mappings and any(why_not_smallest(arch.path(unit.name)) for unit in arch.computes if unit.enabled):
            # where tiles must not be small only a search comes to one that fits
            search = EinsumSearch.over_all(
                einsum, arch, replace(request, tolerance=ANY), Progress(token.callback).within(LONGEST), times
            )
            return replace(search.run(), complete=False, cut=True, bound=before.bound)
        return replace(
            before, mappings=first.mappings, values=first.values, complete=False, work=before.work + first.work
        )

    def late_token(self, token: Progress) -> Progress:
        """Time that is over, lengthened a little, once for all Einsums."""
        with self.lock:
            self.late = self.late or Progress(token.callback).within(GRACE)
        return self.late

    def limit_fronts(self, token: Progress) -> None:
        """Limit each Einsum's front to what can be a part of the best product of sums, where all have tables."""
        if self.is_planned and all(part.why is None for part in self.distinct):
            weights = {name: self.weight(part.einsum) for name, part in self.parts.items()}
            limit_fronts(self.parts, weights, self.options.workers, token)

    def _search(self, part: EinsumResult, token: Progress, position: int, n: int) -> Optimum:
        share = share_of(token, min(1.0, self.options.workers / (n - position)))
        optimum = self.search(part, share, max(part.budget - part.spent, 0), position)
        part.optimum = optimum = replace(optimum, work=optimum.work + part.spent)
        if optimum.complete:
            return with_ties_broken(part.search, optimum, self.options, share, part.budget - optimum.work)
        if part.early:
            arch, request = self.spec.bound[part.einsum.name].arch, self.request(part.einsum.name)
            values = [objectives_of(m, part.einsum, arch, request, self.weight(part.einsum)) for m in part.early]
            return optimum.with_points(list(zip(values, part.early, strict=True)))
        return optimum if optimum.mappings else self.any_mapping(part, share, part.budget - optimum.work)

    def prepare_once(self, token: Progress) -> None:
        """The searches, unless all of them are there."""
        if not self.parts or any(part.search is None and part.why is None for part in self.distinct):
            self.prepare(token)

    def prepare(self, token: Progress, plan_first: bool = True) -> None:
        """The searches, and which are the same; those that are planned already stay.

        `plan_first`: plan that of the first Einsum even without time.
        """
        plan_all(self, token, plan_first)

    def request(self, einsum: str) -> Request:
        """Request to an Einsum's search."""
        bound = self.workload.by_name[einsum]
        shared = self.exchanged_whole & bound.tensors
        options = self.options
        return Request(
            self.goals, options.rules, options.force_memory_hierarchy_order, options.objective_tolerance,
            uneven_loops=options.uneven_loops, uneven_lanes=options.uneven_lanes, coarseness=options.coarseness,
            most_plans=options.most_plans, memory=options.memory / options.workers, ceiling=options.ceiling,
            given=self.given.get(einsum), shared=shared,
            uncut=frozenset((a.tensor, rank) for a in bound.accesses if a.tensor in shared for rank, _ in a.projection),
        )  # fmt: skip

    def tried(self, einsum: str) -> Request:
        """Request to an Einsum's search where brute force is needed, not asked for: with factors that divide."""
        asked = self.request(einsum)
        if self.options.brute_force:
            return asked
        return replace(asked, uneven_loops=False, uneven_lanes=False, coarseness=1.0)

    def search(self, part: EinsumResult, token: Progress, budget: float, position: int) -> Optimum:
        """Search one Einsum."""
        arch, is_late = self.spec.bound[part.einsum.name].arch, token.stopped and bool(part.early)
        if budget <= 0 or is_late or (part.search is None and part.why is None):
            return Optimum([], [], False, least_costs(part.einsum, arch, self.goals), cut=True)
        if part.search is None:
            rng = np.random.default_rng([self.options.seed, position])
            return brute_force(part.einsum, arch, self.tried(part.einsum.name), token, budget, rng)
        part.search.progress, part.search.max_work = token, budget
        return run_at_floor_first(part.search, self.options, least_costs(part.einsum, arch, ("latency",))[0])

    def nothing(self, part: EinsumResult, token: Progress) -> NoMappingError:
        """Why there is no mapping of an Einsum."""
        from einmap.mapper.infeasibility.diagnosis import is_empty, reasons  # seldom needed

        assert part.optimum is not None
        name, optimum, coarseness = part.einsum.name, part.optimum, self.options.coarseness
        left_out_some = not optimum.complete or coarseness > 1
        if left_out_some and not is_empty(self.spec, part.einsum, self.request(name), self.weight(part.einsum), token):
            return not_found(part, coarseness)
        if name in self.given and not optimum.plans:
            assert part.search is not None
            return part.search.unlike()
        if name in self.given:
            return NoMappingError(
                f"no mapping of Einsum {name!r} that is like the given one keeps the constraints and fits its "
                f"memories: {_dataplacements(optimum)}, {_uses(optimum)}",
                hint="enlarge a memory, or leave more of the mapping open with !Any {}",
            )
        looked_at = f"looked at {_dataplacements(optimum)}"
        if part.why is None:
            looked_at += f" and {_uses(optimum)}"
        limited = token if self.single else token.within(OF_CASCADE)
        return reasons(self.spec, part.einsum, self.request(name), self.weight(part.einsum), limited, looked_at)

    # results

    def optimum(self, einsum: Einsum) -> Optimum:
        """Optimum of an Einsum, or of the one that it is like."""
        return optimum_of(self.parts, einsum.name)

    def best(self) -> list[LoopTree]:
        """The mappings of the whole workload that are best, or its front, best first by the first objective."""
        einsums = self.workload.einsums
        fronts = [np.array(self.optimum(e).values, dtype=np.float64) for e in einsums]
        total = sums(fronts, [self.weight(e) for e in einsums])
        values = self.objectives(total.values)
        rows = [int(np.argmin(values[:, 0]))] if values.shape[1] == 1 else [int(i) for i in nondominated(values)]
        chosen = (zip(einsums, total.chosen[row], strict=True) for row in rows)
        return [joined(self.spec, self.exchanged_whole, [self.mapping(e, i) for e, i in each]) for each in chosen]

    def objectives(self, parts: NDArray[np.float64]) -> NDArray[np.float64]:
        """The objectives that were asked for, from sums of what they are made of."""
        if self.single:
            return parts
        columns = []
        for goal in self.options.goals:
            product = np.ones(len(parts))
            for part in PARTS[goal]:
                product = product * parts[:, self.goals.index(part)]
            columns.append(product)
        return np.stack(columns, axis=1)

    def mapping(self, einsum: Einsum, row: int) -> LoopTree:
        """One mapping of an Einsum's front."""
        mapping = self.optimum(einsum).mappings[row]
        same_as = self.parts[einsum.name].same_as
        if same_as is None:
            return mapping
        return LoopTree(renamed_nodes(mapping.nodes, Renaming(self.workload.by_name[same_as], einsum)))

    def pruned(self) -> tuple[str, ...]:
        """Parts of the Einsums' mapspaces that were left out, in words."""
        texts: list[str] = []
        for part in self.distinct:
            texts += part.search.pruned if part.search is not None else ()
            texts += self.optimum(part.einsum).without
            if part.why is not None and (self.options.uneven_loops or self.options.uneven_lanes):
                texts.append(f"imperfect factors of {part.einsum.name}, searched mapping by mapping ({part.why})")
        return tuple(texts)

    def cut(self) -> tuple[str, ...]:
        """Einsums whose search was stopped."""
        return tuple(name for name, part in self.parts.items() if self.optimum(part.einsum).cut)

    def is_mostly_cut(self) -> bool:
        """Whether the searches of most distinct Einsums were stopped."""
        distinct = self.distinct
        return 2 * sum(self.optimum(part.einsum).cut for part in distinct) > len(distinct)

    def bound(self) -> float:
        """Lower bound of the one objective (J, s, J*s), unfused."""
        total = np.zeros(len(self.goals))
        for einsum in self.workload.einsums:
            floor = least_costs(einsum, self.spec.bound[einsum.name].arch, self.goals)
            total += np.maximum(self.optimum(einsum).bound, floor) * self.weight(einsum)
        if self.single and self.goals == ("energy_delay_product",):
            total *= self.weight(self.workload.einsums[0])
        return float(self.objectives(total[None, :])[0, 0])


def _dataplacements(optimum: Optimum) -> str:
    return "1 dataplacement" if optimum.plans == 1 else f"{optimum.plans:,} dataplacements"


def _uses(optimum: Optimum) -> str:
    return "1 use of the fanouts" if optimum.lanes == 1 else f"{optimum.lanes:,} uses of the fanouts"
