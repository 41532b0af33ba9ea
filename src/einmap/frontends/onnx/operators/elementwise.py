"""Element-wise operators: a map expression for each."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.cascade.values import Value
from einmap.frontends.onnx.kinds import INTEGERS, ends_of
from einmap.frontends.onnx.model import bits_of
from einmap.frontends.onnx.operators.call import Call

TEXTS = {
    "Abs": "abs(a)", "Add": "a + b", "Exp": "exp(a)", "Log": "log(a)", "Mul": "a * b",
    "Neg": "-a", "Pow": "power(a, b)", "Reciprocal": "1 / a", "Relu": "relu(a)", "Sigmoid": "sigmoid(a)",
    "Softplus": "max(a, 0) + log(1 + exp(-abs(a)))",
    "Softsign": "a / (1 + abs(a))", "Sqrt": "sqrt(a)", "Sub": "a - b", "Tanh": "tanh(a)",
    "Ceil": "ceil(a)", "Cos": "cos(a)", "Erf": "erf(a)", "Floor": "floor(a)", "Round": "round(a)", "Sign": "sign(a)",
    "Sin": "sin(a)", "Less": "less(a, b)", "Greater": "less(b, a)", "Equal": "equal(a, b)", "Not": "1 - a",
    "LessOrEqual": "1 - less(b, a)", "GreaterOrEqual": "1 - less(a, b)", "And": "a * b", "Or": "max(a, b)",
    "Xor": "abs(a - b)",
    "Acosh": "log(a + sqrt(a * a - 1))", "Asinh": "sign(a) * log(abs(a) + sqrt(a * a + 1))",
    "Atanh": "log((1 + a) / (1 - a)) / 2",
    "Cosh": "(exp(a) + exp(-a)) / 2", "Sinh": "(exp(a) - exp(-a)) / 2", "Tan": "sin(a) / cos(a)",
    "IsNaN": "1 - equal(a, a)",
    "HardSwish": "a * max(min(a / 6 + 0.5, 1), 0)", "Mish": "a * tanh(max(a, 0) + log(1 + exp(-abs(a))))",
}  # fmt: skip
"""Operators whose expression needs no attributes."""

WITH_ATTRIBUTES: dict[str, tuple[str, dict[str, float]]] = {
    "LeakyRelu": ("max(a, 0) + {alpha} * min(a, 0)", {"alpha": 0.01}),
    "Elu": ("max(a, 0) + {alpha} * (exp(min(a, 0)) - 1)", {"alpha": 1.0}),
    "Celu": ("max(a, 0) + {alpha} * (exp(min(a, 0) / {alpha}) - 1)", {"alpha": 1.0}),
    "Selu": (
        "{gamma} * (max(a, 0) + {alpha} * (exp(min(a, 0)) - 1))",
        {"alpha": 1.6732632423543772, "gamma": 1.0507009873554805},
    ),
    "HardSigmoid": ("max(min({alpha} * a + {beta}, 1), 0)", {"alpha": 0.2, "beta": 0.5}),
    "ThresholdedRelu": ("select(less({alpha}, a), a, 0)", {"alpha": 1.0}),
    "Swish": ("a * sigmoid({alpha} * a)", {"alpha": 1.0}),
    "Shrink": (
        "select(less(a, -{lambd}), a + {bias}, select(less({lambd}, a), a - {bias}, 0))",
        {"lambd": 0.5, "bias": 0.0},
    ),
}
"""Operators whose expression has attributes in it, with what is taken without them."""


def plain(call: Call) -> list[Value]:
    """An operator of TEXTS."""
    text = TEXTS[call.node.operator]
    n_operands = 2 if re.search(r"\bb\b", text) else 1
    operands = [call.operand(i) for i in range(n_operands)]
    if call.node.operator == "Pow" and (square := _square(operands)) is not None:
        return [call.pointwise("a * a", square)]
    bits = operands[0].bits if call.node.operator == "Pow" else 8 if call.node.operator in COMPARISONS else None
    if call.node.operator == "Pow" and call.is_of_integers:
        text = TOWARDS_ZERO.format(text)
    return [call.pointwise(text, *operands, bits=bits)]


COMPARISONS = frozenset(
    {"Less", "Greater", "Equal", "Not", "LessOrEqual", "GreaterOrEqual", "And", "IsNaN", "Or", "Xor"}
)
"""Operators that give truth values: 1 and 0, of 8 bits as in ONNX."""


def where(call: Call) -> list[Value]:
    """Where: one of two values by a condition."""
    wide = max(call.operand(1).bits, call.operand(2).bits)
    return [call.pointwise("select(a, b, c)", call.operand(0), call.operand(1), call.operand(2), bits=wide)]


def _square(operands: list[Value]) -> Value | None:
    """x of `x ** 2`: a product, which more hardware has."""
    array = operands[1].array
    return operands[0] if array is not None and array.size == 1 and float(array.flat[0]) == 2.0 else None


def with_attributes(call: Call) -> list[Value]:
    """An operator of WITH_ATTRIBUTES."""
    text, defaults = WITH_ATTRIBUTES[call.node.operator]
    # the shortest decimal of a 32-bit number: attributes are stored as such
    return [call.pointwise(filled(text, {name: call.number(name, n) for name, n in defaults.items()}), call.operand(0))]


def filled(text: str, values: Mapping[str, float]) -> str:
    """An expression with its attributes in it."""
    return text.format(**{name: f"({short_decimal(value)})" for name, value in values.items()})


LARGEST = 1.7976931348623157e308
"""The largest number of 64 bits, in place of one that is infinite."""


def short_decimal(number: float) -> str:
    """A number as an expression reads it."""
    number = max(-LARGEST, min(number, LARGEST))
    return repr(float(number))


def several(call: Call) -> list[Value]:
    """Min, Max, Sum and Mean of any number of operands."""
    kind = call.node.operator
    total = call.operand(0)
    for place in range(1, len(call)):
        total = call.pointwise({"Min": "min(a, b)", "Max": "max(a, b)"}.get(kind, "a + b"), total, call.operand(place))
    return [call.pointwise(f"a / {len(call)}", total)] if kind == "Mean" and len(call) > 1 else [total]


def clip(call: Call) -> list[Value]:
    """Clip: the limits are attributes in older models, and operands in newer ones."""
    value = call.operand(0)
    if call.opset < 11:
        low, high = call.number("min", -3.402823e38), call.number("max", 3.402823e38)
        return [call.pointwise(f"min(max(a, ({short_decimal(low)})), ({short_decimal(high)}))", value)]
    low_end, high_end = call.optional(1), call.optional(2)
    if low_end is not None:
        value = call.pointwise("max(a, b)", value, low_end, bits=value.bits)
    if high_end is not None:  # the upper limit where it is below the lower one
        value = call.pointwise("min(a, b)", value, high_end, bits=value.bits)
    return [value]


def prelu(call: Call) -> list[Value]:
    """PRelu: a slope for each channel below 0, which older models give without axes behind that of the channels."""
    value, slope = call.operand(0), call.operand(1)
    if call.opset < 7 and len(slope.shape) == 1 and len(value.shape) > 2:
        slope = call.reshape(slope, (*slope.shape, *(1 for _ in value.shape[2:])))
    return [call.pointwise("max(a, 0) + b * min(a, 0)", value, slope)]


TOWARDS_ZERO = "select(less({0}, 0), ceil({0}), floor({0}))"
"""A fraction without what is behind the point."""


def divide(call: Call) -> list[Value]:
    """Div: of integers towards 0, as in C."""
    text = TOWARDS_ZERO.format("a / b") if call.is_of_integers else "a / b"
    return [call.pointwise(text, call.operand(0), call.operand(1))]


def modulo(call: Call) -> list[Value]:
    """Mod: what is left has the sign of the divisor, or with `fmod` that of what is divided."""
    quotient = TOWARDS_ZERO.format("a / b") if call.integer("fmod", 0) else "floor(a / b)"
    return [call.pointwise(f"a - b * {quotient}", call.operand(0), call.operand(1))]


TANH_GELU = "a * 0.5 * (1 + tanh(0.7978845608028654 * (a + 0.044715 * a * a * a)))"


def gelu(call: Call) -> list[Value]:
    """Gelu, exact or by its approximation with tanh (Hendrycks and Gimpel, arXiv 1606.08415)."""
    if call.text("approximate", "none") != "tanh":
        return [call.pointwise("gelu(a)", call.operand(0))]
    return [call.pointwise(TANH_GELU, call.operand(0))]


def bits_read(call: Call) -> list[Value]:
    """BitCast: integers read with or without a sign. Raises NotExpressible for bits of fractions."""
    before, after = call.kinds[0] if call.kinds else 0, call.integer("to", 0)
    if before == after:
        return [call.operand(0)]
    if before not in INTEGERS or after not in INTEGERS or bits_of(before) != bits_of(after):
        raise NotExpressible("it reads bits of fractions as another type")
    span, (low, high) = 2 ** bits_of(after), ends_of(after)
    ends = f"select(less(a, {low}), a + {span}, a)" if low == 0 else f"select(less({high}, a), a - {span}, a)"
    return [call.pointwise(ends, call.operand(0))]


MAP = "einmap.Map"
"""The operator of bodies that is a map expression."""


class MapText(str):
    """A map expression that is not from a file."""


def mapped(call: Call) -> list[Value]:
    """A map expression over all operands. Raises NotExpressible for one of a file."""
    text = call.node.attributes.get("text")
    if not isinstance(text, MapText):
        raise NotExpressible("einmap does not import this operator")
    return [call.pointwise(text, *(call.operand(i) for i in range(len(call))))]


ELEMENTWISE: dict[str, Callable[[Call], list[Value]]] = {
    MAP: mapped,
    **dict.fromkeys(TEXTS, plain),
    **dict.fromkeys(WITH_ATTRIBUTES, with_attributes),
    **dict.fromkeys(("Min", "Max", "Sum", "Mean"), several),
    "BitCast": bits_read,
    "Clip": clip,
    "Div": divide,
    "Mod": modulo,
    "PRelu": prelu,
    "Gelu": gelu,
    "Where": where,
}
"""By the name of the operator."""
