"""Whole numbers as inputs, whose sums are exact in any order, and the values that are to come out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.bench.compiler import aligned
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.functions import apply
from einmap.einsum.operation import Apply, MapExpression, Number, Operand
from einmap.einsum.spaces.projection import Affine
from einmap.emit.fast.fused import FusedMap

type Array = NDArray[Any]
IN_PLACE: Mapping[str, Any] = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "max": np.maximum,
    "min": np.minimum, "relu": np.maximum, "abs": np.abs, "exp": np.exp, "tanh": np.tanh, "sqrt": np.sqrt,
}  # fmt: skip
"""Functions of NumPy that write where their argument was."""
EXACT = {4: 2**24, 8: 2**53}
"""The least whole number behind which not all are values, by bytes of a value."""


def inputs_of(einsum: Einsum, shapes: Mapping[str, tuple[int, ...]], dtype: np.dtype[Any]) -> dict[str, Array]:
    """Inputs of whole numbers from -span to span, deterministic: 3 where all sums are exact then, else 1.

    Numbers of 8 bits are all that there are, -128 to 127.

    Every sum is below 3^inputs x its terms. With a span of 1 sums of random signs stay far below what is exact.
    """
    inputs = [a.tensor for a in einsum.accesses if not a.output]
    (output,) = (a for a in einsum.accesses if a.output)
    terms = prod(n for v, n in einsum.bounds if v not in output.variables)
    span = 3 if dtype.itemsize not in EXACT or 3 ** len(inputs) * terms < EXACT[dtype.itemsize] else 1
    least, most = (-128, 127) if dtype == np.int8 else (-span, span)
    rng = np.random.default_rng(0)
    made = {}
    for tensor in inputs:
        made[tensor] = aligned(shapes[tensor], dtype)
        made[tensor][...] = rng.integers(least, most + 1, shapes[tensor], np.int8)
    return made


def operands_of(fused: FusedMap, dtype: np.dtype[Any]) -> dict[str, Array]:
    """Operands of a fused map: whole numbers from -3 to 3, deterministic."""
    rng = np.random.default_rng(1)
    made = {}
    for tensor in fused.operands:
        made[tensor] = aligned(fused.shapes[tensor], dtype)
        made[tensor][...] = rng.integers(-3, 4, fused.shapes[tensor], np.int8)
    return made


def mapped(fused: FusedMap, sums: Array, operands: Mapping[str, Array], *, in_place: bool = False) -> Array:
    """The map of sums by NumPy; `in_place`: in the memory of the sums where that can be, as written by hand."""
    order = fused.variables[fused.output]
    values = {fused.product: sums}
    for tensor, array in operands.items():
        held = fused.variables[tensor]
        turned = array.transpose(sorted(range(array.ndim), key=lambda axis: order.index(held[axis])))
        values[tensor] = turned.reshape([n if v in held else 1 for v, n in zip(order, sums.shape, strict=True)])
    is_once = sum(tensor == fused.product for tensor in operands_in(fused.expression)) == 1
    result: Array = computed(fused.expression, values, sums if in_place and is_once else None)
    return result


def operands_in(expression: MapExpression) -> Iterator[str]:
    """The tensors that an expression reads, as often as it does."""
    match expression:
        case Operand(tensor):
            yield tensor
        case Apply(_, arguments):
            for argument in arguments:
                yield from operands_in(argument)
        case Number():
            pass


def computed(expression: MapExpression, values: Mapping[str, Array], room: Array | None) -> Any:
    """A map of values by NumPy; results take the memory of `room` from where that operand is read on."""
    match expression:
        case Operand(tensor):
            return values[tensor]
        case Number(value):
            return value
        case Apply(function, arguments):
            parts = [computed(argument, values, room) for argument in arguments]
            if room is None or all(part is not room for part in parts) or function not in IN_PLACE:
                return apply(function, *parts)
            return IN_PLACE[function](*parts, *([0] if function == "relu" else []), out=room)


def is_near(found: Array, expected: Array, exact: bool) -> Array:
    """Where values are what they should be: equal, or, if functions round, up to some of the last digits; NaN is NaN.

    The difference may be 1e-5 (32 bits) or 1e-13 (64) of the value, of 1, as `1 + erf(x)` loses digits near -1, or of
    the root of the mean square of all values, as sums near 0 have the errors of their terms.
    """
    near = 0.0 if exact else {4: 1e-5, 8: 1e-13}[found.itemsize]
    finite = expected[np.isfinite(expected)].astype(np.float64)
    size = max(1.0, float(np.sqrt(np.mean(finite**2)))) if finite.size else 1.0
    return np.isclose(found, expected, rtol=near, atol=near * size, equal_nan=True)


def view(access: TensorAccess, values: Array, extents: Mapping[str, int]) -> tuple[Array, list[str]]:
    """A view of a tensor with one axis for each rank variable of its indices, and these.

    `I[2*p + r]` of 7 values is a view of 3 x 3 (p, r), in which values appear several times.
    """
    variables: dict[str, int] = {}
    for stride, (_, index) in zip(values.strides, access.projection, strict=True):
        for variable, factor in index.terms:
            variables[variable] = variables.get(variable, 0) + factor * stride
    shape = [extents[v] for v in variables]
    seen = np.lib.stride_tricks.as_strided(values, shape, list(variables.values()), writeable=False)
    return seen, list(variables)


def by_numpy(einsum: Einsum, inputs: Mapping[str, Array], out: Array | None = None) -> Array:
    """The Einsum by `numpy.einsum`, which leaves what it can to BLAS; sums in indices are views (`im2col`)."""
    extents, letters = dict(einsum.bounds), {v: n for n, (v, _) in enumerate(einsum.bounds)}
    operands: list[Any] = []
    for access in einsum.accesses:
        if not access.output:
            seen, variables = view(access, inputs[access.tensor], extents)
            operands += [seen, [letters[v] for v in variables]]
    (output,) = (a for a in einsum.accesses if a.output)
    result: Array = np.einsum(*operands, [letters[v] for v in _simple(output)], optimize=True, out=out)
    return result


def _simple(access: TensorAccess) -> list[str]:
    """The rank variable of each rank."""
    return [_one(index) for _, index in access.projection]


def _one(index: Affine) -> str:
    ((variable, _),) = index.terms
    return variable
