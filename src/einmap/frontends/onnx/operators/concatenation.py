"""Operators on concatenated values: part by part, or summed over the parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod

import numpy as np

from einmap.errors import SpecError
from einmap.frontends.cascade.builder import check_shape
from einmap.frontends.cascade.parts import Parts, concatenated, part_of, whole
from einmap.frontends.cascade.values import Value, broadcast, broadcast_shape, known
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.contractions import convolved, with_bias
from einmap.frontends.onnx.operators.elementwise import ELEMENTWISE
from einmap.frontends.onnx.operators.normalisation import reduced
from einmap.frontends.onnx.operators.quantised import fraction, rounded
from einmap.frontends.onnx.operators.table import OPERATORS
from einmap.frontends.onnx.operators.windows import WINDOWS

type Operand = Value | Parts | None
type Rule = Callable[[Call, tuple[Operand, ...]], list[Value | Parts] | None]
"""An operator of which some operands are parts; None where it needs them as one tensor."""


def concat(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts]:
    """Concat."""
    given = [value for value in operands if value is not None]
    if len(given) != len(operands) or not given:
        raise SpecError("an operand is missing", at=call.node.at)
    axis = call.axis(call.integer("axis", 0), len(given[0].shape))
    others = {(*value.shape[:axis], *value.shape[axis + 1 :]) for value in given}
    if len(others) != 1:
        raise SpecError(f"shapes {', '.join(str([*v.shape]) for v in given)} do not fit", at=call.node.at)
    values: list[Value] = []
    # a part of no index, such as an empty cache, adds nothing
    for value in [value for value in given if value.shape[axis]] or given[:1]:
        if isinstance(value, Parts):
            values += value.values if value.axis == axis else [whole(call.builder, value, call.name)]
        else:
            values.append(value)
    return [values[0] if len(values) == 1 else concatenated(call.builder, values, axis, call.name)]


def linear_concat(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts]:
    """QLinearConcat: behind scale and zero point of the result, operands each with their own."""
    rest = operands[2:]
    values: list[Operand] = []
    for value, factor, moved in zip(rest[::3], rest[1::3], rest[2::3], strict=False):
        if isinstance(factor, Parts) or isinstance(moved, Parts) or value is None:
            raise SpecError("an operand is missing, or is not a scale", at=call.node.at)
        if isinstance(value, Parts):
            values.append(Parts(value.axis, tuple(fraction(call, part, factor, moved) for part in value.values)))
        else:
            values.append(fraction(call, value, factor, moved))
    (joined_value,) = concat(call, tuple(values))
    if isinstance(joined_value, Value):
        return [rounded(call, joined_value, 0, 1)]
    return [Parts(joined_value.axis, tuple(rounded(call, part, 0, 1) for part in joined_value.values))]


CONCATENATIONS: dict[str, Callable[[Call, tuple[Operand, ...]], list[Value | Parts]]] = {
    "Concat": concat,
    "com.microsoft.QLinearConcat": linear_concat,
}
"""By the name of the operator."""


def by_parts(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts]:
    """The results of an operator with parts among its operands, which are joined where it has no rule for them."""
    rule = RULES.get(call.node.operator)
    results = rule(call, operands) if rule is not None else None
    if results is not None:
        return results
    return [*_operator(call)(joined(call, operands))]


def joined(call: Call, operands: tuple[Operand, ...]) -> Call:
    """The operator with parts joined to one tensor each."""
    values = tuple(whole(call.builder, v, f"{call.name}_operand") if isinstance(v, Parts) else v for v in operands)
    return replace(call, operands=values)


def _operator(call: Call) -> Callable[[Call], list[Value]]:
    return OPERATORS[call.node.operator]


def _each(
    call: Call, parts: Parts, chosen: Callable[[int], tuple[Value | None, ...]], axis: int
) -> list[Value | Parts]:
    """The operator applied to each part, with the operands that `chosen` gives for it."""
    results = []
    for i in range(len(parts.values)):
        one = replace(call, operands=chosen(i), name=f"{call.name}_{i + 1}")
        results.append(_operator(call)(one)[0])
    return [Parts(axis, tuple(results))]


def pointwise(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """Element-wise operators: other operands are cut as the parts are, unless they broadcast along the axis."""
    rank = max(len(v.shape) for v in operands if v is not None)
    found = [v for v in operands if isinstance(v, Parts)]
    first = found[0]
    from_end = first.axis - len(first.shape)
    if any(v.axis - len(v.shape) != from_end or v.sizes != first.sizes for v in found):
        return None

    def chosen(i: int) -> tuple[Value | None, ...]:
        return tuple(_cut(call, value, first, i, from_end) for value in operands)

    return _each(call, first, chosen, rank + from_end)


def _cut(call: Call, value: Operand, like: Parts, i: int, from_end: int) -> Value | None:
    if value is None:
        return None
    if isinstance(value, Parts):
        return value.values[i]
    axis = len(value.shape) + from_end
    if axis < 0 or value.shape[axis] == 1:
        return value
    if value.shape[axis] != sum(like.sizes):
        raise SpecError(f"the shapes {[*like.shape]} and {[*value.shape]} do not broadcast", at=call.node.at)
    return part_of(call.builder, value, axis, like.starts[i], like.sizes[i], call.name)


def quantised(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """QuantizeLinear and DequantizeLinear with one scale for all."""
    return pointwise(call, operands) if all(v is None or v.shape in ((), (1,)) for v in operands[1:]) else None


def channels(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """Operators on batches and channels alone, with parameters by channel: windows, batch normalisation."""
    x = operands[0]
    if not isinstance(x, Parts) or x.axis > 1 or any(isinstance(v, Parts) for v in operands[1:]):
        return None

    def chosen(i: int) -> tuple[Value | None, ...]:
        others = operands[1:]
        if x.axis == 1 and call.node.operator == "BatchNormalization":
            others = tuple(_cut(call, v, x, i, -1) for v in others)
        return (x.values[i], *(v for v in others if not isinstance(v, Parts)))

    return _each(call, x, chosen, x.axis)


def conv(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """Conv over parts of the channels: the sum of a convolution of each."""
    x, w, bias = (*operands, None, None)[:3]
    if not isinstance(x, Parts) or not isinstance(w, Value) or isinstance(bias, Parts) or x.axis > 1:
        return None
    if x.axis == 0:
        return channels(call, operands)
    if call.integer("group", 1) != 1 or len(w.shape) != len(x.shape) or w.shape[1] != x.shape[1]:
        return None
    sums = [
        convolved(call, value, part_of(call.builder, w, 1, start, size, call.name), f"{call.name}_sum_{i + 1}")
        for i, (value, start, size) in enumerate(zip(x.values, x.starts, x.sizes, strict=True))
    ]
    return [with_bias(call, _added(call, sums), bias)]


def _added(call: Call, values: list[Value]) -> Value:
    total = values[0]
    for value in values[1:]:
        total = call.pointwise("a + b", total, value)
    return total


def matmul(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """MatMul: parts of the summed axis are added, parts of rows of the first or columns of the second stay parts."""
    a, b = (*operands, None)[:2]
    if a is None or b is None or len(a.shape) < 2 or len(b.shape) < 2:
        return None
    # a factor that all parts are multiplied with is computed once
    a, b = (call.builder.kept(v, f"{call.name}_input") if isinstance(v, Value) else v for v in (a, b))
    rank = max(len(a.shape), len(b.shape))
    left = a.axis - len(a.shape) if isinstance(a, Parts) else None
    right = b.axis - len(b.shape) if isinstance(b, Parts) else None
    if left in (-1, None) and right in (-2, None):
        parts = a if isinstance(a, Parts) else b
        assert isinstance(parts, Parts)
        if isinstance(a, Parts) and isinstance(b, Parts) and a.sizes != b.sizes:
            return None
        products = []
        for i in range(len(parts.values)):
            pair = _cut(call, a, parts, i, -1), _cut(call, b, parts, i, -2)
            products += _operator(call)(replace(call, operands=pair, name=f"{call.name}_{i + 1}"))
        return [_added(call, products)]
    if isinstance(a, Parts) and left == -2 and isinstance(b, Value):
        return _each(call, a, lambda i: (a.values[i], b), rank - 2)
    if isinstance(b, Parts) and right == -1 and isinstance(a, Value):
        return _each(call, b, lambda i: (a, b.values[i]), rank - 1)
    return None


def reduce(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """Reductions of each part; over the axis of the parts then of their results."""
    x = operands[0]
    given = call.integers("axes")
    if given is None and len(operands) > 1 and isinstance(operands[1], Value) and operands[1].array is not None:
        given = [int(v) for v in operands[1].array.reshape(-1)]
    if not isinstance(x, Parts) or not given or not call.integer("keepdims", 1):
        return None
    others = tuple(v for v in operands[1:] if not isinstance(v, Parts))
    each = _each(call, x, lambda i: (x.values[i], *others), x.axis)
    if x.axis not in [call.axis(axis, len(x.shape)) for axis in given]:
        return each
    if call.node.operator not in _JOINED or not isinstance(each[0], Parts):
        return None
    total = each[0].values[0]
    for value in each[0].values[1:]:
        total = call.pointwise(_JOINED[call.node.operator], total, value)
    return [total]


_JOINED = {"ReduceSum": "a + b", "ReduceMax": "max(a, b)", "ReduceMin": "min(a, b)", "ReduceL1": "a + b",
           "ReduceSumSquare": "a + b"}  # fmt: skip
"""How results of reductions over parts become that over all of them."""


def softmax(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """Softmax along the parts: the largest of their maxima, and the sum of their sums."""
    x = operands[0]
    if not isinstance(x, Parts) or call.opset < 13:
        return None
    axis = call.axis(call.integer("axis", -1), len(x.shape))
    if axis != x.axis:
        return _each(call, x, lambda i: (x.values[i],), x.axis)
    values = [call.builder.written(v, f"{call.name}_input_{i + 1}") for i, v in enumerate(x.values)]
    maxima = [reduced(call, v, [axis], reduction="max", name=f"{call.name}_max_{i + 1}") for i, v in enumerate(values)]
    largest = maxima[0]
    for value in maxima[1:]:
        largest = call.pointwise("max(a, b)", largest, value)
    largest = call.builder.written(largest, f"{call.name}_max")
    powers = [
        call.builder.written(call.pointwise("exp(a - b)", v, largest), f"{call.name}_exp_{i + 1}")
        for i, v in enumerate(values)
    ]
    sums = [reduced(call, v, [axis], name=f"{call.name}_sum_{i + 1}") for i, v in enumerate(powers)]
    total = call.builder.written(_added(call, sums), f"{call.name}_sum")
    return [Parts(axis, tuple(call.pointwise("a / b", v, total) for v in powers))]


def transposed(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """Transpose: the axis of the parts moves."""
    x = operands[0]
    assert isinstance(x, Parts)
    rank = len(x.shape)
    order = call.integers("perm") or [*reversed(range(rank))]
    return _each(call, x, lambda i: (x.values[i],), order.index(x.axis)) if sorted(order) == [*range(rank)] else None


def reshaped(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """Changes of shape that leave the axis of the parts as it is."""
    x = operands[0]
    if not isinstance(x, Parts) or any(isinstance(v, Parts) for v in operands[1:]):
        return None
    others = tuple(v for v in operands[1:] if not isinstance(v, Parts))
    # what becomes of the shape: numbers that take no room
    told = known(np.broadcast_to(np.float64(0), x.shape), x.bits)
    (result,) = _operator(call)(replace(call, operands=(told, *others)))
    before = prod(x.shape[: x.axis])
    axis = next((i for i in range(len(result.shape)) if prod(result.shape[:i]) == before), None)
    while axis is not None and axis < len(result.shape) and result.shape[axis] == 1 != x.shape[x.axis]:
        axis += 1
    if axis is None or result.shape[axis : axis + 1] != (x.shape[x.axis],):
        return None
    shapes = [(*result.shape[:axis], n, *result.shape[axis + 1 :]) for n in x.sizes]
    return [Parts(axis, tuple(call.reshape(v, shape) for v, shape in zip(x.values, shapes, strict=True)))]


def expanded(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """Expand along other axes than that of the parts."""
    x = operands[0]
    if not isinstance(x, Parts) or any(isinstance(v, Parts) for v in operands[1:]):
        return None
    shape = broadcast_shape(x.shape, call.known_integers(1, "the shape"))
    check_shape(shape, "its result")
    axis = len(shape) - len(x.shape) + x.axis
    sizes = [(*shape[:axis], n, *shape[axis + 1 :]) for n in x.sizes]
    return [Parts(axis, tuple(broadcast(v, one) for v, one in zip(x.values, sizes, strict=True)))]


def cut(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """Slice and Split along other axes than that of the parts."""
    x = operands[0]
    if not isinstance(x, Parts) or any(isinstance(v, Parts) for v in operands[1:]):
        return None
    others = tuple(v for v in operands[1:] if not isinstance(v, Parts))
    if call.node.operator == "Split":
        axes = [call.integer("axis", 0)]
    elif call.opset < 10 or len(others) < 3 or others[2] is None:
        return None
    else:
        axes = call.known_integers(3, "an axis")
    if x.axis in [call.axis(axis, len(x.shape)) for axis in axes]:
        return None
    found = [_operator(call)(replace(call, operands=(v, *others))) for v in x.values]
    return [Parts(x.axis, values) for values in zip(*found, strict=True)]


def flattened(call: Call, operands: tuple[Operand, ...]) -> list[Value | Parts] | None:
    """Flatten at the axis of the parts."""
    x = operands[0]
    if not isinstance(x, Parts) or call.integer("axis", 1) != 1 or x.axis > 1:
        return None
    return _each(call, x, lambda i: (x.values[i],), x.axis)


RULES: dict[str, Rule] = {
    **dict.fromkeys(ELEMENTWISE, pointwise),
    **dict.fromkeys(("Cast", "Identity", "Dropout"), pointwise),
    **dict.fromkeys(("Reshape", "Squeeze", "Unsqueeze"), reshaped),
    **dict.fromkeys(("Slice", "Split"), cut),
    "Expand": expanded,
    **dict.fromkeys((*WINDOWS, "BatchNormalization"), channels),
    **dict.fromkeys(
        ("ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceSumSquare"), reduce
    ),
    **dict.fromkeys(("QuantizeLinear", "DequantizeLinear"), quantised),
    "Conv": conv,
    "MatMul": matmul,
    "Softmax": softmax,
    "Transpose": transposed,
    "Flatten": flattened,
}
"""By the name of the operator."""
