"""Zeros of a tensor that an Einsum writes, from those of the tensors that it reads.

A value may be nonzero where its map expression may be for one of the points that are reduced to it: a product where all
factors are nonzero, a sum where one term is, a function as its argument where it keeps 0 (relu, tanh), and everywhere
where it does not (exp). Zeros that come about otherwise, by terms that cancel or by relu of a negative value, do not
count.

- All zeros known by position: the union over the points, exactly.
- Else all values are taken to be nonzero independently: with the probability p at each point, and K points for a value,
  1 - (1 - p)^K; for a product of two tensors p is the product of their densities. (Wu et al., Sparseloop, MICRO 2022,
  take the densities of intermediates as given.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from math import expm1, log1p, prod

import numpy as np

from einmap.arrays import Bools
from einmap.einsum.einsum import Einsum
from einmap.einsum.functions import FUNCTIONS, apply
from einmap.einsum.numeric import compute
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, Operation, operands
from einmap.sparse.densities import Density, Uniform
from einmap.sparse.known import Known

MOST_POINTS = 30_000_000
"""Points of an Einsum that are looked at for the zeros of its output, at most; of more the density is taken."""
MOST_TENSORS = 12
"""Tensors of an Einsum that have zeros, at most: with more its output is dense."""

type Sizes = Mapping[str, int]
"""Sizes of the ranks of a tensor, in the order of its mask."""


def written_density(einsum: Einsum, densities: Mapping[str, Density], sizes: Mapping[str, Sizes]) -> Density | None:
    """Density of the output of an Einsum, None where it is dense or not known; inputs without a density are dense."""
    expression = support(einsum)
    inputs = [t for t in einsum.inputs if t in densities and densities[t].part < 1]
    if expression is None or not inputs or len(einsum.outputs) != 1:
        return None
    (output,) = einsum.outputs
    if prod(einsum.extents.values()) <= MOST_POINTS and all(isinstance(densities[t], Known) for t in inputs):
        known = {t: d.mask for t, d in densities.items() if isinstance(d, Known) and t in inputs}
        return Known(written_mask(einsum, known, sizes))
    shape = tuple(sizes[output].values())
    part = _part(einsum, expression, {t: densities[t].part for t in inputs})
    return None if part is None or part >= 1 else Uniform(shape, round(part * prod(shape)))


def support(einsum: Einsum) -> MapExpression | None:
    """The map expression of whether a value may be nonzero, of 0 and 1 with products and maxima; None: not known."""
    if einsum.is_copy:
        return Operand(min(einsum.inputs))
    if einsum.gathers or einsum.operation.map is None:
        return None
    return _support(einsum.operation.map)


def _support(expression: MapExpression) -> MapExpression:
    match expression:
        case Operand():
            return expression
        case Number(value):
            return Number(float(value != 0))
        case Apply("multiply", arguments):
            return Apply("multiply", tuple(_support(a) for a in arguments))
        case Apply("divide", (numerator, _)):
            return _support(numerator)
        case Apply("power", (base, Number(exponent))) if exponent > 0:
            return _support(base)
        case Apply(function, arguments):
            with np.errstate(all="ignore"):
                at_zero = apply(function, *(np.zeros(1) for _ in range(FUNCTIONS[function].arity)))
            if not (np.asarray(at_zero) == 0).all():
                return Number(1.0)
            found = _support(arguments[0])
            for further in arguments[1:]:
                found = Apply("max", (found, _support(further)))
            return found


def written_mask(einsum: Einsum, masks: Mapping[str, Bools], sizes: Mapping[str, Sizes]) -> Bools:
    """Where the output of an Einsum may be nonzero; `masks`: where its inputs are, all true where there is none.

    The einsum is one of which `support` is known. Ranks are in the order of `sizes`.
    """
    expression = support(einsum)
    assert expression is not None
    (access,) = (a for a in einsum.accesses if a.output)
    arrays = {}
    for read in (a for a in einsum.accesses if not a.output):
        order = list(sizes[read.tensor])
        mask = masks.get(read.tensor, np.ones(tuple(sizes[read.tensor].values()), dtype=bool))
        arrays[read.tensor] = mask.transpose([order.index(rank) for rank, _ in read.projection]).astype(np.float64)
    asked = replace(einsum, operation=Operation(expression, "max"))
    found = compute(asked, arrays)[access.tensor] > 0
    written = [rank for rank, _ in access.projection]
    found = found.transpose([written.index(rank) for rank in sizes[access.tensor]])
    mask = np.zeros(tuple(sizes[access.tensor].values()), dtype=bool)
    mask[tuple(slice(n) for n in found.shape)] = found
    return mask


def _part(einsum: Einsum, expression: MapExpression, parts: Mapping[str, float]) -> float | None:
    """Part of the output that may be nonzero if values are nonzero independently of one another; None: not known."""
    (access,) = (a for a in einsum.accesses if a.output)
    random = sorted(t for t in operands(expression) if t in parts)
    if einsum.cuts or len(random) > MOST_TENSORS or any(len(index.terms) > 1 for _, index in access.projection):
        return None
    chance = 0.0
    for states in product((0.0, 1.0), repeat=len(random)):
        known = dict(zip(random, states, strict=True))
        weight = prod(parts[t] if there else 1 - parts[t] for t, there in known.items())
        chance += weight * _value(expression, known)
    # points that take the same values of all tensors with zeros count once
    indexed = {v for t in random for v in einsum.by_tensor[t].variables}
    points = prod(n for v, n in einsum.bounds if v in indexed and v not in access.variables)
    return 1.0 if chance >= 1 else -expm1(points * log1p(-chance))


def _value(expression: MapExpression, known: Mapping[str, float]) -> float:
    """0 or 1; tensors that are not known are nonzero."""
    match expression:
        case Operand(tensor):
            return known.get(tensor, 1.0)
        case Number(value):
            return value
        case Apply(function, arguments):
            values = [_value(a, known) for a in arguments]
            return prod(values) if function == "multiply" else max(values)
