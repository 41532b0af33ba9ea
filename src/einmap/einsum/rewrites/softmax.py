"""Softmaxes with a product behind, found in a cascade by their structure, and brought into one form.

GM[m] = QK[m, p]  (max)             the largest score; missing in a plain softmax
SN[m, p] = exp(QK[m, p] - GM[m])    numerators
SD[m] = SN[m, p]                    their sums
AN[m, f] = SN[m, p] * V[p, f]       products
AV[m, f] = AN[m, f] / SD[m]         or the numerators are divided before the product: A = SN / SD, AV = A * V
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from einmap.einsum.einsum import Einsum, TensorAccess, TensorName
from einmap.einsum.notation.pretty import reduced
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Operation, product_of
from einmap.einsum.rewrites.edit import box, check_rank, rebuilt
from einmap.einsum.rewrites.partition import single_variable
from einmap.einsum.spaces.projection import Projection, Rank
from einmap.einsum.spaces.space import parse_constraint
from einmap.einsum.workload import Workload
from einmap.errors import NotSupportedError, SpecError


@dataclass(frozen=True, slots=True)
class Softmax:
    """The tensors of a softmax over keys, with a product behind.

    `largest`: None in a plain softmax. `quotients`: the softmax itself, where it is made before the product.
    """

    scores: TensorName
    largest: TensorName | None
    numerators: TensorName
    sums: TensorName
    quotients: TensorName | None
    products: TensorName


def softmaxes(workload: Workload, rank: Rank) -> list[Softmax]:
    """The softmaxes over a rank. Raises SpecError where there is none, with what lacks in what looks like one."""
    check_rank(workload, rank)
    looked_at = [_softmax(workload, rank, *exp) for exp in _exps(workload, rank)]
    found = [softmax for softmax in looked_at if isinstance(softmax, Softmax)]
    if found:
        return found
    why = "; ".join(map(str, looked_at)) or "no Einsum is the exp of scores, or of scores less their maximum"
    hint = "`einmap show attention_core` has one: maximum, exp, sum, product, quotient"
    raise SpecError(f"there is no softmax over rank {rank} with a product behind: {why}", hint=hint)


def softmax_ranks(workload: Workload) -> tuple[Rank, ...]:
    """The ranks over which there is a softmax with a product behind."""

    def is_one(rank: Rank) -> bool:
        return any(isinstance(_softmax(workload, rank, *exp), Softmax) for exp in _exps(workload, rank))

    return tuple(rank for rank in workload.rank_sizes if is_one(rank))


def settled(workload: Workload, softmax: Softmax, rank: Rank) -> tuple[Workload, Softmax]:
    """The workload in which the largest score is subtracted, and the products are divided, not the numerators."""
    return _divided_behind(*_safe(workload, softmax, rank))


# what there is


def _exps(workload: Workload, rank: Rank) -> list[tuple[Einsum, TensorName, TensorName | None]]:
    """Einsums that take exp of scores with this rank, or of their difference to a tensor, times a positive number."""
    found = []
    for einsum in workload.einsums:
        operation = einsum.operation
        if not isinstance(operation.map, Apply) or operation.map.function != "exp" or reduced(einsum):
            continue
        scores, largest = _difference(operation.map.arguments[0])
        if scores in einsum.inputs and rank in dict(einsum.by_tensor[scores].projection) and len(einsum.outputs) == 1:
            found.append((einsum, scores, largest))
    return found


def _difference(argument: MapExpression) -> tuple[TensorName, TensorName | None]:
    """`S`, `GM` of 0.5 * (S - GM), and `S`, None of 0.5 * S; an empty name for anything else."""
    match argument:
        case Operand(scores):
            return scores, None
        case Apply("subtract", (Operand(scores), Operand(largest))):
            return scores, largest
        case Apply("multiply", (Number(factor), rest)) | Apply("multiply" | "divide", (rest, Number(factor))):
            return _difference(rest) if factor > 0 else ("", None)
    return "", None


def _softmax(
    workload: Workload, rank: Rank, exp: Einsum, scores: TensorName, largest: TensorName | None
) -> Softmax | str:
    """The softmax around an exp; a sentence that says what lacks where it is none."""
    (numerators,) = exp.outputs
    readers = [workload.by_name[name] for name in workload.consumers[numerators]]
    sums = [e for e in readers if _reduces_alone(e, numerators, rank, "sum")]
    others = [e for e in readers if e not in sums]
    if len(sums) != 1 or len(others) != 1:
        found = ", ".join(e.name for e in readers) or "nothing"
        return f"{numerators!r} is to be read by its sum over {rank} and one more Einsum, found {found}"
    (total,), product, quotients = sums[0].outputs, others[0], None
    if _divides(product, numerators, total):
        (quotients,) = product.outputs
        after = workload.consumers[quotients]
        if len(after) != 1:
            return f"{quotients!r} is to be read by one product, found {', '.join(after) or 'nothing'}"
        product = workload.by_name[after[0]]
    if not _is_product(product, numerators if quotients is None else quotients, rank):
        return f"Einsum {product.name!r} is not a sum over {rank} alone of a product with the softmax"
    (products,) = product.outputs
    softmax = Softmax(scores, largest, numerators, total, quotients, products)
    return _lacking(workload, rank, exp, softmax) or softmax


def _lacking(workload: Workload, rank: Rank, exp: Einsum, softmax: Softmax) -> str:
    """A sentence that says what is wrong with the maximum, the division, or ranks; empty where all is well."""
    largest, total, products = softmax.largest, softmax.sums, softmax.products
    if largest is not None:
        maximum = workload.by_name.get(workload.producers.get(largest, ""))
        if maximum is None or not _reduces_alone(maximum, softmax.scores, rank, "max"):
            return f"{largest!r} is not the maximum of {softmax.scores!r} over {rank}"
        if workload.consumers[largest] != (exp.name,):
            return f"{largest!r} is read by others than {exp.name!r}"
    divided = workload.consumers[total]
    if len(divided) != 1:
        return f"{total!r} is to be read by one division, found {', '.join(divided) or 'nothing'}"
    if softmax.quotients is None and not (
        workload.consumers[products] == divided and _divides(workload.by_name[divided[0]], products, total)
    ):
        return f"{products!r} is not divided by {total!r} alone"
    queries = _ranks(exp, softmax.numerators) - {rank}
    ends = [(workload.by_name[workload.producers[t]], t) for t in (largest, total) if t is not None]
    if any(_ranks(einsum, t) != queries for einsum, t in ends) or _ranks(exp, softmax.scores) != queries | {rank}:
        return f"{', '.join(t for _, t in ends)} do not have the ranks of {softmax.numerators!r} without {rank}"
    if not queries <= _ranks(workload.by_name[workload.producers[products]], products):
        return f"{products!r} lacks ranks of {total!r}"
    return ""


def _ranks(einsum: Einsum, tensor: TensorName) -> set[Rank]:
    """The ranks of a tensor that a rank variable of an Einsum indexes alone."""
    return {rank for rank, index in einsum.by_tensor[tensor].projection if single_variable(index)}


def _reduces_alone(einsum: Einsum, tensor: TensorName, rank: Rank, reduction: str) -> bool:
    """Whether an Einsum reduces one tensor over one rank, and does nothing else."""
    operation = einsum.operation
    if operation.map != Operand(tensor) or operation.reduction != reduction or einsum.is_copy:
        return False
    return einsum.inputs == {tensor} and len(einsum.outputs) == 1 and _reduces(einsum, tensor, rank)


def _reduces(einsum: Einsum, tensor: TensorName, rank: Rank) -> bool:
    """Whether the rank variable that indexes a rank of a tensor is the one that an Einsum reduces over."""
    index = dict(einsum.by_tensor[tensor].projection).get(rank)
    return index is not None and {single_variable(index)} == set(reduced(einsum))


def _divides(einsum: Einsum, tensor: TensorName, by: TensorName) -> bool:
    """Whether an Einsum is a tensor divided by another one."""
    quotient = Apply("divide", (Operand(tensor), Operand(by)))
    return einsum.operation.map == quotient and not reduced(einsum) and len(einsum.outputs) == 1


def _is_product(einsum: Einsum, weights: TensorName, rank: Rank) -> bool:
    """Whether an Einsum sums a product of some weights with other tensors over one rank alone."""
    names = [access.tensor for access in einsum.accesses if not access.output]
    is_sum = einsum.operation.reduction == "sum" and len(einsum.outputs) == 1
    is_product = sorted(_factors(einsum.operation.map)) == sorted(names) and len(names) > 1
    return is_sum and is_product and _reduces(einsum, weights, rank)


def _factors(expression: MapExpression | None) -> list[TensorName]:
    """The tensors of a product; none for any other expression."""
    match expression:
        case Operand(tensor):
            return [tensor]
        case Apply("multiply", (left, right)):
            first, second = _factors(left), _factors(right)
            return first + second if first and second else []
    return []


# one form


def _safe(workload: Workload, softmax: Softmax, rank: Rank) -> tuple[Workload, Softmax]:
    """The largest score is subtracted, in a plain softmax too."""
    if softmax.largest is not None:
        return workload, softmax
    old = workload.by_name[workload.producers[softmax.numerators]]
    largest = free(workload, f"{softmax.scores}_max")
    scores = old.by_tensor[softmax.scores]
    highest = replace(scores, tensor=largest, projection=without(scores.projection, rank), persistent=False)
    maximum = Operation(Operand(softmax.scores), "max")
    assert old.operation.map is not None
    less = Apply("subtract", (Operand(softmax.scores), Operand(largest)))
    subtracted = Operation(_with(old.operation.map, softmax.scores, less))
    inputs = [access for access in old.accesses if not access.output]
    outputs = [access for access in old.accesses if access.output]
    steps = [
        made(old, largest, maximum, [scores, written(highest)]),
        made(old, old.name, subtracted, [*inputs, highest, *outputs]),
    ]
    return exchanged(workload, {old.name: steps}), replace(softmax, largest=largest)


def _with(expression: MapExpression, tensor: TensorName, instead: MapExpression) -> MapExpression:
    """An expression with another one in place of a tensor."""
    match expression:
        case Operand(name) if name == tensor:
            return instead
        case Apply(function, arguments):
            return Apply(function, tuple(_with(argument, tensor, instead) for argument in arguments))
    return expression


def _divided_behind(workload: Workload, softmax: Softmax) -> tuple[Workload, Softmax]:
    """The products are divided, not the numerators: the same values with fewer divisions."""
    if softmax.quotients is None:
        return workload, softmax
    divides = workload.by_name[workload.producers[softmax.quotients]]
    product = workload.by_name[workload.producers[softmax.products]]
    if product.cuts:
        raise NotSupportedError(
            f"Einsum {product.name!r} leaves out keys of some queries ({', '.join(product.cuts)}); dividing behind it "
            "would divide by 0 where none is left",
            hint="write the division behind the product",
        )
    numerators, total = (divides.by_tensor[t] for t in (softmax.numerators, softmax.sums))
    weights, output = product.by_tensor[softmax.quotients], product.by_tensor[softmax.products]
    # an index of the division, as the product has it
    indices = {index: dict(weights.projection)[r] for r, index in divides.by_tensor[softmax.quotients].projection}
    read, by = (replace(a, projection=tuple((r, indices[i]) for r, i in a.projection)) for a in (numerators, total))
    undivided = free(workload, f"{softmax.products}_sum")
    sums = replace(output, tensor=undivided)
    factors = [read if access is weights else access for access in product.accesses if not access.output]
    whole = Operation(Apply("divide", (Operand(undivided), Operand(softmax.sums))))
    steps = [
        made(product, undivided, product_of([a.tensor for a in factors]), [*factors, sums]),
        made(divides, product.name, whole, [as_input(sums), by, written(output)], product),
    ]
    changed = exchanged(workload, {divides.name: [], product.name: steps})
    return changed, replace(softmax, quotients=None, products=undivided)


# tools


def made(
    like: Einsum, name: str, operation: Operation, accesses: Sequence[TensorAccess], within: Einsum | None = None
) -> Einsum:
    """An Einsum for the same computes as another one, within the bounds that it, or `within`, has."""
    space = like if within is None else within
    variables = {v for access in accesses for _, index in access.projection for v, _ in index.terms}
    cuts = [cut for cut in space.cuts if parse_constraint(cut).names <= variables]
    constraints = [*box(space, [v for v in space.rank_variables if v in variables]), *cuts]
    return rebuilt(replace(like, name=name, operation=operation, is_copy=False), accesses, constraints)


def as_input(access: TensorAccess, tensor: TensorName | None = None) -> TensorAccess:
    """An access that reads its tensor, or another one."""
    return replace(access, tensor=tensor or access.tensor, output=False, partial_bits=None, persistent=False)


def written(access: TensorAccess, tensor: TensorName | None = None) -> TensorAccess:
    """An access that writes its tensor, or another one."""
    return replace(access, tensor=tensor or access.tensor, output=True, partial_bits=None)


def without(projection: Projection, rank: Rank) -> Projection:
    """A projection without one of its ranks."""
    return tuple((r, index) for r, index in projection if r != rank)


def exchanged(workload: Workload, instead: Mapping[str, Sequence[Einsum]]) -> Workload:
    """The workload with other Einsums, or none, in the places of some."""
    einsums = [new for einsum in workload.einsums for new in instead.get(einsum.name, [einsum])]
    return replace(workload, einsums=tuple(einsums))


def free(workload: Workload, name: str) -> str:
    """A name that no tensor, Einsum or rank has: this one, or one with a number behind."""
    taken = {*workload.tensors, *workload.einsum_names, *workload.rank_sizes}
    return next(n for n in (name, *(f"{name}_{number}" for number in range(2, len(taken) + 3))) if n not in taken)
