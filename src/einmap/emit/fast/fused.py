"""An Einsum that maps the values of a product one by one, fused: it is computed as the last sums are added."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.operation import Apply, MapExpression, Number, Operand
from einmap.errors import NotSupportedError
from einmap.schedule.routes import Route
from einmap.schedule.schedule import Schedule

EXACT = frozenset({"abs", "add", "equal", "less", "max", "min", "negative", "relu", "select", "sign", "subtract"})
"""Functions of integers that give integers of the same order."""


@dataclass(frozen=True, slots=True)
class FusedMap:
    """`output` = `expression` of `product` (the sums) and of `operands`, value by value.

    `variables`: for each operand, and for the output, the product's rank variable of each rank.
    """

    einsum: Einsum
    expression: MapExpression
    product: str
    output: str
    operands: tuple[str, ...]
    variables: Mapping[str, tuple[str, ...]]
    shapes: Mapping[str, tuple[int, ...]]

    def strides(self, tensor: str) -> dict[str, int]:
        """Values from one value of each rank variable of the product to the next one in a tensor."""
        strides, step = dict[str, int](), 1
        for variable, size in zip(reversed(self.variables[tensor]), reversed(self.shapes[tensor]), strict=True):
            strides[variable], step = step, step * size
        return strides


def fused_map(schedule: Schedule) -> tuple[Route, FusedMap | None]:
    """The route of the product, and the map that is fused with it, if any.

    Raises NotSupportedError for other cascades, and for mappings that keep whole sums in main memory.
    """
    routes = tuple(schedule.routes.values())
    if len(routes) == 1:
        return routes[0], None
    if len(routes) > 2:
        raise NotSupportedError(
            f"fast code is emitted for one Einsum, or a product and a map of its values; this workload has "
            f"{len(routes)} Einsums",
            hint="map its Einsums one by one, or leave out --fast of einmap emit",
        )
    product, mapped = routes
    if len(product.einsum.outputs) != 1 or len(mapped.einsum.outputs) != 1:
        raise _refusal(mapped, "or its product has several outputs")
    (sums,) = product.einsum.outputs
    fused = _map_of(product, mapped, sums)
    hold = product.holds[sums][0]
    if all(hold.address != h.address for h in mapped.holds[sums]):
        raise _refusal(mapped, f"reads {sums!r} elsewhere than the product writes it", "share one storage node")
    outermost = min(h.level for holds in product.holds.values() for h in holds)
    if hold.level == outermost:
        raise _refusal(
            mapped,
            f"reads {sums!r} from {hold.component.name}, which holds all of it",
            f"hold {sums} in another memory above both Einsums, below loops over its ranks",
        )
    return product, fused


def _map_of(product: Route, mapped: Route, sums: str) -> FusedMap:
    einsum = mapped.einsum
    expression = einsum.operation.map
    if sums not in einsum.inputs:
        raise _refusal(mapped, f"does not read {sums!r}, which the first one computes")
    if einsum.is_copy or expression is None:
        raise _refusal(mapped, f"computes {einsum.operation}, which is not a map of values")
    plain = [a for a in einsum.accesses if not _is_plain(a)]
    if plain or einsum.gathers or einsum.cuts or any(first for _, first in einsum.first_values):
        raise _refusal(mapped, "indexes its tensors by other than rank variables")
    (output,) = einsum.outputs
    access = einsum.by_tensor
    written = [v for _, index in product.einsum.by_tensor[sums].projection for v, _ in index.terms]
    here = _variables(access[sums])
    if _variables(access[output]) != here or set(here) != set(einsum.rank_variables):
        raise _refusal(mapped, f"has the ranks of {output!r} in another order than those of {sums!r}, or sums")
    name_of = dict(zip(here, written, strict=True))
    operands = tuple(a.tensor for a in einsum.accesses if not a.output and a.tensor != sums)
    if both := sorted({*operands} & {*product.einsum.inputs}):
        raise _refusal(mapped, f"reads {both[0]!r}, which the product reads too")
    if len({a.bits_per_value for a in (*einsum.accesses, *product.einsum.accesses)}) > 1:
        raise _refusal(mapped, "has values of other widths than the product", "give all the same bits_per_value")
    variables = {t: tuple(name_of[v] for v in _variables(access[t])) for t in (*operands, output)}
    for tensor, ranks in variables.items():
        if written[-1] in ranks[:-1]:
            raise _refusal(mapped, f"reads {tensor!r}, whose neighbours in memory do not lie along {written[-1]!r}")
    extents = dict(product.einsum.bounds)
    shapes = {t: tuple(extents[v] for v in ranks) for t, ranks in variables.items()}
    return FusedMap(einsum, expression, sums, output, operands, variables, shapes)


def is_exact(expression: MapExpression) -> bool:
    """Whether small integers give integers of the same order, so that nothing is rounded."""
    match expression:
        case Operand():
            return True
        case Number(value):
            return value == int(value)
        case Apply(function, arguments):
            return function in EXACT and all(is_exact(argument) for argument in arguments)


def _is_plain(access: TensorAccess) -> bool:
    indices = [index for _, index in access.projection]
    alone = all(len(i.terms) == 1 and i.terms[0][1] == 1 and not i.constant for i in indices)
    return alone and len({i.terms[0][0] for i in indices}) == len(indices)


def _variables(access: TensorAccess) -> tuple[str, ...]:
    return tuple(index.terms[0][0] for _, index in access.projection)


def _refusal(mapped: Route, text: str, hint: str = "leave out --fast of einmap emit") -> NotSupportedError:
    return NotSupportedError(
        f"Einsum {mapped.einsum.name!r} {text}; fast code that fuses it with a product cannot be emitted yet", hint=hint
    )
