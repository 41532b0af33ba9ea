"""distribute(): from a workload, a mesh and placements to a plan.

Einsums are taken in order. For each of them the ways to spread it (`choices`) are priced: what it costs to bring its
operands from where they lie to where it reads them (`moves.cheapest_route`), and its results to where they are wanted.
The cheapest sequence of ways is kept: fewest values sent, then fewest points evaluated per PE, then fewest moves, then
the first found. Different ways leave tensors in different places for the Einsums that follow, so the `BEAM` cheapest
placements of what is still needed are carried along: exact as long as there are no more of them.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from einmap.distribute.actions import Computed, Moved, PlanAction
from einmap.distribute.choices import Scene, choices, pinned_choices
from einmap.distribute.indices import mixed_radix
from einmap.distribute.mesh import Mesh
from einmap.distribute.moves import Route, cheapest_route
from einmap.distribute.naming import named_plan
from einmap.distribute.overlap import overlapped
from einmap.distribute.placement import REPLICATED, Placement
from einmap.distribute.plan import BYTES, Dtype, Plan
from einmap.distribute.request import Context, Locate, Request, checked_request, no_place
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.numeric import check_operation, graph_inputs, rank_sizes
from einmap.einsum.projection import Rank
from einmap.einsum.workload import Workload
from einmap.errors import EinmapError, NotSupportedError, SpecError, raise_all

BEAM = 24
"""Placements of the tensors still needed that are followed at a time."""
MAX_WAYS = 5000
"""Ways to spread one Einsum that are tried."""

type Sizes = Mapping[TensorName, tuple[tuple[Rank, int], ...]]


@dataclass(frozen=True, slots=True)
class State:
    """What has been done so far, and how the tensors that are still needed lie, in all their versions.

    `cost`: values that all PEs send, points per PE, moves.
    """

    held: Mapping[TensorName, tuple[Placement, ...]]
    actions: tuple[PlanAction, ...] = ()
    cost: tuple[int, int, int] = (0, 0, 0)


def distribute(
    workload: Workload,
    mesh: Mesh | Mapping[str, int],
    placements: Mapping[str, Any] | None = None,
    *,
    loops: Mapping[str, Any] | None = None,
    overlap: Iterable[str] = (),
    dtype: Dtype = "float64",
    imperfect: bool = True,
    locate: Locate = no_place,
) -> Plan:
    """The cheapest plan for `workload` on `mesh` with tensors placed as asked.

    `placements`: by tensor, the mesh axes that each split rank is split over: `{"A": {"K": "x"}, "Z": {"M": "x"}}`.
    Graph inputs that are not named are replicated; other tensors lie as it is cheapest, but complete: outputs that are
    partial sums are summed on every PE. `loops`: pins how an Einsum is spread, e.g. `{"Z": {"k": "x"}}`. `overlap`:
    Einsums whose reduce-scatter is done chunk by chunk while the next chunk is computed. `imperfect`: whether ranks may
    be split in blocks of which the last ones are shorter.

    Raises SpecError (several problems together) for what is unknown or does not fit, NotSupportedError for what cannot
    be distributed, with the reason.
    """
    mesh = mesh if isinstance(mesh, Mesh) else Mesh(tuple(mesh.items()))
    if dtype not in BYTES:
        raise SpecError(f"values are {' or '.join(BYTES)}, not {dtype!r}", at=locate(("dtype",)))
    _check_supported(workload)
    sizes = tensor_sizes(workload)
    context = Context(workload, mesh, {t: dict(ranks) for t, ranks in sizes.items()}, imperfect, locate)
    request = checked_request(context, placements, loops, overlap)
    actions = _cheapest(context, sizes, request)
    inputs = {tensor: request.placements.get(tensor, REPLICATED) for tensor in graph_inputs(workload)}
    plan = named_plan(mesh, workload, sizes, inputs, actions, dtype)
    for einsum in workload.einsum_names:
        if einsum in request.overlap:
            plan = overlapped(plan, einsum, locate(("overlap",)))
    return plan


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
    if einsum.cuts:
        raise NotSupportedError(
            f"the iteration space of Einsum {einsum.name!r} is not a hyperrectangle: {' and '.join(einsum.cuts)}; "
            "only boxes can be distributed",
            hint="leave the rank whole, it is split evenly by its placement: imperfect splits are no bound",
        )
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
        if access.output and einsum.is_copy and set(einsum.rank_variables) - set(written):
            raise NotSupportedError(f"the copy {einsum.name!r} writes elements of {access.tensor!r} several times")


# search


def _cheapest(context: Context, sizes: Sizes, request: Request) -> tuple[PlanAction, ...]:
    """The actions of the cheapest state after the last Einsum."""
    workload, mesh = context.workload, context.mesh
    start = {tensor: (request.placements.get(tensor, REPLICATED),) for tensor in graph_inputs(workload)}
    states = [State(start)]
    for position, einsum in enumerate(workload.einsums):
        needed = {tensor for later in workload.einsums[position + 1 :] for tensor in later.inputs}
        scene = Scene(mesh, context.sizes, einsum)
        reached = [after for state in states for after in _after(scene, sizes, state, request)]
        if not reached:
            raise _no_way(context, einsum, request)
        states = _best([_forget(state, needed, workload) for state in reached])
    finished = [_finish(mesh, sizes, state, request) for state in states]
    return min(finished, key=lambda state: state.cost).actions


def _after(scene: Scene, sizes: Sizes, state: State, request: Request) -> Iterator[State]:
    """The state after one Einsum, for each way to spread it."""
    pinned = request.loops.get(scene.einsum.name)
    ways = (
        choices(scene, state.held, request.placements)
        if pinned is None
        else pinned_choices(scene, state.held, request.placements, pinned)
    )
    for number, choice in enumerate(ways):
        if number >= MAX_WAYS:
            raise SpecError(
                f"there are more than {MAX_WAYS:,} ways to spread Einsum {scene.einsum.name!r} over the mesh",
                hint="choose one of them with `loops`, or place tensors over fewer axes",
            )
        after: State | None = state
        for tensor, placement in choice.operands:
            after = _brought(scene.mesh, sizes, after, tensor, placement) if after else None
        if after is None:
            continue
        sent, points, moves = after.cost
        held = {**after.held, **{tensor: (placement,) for tensor, placement in choice.results}}
        actions = (*after.actions, Computed(scene.einsum.name, choice))
        after = State(held, actions, (sent, points + choice.points, moves))
        for tensor, _ in choice.results:
            if after is not None and tensor in request.placements:
                target = request.placements[tensor]
                after = _brought(scene.mesh, sizes, after, tensor, target)
                # what is asked for is where later Einsums find it
                after = State({**after.held, tensor: (target,)}, after.actions, after.cost) if after else None
        if after is not None:
            yield after


def _brought(mesh: Mesh, sizes: Sizes, state: State, tensor: TensorName, target: Placement) -> State | None:
    """The state in which a version of the tensor lies as `target`; None where there is no way."""
    route = cheapest_route(mesh, sizes[tensor], state.held[tensor], target)
    if route is None:
        return None
    return _travelled(state, tensor, route)


def _travelled(state: State, tensor: TensorName, route: Route) -> State:
    before, versions = route.start, state.held[tensor]
    actions: list[PlanAction] = []
    for hop in route.hops:
        if hop.after not in versions:
            actions.append(Moved(tensor, before, hop))
            versions = (*versions, hop.after)
        before = hop.after
    sent, points, moves = state.cost
    cost = (sent + route.sent_values, points, moves + len(actions))
    return State({**state.held, tensor: versions}, (*state.actions, *actions), cost)


def _forget(state: State, needed: set[TensorName], workload: Workload) -> State:
    """Without the tensors that nobody reads any more; outputs are kept."""
    kept = {
        tensor: versions
        for tensor, versions in state.held.items()
        if tensor in needed or (tensor in workload.producers and not workload.consumers[tensor])
    }
    return State(kept, state.actions, state.cost)


def _best(states: list[State]) -> list[State]:
    """The cheapest state for each way in which tensors lie, the cheapest BEAM of them."""
    best: dict[frozenset[tuple[TensorName, frozenset[Placement]]], State] = {}
    for state in states:
        lies = frozenset((tensor, frozenset(versions)) for tensor, versions in state.held.items())
        if lies not in best or state.cost < best[lies].cost:
            best[lies] = state
    return heapq.nsmallest(BEAM, best.values(), key=lambda state: state.cost)


def _finish(mesh: Mesh, sizes: Sizes, state: State, request: Request) -> State:
    """Outputs that nobody has placed are completed where they are partial."""
    for tensor, versions in state.held.items():
        if tensor not in request.placements and all(version.partial for version in versions):
            targets = [Placement(version.splits) for version in versions]
            reached = [_brought(mesh, sizes, state, tensor, target) for target in targets]
            state = min((after for after in reached if after is not None), key=lambda after: after.cost)
    return state


def _no_way(context: Context, einsum: Einsum, request: Request) -> SpecError:
    """Why no way to spread the Einsum exists: it is pinned to what cannot be, or a partial result is asked for."""
    if einsum.name in request.loops:
        loops = ", ".join(f"{variable} over {'*'.join(axes)}" for variable, axes in request.loops[einsum.name].items())
        return context.error(
            ("loops", einsum.name),
            f"Einsum {einsum.name!r} cannot be spread with {loops}: a result would be split in a rank that is not led "
            "by its rank variable, or would not come out as it is asked for",
            "split the rank variable that leads each index, or leave the loops of this Einsum out",
        )
    tensor = next(tensor for tensor in sorted(einsum.outputs) if tensor in request.placements)
    axes = "*".join(request.placements[tensor].partial)
    return context.error(
        ("placements", tensor),
        f"{tensor!r} cannot be a partial sum over {axes}: Einsum {einsum.name!r} sums nothing over it that is split so",
        f"pin the Einsum with loops, such as {{{einsum.name}: {{VARIABLE: {axes}}}}}",
    )
