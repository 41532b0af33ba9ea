"""A layer with its backward pass as one cascade, and what an update touches: both from `einsum.gradients`."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.gradients.gradient import gradient, with_parts
from einmap.einsum.gradients.names import Names
from einmap.einsum.gradients.paths import flows
from einmap.einsum.gradients.update import Weight, update
from einmap.einsum.operation import Apply, MapExpression, Operand, Operation, operands
from einmap.einsum.workload import Workload


@dataclass(frozen=True)
class Backward:
    """The Einsums of a layer with those of its backward pass, each with its `part` of a training step: "input" where
    the layer before waits for it, else "weight". `gradients`: of graph inputs and results, by tensor.
    """

    workload: Workload
    gradients: Mapping[TensorName, TensorName]


@lru_cache(maxsize=500)
def with_backward(workload: Workload, arriving: tuple[TensorName, ...]) -> Backward:
    """Forward and backward pass in one cascade; gradients of results are graph inputs.

    `arriving`: activations from the layer before. No gradient flows through largest values that a softmax subtracts.
    """
    ends = [tensor for tensor in workload.tensors if not workload.consumers[tensor]]
    given = [tensor for tensor in workload.tensors if tensor not in workload.producers]
    constant = _subtracted(workload)
    ways = flows(workload, ends, given, constant)
    of = [tensor for tensor in ends if any(way.output.tensor == tensor for way in ways)]
    by = [tensor for tensor in given if any(way.operand.tensor == tensor for way in ways)]
    if not by:
        return Backward(workload, {})
    made = gradient(workload, of, by, constant=constant)
    ahead = len(workload.einsums)
    behind = [*_joined_first(made.workload, made.workload.einsums[ahead:])]
    waiting = [made.gradients[tensor] for tensor in arriving if tensor in made.gradients]
    joint = Workload((*made.workload.einsums[:ahead], *with_parts(behind, waiting)))
    return Backward(joint, {**made.gradients, **made.seeds})


def _subtracted(workload: Workload) -> list[TensorName]:
    """Largest (or smallest) values that are only subtracted from what they are the largest of, as a softmax does: what
    comes of it does not depend on them.
    """
    sources: dict[TensorName, set[TensorName]] = {}
    for einsum in workload.einsums:
        if einsum.operation.reduction in ("max", "min") and not einsum.is_copy:
            inner = {*einsum.inputs}.union(*(sources.get(tensor, set()) for tensor in einsum.inputs))
            sources |= dict.fromkeys(einsum.outputs, inner)
    found: list[TensorName] = []
    for tensor in reversed(sources):
        readers = [workload.by_name[name] for name in workload.consumers[tensor]]
        if readers and all(
            reader.outputs <= {*found} or _only_subtracts(reader.operation.map, tensor, sources[tensor])
            for reader in readers
        ):
            found.append(tensor)
    return found


def _only_subtracts(expression: MapExpression | None, tensor: TensorName, sources: Collection[TensorName]) -> bool:
    """Whether a tensor stands nowhere but behind a minus whose left side reads one of the sources."""
    match expression:
        case Operand(name):
            return name != tensor
        case Apply("subtract", (left, Operand(name))) if name == tensor and operands(left) & {*sources}:
            return _only_subtracts(left, tensor, sources)
        case Apply(arguments=arguments):
            return all(_only_subtracts(argument, tensor, sources) for argument in arguments)
        case _:
            return True


def _joined_first(workload: Workload, einsums: Sequence[Einsum]) -> Iterator[Einsum]:
    """Einsums in which sums of three tensors or more add those first that a reduction writes: on several devices these
    may be partial sums, which are completed once.
    """
    names = Names(workload)
    for einsum in einsums:
        added = _addends(einsum.operation.map)
        summed = [tensor for tensor in added if _reduces(workload, tensor)]
        if 1 < len(summed) < len(added):
            (written,) = (access for access in einsum.accesses if access.output)
            name = names.free(f"{written.tensor}_sums")
            joined = replace(written, tensor=name)
            first = [einsum.by_tensor[tensor] for tensor in summed]
            rest = [einsum.by_tensor[tensor] for tensor in added if tensor not in summed]
            yield _sum(einsum, name, [*first, joined])
            yield _sum(einsum, einsum.name, [replace(joined, output=False), *rest, written])
        else:
            yield einsum


def _sum(einsum: Einsum, name: str, accesses: Sequence[TensorAccess]) -> Einsum:
    terms: list[MapExpression] = [Operand(access.tensor) for access in accesses[:-1]]
    total = reduce(lambda one, other: Apply("add", (one, other)), terms)
    return replace(einsum, name=name, accesses=tuple(accesses), operation=Operation(total))


def _addends(expression: MapExpression | None) -> list[TensorName]:
    """The tensors that an expression adds; none where it does anything else."""
    match expression:
        case Operand(name):
            return [name]
        case Apply("add", (left, right)):
            one, other = _addends(left), _addends(right)
            return [*one, *other] if one and other else []
        case _:
            return []


def _reduces(workload: Workload, tensor: TensorName) -> bool:
    name = workload.producers.get(tensor)
    if name is None:
        return False
    einsum = workload.by_name[name]
    return bool({*einsum.rank_variables} - einsum.by_tensor[tensor].variables)


@dataclass(frozen=True, slots=True)
class Updated:
    """Bytes for each value of a weight: `state` that the optimiser keeps; `moved` of state and weight that an update
    reads and writes, each once; its gradient is read beside them.
    """

    state: float
    moved: float


@lru_cache
def updated(optimizer: str, bits: float) -> Updated:
    """The update of weights with so many bits, as one kernel: what its Einsums hand to one another is not moved."""
    weight = Weight("W", {"K": 1}, bits, 1, "G")
    made = update(optimizer, [weight], Names(Workload(())))
    written = {t: e.by_tensor[t].bits_per_value for e in made.einsums for t in e.outputs}
    read = {t: e.by_tensor[t].bits_per_value for e in made.einsums for t in e.inputs if t not in written}
    beside = {"G", *made.scalars.values()}
    state = sum(read[tensor] for tensor in made.state.get("W", {}))
    moved = sum(written.values()) + sum(wide for tensor, wide in read.items() if tensor not in beside)
    return Updated(state / 8, moved / 8)
