"""Operators on integers that stand for fractions: `fraction = scale * (integer - zero point)`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.cascade.values import Value
from einmap.frontends.onnx.kinds import INTEGERS, UINT8, UNSIGNED
from einmap.frontends.onnx.model import bits_of
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.contractions import conv_sum, matrix_product, with_bias

ACCUMULATED = 32
"""Bits of sums of products of integers, as in ONNX."""


def quantise(call: Call) -> list[Value]:
    """QuantizeLinear: the nearest integer of `x / scale`, within the type of the zero point."""
    value = call.operand(0)
    return [_rounded(call, "a / b", value, _along(call, value, call.operand(1)), 2)]


def dequantise(call: Call) -> list[Value]:
    """DequantizeLinear."""
    value, scale = call.operand(0), _along(call, call.operand(0), call.operand(1))
    zero = call.optional(2)
    if zero is None or _is_zero(zero):
        return [call.pointwise("a * b", value, scale, bits=call.operand(1).bits)]
    return [call.pointwise("(a - c) * b", value, scale, _along(call, value, zero), bits=call.operand(1).bits)]


def _along(call: Call, value: Value, parameter: Value) -> Value:
    """A scale or zero point: one for all, or one for each index of an axis."""
    if len(parameter.shape) == 0 or parameter.shape == (1,):
        return parameter
    if len(parameter.shape) != 1:
        raise NotExpressible("its scale is by blocks")
    axis = call.axis(call.integer("axis", 1), len(value.shape))
    return call.reshape(parameter, (*parameter.shape, *(1 for _ in value.shape[axis + 1 :])))


def _is_zero(value: Value) -> bool:
    return value.array is not None and not np.any(value.array)


def _rounded(call: Call, text: str, value: Value, factor: Value, place: int) -> Value:
    """`text` of a value and a factor, rounded, moved by the zero point at a place, and kept within its type."""
    zero = call.optional(place)
    kind = (call.integer("output_dtype", 0) or UINT8) if zero is None else call.kinds[place]
    if kind not in INTEGERS:
        raise NotExpressible("its results are not integers")
    bits = bits_of(kind)
    low, high = (0, 2**bits - 1) if kind in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    y = call.pointwise(f"round({text})", value, factor, bits=bits)
    if zero is not None and not _is_zero(zero):
        y = call.pointwise("a + b", y, _along(call, value, zero), bits=bits)
    return call.pointwise(f"max(min(a, {high}), ({low}))", y, bits=bits)


def _centred(call: Call, value: Value, zero: Value | None, axis: int | None = None) -> Value:
    """Integers without their zero point; for weights one for each index of an axis."""
    if zero is None or _is_zero(zero):
        return value
    if axis is not None and zero.shape not in ((), (1,)):
        zero = call.reshape(zero, (*zero.shape, *(1 for _ in value.shape[axis + 1 :])))
    return call.pointwise("a - b", value, zero, bits=value.bits)


def matmul_integer(call: Call) -> list[Value]:
    """MatMulInteger: a matrix product of integers, with sums of 32 bits."""
    a = _centred(call, call.operand(0), call.optional(2), axis=0)
    b = _centred(call, call.operand(1), call.optional(3))
    return [matrix_product(call, a, b, bits=ACCUMULATED)]


def conv_integer(call: Call) -> list[Value]:
    """ConvInteger: a convolution of integers; padding stands for the zero point, so for 0 after it is taken off."""
    x = _centred(call, call.operand(0), call.optional(2))
    w = _centred(call, call.operand(1), call.optional(3), axis=0)
    return [conv_sum(call, x, w, call.name, bits=ACCUMULATED)]


def linear_matmul(call: Call) -> list[Value]:
    """QLinearMatMul."""
    a = _centred(call, call.operand(0), call.optional(2), axis=0)
    b = _centred(call, call.operand(3), call.optional(5))
    y = matrix_product(call, a, b, f"{call.name}_sum", bits=ACCUMULATED)
    return [_rounded(call, "a * b", y, _factor(call, (1, 4, 6), None), 7)]


def linear_conv(call: Call) -> list[Value]:
    """QLinearConv: the bias has the scale of the products."""
    x = _centred(call, call.operand(0), call.optional(2))
    w = _centred(call, call.operand(3), call.optional(5), axis=0)
    y = with_bias(call, conv_sum(call, x, w, f"{call.name}_sum", bits=ACCUMULATED), call.optional(8))
    return [_rounded(call, "a * b", y, _factor(call, (1, 4, 6), len(y.shape) - 2), 7)]


def _factor(call: Call, places: Sequence[int], ones: int | None) -> Value:
    """The scale of the products over that of the result; that of the weights may be by output channel."""
    left, right, result = (call.operand(place) for place in places)
    if ones is not None and right.shape not in ((), (1,)):
        right = call.reshape(right, (*right.shape, *(1 for _ in range(ones))))
    if left.array is not None and right.array is not None and result.array is not None:
        array = np.asarray(left.array * right.array / result.array)
        return replace(left, shape=array.shape, expression=None, leaves=(), array=array)
    return call.pointwise("a * b / c", left, right, result)


QUANTISED: dict[str, Callable[[Call], list[Value]]] = {
    "QuantizeLinear": quantise,
    "DequantizeLinear": dequantise,
    "MatMulInteger": matmul_integer,
    "ConvInteger": conv_integer,
    "QLinearMatMul": linear_matmul,
    "QLinearConv": linear_conv,
}
"""By the name of the operator."""
