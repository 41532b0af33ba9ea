"""Operators on numbers that are known before the model runs: shapes, axes, masks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from math import prod
from typing import Any

import numpy as np

from einmap.errors import SpecError
from einmap.frontends.cascade.program import Array
from einmap.frontends.cascade.values import Value, broadcast_shape, known
from einmap.frontends.onnx.model import array_of, bits_of
from einmap.frontends.onnx.operators.call import Call

MOST_FOLDED = 2**22
"""Numbers of one constant that are computed."""
_POINTWISE: dict[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Neg": np.negative, "Abs": np.abs, "Floor": np.floor,
    "Ceil": np.ceil, "Sqrt": np.sqrt, "Equal": np.equal, "Less": np.less, "Greater": np.greater, "Not": np.logical_not,
    "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal, "And": np.logical_and, "Or": np.logical_or,
    "Where": np.where, "Exp": np.exp, "Pow": np.power, "Reciprocal": np.reciprocal, "Sin": np.sin, "Cos": np.cos,
    "Xor": np.logical_xor, "Log": np.log, "Sign": np.sign, "Round": np.round, "Tanh": np.tanh, "IsNaN": np.isnan,
    "BitwiseAnd": np.bitwise_and, "BitwiseOr": np.bitwise_or, "BitwiseXor": np.bitwise_xor,
    "BitwiseNot": np.bitwise_not,
}  # fmt: skip
_UNARY = frozenset({
    "Neg", "Abs", "Floor", "Ceil", "Sqrt", "Not", "Exp", "Reciprocal", "Sin", "Cos", "Log", "Sign", "Round", "Tanh",
    "IsNaN", "BitwiseNot",
})  # fmt: skip
_SEVERAL: dict[str, Callable[..., Any]] = {"Max": np.maximum, "Min": np.minimum, "Sum": np.add}
_REDUCED: dict[str, Callable[..., Any]] = {
    "ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceMean": np.mean,
}  # fmt: skip


def _is_small(*shapes: Sequence[int]) -> bool:
    return all(prod(shape) <= MOST_FOLDED for shape in shapes)


def constant(call: Call) -> Value:
    """Constant: the tensor or the numbers in its attributes."""
    attributes = call.node.attributes
    if "value" in attributes:
        tensor = attributes["value"]
        array = array_of(tensor)
        if array is None:
            bits, source = bits_of(tensor.data_type), call.node.outputs[0]
            return call.builder.graph_input(call.name, tuple(tensor.dims), bits, source, weight=True)
        return known(array, bits_of(tensor.data_type))
    for name in ("value_float", "value_floats", "value_int", "value_ints"):
        if name in attributes:
            return known(np.asarray(attributes[name]), 32 if "float" in name else 64)
    raise SpecError("this constant has no numbers", at=call.node.at)


def folded(call: Call, arrays: Sequence[Array | None]) -> list[Array] | None:
    """The results of an operator on known numbers; None where it is not one of these, or would be too large."""
    if any(array is None for array in arrays) or not arrays:
        return None
    operands = [array for array in arrays if array is not None]
    kind = call.node.operator
    with np.errstate(all="ignore"):
        if kind in _POINTWISE:
            return _pointwise(kind, operands, call)
        if kind in ("Div", "Mod"):
            return _divided(operands, call)
        if kind in _SEVERAL:
            shape = broadcast_shape(*(array.shape for array in operands))
            return [reduce(_SEVERAL[kind], operands)] if _is_small(shape) else None
        if kind in _REDUCED:
            return _reduced(operands, call)
        try:
            return _of_shapes(kind, operands, call)
        except (OverflowError, ValueError) as error:  # infinity, or none at all, where an integer has to be
            raise SpecError(f"its constants do not fit: {error}", at=call.node.at) from None


def _pointwise(kind: str, operands: list[Array], call: Call) -> list[Array] | None:
    wanted = 1 if kind in _UNARY else 3 if kind == "Where" else 2
    if len(operands) != wanted:
        raise SpecError(f"{kind} takes {wanted} operands, found {len(operands)}", at=call.node.at)
    shape = broadcast_shape(*(array.shape for array in operands))
    try:
        return [np.asarray(_POINTWISE[kind](*operands))] if _is_small(shape) else None
    except (ValueError, TypeError) as error:
        raise SpecError(f"its constants do not fit: {error}", at=call.node.at) from None


def _divided(operands: list[Array], call: Call) -> list[Array] | None:
    if len(operands) != 2 or not _is_small(broadcast_shape(*(array.shape for array in operands))):
        return None
    a, b = operands
    is_of_integers = a.dtype.kind in "iu" and b.dtype.kind in "iu"
    if call.node.operator == "Mod":
        left = np.fmod if call.integer("fmod", 0) else np.mod
        return [np.asarray(left(a, np.where(b == 0, 1, b) if is_of_integers else b))]
    if is_of_integers:  # towards zero, as in C
        quotient = np.abs(a) // np.where(b == 0, 1, np.abs(b))
        return [np.asarray(quotient * np.sign(a) * np.sign(b))]
    return [np.asarray(a / b)]


def _reduced(operands: list[Array], call: Call) -> list[Array] | None:
    first, given = operands[0], call.integers("axes")
    if given is None and len(operands) > 1:
        given = [int(v) for v in operands[1].reshape(-1)]
    if not first.size or not _is_small(first.shape):
        return None
    if not given and call.integer("noop_with_empty_axes", 0):
        return [first]
    axes = tuple({call.axis(axis, first.ndim) for axis in given}) if given else None
    total = _REDUCED[call.node.operator](first, axis=axes, keepdims=bool(call.integer("keepdims", 1)))
    return [np.asarray(total).astype(first.dtype)]


def _of_shapes(kind: str, operands: list[Array], call: Call) -> list[Array] | None:
    first = operands[0]
    if kind == "Concat" and _is_small([sum(array.size for array in operands)]):
        axis = call.axis(call.integer("axis", 0), max(1, first.ndim))
        try:
            return [np.concatenate(operands, axis=axis)]
        except ValueError as error:
            raise SpecError(f"its constants do not fit: {error}", at=call.node.at) from None
    if kind == "ConstantOfShape":
        shape = tuple(int(v) for v in first.reshape(-1))
        if any(size < 0 for size in shape):
            raise SpecError(f"the shape {[*shape]} has a negative dimension", at=call.node.at)
        tensor = call.node.attributes.get("value")
        value = np.zeros(1, np.float32) if tensor is None else array_of(tensor)
        return None if value is None else [np.broadcast_to(value.reshape(-1)[:1].reshape(()), shape)]
    if kind == "Range" and len(operands) == 3:
        start, limit, delta = (array.reshape(-1)[0] for array in operands)
        count = max(0, int(np.ceil((limit - start) / delta))) if delta else 0
        return [start + np.arange(count) * delta] if count <= MOST_FOLDED else None
    if kind == "Gather" and len(operands) == 2 and _is_small(operands[1].shape):
        axis = call.axis(call.integer("axis", 0), max(1, first.ndim))
        if not _is_small([first.size // max(1, first.shape[axis] if first.ndim else 1), operands[1].size]):
            return None
        try:
            taken = np.take(first, operands[1].astype(np.int64), axis=axis)
        except IndexError as error:
            raise SpecError(f"an index is out of range: {error}", at=call.node.at) from None
        return [np.asarray(taken)]
    if kind == "Tile" and len(operands) == 2:
        times = [int(v) for v in operands[1].reshape(-1)]
        small = min(times, default=1) >= 0 and _is_small([max(1, first.size) * prod(times)])
        return [np.tile(first, times)] if small else None
    if kind == "Trilu" and first.ndim >= 2 and _is_small(first.shape):
        offset = int(operands[1].reshape(-1)[0]) if len(operands) > 1 else 0
        return [np.triu(first, offset) if call.integer("upper", 1) else np.tril(first, offset)]
    if kind == "NonZero" and _is_small(first.shape, [first.size * first.ndim]):
        return [np.array(np.nonzero(np.atleast_1d(first)), np.int64)]
    if kind == "CumSum" and len(operands) == 2 and not (call.integer("exclusive", 0) or call.integer("reverse", 0)):
        axis = call.axis(int(operands[1].reshape(-1)[0]), first.ndim)
        return [np.cumsum(first, axis=axis, dtype=first.dtype)] if _is_small(first.shape) else None
    if kind == "EyeLike" and first.ndim == 2 and _is_small(first.shape):
        return [np.eye(first.shape[0], first.shape[1], call.integer("k", 0))]
    return None


def shape_of(call: Call, shape: tuple[int, ...]) -> Value:
    """Shape and Size of an operand with this shape: known, as all dimensions are."""
    if call.node.operator == "Size":
        return known(np.asarray(prod(shape), np.int64), 64)
    start, end = call.integer("start", 0), call.integer("end", len(shape))
    return known(np.asarray(shape[start:end], np.int64), 64)
