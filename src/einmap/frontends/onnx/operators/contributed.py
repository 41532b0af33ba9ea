"""Operators of ONNX Runtime, which its optimisers write in place of several of ONNX's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from einmap.frontends.cascade.values import Value, transpose
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.contractions import matrix_product
from einmap.frontends.onnx.operators.elementwise import TANH_GELU, short_decimal
from einmap.frontends.onnx.operators.normalisation import layer_normalisation, rms_normalisation


def _with_bias(call: Call) -> Value:
    value, bias = call.operand(0), call.optional(1)
    return value if bias is None else call.pointwise("a + b", value, bias)


def gelu(call: Call) -> list[Value]:
    """Gelu and BiasGelu."""
    return [call.pointwise("gelu(a)", _with_bias(call))]


def fast_gelu(call: Call) -> list[Value]:
    """FastGelu: with tanh, of a value and a bias if there is one."""
    return [call.pointwise(TANH_GELU, _with_bias(call))]


def quick_gelu(call: Call) -> list[Value]:
    """QuickGelu: with a sigmoid."""
    alpha = short_decimal(call.number("alpha", 1.702))
    return [call.pointwise(f"a * sigmoid(({alpha}) * a)", call.operand(0))]


def fused_matmul(call: Call) -> list[Value]:
    """FusedMatMul: either factor transposed, the product times a number."""
    left, right = _turned(call, 0, "transA"), _turned(call, 1, "transB")
    alpha = call.number("alpha", 1.0)
    if alpha == 1.0:
        return [matrix_product(call, left, right)]
    y = matrix_product(call, left, right, f"{call.name}_product")
    return [call.pointwise(f"({short_decimal(alpha)}) * a", y)]


def _turned(call: Call, place: int, name: str) -> Value:
    """An operand, its last two axes exchanged if an attribute says so."""
    value = call.operand(place)
    rank = len(value.shape)
    is_turned = call.integer(name, 0) and rank > 1
    return transpose(value, [*range(rank - 2), rank - 1, rank - 2]) if is_turned else value


def skip_normalisation(call: Call) -> list[Value]:
    """SkipLayerNormalization and SkipSimplifiedLayerNormalization: of a sum, which is a result as well."""
    is_simple = "Simplified" in call.node.operator
    value = call.pointwise("a + b", call.operand(0), call.operand(1))
    bias = call.optional(3 if is_simple else 4)
    if bias is not None:
        value = call.pointwise("a + b", value, bias)
    value = call.builder.written(value, f"{call.name}_total")
    parameters = (call.operand(2),) if is_simple else (call.operand(2), call.optional(3))
    inner = replace(call, operands=(value, *parameters))
    if is_simple:
        return [*rms_normalisation(inner), value, value, value]
    y, mean, deviation = layer_normalisation(inner)
    return [y, mean, deviation, value]


CONTRIBUTED: dict[str, Callable[[Call], list[Value]]] = {
    "com.microsoft.Gelu": gelu,
    "com.microsoft.BiasGelu": gelu,
    "com.microsoft.FastGelu": fast_gelu,
    "com.microsoft.QuickGelu": quick_gelu,
    "com.microsoft.FusedMatMul": fused_matmul,
    "com.microsoft.SkipLayerNormalization": skip_normalisation,
    "com.microsoft.SkipSimplifiedLayerNormalization": skip_normalisation,
    "SimplifiedLayerNormalization": rms_normalisation,
}
"""By the name of the operator, with its domain."""
