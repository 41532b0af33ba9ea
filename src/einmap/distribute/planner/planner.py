"""The best plan and the best ones that differ from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from einmap.distribute.cluster import Cluster
from einmap.distribute.cost_model import ClusterCost, PlanMetric, operations_per_point
from einmap.distribute.derive import context_of, no_way
from einmap.distribute.lifetimes import PeakMemory
from einmap.distribute.mesh import Mesh
from einmap.distribute.planner.chosen import ChosenPlan, chosen_plan
from einmap.distribute.request import checked_request
from einmap.distribute.search.search import Found, NotFound, cheapest, thriftiest
from einmap.distribute.search.space import Options, SearchSpace, search_space
from einmap.distribute.selection.solve import TIME_LIMIT
from einmap.einsum.einsum import TensorName
from einmap.einsum.workload import Workload
from einmap.errors import SpecError
from einmap.units import format_bits
from einmap.visible import brief

HEAVIEST = 4
"""Einsums of which other ways are tried, those with the most operations."""
ALTERNATIVES = 3
LEAST_SLACK = 1e-6
"""Part of the least memory that is added to it when the cheapest of the thriftiest plans is searched."""


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan for. `memory`: bytes on each PE, None: the memory of the cluster's PE; `placements`: tensors that
    lie where they are told, as in `distribute`; `time_limit`: seconds for each integer program.
    """

    mesh: Mesh
    cluster: Cluster
    metric: PlanMetric = "time"
    memory: float | None = None
    placements: Mapping[TensorName, Any] | None = None
    time_limit: float = TIME_LIMIT


@dataclass(frozen=True)
class Planned:
    """The best plan; the best that differ from it in the spread of a heavy Einsum; and the best without the limit on
    memory, where the limit costs something.
    """

    __repr__ = brief

    request: PlanRequest
    memory: float | None
    best: ChosenPlan
    others: tuple[ChosenPlan, ...]
    unlimited: ChosenPlan | None


def plan_workload(workload: Workload, request: PlanRequest) -> Planned:
    """The best plan: placements of all tensors and loops of all Einsums, graph inputs wherever they serve best.

    Raises SpecError where the mesh does not fit the cluster, a placement is wrong, or no plan keeps to the memory: how
    much is missing, and for which tensors.
    """
    request.cluster.check(request.mesh)
    model = ClusterCost(request.cluster, request.metric)
    context = context_of(workload, request.mesh)
    asked = checked_request(context, request.placements)
    bits = {tensor: _bits(workload, tensor) for tensor in workload.tensors}
    memory = request.memory if request.memory is not None else request.cluster.pe.memory
    limit = memory if np.isfinite(memory) else None
    free = search_space(context, asked, model, bits, Options(free_inputs=True))
    unlimited = cheapest(free, None, request.time_limit)
    if isinstance(unlimited, NotFound):
        raise no_way(context, free, asked)
    best_free = chosen_plan(free, unlimited, model)
    if request.metric != "memory" and (limit is None or best_free.peak.bytes <= limit):
        return Planned(request, limit, best_free, _others(free, best_free, model, request, None), None)
    space = search_space(context, asked, model, bits, Options(free_inputs=True, limited=True))
    if request.metric == "memory":
        least = thriftiest(space, request.time_limit)
        if isinstance(least, Found):
            limit = min(limit or np.inf, least.cost * (1 + LEAST_SLACK))
    found = cheapest(space, limit, request.time_limit)
    if isinstance(found, NotFound):
        raise _too_little(space, model, memory, found, request)
    if unlimited.proven and request.metric != "memory":
        # less memory is never cheaper
        found = replace(found, bound=max(found.bound, unlimited.bound))
    best = chosen_plan(space, found, model)
    return Planned(request, limit, best, _others(space, best, model, request, limit), best_free)


def _bits(workload: Workload, tensor: TensorName) -> float:
    return next(
        access.bits_per_value for einsum in workload.einsums for access in einsum.accesses if access.tensor == tensor
    )


def _others(
    space: SearchSpace, best: ChosenPlan, model: ClusterCost, request: PlanRequest, limit: float | None
) -> tuple[ChosenPlan, ...]:
    """The best plans in each of which one heavy Einsum is spread in another way than in the best plan."""
    made: list[ChosenPlan] = []
    einsums = sorted(space.context.workload.einsums, key=lambda one: -one.n_computes * operations_per_point(one))
    for einsum in einsums[:HEAVIEST]:
        taken = best.loops[einsum.name]
        same = np.array(
            [
                {loop.variable: loop.axes for loop in choice.loops if loop.is_split} == taken
                for choice in space.ways[einsum.name].choices
            ]
        )
        found = cheapest(space, limit, request.time_limit, {einsum.name: same})
        if isinstance(found, Found):
            other = chosen_plan(space, found, model)
            if all(other.loops != earlier.loops for earlier in made):
                made.append(other)
    return tuple(sorted(made, key=lambda one: one.cost)[:ALTERNATIVES])


def _too_little(
    space: SearchSpace, model: ClusterCost, memory: float, found: NotFound, request: PlanRequest
) -> SpecError:
    """How much is missing, for which tensors, and what helps."""
    if not found.proven:
        return SpecError(
            f"no plan within {format_bits(8 * memory)} was found in {request.time_limit:g} s, nor that there is none",
            hint="allow more time",
        )
    least = thriftiest(space, request.time_limit)
    if isinstance(least, NotFound):
        return SpecError(f"no plan keeps to {format_bits(8 * memory)} on each PE", hint="lay the mesh over more PEs")
    plan = chosen_plan(space, least, model)
    peak = plan.peak
    held = ", ".join(f"{tensor} {format_bits(8 * size)}" for tensor, size in _largest(plan, peak))
    return SpecError(
        f"no plan keeps to {format_bits(8 * memory)} on each PE: the thriftiest needs {format_bits(8 * peak.bytes)}, "
        f"{format_bits(8 * (peak.bytes - memory))} more; then it holds {held}",
        hint=f"allow {format_bits(8 * peak.bytes)}, or lay the mesh over more PEs",
    )


def _largest(plan: ChosenPlan, peak: PeakMemory) -> list[tuple[str, float]]:
    """The four tensors that take most of a peak, in bytes."""
    sizes: dict[str, float] = {}
    for name in peak.buffers:
        buffer = plan.plan.by_name[name]
        sizes[buffer.tensor] = (
            sizes.get(buffer.tensor, 0.0) + float(np.prod(buffer.shape)) * plan.bits[buffer.tensor] / 8
        )
    return sorted(sizes.items(), key=lambda item: -item[1])[:4]
