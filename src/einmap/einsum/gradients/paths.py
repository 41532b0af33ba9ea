"""Which operands of which Einsums gradients flow through, from one tensor back to others."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.gradients.derivatives import ONE, pulled_back
from einmap.einsum.numeric import check_operation
from einmap.einsum.operation import MapExpression, Operand
from einmap.einsum.workload import Workload


@dataclass(frozen=True, slots=True)
class Flow:
    """One way of a gradient: from an output of an Einsum to one of its operands."""

    einsum: Einsum
    output: TensorAccess
    operand: TensorAccess


def map_of(einsum: Einsum) -> MapExpression:
    """The map expression of an Einsum; the source of a copy. Raises SpecError for one that is not arithmetic."""
    check_operation(einsum)
    if einsum.is_copy:
        return Operand(min(einsum.inputs))
    assert einsum.operation.map is not None
    return einsum.operation.map


def flows(
    workload: Workload, of: Collection[TensorName], by: Collection[TensorName], constant: Collection[TensorName]
) -> list[Flow]:
    """All ways on the paths from `of` to the tensors `by`, in the order of the Einsums.

    A derivative that is 0 everywhere is not a way, and none leads through a tensor of `constant`.
    """
    ways = [
        Flow(einsum, output, einsum.by_tensor[operand])
        for einsum in workload.einsums
        for output in einsum.accesses
        if output.output
        for operand in pulled_back(map_of(einsum), ONE)
        if operand not in constant
    ]
    varying = _closure(by, [(way.operand.tensor, way.output.tensor) for way in ways])
    useful = _closure(of, [(way.output.tensor, way.operand.tensor) for way in ways])
    return [way for way in ways if way.operand.tensor in varying and way.output.tensor in useful]


def leading_to(workload: Workload, tensor: TensorName) -> set[str]:
    """The names of the Einsums that a tensor is computed by."""
    names: set[str] = set()
    todo = [tensor]
    while todo:
        name = workload.producers.get(todo.pop())
        if name is not None and name not in names:
            names.add(name)
            todo += workload.by_name[name].inputs
    return names


def _closure(begin: Collection[str], steps: Sequence[tuple[str, str]]) -> set[str]:
    """Tensors that can be reached from some, themselves included."""
    following: dict[str, list[str]] = {}
    for source, target in steps:
        following.setdefault(source, []).append(target)
    reached, todo = set(begin), list(begin)
    while todo:
        new = [target for target in following.get(todo.pop(), ()) if target not in reached]
        reached |= {*new}
        todo += new
    return reached
