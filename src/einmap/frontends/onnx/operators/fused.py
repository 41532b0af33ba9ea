"""Operators of ONNX Runtime that stand for several of ONNX: with an activation, a sum, or between integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.cascade.values import Scaled, Value, transpose
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.contractions import conv, gemm, matrix_product
from einmap.frontends.onnx.operators.elementwise import ELEMENTWISE, TANH_GELU, short_decimal
from einmap.frontends.onnx.operators.normalisation import (
    NORMALISATIONS,
    layer_normalisation,
    reduced,
    rms_normalisation,
)
from einmap.frontends.onnx.operators.quantised import fraction, linear_conv, products, rounded
from einmap.frontends.onnx.operators.windows import WINDOWS
from einmap.visible import short

_PARAMETERS = {
    "Relu": (), "Tanh": (), "Sigmoid": (), "LeakyRelu": ("alpha",), "Clip": ("min", "max"),
    "HardSigmoid": ("alpha", "beta"),
}  # fmt: skip
"""Activations, and the attributes of ONNX that their parameters are, in order."""


def as_operator(call: Call, kind: str, *operands: Value, opset: int | None = None, **attributes: object) -> Call:
    """An operator of ONNX on other operands, with the attributes of this one, and further ones."""
    node = replace(call.node, operator=kind, attributes={**call.node.attributes, **attributes})
    return replace(call, node=node, operands=operands, opset=opset or call.opset)


def activated(call: Call, value: Value, given: Sequence[float]) -> Value:
    """The activation that an operator names, of a value; `given`: its parameters. Raises NotExpressible."""
    kind = call.text("activation", "")
    if not kind:
        return value
    if kind not in _PARAMETERS:
        raise NotExpressible(f"its activation is {short(kind, 40)}")
    parameters = dict(zip(_PARAMETERS[kind], given, strict=False))
    # limits are attributes of Clip in older models
    return ELEMENTWISE[kind](as_operator(call, kind, value, opset=6, **parameters))[0]


def fused_conv(call: Call) -> list[Value]:
    """FusedConv: Conv, what is added to it, and an activation."""
    (y,) = conv(replace(call, operands=call.operands[:3]))
    added = call.optional(3)
    if added is not None:
        y = call.pointwise("a + b", y, added)
    return [activated(call, y, call.node.attributes.get("activation_params", ()))]


def fused_gemm(call: Call) -> list[Value]:
    """FusedGemm: Gemm and an activation."""
    (y,) = gemm(call)
    names = ("activation_alpha", "activation_beta", "activation_gamma")
    return [activated(call, y, [call.number(name, 0.0) for name in names if name in call.node.attributes])]


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


LINEAR: dict[str, tuple[str, tuple[int, ...], int]] = {
    "QLinearAdd": ("Add", (0, 3), 6),
    "QLinearMul": ("Mul", (0, 3), 6),
    "QLinearSigmoid": ("Sigmoid", (0,), 3),
    "QLinearLeakyRelu": ("LeakyRelu", (0,), 3),
    "QLinearSoftmax": ("Softmax", (0,), 3),
    "QLinearReduceMean": ("ReduceMean", (0,), 3),
    "QLinearAveragePool": ("AveragePool", (0,), 3),
    "QLinearGlobalAveragePool": ("GlobalAveragePool", (0,), 3),
}
"""Operators between integers: which of ONNX's own they stand for, where their operands begin (integers, scale, zero
point), and where scale and zero point of the result are."""


def operand_at(call: Call, place: int) -> Value:
    """Numbers that integers at a place of the operands stand for, by the scale and zero point that follow them."""
    return fraction(call, call.operand(place), call.operand(place + 1), call.optional(place + 2))


def linear(call: Call) -> list[Value]:
    """An operator of LINEAR."""
    kind, places, result = LINEAR[call.node.operator.rpartition(".")[2]]
    if call.integer("channels_last", 0):
        raise NotExpressible("its channels are the last axis")
    operands = [operand_at(call, place) for place in places]
    opset = call.integer("opset", 13) if kind == "Softmax" else 13
    inner = as_operator(call, kind, *operands, opset=opset)
    (y,) = {**ELEMENTWISE, **WINDOWS, **NORMALISATIONS}[kind](inner)
    return [rounded(call, y, result, result + 1)]


def linear_where(call: Call) -> list[Value]:
    """QLinearWhere."""
    y = call.pointwise("select(a, b, c)", call.operand(0), operand_at(call, 1), operand_at(call, 4), bits=32)
    return [rounded(call, y, 7, 8)]


def runtime_conv(call: Call) -> list[Value]:
    """QLinearConv of ONNX Runtime, which may have its channels last."""
    if call.integer("channels_last", 0):
        raise NotExpressible("its channels are the last axis")
    return linear_conv(call)


def quantised_gemm(call: Call) -> list[Value]:
    """QGemm: its bias has the scale of the products; without a scale of the result that is of fractions."""
    a, b = operand_at(call, 0), call.operand(3)
    a = transpose(a, (1, 0)) if call.integer("transA", 0) else a
    b = transpose(b, (1, 0)) if call.integer("transB", 0) else b
    b = fraction(call, b, call.operand(4), call.optional(5), -1)  # its scales are by column of the product
    bias = call.optional(6)
    if bias is not None:
        bias = fraction(call, bias, products(call, 1, 4), None, -1)
    y = matrix_product(call, a, b, call.name, bias)
    alpha = call.number("alpha", 1.0)
    y = y if alpha == 1.0 else call.pointwise(f"({alpha!r}) * a", y)
    return [y if call.optional(7) is None else rounded(call, y, 7, 8)]


def matmul_to_float(call: Call) -> list[Value]:
    """MatMulIntegerToFloat: a matrix product of integers, its scales, and a bias of fractions."""
    a = fraction(call, call.operand(0), call.operand(2), call.optional(4), -1)
    b = fraction(call, call.operand(1), call.operand(3), call.optional(5), -1)
    return [matrix_product(call, a, b, bias=call.optional(6))]


def dynamic_matmul(call: Call) -> list[Value]:
    """DynamicQuantizeMatMul: the first factor is rounded to bytes between its own smallest and largest value, or 0."""
    x = call.builder.written(call.operand(0), f"{call.name}_operand")
    axes = [*range(len(x.shape))]
    low = call.pointwise("min(a, 0)", reduced(call, x, axes, reduction="min", name=f"{call.name}_min"))
    high = call.pointwise("max(a, 0)", reduced(call, x, axes, reduction="max", name=f"{call.name}_max"))
    scale = call.builder.written(call.pointwise("(b - a) / 255", low, high), f"{call.name}_scale")
    zero = call.pointwise("round(max(min(-a / b, 255), 0))", low, scale, bits=8)
    zero = call.builder.written(zero, f"{call.name}_zero")
    rounded_x = call.pointwise("max(min(round(a / b), 255 - c), -c)", x, scale, zero, bits=8)
    a = call.fraction(Scaled(rounded_x, scale=scale), x.bits)
    b = fraction(call, call.operand(1), call.operand(2), call.optional(3), -1)
    return [matrix_product(call, a, b, bias=call.optional(4))]


FUSED: dict[str, Callable[[Call], list[Value]]] = {
    "com.microsoft.Gelu": gelu,
    "com.microsoft.BiasGelu": gelu,
    "com.microsoft.FastGelu": fast_gelu,
    "com.microsoft.QuickGelu": quick_gelu,
    "com.microsoft.FusedMatMul": fused_matmul,
    "com.microsoft.SkipLayerNormalization": skip_normalisation,
    "com.microsoft.SkipSimplifiedLayerNormalization": skip_normalisation,
    "SimplifiedLayerNormalization": rms_normalisation,
    "com.microsoft.FusedConv": fused_conv,
    "com.microsoft.FusedGemm": fused_gemm,
    "com.microsoft.QGemm": quantised_gemm,
    "com.microsoft.QLinearConv": runtime_conv,
    "com.microsoft.QLinearWhere": linear_where,
    "com.microsoft.MatMulIntegerToFloat": matmul_to_float,
    "com.microsoft.DynamicQuantizeMatMul": dynamic_matmul,
    **{f"com.microsoft.{name}": linear for name in LINEAR},
}
"""By the name of the operator, with its domain."""
