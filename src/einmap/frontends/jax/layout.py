"""Primitives on shapes alone, slices and padding."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from einmap.frontends.cascade.parts import Parts, concatenated, whole
from einmap.frontends.cascade.recurrence import cumulated
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.uses import Spread
from einmap.frontends.cascade.values import Value, broadcast, known, reshape, transpose
from einmap.frontends.jax.equation import Equation

CUMULATIVE = {"cumsum": "add", "cumprod": "multiply", "cummax": "max", "cummin": "min", "cumlogsumexp": "logaddexp"}
"""Primitives that become recurrences, and the function of each step."""


def transposed(equation: Equation) -> list[Value]:
    """transpose."""
    return [transpose(equation.operands[0], equation.params["permutation"])]


def reshaped(equation: Equation) -> list[Value]:
    """reshape, squeeze and expand_dims: the result's shape says all."""
    value = equation.operands[0]
    order = equation.params.get("dimensions") if equation.primitive == "reshape" else None
    return [equation.reshape(value if order is None else transpose(value, order), equation.shape)]


def spread(equation: Equation) -> list[Value]:
    """broadcast_in_dim."""
    value = equation.builder.as_expression(equation.operands[0], equation.name)
    shape = [1] * len(equation.shape)
    for axis, place in enumerate(equation.params["broadcast_dimensions"]):
        shape[place] = value.shape[axis]
    return [broadcast(reshape(value, shape), equation.shape)]


def sliced(equation: Equation) -> list[Value]:
    """slice."""
    value, params = equation.operands[0], equation.params
    steps = params["strides"] or [1] * len(value.shape)
    for axis, (start, limit, step) in enumerate(
        zip(params["start_indices"], params["limit_indices"], steps, strict=True)
    ):
        value = equation.take(value, axis, int(start), int(step), len(range(start, limit, step)))
    return [value]


def tiled(equation: Equation) -> list[Value]:
    """tile."""
    return [equation.tiled(equation.operands[0], equation.params["reps"])]


def cumulated_along(equation: Equation) -> list[Value]:
    """cumsum, cumprod, cummax, cummin and cumlogsumexp: recurrences over the axis."""
    function, params = CUMULATIVE[equation.primitive], equation.params
    _, found = cumulated(equation, equation.operands[0], params["axis"], function, reverse=params["reverse"])
    return [found]


def split(equation: Equation) -> list[Value]:
    """split; a part may have no indices."""
    value, axis = equation.operands[0], int(equation.params["axis"])
    sizes = [int(size) for size in equation.params["sizes"]]
    nothing = known(np.zeros([0 if other == axis else size for other, size in enumerate(value.shape)]), value.bits)
    return [equation.take(value, axis, sum(sizes[:i]), 1, n) if n else nothing for i, n in enumerate(sizes)]


def unstacked(equation: Equation) -> list[Value]:
    """unstack: each index of an axis by itself, as `q, k, v = x` and loops over rows take them."""
    (value,) = equation.operands
    axis = int(equation.params["axis"])
    return [
        reshape(equation.take(value, axis, i, 1, 1), value.shape[:axis] + value.shape[axis + 1 :])
        for i in range(value.shape[axis])
    ]


def reversed_(equation: Equation) -> list[Value]:
    """rev."""
    value = equation.operands[0]
    for axis in equation.params["dimensions"]:
        value = equation.take(value, axis, value.shape[axis] - 1, -1, value.shape[axis])
    return [value]


def concatenate(equation: Equation) -> list[Value]:
    """concatenate: one view, or a tensor that is the sum of its parts."""
    axis = int(equation.params["dimension"])
    return [joined(equation, equation.operands, axis)]


def stacked(equation: Equation) -> list[Value]:
    """stack: values along a new axis."""
    axis = int(equation.params["axis"])
    shape = (*equation.shape[:axis], 1, *equation.shape[axis + 1 :])
    return [joined(equation, tuple(equation.reshape(value, shape) for value in equation.operands), axis)]


def joined(equation: Equation, values: tuple[Value, ...], axis: int) -> Value:
    """Values along an axis as one value; those without indices there add nothing. Its parts are remembered."""
    values = tuple(value for value in values if value.shape[axis])
    if len(values) == 1:
        return values[0]
    found = concatenated(equation.builder, values, axis, equation.name)
    if not isinstance(found, Parts):
        return found
    value = whole(equation.builder, found, equation.name)
    equation.parts[value.leaves[0].tensor.name] = found
    return value


def padded(equation: Equation) -> list[Value]:
    """pad, between the values as well: a copy into a tensor with a border and holes of zeros, or of another number."""
    value, filled = equation.operands
    widths = equation.params["padding_config"]
    wide = widened(equation, value, widths)
    if filled.array is not None and not np.any(filled.array):
        return [wide]
    inside = np.ones(())
    for (low, high, between), size in zip(widths, value.shape, strict=True):
        ones = np.zeros((between + 1) * (size - 1) + 1)
        ones[:: between + 1] = 1
        ones = np.pad(ones, (max(low, 0), max(high, 0)))
        ones = ones[max(-low, 0) : len(ones) - max(-high, 0)]
        inside = np.multiply.outer(inside, ones[:1] if ones.all() else ones)
    return [equation.pointwise("select(a, b, c)", known(inside, 8), wide, filled, bits=value.bits)]


def widened(equation: Equation, value: Value, widths: list[tuple[int, int, int]]) -> Value:
    """The value with zeros before, after and between its indices, axis by axis; negative widths cut."""
    labels = [f"x{axis}" for axis in range(len(value.shape))]
    out: list[str | Spread] = list(labels)
    cuts = []
    for axis, width in enumerate(widths):
        low, high, between = map(int, width)
        reach = (between + 1) * (value.shape[axis] - 1) + 1
        size = reach + max(low, 0) + max(high, 0)
        if size != value.shape[axis]:
            out[axis] = Spread(((labels[axis], between + 1),), size, max(low, 0))
        cuts.append((-min(low, 0), size + min(low, 0) + min(high, 0)))
    if out != labels:
        plain = equation.builder.written(value, f"{equation.name}_input")
        value = equation.builder.einsum(equation.name, [(plain, labels)], out, expression_of("a", 1), value.bits)
    for axis, (start, count) in enumerate(cuts):
        if count < 1:
            raise NotExpressible("nothing is left of an axis")
        value = equation.take(value, axis, start, 1, count)
    return value


LAYOUT: dict[str, Callable[[Equation], list[Value]]] = {
    "transpose": transposed,
    "reshape": reshaped,
    "squeeze": reshaped,
    "expand_dims": reshaped,
    "broadcast_in_dim": spread,
    "slice": sliced,
    "split": split,
    "unstack": unstacked,
    "rev": reversed_,
    "concatenate": concatenate,
    "stack": stacked,
    "pad": padded,
    "tile": tiled,
    **dict.fromkeys(CUMULATIVE, cumulated_along),
}
"""By the name of the primitive."""
