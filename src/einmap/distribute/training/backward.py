"""The products of a backward pass: for each operand of an Einsum one Einsum of the same points."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, reduce

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Operation, product_of
from einmap.einsum.workload import Workload


@dataclass(frozen=True)
class Backward:
    """The Einsums of a layer with those of its backward pass. `gradients`: of graph inputs and results, by tensor."""

    workload: Workload
    gradients: Mapping[TensorName, TensorName]


@lru_cache(maxsize=500)
def with_backward(workload: Workload) -> Backward:
    """Forward and backward pass in one cascade; gradients of results are graph inputs.

    Shapes, operands and costs are those of derivatives; a maximum is a constant, as in softmax.
    """
    made = _Made(workload)
    for einsum in reversed(workload.einsums):
        made.differentiate(einsum)
    for tensor in workload.tensors:
        if tensor not in workload.producers:
            made.gradient_of(tensor)
    ends = [t for t in workload.tensors if t not in workload.producers or not workload.consumers[t]]
    gradients = {tensor: made.gradients[tensor] for tensor in ends if tensor in made.gradients}
    return Backward(Workload((*workload.einsums, *made.einsums)), gradients)


@dataclass
class _Made:
    """The backward pass while it is made. `addends`: of gradients, with the Einsum that read the tensor."""

    forward: Workload
    einsums: list[Einsum] = field(default_factory=list)
    gradients: dict[TensorName, TensorName] = field(default_factory=dict)
    addends: dict[TensorName, list[tuple[TensorName, Einsum]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        results = [tensor for tensor in self.forward.tensors if not self.forward.consumers[tensor]]
        self.gradients |= {tensor: f"grad_{tensor}" for tensor in results}

    def differentiate(self, einsum: Einsum) -> None:
        """Add the products for all operands of an Einsum."""
        (written,) = (access for access in einsum.accesses if access.output)
        gradient = self.gradient_of(written.tensor)
        if gradient is None or einsum.operation.reduction != "sum":
            return
        arriving = _read(written, gradient)
        for access in einsum.accesses:
            if access.output:
                continue
            needed = set[TensorName]() if einsum.is_copy else needed_by(einsum.operation.map, access.tensor) or set()
            name = f"grad_{access.tensor}_{einsum.name}"
            if len(self.forward.consumers[access.tensor]) == 1:
                name = f"grad_{access.tensor}"
            operands = [_read(einsum.by_tensor[tensor], tensor) for tensor in sorted(needed)]
            accesses = (arriving, *operands, _written(access, name))
            used = {variable for one in accesses for variable in one.variables}
            bounds = tuple((variable, size) for variable, size in einsum.bounds if variable in used)
            operation = product_of([one.tensor for one in accesses[:-1]])
            self.einsums.append(Einsum(name, accesses, bounds, operation, n_points=einsum.n_points, cuts=einsum.cuts))
            self.addends.setdefault(access.tensor, []).append((name, einsum))

    def gradient_of(self, tensor: TensorName) -> TensorName | None:
        """The gradient of a tensor, its addends joined; None where nothing depends on it."""
        if tensor not in self.gradients and tensor in self.addends:
            addends = self.addends[tensor]
            # sums come first that may be in parts on several devices: they are joined before they are completed
            summed = [name for name, _ in addends if self._sums(name)]
            rest = [name for name, _ in addends if name not in summed]
            total = self._joined(tensor, summed, f"grad_{tensor}_sums" if rest else f"grad_{tensor}")
            self.gradients[tensor] = self._joined(tensor, [*total, *rest], f"grad_{tensor}")[0]
        return self.gradients.get(tensor)

    def _sums(self, name: str) -> bool:
        (einsum,) = (one for one in self.einsums if one.name == name)
        return any(variable not in einsum.by_tensor[name].variables for variable in einsum.rank_variables)

    def _joined(self, tensor: TensorName, names: Sequence[TensorName], result: TensorName) -> list[TensorName]:
        """The sum of several addends of the gradient of a tensor, by one more Einsum; none or one as they are."""
        if len(names) < 2:
            return list(names)
        first = self.addends[tensor][0][1]
        access = first.by_tensor[tensor]
        accesses = (*(_read(access, name) for name in names), _written(access, result))
        bounds = tuple((v, size) for v, size in first.bounds if v in access.variables)
        operands: list[MapExpression] = [Operand(name) for name in names]
        total = reduce(lambda one, other: Apply("add", (one, other)), operands)
        self.einsums.append(Einsum(result, accesses, bounds, Operation(total)))
        return [result]


def _read(access: TensorAccess, tensor: TensorName) -> TensorAccess:
    return TensorAccess(tensor, access.projection, False, access.bits_per_value)


def _written(access: TensorAccess, tensor: TensorName) -> TensorAccess:
    return TensorAccess(tensor, access.projection, True, access.bits_per_value)


def needed_by(expression: MapExpression | None, tensor: TensorName) -> set[TensorName] | None:
    """Operands that the derivative by a tensor depends on; None where the expression is free of it."""
    match expression:
        case Operand(name):
            return set() if name == tensor else None
        case Apply(function, arguments):
            found: set[TensorName] | None = None
            for position, argument in enumerate(arguments):
                inner = needed_by(argument, tensor)
                if inner is None:
                    continue
                others = set[TensorName]().union(
                    *(_operands(other) for place, other in enumerate(arguments) if place != position)
                )
                if function in ("add", "subtract", "negate"):
                    here = inner
                elif function == "multiply" or (function == "divide" and position == 0):
                    here = inner | others
                else:
                    here = inner | others | _operands(argument)
                found = here | (found or set())
            return found
        case _:
            return None


def _operands(expression: MapExpression) -> set[TensorName]:
    match expression:
        case Operand(name):
            return {name}
        case Number():
            return set()
        case Apply(_, arguments):
            return set[TensorName]().union(*map(_operands, arguments))
