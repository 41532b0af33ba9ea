"""Einsums that turns add to those of a workload: a part of one, and totals that get the factors they lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from einmap.distribute.placements.placement import Placement
from einmap.distribute.plans.plan import Buffer, BufferName, Local, LocalLoop
from einmap.distribute.rewrites.group import Member
from einmap.distribute.rewrites.running import Amount, Factors, Part, Places
from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Operation, format_map, operands
from einmap.einsum.spaces.projection import Affine, Rank


def part_einsum(member: Member, part: Part) -> Einsum:
    """The part of an Einsum that is computed in a turn. The Einsum itself where nothing is left out."""
    einsum = member.einsum
    if einsum.is_copy or part.map == einsum.operation.map:
        return einsum
    used = operands(part.map)
    accesses = tuple(access for access in einsum.accesses if access.output or access.tensor in used)
    operation = Operation(part.map, einsum.operation.reduction, format_map(part.map))
    return replace(einsum, name=f"{einsum.name} in turns", accesses=accesses, operation=operation)


@dataclass(frozen=True, slots=True)
class Total:
    """A total so far, and how its parts lie. `bits`: of a value."""

    tensor: TensorName
    sizes: tuple[tuple[Rank, int], ...]
    placement: Placement
    bits: float


@dataclass(frozen=True, slots=True)
class Source:
    """A tensor that a total is multiplied by, or a function of it: its name in the Einsum, its buffer."""

    name: TensorName
    buffer: BufferName
    places: Places


def rescaled(
    total: Total,
    factors: Factors,
    before: Mapping[TensorName, BufferName],
    now: Mapping[TensorName, BufferName],
    source: BufferName,
    target: BufferName,
) -> tuple[Einsum, Local]:
    """The total times exp(c * (now - before)) for each factor exp(c * tensor): as with that tensor as it is now.
    """  # fmt: skip
    sources: list[Source] = []
    expression: MapExpression = Operand(_so_far(total.tensor))
    for (kind, tensor), amount in factors.items():
        if kind == "exp":
            earlier = f"{tensor} before"
            sources += [Source(tensor, now[tensor], amount.places), Source(earlier, before[tensor], amount.places)]
            expression = Apply("multiply", (expression, Apply("exp", (_slope(amount, tensor, earlier),))))
    return _einsum(f"{total.tensor} rescaled", total, expression, sources, (source, target))


def _slope(amount: Amount, tensor: TensorName, earlier: TensorName) -> MapExpression:
    if amount.value == -1:
        return Apply("subtract", (Operand(earlier), Operand(tensor)))
    step = Apply("subtract", (Operand(tensor), Operand(earlier)))
    return step if amount.value == 1 else Apply("multiply", (Number(amount.value), step))


def completed(
    total: Total, factors: Factors, complete: Mapping[TensorName, BufferName], source: BufferName, target: BufferName
) -> tuple[Einsum, Local]:
    """The total times the complete tensors that were left out of its parts, or divided by them."""
    sources: list[Source] = []
    expression: MapExpression = Operand(_so_far(total.tensor))
    for (kind, tensor), amount in factors.items():
        if kind == "power":
            sources.append(Source(tensor, complete[tensor], amount.places))
            for _ in range(abs(int(amount.value))):
                function = "divide" if amount.value < 0 else "multiply"
                expression = Apply(function, (expression, Operand(tensor)))
    return _einsum(f"{total.tensor} completed", total, expression, sources, (source, target))


def _so_far(tensor: TensorName) -> TensorName:
    return f"{tensor} so far"


def _einsum(
    name: str,
    total: Total,
    expression: MapExpression,
    sources: Sequence[Source],
    ends: tuple[BufferName, BufferName],
) -> tuple[Einsum, Local]:
    """An Einsum over the ranks of a total, element by element, each PE on what it has."""
    index = {rank: Affine(((rank.lower(), 1),), 0) for rank, _ in total.sizes}
    own = tuple(index.items())
    accesses = (
        TensorAccess(_so_far(total.tensor), own, output=False, bits_per_value=total.bits),
        *(
            TensorAccess(one.name, tuple((rank, index[other]) for rank, other in one.places), False, total.bits)
            for one in sources
        ),
        TensorAccess(total.tensor, own, output=True, bits_per_value=total.bits),
    )
    bounds = tuple((rank.lower(), size) for rank, size in total.sizes)
    einsum = Einsum(name, accesses, bounds, Operation(expression, "sum", format_map(expression)))
    loops = tuple(_loop(total.placement, rank, size) for rank, size in total.sizes)
    read = ((_so_far(total.tensor), ends[0]), *((one.name, one.buffer) for one in sources))
    return einsum, Local(name, read, ((total.tensor, ends[1]),), loops)


def _loop(placement: Placement, rank: Rank, size: int) -> LocalLoop:
    split = placement.of(rank)
    return LocalLoop(rank.lower(), split.axes if split else (), size, split.block if split else size)


def total_of(buffer: Buffer, bits: float) -> Total:
    """The total that is kept in a buffer."""
    return Total(buffer.tensor, buffer.sizes, buffer.placement, bits)
