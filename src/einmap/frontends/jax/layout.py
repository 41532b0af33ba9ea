"""Primitives on shapes alone, slices, padding and embeddings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from einmap.einsum.operation import Apply, Number, Operand
from einmap.frontends.cascade.builder import Spread
from einmap.frontends.cascade.parts import Parts, concatenated, whole
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.values import Value, broadcast, reshape, stored, transpose
from einmap.frontends.jax.equation import Equation


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


def sliced_at(equation: Equation) -> list[Value]:
    """dynamic_slice at places that are known."""
    value, *places = equation.operands
    for axis, (place, size) in enumerate(zip(places, equation.params["slice_sizes"], strict=True)):
        if place.array is None:
            raise NotExpressible("its place is known only when the function runs")
        start = min(max(0, int(place.array.reshape(-1)[0])), value.shape[axis] - size)
        value = equation.take(value, axis, start, 1, int(size))
    return [value]


def split(equation: Equation) -> list[Value]:
    """split."""
    value, axis = equation.operands[0], int(equation.params["axis"])
    sizes = [int(size) for size in equation.params["sizes"]]
    return [equation.take(value, axis, sum(sizes[:i]), 1, size) for i, size in enumerate(sizes)]


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
    """Values along an axis as one value; those without indices there add nothing."""
    values = tuple(value for value in values if value.shape[axis])
    if len(values) == 1:
        return values[0]
    found = concatenated(equation.builder, values, axis, equation.name)
    return whole(equation.builder, found, equation.name) if isinstance(found, Parts) else found


def padded(equation: Equation) -> list[Value]:
    """pad with zeros, between the values as well: a copy into a tensor with a border and holes."""
    value, filled = equation.operands
    if filled.array is None or np.any(filled.array):
        raise NotExpressible("it pads with other numbers than 0")
    return [widened(equation, value, equation.params["padding_config"])]


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


def gathered(equation: Equation) -> list[Value]:
    """gather of whole rows along one axis, as `table[ids]` and `jnp.take` write it."""
    table, places = equation.operands
    numbers = equation.params["dimension_numbers"]
    rank, sizes = len(table.shape), tuple(equation.params["slice_sizes"])
    axes = tuple(numbers.start_index_map)
    if len(axes) != 1 or tuple(numbers.collapsed_slice_dims) != axes or numbers.operand_batching_dims:
        raise NotExpressible("it does not take whole rows along one axis")
    (axis,) = axes
    n_places = len(places.shape) - 1
    kept = tuple(range(axis)) + tuple(range(axis + n_places, axis + n_places + rank - 1 - axis))
    whole = tuple(1 if i == axis else n for i, n in enumerate(table.shape))
    if sizes != whole or tuple(numbers.offset_dims) != kept or places.shape[-1] != 1:
        raise NotExpressible("it does not take whole rows along one axis")
    chosen = reshape(_plain_index(places, table.shape[axis]), places.shape[:-1])
    return [equation.gathered(table, [(axis, chosen)])]


def _plain_index(value: Value, size: int) -> Value:
    """Indices that are known not to be negative: JAX has counted those from the end that were.

    Where they are those of an argument, these stand for them: their values are counted when they come in.
    """
    match value.expression:
        case Apply("select", (Apply("less", (a, Number(0.0))), Apply("add", (b, Number(n))), c)) if (
            a == b == c and n == size
        ):
            if isinstance(a, Operand) and len(value.leaves) == 1 and isinstance(value.leaves[0].tensor.source, str):
                return stored(value.leaves[0])
            return replace(value, nonnegative=True)
        case _:
            return value


LAYOUT: dict[str, Callable[[Equation], list[Value]]] = {
    "transpose": transposed,
    "reshape": reshaped,
    "squeeze": reshaped,
    "expand_dims": reshaped,
    "broadcast_in_dim": spread,
    "slice": sliced,
    "dynamic_slice": sliced_at,
    "split": split,
    "rev": reversed_,
    "concatenate": concatenate,
    "stack": stacked,
    "pad": padded,
    "gather": gathered,
}
"""By the name of the primitive."""
