"""Operators of ONNX Runtime, which its optimisers write in place of several of ONNX's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from einmap.frontends.cascade.step import NotExpressible
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
    """FusedMatMul: either factor transposed, in its batches or its last two axes; the product times a number."""
    left, right = _turned(call, 0, "A"), _turned(call, 1, "B")
    alpha = call.number("alpha", 1.0)
    if alpha == 1.0:
        return [matrix_product(call, left, right)]
    y = matrix_product(call, left, right, f"{call.name}_product")
    return [call.pointwise(f"({short_decimal(alpha)}) * a", y)]


def _turned(call: Call, place: int, name: str) -> Value:
    """An operand: by `transBatch` its first axis comes behind the batches, by `trans` the last two change places."""
    value = call.operand(place)
    order = [*range(len(value.shape))]
    if call.integer(f"transBatch{name}", 0):
        order[:-1] = [*order[1:-1], *order[:1]] if len(order) > 1 else []
    if call.integer(f"trans{name}", 0) and len(order) > 1:
        order[-2:] = order[-1], order[-2]
    return transpose(value, order)


def skip_normalisation(call: Call) -> list[Value]:
    """SkipLayerNormalization and SkipSimplifiedLayerNormalization: of a sum, which is a result as well.

    Without `epsilon` ONNX Runtime 1.32 takes 1e-12 in these two.
    """
    if call.is_used(1) or call.is_used(2):
        raise NotExpressible("it gives the mean or the deviation, too")
    is_simple = "Simplified" in call.node.operator
    value = call.pointwise("a + b", call.operand(0), call.operand(1))
    bias = call.optional(3 if is_simple else 4)
    if bias is not None:
        value = call.pointwise("a + b", value, bias)
    value = call.builder.written(value, f"{call.name}_total")
    parameters = (call.operand(2),) if is_simple else (call.operand(2), call.optional(3))
    normalised = rms_normalisation if is_simple else layer_normalisation
    y, *_ = normalised(replace(call, operands=(value, *parameters)), epsilon=1e-12)
    return [y, y, y, value]


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
