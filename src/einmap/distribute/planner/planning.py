"""What to plan for, and what may be chosen for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from einmap.distribute.cluster import LARGEST, Cluster
from einmap.distribute.cost_model import PLAN_METRICS, ClusterCost, PlanMetric
from einmap.distribute.derive import context_of, no_way
from einmap.distribute.mesh import Mesh
from einmap.distribute.planner.chosen import ChosenPlan, chosen_plan
from einmap.distribute.planner.matching_ends import matching_ends
from einmap.distribute.planner.short_walk import found_or_met, thriftiest_or_met
from einmap.distribute.request import Context, Request, checked_request
from einmap.distribute.search.search import Found, NotFound, cheapest, thriftiest
from einmap.distribute.search.space import Options, SearchSpace, search_space
from einmap.distribute.selection.solve import TIME_LIMIT
from einmap.distribute.walk.walk import Walked, WalkOptions, walk
from einmap.einsum.einsum import TensorName
from einmap.einsum.workload import Workload
from einmap.errors import EinmapError, SpecError, did_you_mean, raise_all
from einmap.progress import Progress
from einmap.visible import brief, short

LEAST_SLACK = 1e-6
"""Part of the least memory that is added to it when the cheapest of the thriftiest plans is searched."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan for. `memory`: bytes on each PE, None: the memory of the cluster's PE; `placements`: tensors that
    lie where they are told, as in `distribute_workload`; `time_limit`: seconds for the best plan, and as many for the
    plans that differ; `walk`: a Metropolis walk in the place of the exact search, None: none; `same`: results
    that lie as graph inputs do, so that layers can follow one another, None: the default (`matching_ends`), which a
    walk does not know.

    Raises SpecError (several problems together) for an unknown metric, one that the walk does not know, and for memory
    and seconds that are not above 0.
    """

    mesh: Mesh
    cluster: Cluster
    metric: PlanMetric = "time"
    memory: float | None = None
    placements: Mapping[TensorName, Any] | None = None
    time_limit: float = TIME_LIMIT
    walk: WalkOptions | None = None
    same: Mapping[TensorName, TensorName] | None = None

    def __post_init__(self) -> None:
        problems: list[EinmapError] = []
        if self.walk is not None and self.metric == "memory":
            hint = "give a limit on the memory, or search exactly"
            text = "a Metropolis walk makes time, bytes or energy small, not memory"
            problems.append(SpecError(text, hint=hint))
        elif self.walk is not None and self.walk.overlap and self.metric != "time":
            problems.append(SpecError(f"with overlap the walk makes time small, not {self.metric}"))
        if self.walk is not None and self.same:
            text = "a Metropolis walk does not know that a result lies as an input does"
            problems.append(SpecError(text, hint="search exactly, or fix both"))
        if self.metric not in PLAN_METRICS:
            hint = did_you_mean(str(self.metric), PLAN_METRICS, listing="metrics")
            problems.append(SpecError(f"no metric {short(self.metric)}", hint=hint))
        if self.memory is not None and not self.memory >= 1:
            problems.append(SpecError(f"{self.memory:g} bytes of memory; expected at least 1"))
        if not self.time_limit > 0:
            problems.append(SpecError(f"a time limit of {self.time_limit:g} s; expected more than 0"))
        raise_all(problems)

    @property
    def limit(self) -> float | None:
        """Bytes that no plan exceeds on any PE; None: no limit."""
        memory = self.memory if self.memory is not None else self.cluster.pe.memory
        return memory if np.isfinite(memory) else None


@dataclass(frozen=True)
class Planning:
    """A workload and what to plan for, checked. Raises SpecError where the mesh does not fit the cluster, a placement
    is wrong, or a tensor has more bytes than there can be (`cluster.LARGEST`).
    """

    __repr__ = brief

    workload: Workload
    request: PlanRequest

    def __post_init__(self) -> None:
        self.request.cluster.check(self.request.mesh)
        if self.request.metric == "energy" and not self.request.cluster.has_energies(self.request.mesh):
            raise SpecError(
                "the cluster gives no energy: of operations, of a PE's memory or of a link",
                hint="give `energy_per_operation` and `energy_per_bit` to the PE, `energy_per_bit` to axes",
            )
        raise_all([problem for tensor in self.context.sizes for problem in self._too_large(tensor)])

    def _too_large(self, tensor: TensorName) -> Iterator[EinmapError]:
        size = math.prod(self.context.sizes[tensor].values()) * self.bits[tensor] / 8
        if not size <= LARGEST:
            what = f"{tensor!r} has {size:g} bytes; at most {LARGEST:g} can be planned for"
            yield SpecError(what, hint="look at bits_per_value and the sizes of its ranks")

    @cached_property
    def model(self) -> ClusterCost:
        """What moves and Einsums cost."""
        return ClusterCost(self.request.cluster, self.request.metric)

    @cached_property
    def context(self) -> Context:
        """What requests are checked against."""
        return context_of(self.workload, self.request.mesh)

    @cached_property
    def asked(self) -> Request:
        """The placements that are asked for."""
        asked = checked_request(self.context, self.request.placements)
        same = {} if self.request.walk is not None else self.request.same
        return replace(asked, same=matching_ends(self.context, same))

    @cached_property
    def bits(self) -> Mapping[TensorName, float]:
        """Of a value of each tensor."""
        return {
            access.tensor: access.bits_per_value
            for einsum in reversed(self.workload.einsums)
            for access in reversed(einsum.accesses)
        }

    def space(self, limited: bool = False, progress: Progress | None = None) -> SearchSpace:
        """All that may be chosen, graph inputs wherever they serve best; `limited`: within a limit on memory."""
        return search_space(self.context, self.asked, self.model, self.bits, Options(True, limited), progress)


@dataclass(frozen=True)
class Best:
    """The best plan in its space, and the best one without the limit on memory, where the limit costs something.

    `memory`: bytes that no plan may exceed, None: any; `chosen`: None where no plan was found within it; `proven`: it
    is the best, or there is none; `walked`: what a Metropolis walk came to, where there was one; `least_peak`: for the
    metric `memory`, bytes that every plan needs at least.
    """

    __repr__ = brief

    space: SearchSpace
    memory: float | None
    chosen: ChosenPlan | None
    proven: bool
    unlimited: ChosenPlan | None = None
    walked: Walked | None = None
    least_peak: float | None = None


def best_plan(planning: Planning, progress: Progress | None = None) -> Best:
    """The best plan, or the best that a walk meets. Raises SpecError where no plan does what is asked, whatever the
    memory, and where none was found in time.
    """
    request, model = planning.request, planning.model
    if request.walk is not None:
        return _walked(planning, request.walk, progress)
    progress = (progress or Progress()).within(request.time_limit)
    free = planning.space(progress=progress)
    _tell(progress, "plans in any memory")
    unlimited = _in_any_memory(planning, free, progress)
    best_free, limit = chosen_plan(free, unlimited, model), request.limit
    if request.metric != "memory" and (limit is None or best_free.peak.bytes <= limit):
        return Best(free, limit, best_free, best_free.proven)
    space = planning.space(True, progress)
    _tell(progress, "plans within the memory")
    if request.metric == "memory":
        return _thriftiest(planning, space, best_free, progress)
    found = _within(planning, space, limit, progress)
    if isinstance(found, NotFound):
        return Best(space, limit, None, found.proven, best_free)
    # less memory is never cheaper
    found = replace(found, bound=max(found.bound, unlimited.bound))
    return Best(space, limit, chosen_plan(space, found, model), found.proven, best_free)


def _in_any_memory(planning: Planning, space: SearchSpace, progress: Progress | None) -> Found:
    found = cheapest(space, None, planning.request.time_limit, progress=progress)
    if isinstance(found, Found):
        return found
    if found.proven:
        raise no_way(planning.context, space, planning.asked)
    raise SpecError("no plan was found in the time there was, nor that there is none", hint="allow more time")


def _within(planning: Planning, space: SearchSpace, limit: float | None, progress: Progress | None) -> Found | NotFound:
    """The cheapest plan within a limit, or the cheapest that is known when the time is over."""
    return found_or_met(space, limit, cheapest(space, limit, planning.request.time_limit, progress=progress))


def _thriftiest(planning: Planning, space: SearchSpace, best_free: ChosenPlan, progress: Progress | None) -> Best:
    """The fastest of the plans with the least peak memory, as far as that is known."""
    limit, model = planning.request.limit, planning.model
    half = planning.request.time_limit / 2
    least = thriftiest(space, half, (progress or Progress()).within(half))
    least = thriftiest_or_met(space, best_free.peak.bytes, least)
    least_peak = least.bound if isinstance(least, Found) else 0.0
    if isinstance(least, Found):
        limit = min(limit or np.inf, least.cost * (1 + LEAST_SLACK))
    found = _within(planning, space, limit, progress)
    if isinstance(found, Found):
        chosen = chosen_plan(space, found, model)
    elif isinstance(least, Found) and least.cost <= (limit or np.inf):
        chosen = _timed(chosen_plan(space, least, model))
    else:
        return Best(space, limit, None, found.proven, best_free, least_peak=least_peak)
    if not (chosen.proven and least.proven):
        # a plan with less memory is not the faster one
        chosen = replace(chosen, proven=False, bound=min(chosen.bound, best_free.bound))
    return Best(space, limit, chosen, chosen.proven, best_free, least_peak=least_peak)


def _timed(chosen: ChosenPlan) -> ChosenPlan:
    """A plan whose cost is its peak memory with what it costs in s."""
    return replace(chosen, cost=sum(part.cost for part in chosen.parts), proven=False)


def _walked(planning: Planning, options: WalkOptions, progress: Progress | None) -> Best:
    limit = planning.request.limit
    space = planning.space(limit is not None, progress)
    walked = walk(space, options, limit, planning.request.cluster, progress)
    if walked.found is not None:
        chosen = chosen_plan(space, walked.found, planning.model)
        return Best(space, limit, chosen, chosen.proven, walked=walked)
    _in_any_memory(planning, space, progress)
    return Best(space, limit, None, proven=False, walked=walked)


def thriftiest_plan(planning: Planning, progress: Progress | None = None) -> ChosenPlan | None:
    """A plan with the least peak memory, as far as it is known; None where none was found in time."""
    space = planning.space(True, progress)
    least = thriftiest(space, planning.request.time_limit, progress)
    return None if isinstance(least, NotFound) else chosen_plan(space, least, planning.model)


def _tell(progress: Progress | None, what: str) -> None:
    if progress is not None:
        progress.report(what, 0)
