"""distribute_workload(): from a workload, a mesh and placements to a plan, the cheapest that the exact search finds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from einmap.distribute.costs.cost_model import CostModel, traffic_first
from einmap.distribute.placements.indices import mixed_radix
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import REPLICATED
from einmap.distribute.placements.request import Context, Locate, Request, checked_request, no_place
from einmap.distribute.plans.cuts import check_cuts
from einmap.distribute.plans.plan import BYTES, Dtype, Plan
from einmap.distribute.rewrites.overlap import overlapped
from einmap.distribute.rewrites.prefetch import prefetched
from einmap.distribute.rewrites.turns import in_turns
from einmap.distribute.search.search import NotFound, cheapest
from einmap.distribute.search.space import Options, SearchSpace, search_space
from einmap.distribute.steps.actions import PlanAction
from einmap.distribute.steps.naming import named_plan
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.numeric import check_operation, graph_inputs, rank_sizes
from einmap.einsum.spaces.projection import Rank
from einmap.einsum.spaces.recurrence import refuse_recurrences
from einmap.einsum.workload import Workload
from einmap.errors import EinmapError, NotSupportedError, SpecError, did_you_mean, raise_all
from einmap.visible import short


def distribute_workload(
    workload: Workload,
    mesh: Mesh | Mapping[str, int],
    placements: Mapping[str, Any] | None = None,
    *,
    loops: Mapping[str, Any] | None = None,
    overlap: Iterable[str] = (),
    turns: Iterable[Mapping[str, Any]] = (),
    prefetch: Mapping[str, str] | None = None,
    dtype: Dtype = "float64",
    imperfect: bool = True,
    cost: CostModel | None = None,
) -> Plan:
    """The cheapest plan for `workload` on `mesh` with tensors placed as asked.

    `placements`: by tensor, the mesh axes that each split rank is split over: `{"A": {"K": "x"}, "Z": {"M": "x"}}`.
    Graph inputs that are not named are replicated; other tensors lie as it is cheapest, but complete: outputs that are
    partial sums are summed on every PE. `loops`: pins how an Einsum is spread, e.g. `{"Z": {"k": "x"}}`. `overlap`:
    Einsums whose reduce-scatter is done chunk by chunk while the next chunk is computed. `turns`: Einsums that go over
    a rank variable block by block, while the blocks of what they would gather travel from PE to PE: `[{"einsums":
    ["Z"], "over": {"k": "x"}}]`. `prefetch`: tensors that are moved while an Einsum before their reader runs, e.g.
    `{"W2": "U"}`. `imperfect`: whether ranks may be split in blocks of which the last ones are shorter. `cost`: what is
    least; without, bytes that are sent and operations together, 1,000 operations worth a byte
    (`cost_model.traffic_first`).

    Raises SpecError (several problems together) for what is unknown or does not fit, NotSupportedError for what cannot
    be distributed, with the reason.
    """
    mesh = mesh if isinstance(mesh, Mesh) else Mesh(tuple(mesh.items()))
    context = context_of(workload, mesh, imperfect)
    request = checked_request(context, placements, loops, overlap, turns, prefetch)
    return cheapest_plan(context, request, dtype, cost or traffic_first(mesh))


def context_of(workload: Workload, mesh: Mesh, imperfect: bool = True, locate: Locate = no_place) -> Context:
    """The context that requests are checked against. Raises NotSupportedError for what cannot be distributed, with the
    reason.
    """
    refuse_recurrences(workload.recurrences, "distribution", locate(()))
    _check_supported(workload)
    sizes = {tensor: dict(ranks) for tensor, ranks in tensor_sizes(workload).items()}
    return Context(workload, mesh, sizes, imperfect, locate)


def cheapest_plan(context: Context, request: Request, dtype: Dtype, cost: CostModel) -> Plan:
    """The cheapest plan that does as requested. Raises SpecError where there is none, or for an unknown type."""
    check_dtype(dtype, context.locate)
    return plan_from(context, request, _cheapest(context, request, cost, dtype), dtype)


def plan_from(context: Context, request: Request, actions: Sequence[PlanAction], dtype: Dtype) -> Plan:
    """The plan that does `actions`, graph inputs put where `request` says, results in chunks where it says so.

    Raises SpecError, with the reason, where a result cannot be made in chunks.
    """
    workload = context.workload
    inputs = {tensor: request.placements.get(tensor, REPLICATED) for tensor in graph_inputs(workload)}
    plan = named_plan(context.mesh, workload, tensor_sizes(workload), inputs, actions, dtype)
    for einsum in workload.einsum_names:
        if einsum in request.overlap:
            plan = overlapped(plan, einsum, context.locate(("overlap",)))
    for tensor, while_it_runs in request.prefetch:
        plan = prefetched(plan, tensor, while_it_runs, context.locate(("prefetch", tensor)))
    for position, turns in enumerate(request.turns):
        plan = in_turns(plan, turns, context.locate(("turns", position)))
    return plan


def check_dtype(dtype: object, locate: Locate = no_place) -> None:
    """Raise SpecError for a type of values that plans do not have."""
    if dtype not in BYTES:
        hint = did_you_mean(str(dtype), BYTES, listing="types")
        raise SpecError(f"values are {' or '.join(BYTES)}, not {short(dtype)}", at=locate(("dtype",)), hint=hint)


def tensor_sizes(workload: Workload) -> dict[TensorName, tuple[tuple[Rank, int], ...]]:
    """The size of each rank of each tensor, by the rule of `numeric.rank_sizes`."""
    return {tensor: tuple(sizes.items()) for tensor, sizes in rank_sizes(workload).items()}


def _check_supported(workload: Workload) -> None:
    problems: list[EinmapError] = []
    for einsum in workload.einsums:
        try:
            _check_einsum(einsum)
        except EinmapError as problem:
            problems.append(problem)
    raise_all(problems)


def _check_einsum(einsum: Einsum) -> None:
    check_operation(einsum)
    check_cuts(einsum)
    for access in einsum.accesses:
        for rank, index in access.projection if access.output else ():
            if mixed_radix(einsum, index) is None:
                raise NotSupportedError(
                    f"Einsum {einsum.name!r} writes rank {rank} of {access.tensor!r} at {index}: results can be "
                    "distributed only where every coordinate is written by its own values of the rank variables",
                    hint="write rank variables alone, or joined as digits such as 16*h + f",
                )
        written = [v for _, index in access.projection for v, _ in index.terms]
        if access.output and len(written) != len(set(written)):
            raise NotSupportedError(f"Einsum {einsum.name!r} writes a diagonal of {access.tensor!r}")
        summed = (v for v in einsum.rank_variables if v not in written and einsum.extents[v] > 1)
        if access.output and einsum.is_copy and any(summed):
            raise NotSupportedError(f"the copy {einsum.name!r} writes elements of {access.tensor!r} several times")


# search


def _cheapest(context: Context, request: Request, model: CostModel, dtype: Dtype) -> tuple[PlanAction, ...]:
    """The actions of the cheapest plan."""
    bits = dict.fromkeys(context.workload.tensors, 8.0 * BYTES[dtype])
    space = search_space(context, request, model, bits, Options())
    found = cheapest(space)
    if isinstance(found, NotFound):
        raise no_way(context, space, request)
    return found.actions


def no_way(context: Context, space: SearchSpace, request: Request) -> SpecError:
    """Why no plan exists, whatever the memory: a partial result is asked for, or pinned loops do not allow one."""
    for einsum in context.workload.einsums:
        for access, lies in zip(einsum.accesses, space.ways[einsum.name].lies, strict=True):
            homes = space.homes[access.tensor]
            if not access.output or np.isfinite(homes.paths.distances[np.ix_(lies, homes.first)]).any():
                continue
            axes = "*".join(request.placements[access.tensor].partial)
            return context.error(
                ("placements", access.tensor),
                f"{access.tensor!r} cannot be a partial sum over {axes}: Einsum {einsum.name!r} sums nothing over it "
                "that is split so",
                f"pin the Einsum with loops, such as {{{einsum.name}: {{VARIABLE: {axes}}}}}",
            )
    return context.error((), "no plan has these placements and loops together", "leave some of them out")
