"""Operators on integers that stand for fractions: `fraction = scale * (integer - zero point)`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from einmap.errors import SpecError
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.cascade.values import Scaled, Value, broadcast, number_of, numbers_of, reshape
from einmap.frontends.onnx.kinds import INTEGERS, UINT8, UNSIGNED
from einmap.frontends.onnx.model import bits_of
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.contractions import convolved, matrix_product

ACCUMULATED = 32
"""Bits of sums of products of integers, as in ONNX."""


def quantise(call: Call) -> list[Value]:
    """QuantizeLinear: the nearest integer of `x / scale`, within the type of the zero point."""
    return [rounded(call, call.operand(0), 1, 2, call.integer("axis", 1))]


def dequantise(call: Call) -> list[Value]:
    """DequantizeLinear: a fraction that keeps its integers, which contractions read."""
    return [fraction(call, call.operand(0), call.operand(1), call.optional(2), call.integer("axis", 1))]


def fraction(call: Call, value: Value, scale: Value | None, zero: Value | None, axis: int = 1) -> Value:
    """Integers that stand for fractions; `axis`: that along which scales or zero points differ, if they do."""
    bits = ACCUMULATED if scale is None else scale.bits
    factor = None if scale is None else _along(call, value, scale, axis)
    subtracted = None if zero is None else _along(call, value, zero, axis)
    if _constant(subtracted) == 0:
        subtracted = None
    before = value.scaled
    if before is not None and before.offset is not None and _is_same(before.offset, subtracted):
        # what was rounded before it was moved by the zero point
        return call.fraction(Scaled(before.integers, None, factor, ends=before.ends), bits)
    if before is not None and before.offset is None and before.scale is None and subtracted is None:
        return call.fraction(Scaled(before.integers, before.zero, factor, ends=before.ends), bits)
    return call.fraction(Scaled(replace(value, scaled=None), subtracted, factor), bits)


def _is_same(a: Value, b: Value | None) -> bool:
    return b is not None and (a.expression, a.leaves) == (b.expression, b.leaves)


def _along(call: Call, value: Value, parameter: Value, axis: int) -> Value:
    """A scale or zero point with the axes of a value: one for all, one for each index of an axis, or for each block."""
    rank, shape = len(value.shape), parameter.shape
    parameter = call.builder.as_expression(parameter, call.name)
    if not parameter.leaves:
        parameter = replace(parameter, array=None)
    numbers = numbers_of(parameter)
    parameter = replace(parameter, nonnegative=numbers is not None and bool((numbers >= 0).all()))
    if shape in ((), (1,)):
        return reshape(parameter, [1] * rank)
    axis = call.axis(axis, rank)
    size, ones = value.shape[axis], [1] * rank
    if len(shape) == 1 and shape[0] == size:
        return reshape(parameter, [*ones[:axis], size, *ones[axis + 1 :]])
    block = call.integer("block_size", 0) or -(-size // max(1, shape[axis] if len(shape) == rank else 1))
    if len(shape) != rank or block < 1 or shape != (*value.shape[:axis], -(-size // block), *value.shape[axis + 1 :]):
        text = f"a scale or zero point of the shape {[*shape]} does not fit {[*value.shape]} along axis {axis}"
        raise SpecError(text, at=call.node.at)
    return blocks(call, parameter, axis, block, size)


def blocks(call: Call, parameter: Value, axis: int, block: int, size: int) -> Value:
    """A parameter of which each index of an axis stands for a block, with `size` indices there."""
    before, n, after = parameter.shape[:axis], parameter.shape[axis], parameter.shape[axis + 1 :]
    wide = broadcast(reshape(parameter, (*before, n, 1, *after)), (*before, n, block, *after))
    return call.take(call.reshape(wide, (*before, n * block, *after)), axis, 0, 1, size)


def _constant(value: Value | None) -> float | None:
    """The number that all of a value is, where that is known."""
    if value is None or value.expression is None or value.leaves:
        return 0.0 if value is not None and value.array is not None and not value.array.any() else None
    return number_of(value.expression)


def rounded(call: Call, value: Value, scale: int, zero: int, axis: int = 1) -> Value:
    """A value over the scale at a place of the operands, rounded, moved by the zero point, and kept within its type."""
    moved = call.optional(zero)
    kind = (call.integer("output_dtype", 0) or UINT8) if moved is None else call.kinds[zero]
    if kind not in INTEGERS:
        raise NotExpressible("its results are not integers")
    bits = bits_of(kind)
    low, high = (0, 2**bits - 1) if kind in UNSIGNED else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
    factor = _along(call, value, call.operand(scale), axis)
    offset = None if moved is None else _along(call, value, moved, axis)
    by = 0.0 if offset is None else _constant(offset)
    if by is None:
        y = call.pointwise("round(a / b)", value, factor, bits=bits)
        y = call.pointwise(f"max(min(a, {high} - b), {low} - b)", y, offset or y, bits=bits)
        return call.fraction(Scaled(y, offset=offset), bits)
    ends = low - by, high - by
    integers = _integers_of(value, factor, ends)
    if integers is None:
        y = call.pointwise("round(a / b)", value, factor, bits=bits)
        integers = call.pointwise(f"max(min(a, {ends[1]:.17g}), ({ends[0]:.17g}))", y, bits=bits)
    scaled = Scaled(replace(integers, bits=bits), offset=offset if by else None, ends=ends)
    return replace(call.fraction(scaled, bits), nonnegative=kind in UNSIGNED)


def _integers_of(value: Value, scale: Value, ends: tuple[float, float]) -> Value | None:
    """The integers within `ends` that a value is times a scale, which need no rounding again; None of another one."""
    scaled = value.scaled
    if scaled is None or scaled.zero is not None or scaled.scale is None or scaled.offset is not None:
        return None
    is_inside = ends[0] <= scaled.ends[0] and scaled.ends[1] <= ends[1]
    return scaled.integers if is_inside and _is_same(scaled.scale, scale) else None


def matmul_integer(call: Call) -> list[Value]:
    """MatMulInteger: a matrix product of integers, with sums of 32 bits."""
    a = fraction(call, call.operand(0), None, call.optional(2), -2)
    b = fraction(call, call.operand(1), None, call.optional(3), -1)
    return [matrix_product(call, a, b)]


def conv_integer(call: Call) -> list[Value]:
    """ConvInteger: a convolution of integers; padding stands for the zero point, so for 0 after it is taken off."""
    x = fraction(call, call.operand(0), None, call.optional(2))
    w = fraction(call, call.operand(1), None, call.optional(3), 0)
    return [convolved(call, x, w, call.name)]


def linear_matmul(call: Call) -> list[Value]:
    """QLinearMatMul."""
    a = fraction(call, call.operand(0), call.operand(1), call.optional(2), -2)
    b = fraction(call, call.operand(3), call.operand(4), call.optional(5), -1)
    return [rounded(call, matrix_product(call, a, b), 6, 7)]


def linear_conv(call: Call) -> list[Value]:
    """QLinearConv: the bias has the scale of the products."""
    x = fraction(call, call.operand(0), call.operand(1), call.optional(2))
    w = fraction(call, call.operand(3), call.operand(4), call.optional(5), 0)
    bias = call.optional(8)
    if bias is not None:
        bias = fraction(call, bias, products(call, 1, 4), None, 0)
    return [rounded(call, convolved(call, x, w, call.name, bias), 6, 7)]


def products(call: Call, left: int, right: int) -> Value:
    """The scale of products, from the places of those of their factors, of which the left one is a number."""
    return call.pointwise("a * b", reshape(call.operand(left), ()), call.operand(right))


QUANTISED: dict[str, Callable[[Call], list[Value]]] = {
    "QuantizeLinear": quantise,
    "DequantizeLinear": dequantise,
    "MatMulInteger": matmul_integer,
    "ConvInteger": conv_integer,
    "QLinearMatMul": linear_matmul,
    "QLinearConv": linear_conv,
    "com.microsoft.QuantizeLinear": quantise,
    "com.microsoft.DequantizeLinear": dequantise,
}
"""By the name of the operator."""
