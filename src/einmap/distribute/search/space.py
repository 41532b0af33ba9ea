"""The ways of each Einsum and the homes of each tensor, with their costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.choices import Addend, Choice, Scene, choices, passes
from einmap.distribute.costs.cost_model import (
    CostModel,
    EinsumCost,
    LocalWork,
    SlowEinsumCost,
    hop_cost,
    operations_per_point,
)
from einmap.distribute.hops.hop import Hop
from einmap.distribute.hops.shortest import Paths, TensorPlaces, shortest_paths
from einmap.distribute.placements.blocks import Blocks, Offer, offered_blocks, windowed
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import MeshPart, Placement, parts_of_mesh
from einmap.distribute.placements.request import Context, Request
from einmap.distribute.plans.plan import LocalLoop
from einmap.distribute.plans.points import points_of
from einmap.distribute.search.homes import Costs, HomeRole, Homes, Numbers, homes_of
from einmap.einsum.einsum import Einsum, TensorName
from einmap.einsum.operation import Apply, MapExpression, Operand
from einmap.errors import SpecError
from einmap.progress import Interrupted, Progress, checkpoint, interruptible


@dataclass(frozen=True, eq=False)
class Ways:
    """The ways to spread one Einsum. `costs`: of computing; `lies`: for each access the number of its placement.

    `slow`: what finds out the costs where that takes long, by the `works` of the ways: `costs` are lower bounds then.
    """

    choices: tuple[Choice, ...]
    costs: Costs
    lies: tuple[Numbers, ...]
    slow: SlowEinsumCost | None = None
    works: tuple[LocalWork, ...] = ()

    @cached_property
    def used(self) -> tuple[Numbers, ...]:
        """For each access the numbers of the placements that some way uses, ascending."""
        return tuple(np.unique(lies) for lies in self.lies)

    def only(self, kept: NDArray[np.bool_]) -> Ways:
        """Some of them."""
        numbers = np.nonzero(kept)[0]
        choices = tuple(self.choices[number] for number in numbers)
        works = tuple(self.works[number] for number in numbers) if self.works else ()
        return Ways(choices, self.costs[kept], tuple(lies[kept] for lies in self.lies), self.slow, works)


@dataclass(frozen=True, eq=False)
class SearchSpace:
    """All that may be chosen. `bits`: of a value of each tensor; `cut`: tensors whose pairs of homes are not listed,
    for there are too many; `floor`: None, or where not all plans are in the space what any plan costs at least;
    `same`: results that end where graph inputs begin.
    """

    context: Context
    bits: Mapping[TensorName, float]
    ways: Mapping[str, Ways]
    homes: Mapping[TensorName, Homes]
    cut: tuple[TensorName, ...] = ()
    floor: float | None = None
    same: tuple[tuple[TensorName, TensorName], ...] = ()


@dataclass(frozen=True, slots=True)
class Options:
    """`free_inputs`: graph inputs without a placement lie anywhere; else they are replicated. `limited`: memory will be
    limited, so that what saves memory alone is kept in the space. `allow`: whether an Einsum may be spread by these
    loops; `keep`: whether a tensor may be kept so; what has no such way or home keeps all.
    """

    free_inputs: bool = False
    limited: bool = False
    allow: Callable[[Einsum, Sequence[LocalLoop]], bool] | None = None
    keep: Callable[[TensorName, Placement], bool] | None = None


def search_space(
    context: Context,
    request: Request,
    model: CostModel,
    bits: Mapping[TensorName, float],
    options: Options,
    progress: Progress | None = None,
) -> SearchSpace:
    """The space of a request; a smaller one with a `floor` where a tensor has too many placements, or where `progress`
    ends the listing or half of its time is over by then.

    Raises SpecError where a tensor has too many placements even so, or an Einsum no way.
    """
    also = tuple(split.axes for placement in request.placements.values() for split in placement.splits)
    also += tuple(axes for loops in request.loops.values() for axes in loops.values())
    floor, too_many = None, None
    for offer in (Offer(), Offer(False), *(Offer(False, order, also) for order in ("mesh", "single", "nested"))):
        if offer == Offer(False) and not any(windowed(context.workload)):
            continue
        timed = None if progress is None or offer.order == "nested" else progress.within(progress.seconds_left() / 2)
        try:
            with interruptible(timed):
                return _space(context, request, model, bits, options, offer, floor)
        except _TooMany as error:
            too_many = too_many or error
        except Interrupted:
            pass
        floor = least_of_all(context, model, bits)
    assert too_many is not None
    raise too_many


class _TooMany(SpecError):
    """A tensor has too many placements."""


def least_of_all(context: Context, model: CostModel, bits: Mapping[TensorName, float]) -> float:
    """Least cost of any plan: each Einsum spread evenly over all PEs, which then read and write an equal part of
    each tensor, and no moves. What takes long to find out counts nothing.
    """
    total, parts = 0.0, context.mesh.n_devices
    for einsum in context.workload.einsums:
        cost = model.of(einsum)
        if isinstance(cost, SlowEinsumCost):
            continue
        operations = _points(einsum) / parts * operations_per_point(einsum)
        values = ((math.prod(context.sizes[a.tensor].values()), bits[a.tensor]) for a in einsum.accesses)
        moved = sum(count / parts * width for count, width in values)
        # on no PE a value is narrower than the narrowest
        width = max(bits[access.tensor] for access in einsum.accesses)
        total += cost.compute(context.mesh, LocalWork((), operations, operations, moved, width))
    return total


def _points(einsum: Einsum) -> float:
    """Points of the iteration space that all PEs together evaluate, at least."""
    whole = tuple(LocalLoop(variable, (), extent, extent) for variable, extent in einsum.extents.items())
    return points_of(einsum, whole, Mesh((("all", 1),))).mean


def _space(
    context: Context,
    request: Request,
    model: CostModel,
    bits: Mapping[TensorName, float],
    options: Options,
    offer: Offer,
    floor: float | None,
) -> SearchSpace:
    """The space of what is offered; `floor`: what any plan costs at least, where that is not all."""
    workload = context.workload
    addends = _addends(context, request)
    blocks = offered_blocks(workload, context.mesh, context.sizes, request.placements.items(), context.imperfect, offer)
    places = {tensor: _places_of(context, request, blocks, addends.get(tensor), tensor) for tensor in workload.tensors}
    paths = {tensor: _named_paths(some, model, bits[tensor]) for tensor, some in places.items()}
    ways: dict[str, Ways] = {}
    made: dict[tuple[Ways, bytes], Ways] = {}
    for einsum in workload.einsums:
        scene = replace(_scene(context, einsum, blocks, addends), on=_parts_asked_for(request))
        pinned = request.loops.get(einsum.name)
        key = None if pinned is None else tuple(sorted(pinned.items()))
        widths = tuple(bits[access.tensor] for access in einsum.accesses)
        lies = tuple(places[access.tensor] for access in einsum.accesses)
        ways[einsum.name] = _ways(scene, key, lies, model.of(einsum), widths)
        if not ways[einsum.name].choices:
            raise no_way_to_spread(context, einsum, request)
        if options.allow is not None:
            some = ways[einsum.name]
            kept = np.array([options.allow(einsum, choice.loops) for choice in some.choices])
            if kept.any() and not kept.all():
                # equal ways stay one object
                ways[einsum.name] = made.setdefault((some, kept.tobytes()), some.only(kept))
    homes = {tensor: _homes_of(context, request, tensor, paths[tensor], ways, options) for tensor in workload.tensors}
    cut = tuple(tensor for tensor in homes if homes[tensor].cut)
    return SearchSpace(context, bits, ways, homes, cut, floor, request.same)


def _parts_asked_for(request: Request) -> tuple[MeshPart, ...]:
    return parts_of_mesh(placement.on for placement in request.placements.values())


def no_way_to_spread(context: Context, einsum: Einsum, request: Request) -> SpecError:
    """Why an Einsum that is pinned by loops cannot be spread."""
    loops = ", ".join(f"{variable} over {'*'.join(axes)}" for variable, axes in request.loops[einsum.name].items())
    return context.error(
        ("loops", einsum.name),
        f"Einsum {einsum.name!r} cannot be spread with {loops}: a result would be split in a rank that is not led "
        "by its rank variable, or would not come out as it is asked for",
        "split the rank variable that leads each index, or leave the loops of this Einsum out",
    )


# what may be a partial sum


def _addends(context: Context, request: Request) -> dict[TensorName, Addend]:
    """For each tensor that may be in parts, how they are joined and over which axes."""
    axes = tuple(name for name, size in context.mesh.axes if size > 1)
    addends: dict[TensorName, Addend] = {
        tensor: (placement.reduction, placement.partial)
        for tensor, placement in request.placements.items()
        if placement.partial and tensor not in context.workload.producers
    }
    for einsum in context.workload.einsums:
        for access in einsum.accesses:
            if not access.output or not axes:
                continue
            reduction = einsum.operation.reduction
            if not einsum.is_copy and any(variable not in access.variables for variable in einsum.rank_variables):
                addends[access.tensor] = reduction, axes
                continue
            read = {tensor: addends[tensor] for tensor in einsum.inputs if tensor in addends}
            for kind in sorted({kind for kind, _ in read.values()}):
                tensors = [tensor for tensor, (other, _) in read.items() if other == kind]
                if any(passes(einsum, frozenset({tensor}), kind) for tensor in tensors) or passes(
                    einsum, frozenset(tensors), kind
                ):
                    addends[access.tensor] = kind, axes
    return addends


# Einsums


def _scene(context: Context, einsum: Einsum, blocks: Blocks, addends: Mapping[TensorName, Addend]) -> Scene:
    number = {access.tensor: str(position) for position, access in enumerate(einsum.accesses)}
    bare = replace(
        einsum,
        name="",
        accesses=tuple(
            replace(access, tensor=number[access.tensor], bits_per_value=1, persistent=False)
            for access in einsum.accesses
        ),
        operation=replace(einsum.operation, map=_renamed(einsum.operation.map, number), text=""),
        n_instances=1,
    )
    return Scene(
        context.mesh,
        bare,
        tuple(tuple(context.sizes[access.tensor].items()) for access in einsum.accesses),
        tuple((variable, blocks.parts[einsum.name, variable]) for variable in einsum.rank_variables),
        tuple((number[t], addends[t]) for t in number if t in addends and t in einsum.inputs),
    )


def _renamed(expression: MapExpression | None, names: Mapping[TensorName, str]) -> MapExpression | None:
    match expression:
        case Operand(tensor):
            return Operand(names.get(tensor, tensor))
        case Apply(function, arguments):
            return Apply(function, tuple(_renamed(argument, names) or argument for argument in arguments))
    return expression


@lru_cache(maxsize=1000)
def _ways(
    scene: Scene,
    pinned: tuple[tuple[str, tuple[str, ...]], ...] | None,
    places: tuple[TensorPlaces, ...],
    cost: EinsumCost,
    bits: tuple[float, ...],
) -> Ways:
    """The ways whose placements are among `places`; of several that lie alike the cheapest, or all that differ in what
    a PE does where only lower bounds are known.
    """
    slow = cost if isinstance(cost, SlowEinsumCost) else None
    best: dict[tuple[tuple[int, ...], LocalWork | None], tuple[float, Choice, LocalWork]] = {}
    for choice in choices(scene, pinned):
        checkpoint()
        lies = tuple(place.number.get(lie, -1) for place, lie in zip(places, choice.placements, strict=True))
        if -1 in lies:
            continue
        lying = [*zip(places, lies, bits, strict=True)]
        moved = sum(float(place.values[lie]) * width for place, lie, width in lying)
        actual = sum(float(place.actual[lie]) * width for place, lie, width in lying)
        work = LocalWork.of(scene.einsum, choice.loops, choice.points, (moved, actual), max(bits))
        value = slow.least(scene.mesh, work) if slow else cost.compute(scene.mesh, work)
        key = lies, work if slow else None
        if key not in best or value < best[key][0]:
            best[key] = value, choice, work
    numbers = np.array([lies for lies, _ in best], dtype=np.intp).reshape(len(best), len(places))
    return Ways(
        tuple(choice for _, choice, _ in best.values()),
        np.array([value for value, _, _ in best.values()]),
        tuple(numbers.T),
        slow,
        tuple(work for _, _, work in best.values()) if slow else (),
    )


# tensors


def _places_of(
    context: Context, request: Request, blocks: Blocks, addend: Addend | None, tensor: TensorName
) -> TensorPlaces:
    """Where a tensor may lie. Raises _TooMany."""
    sizes = tuple(context.sizes[tensor].items())
    splits = tuple(split for rank, _ in sizes for split in blocks.splits[tensor, rank])
    reduction, partial = addend or ("sum", ())
    places = TensorPlaces(context.mesh, sizes, splits, partial, reduction, _parts_asked_for(request))
    try:
        len(places.placements)
    except ValueError as error:
        raise _TooMany(
            f"{tensor!r} can lie in {error} on the mesh {context.mesh}",
            hint="use fewer mesh axes, or sizes that they divide",
        ) from error
    return places


@lru_cache(maxsize=1000)
def _named_paths(places: TensorPlaces, model: CostModel, bits: float) -> Paths:
    return _shortest(places.bare, model, bits).renamed(places)


@lru_cache(maxsize=1000)
def _shortest(places: TensorPlaces, model: CostModel, bits: float) -> Paths:
    known: dict[object, float] = {}

    def cost(hop: Hop) -> float:
        kind = hop.kind, hop.axes, hop.operand, hop.result, hop.senders, hop.filled, hop.routes
        if kind not in known:
            known[kind] = hop_cost(model, places.mesh, hop, bits)
        return known[kind]

    return shortest_paths(places, cost)


def _homes_of(
    context: Context, request: Request, tensor: TensorName, paths: Paths, ways: Mapping[str, Ways], options: Options
) -> Homes:
    workload = context.workload
    readers = workload.consumers[tensor]
    producer = workload.producers.get(tensor)
    placements = paths.places.placements
    pinned = request.placements.get(tensor, None if options.free_inputs or producer else Placement())
    allowed: tuple[int, ...]
    if pinned is not None:
        allowed = (paths.places.number[pinned],)
    elif producer is None or not readers:
        # nobody reads the halo of a result
        allowed = tuple(
            number
            for number, place in enumerate(placements)
            if not place.stacked and (readers or not any(split.halo for split in place.splits))
        )
    else:
        allowed = tuple(range(len(placements)))
    if options.keep is not None and pinned is None:
        allowed = tuple(number for number in allowed if options.keep(tensor, placements[number])) or allowed
    role = HomeRole(
        allowed,
        tuple(_lies(workload.by_name[reader], ways[reader], tensor) for reader in readers),
        None if producer is None else _lies(workload.by_name[producer], ways[producer], tensor),
        pinned is not None,
        options.limited or any(tensor in ends for ends in request.same),
    )
    return homes_of(paths, role)


def _lies(einsum: Einsum, ways: Ways, tensor: TensorName) -> tuple[int, ...]:
    position = [access.tensor for access in einsum.accesses].index(tensor)
    return tuple(ways.used[position].tolist())
