"""Element-wise operators."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.frontends.onnx.kinds import INTEGERS
from einmap.frontends.torch.operators.call import Aten, Rule
from einmap.frontends.torch.program import BOOL, FLOAT, Kind

_UNARY = {
    "abs": "Abs", "neg": "Neg", "exp": "Exp", "log": "Log", "sqrt": "Sqrt", "reciprocal": "Reciprocal", "sin": "Sin",
    "cos": "Cos", "tan": "Tan", "tanh": "Tanh", "sigmoid": "Sigmoid", "relu": "Relu", "erf": "Erf", "floor": "Floor",
    "ceil": "Ceil", "round": "Round", "sign": "Sign", "sgn": "Sign", "isnan": "IsNaN", "sinh": "Sinh", "cosh": "Cosh",
    "asinh": "Asinh", "acosh": "Acosh", "atanh": "Atanh", "silu": "Swish", "mish": "Mish", "hardswish": "HardSwish",
    "selu": "Selu", "softsign": "Softsign", "special_erf": "Erf", "special_expit": "Sigmoid",
}  # fmt: skip
"""Operators of one tensor that are one of ONNX."""
_OF_FRACTIONS = frozenset(_UNARY) - {"abs", "neg", "relu", "sign", "sgn", "floor", "ceil", "round", "isnan"}
_COMPARISONS = {
    "eq": "Equal", "lt": "Less", "gt": "Greater", "le": "LessOrEqual", "ge": "GreaterOrEqual", "ne": "Equal",
    "logical_and": "And", "logical_or": "Or", "logical_xor": "Xor",
}  # fmt: skip
_BINARY = {
    "mul": "Mul",
    "multiply": "Mul",
    "maximum": "Max",
    "minimum": "Min",
    "fmax": "Max",
    "fmin": "Min",
    "pow": "Pow",
}


def unary(call: Aten) -> str:
    """An operator of _UNARY; of integers it gives fractions where PyTorch does."""
    name = call.name
    value = call.tensor("self" if call.has("self") else "input")
    if name == "round" and call.integer("decimals", 0):
        raise call.refuse("it rounds to places behind the point")
    return call.emit(_UNARY[name], call.as_fractions(value) if name in _OF_FRACTIONS else value)


def _pair(call: Aten) -> tuple[str, str]:
    """Both operands, as numbers of the type of the result where that is of fractions."""
    first = call.tensor("self") if call.has("self") else call.tensor("input")
    second = call.tensor(next(name for name in ("other", "exponent", "mat2", "scalar") if call.has(name)))
    kind = call.result.kind
    if kind in (*INTEGERS, BOOL):
        return first, second
    return call.as_fractions(first), call.as_fractions(second)


def binary(call: Aten) -> str:
    """An operator of _BINARY."""
    return call.emit(_BINARY[call.name], *_pair(call))


def compared(call: Aten) -> str:
    """Comparisons, and what joins truth values."""
    name = call.name
    first, second = call.tensor("self"), call.tensor("other")
    if name.startswith("logical"):
        first, second = call.cast(first, BOOL), call.cast(second, BOOL)
    found = call.emit(_COMPARISONS[name], first, second)
    return call.emit("Not", found) if name == "ne" else found


def added(call: Aten) -> str:
    """add, sub and rsub, with a factor of the second operand."""
    first, second = _pair(call)
    if call.number("alpha", 1) != 1:
        second = call.emit("Mul", second, call.value("alpha", call.plain("alpha")))
    if call.name == "rsub":
        first, second = second, first
    return call.emit("Add" if call.name == "add" else "Sub", first, second)


def divided(call: Aten) -> str:
    """div: fractions, or rounded towards 0 or downwards."""
    mode = call.text("rounding_mode", "floor" if call.name == "floor_divide" else "")
    first, second = _pair(call)
    if not mode:
        return call.emit("Div", first, second)
    quotient = call.emit("Div", call.as_fractions(first), call.as_fractions(second))
    return call.emit("Floor", quotient) if mode == "floor" else _towards_zero(call, quotient)


def _towards_zero(call: Aten, value: str) -> str:
    is_below = call.emit("Less", value, call.constant(0.0))
    return call.emit("Where", is_below, call.emit("Ceil", value), call.emit("Floor", value))


def remainder(call: Aten) -> str:
    """remainder, with the sign of the divisor, and fmod with that of what is divided."""
    return call.emit("Mod", *_pair(call), fmod=int(call.name == "fmod"))


def bitwise(call: Aten) -> str:
    """and, or, xor and not of truth values; of integers where they are known."""
    name = call.name.removeprefix("bitwise_").strip("_")
    operands = [call.tensor("self")] + ([call.tensor("other")] if call.has("other") else [])
    is_truth = all(call.kind(value) == BOOL for value in operands)
    return call.emit(f"{'' if is_truth else 'Bitwise'}{name.capitalize()}", *operands)


def logical_not(call: Aten) -> str:
    """1 where a number is 0."""
    return call.emit("Not", call.cast(call.tensor("self"), BOOL))


def root(call: Aten) -> str:
    """rsqrt."""
    return call.emit("Reciprocal", call.emit("Sqrt", call.as_fractions(call.tensor("self"))))


def clamped(call: Aten) -> str:
    """clamp, relu6 and hardtanh; a limit may be missing."""
    ends = {"relu6": (0, 6), "hardtanh": (call.plain("min_val", -1), call.plain("max_val", 1))}
    low, high = ends.get(call.name, (call.operation.arguments.get("min"), call.operation.arguments.get("max")))
    low = 0 if call.name == "clamp_min" and low is None else low
    value = call.tensor("self")
    for operator, end in (("Max", low), ("Min", high)):
        if end is not None:
            value = call.emit(operator, value, call.value("limit", end))
    return value


def gelu(call: Aten) -> str:
    """gelu, exact or with tanh."""
    return call.emit("Gelu", call.tensor("self"), approximate=call.text("approximate", "none"))


def with_slope(call: Aten) -> str:
    """leaky_relu, elu, celu, hardsigmoid, softshrink, hardshrink."""
    name, value = call.name, call.tensor("self")
    match name:
        case "leaky_relu":
            return call.emit("LeakyRelu", value, alpha=call.number("negative_slope", 0.01))
        case "elu":
            if call.number("input_scale", 1) != 1:
                raise call.refuse("it scales what it takes the exponential of")
            y, scale = call.emit("Elu", value, alpha=float(call.number("alpha", 1.0))), call.number("scale", 1)
            return y if scale == 1 else call.emit("Mul", y, call.constant(float(scale)))
        case "celu":
            return call.emit("Celu", value, alpha=call.number("alpha", 1.0))
        case "hardsigmoid":
            return call.emit("HardSigmoid", value, alpha=1 / 6, beta=0.5)
    lambd = call.number("lambd", 0.5)
    return call.emit("Shrink", value, lambd=lambd, bias=lambd if name == "softshrink" else 0.0)


def softplus(call: Aten) -> str:
    """softplus: the logarithm of 1 and an exponential, times beta; above a threshold, where it is the same, as well."""
    beta, value = call.number("beta", 1), call.tensor("self")
    if beta == 1:
        return call.emit("Softplus", value)
    scaled = call.emit("Softplus", call.emit("Mul", value, call.constant(float(beta))))
    return call.emit("Div", scaled, call.constant(float(beta)))


def log_sigmoid(call: Aten) -> str:
    """log_sigmoid: minus softplus of minus x."""
    return call.emit("Neg", call.emit("Softplus", call.emit("Neg", call.tensor("self"))))


def exponential(call: Aten) -> str:
    """exp2, expm1, log2, log10 and log1p."""
    value, name = call.as_fractions(call.tensor("self")), call.name
    match name:
        case "exp2":
            return call.emit("Exp", call.emit("Mul", value, call.constant(0.6931471805599453)))
        case "expm1":
            return call.emit("Sub", call.emit("Exp", value), call.constant(1.0))
        case "log1p":
            return call.emit("Log", call.emit("Add", value, call.constant(1.0)))
    factor = 1.4426950408889634 if name == "log2" else 0.4342944819032518
    return call.emit("Mul", call.emit("Log", value), call.constant(factor))


def square(call: Aten) -> str:
    """square."""
    return call.emit("Mul", call.tensor("self"), call.tensor("self"))


def truncated(call: Aten) -> str:
    """trunc and fix."""
    return _towards_zero(call, call.tensor("self"))


def where(call: Aten) -> str:
    """where: one of two values by a condition."""
    kind = call.result.kind
    first, second = call.tensor("self"), call.tensor("other")
    if kind not in (*INTEGERS, BOOL):
        first, second = call.as_fractions(first), call.as_fractions(second)
    return call.emit("Where", call.tensor("condition"), first, second)


def masked_fill(call: Aten) -> str:
    """masked_fill: a number where a mask is."""
    return call.emit("Where", call.tensor("mask"), call.tensor("value"), call.tensor("self"))


def interpolated(call: Aten) -> str:
    """lerp: between two values by a weight."""
    first, second = call.tensor("self"), call.tensor("end")
    step = call.emit("Mul", call.emit("Sub", second, first), call.tensor("weight"))
    return call.emit("Add", first, step)


def product_added(call: Aten) -> str:
    """addcmul and addcdiv."""
    operator = "Mul" if call.name == "addcmul" else "Div"
    product = call.emit(operator, call.tensor("tensor1"), call.tensor("tensor2"))
    if call.number("value", 1) != 1:
        product = call.emit("Mul", product, call.value("value", call.plain("value")))
    return call.emit("Add", call.tensor("self"), product)


def gated(call: Aten) -> str:
    """glu: one half of an axis, times the sigmoid of the other."""
    value = call.tensor("self")
    axis = call.axis("dim", value, -1)
    half = call.shape(value)[axis] // 2
    return call.emit("Mul", call.cut(value, axis, 0, half), call.emit("Sigmoid", call.cut(value, axis, half, 2 * half)))


def prelu(call: Aten) -> str:
    """prelu: a slope for each channel, or one for all."""
    value, slope = call.tensor("self"), call.tensor("weight")
    rank = len(call.shape(value))
    n = call.size_of(call.shape(slope))
    return call.emit("PRelu", value, call.reshape(slope, [n if axis == 1 else 1 for axis in range(rank)][-rank:]))


def cast(call: Aten) -> str:
    """to and _to_copy: another type of numbers, or another place, which is nothing."""
    given = call.plain("dtype")
    kind = given.number if isinstance(given, Kind) else call.result.kind
    value = call.tensor("self")
    return call.cast(value, kind)


def is_finite(call: Aten) -> str:
    """isinf: whether a number is beyond what 32 bits hold, as minus infinity is imported as the lowest number."""
    value = call.emit("Abs", call.tensor("self"))
    return call.emit("Less", call.constant(3.39e38), value, kind=FLOAT)


POINTWISE: Mapping[str, Rule] = {
    **dict.fromkeys(_UNARY, unary),
    **dict.fromkeys(_BINARY, binary),
    **dict.fromkeys(_COMPARISONS, compared),
    **dict.fromkeys(("add", "sub", "rsub", "subtract"), added),
    **dict.fromkeys(("div", "true_divide", "floor_divide", "divide"), divided),
    **dict.fromkeys(("remainder", "fmod"), remainder),
    **dict.fromkeys(
        ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "__and__", "__or__", "__xor__"), bitwise
    ),
    **dict.fromkeys(("clamp", "clip", "clamp_min", "clamp_max", "relu6", "hardtanh"), clamped),
    **dict.fromkeys(("leaky_relu", "elu", "celu", "hardsigmoid", "softshrink", "hardshrink"), with_slope),
    **dict.fromkeys(("exp2", "expm1", "log1p", "log2", "log10"), exponential),
    **dict.fromkeys(("addcmul", "addcdiv"), product_added),
    **dict.fromkeys(("to", "_to_copy", "type_as", "float", "half", "double", "int", "long", "bool"), cast),
    **dict.fromkeys(("trunc", "fix"), truncated),
    "logical_not": logical_not,
    "rsqrt": root,
    "gelu": gelu,
    "softplus": softplus,
    "log_sigmoid": log_sigmoid,
    "square": square,
    "where": where,
    "masked_fill": masked_fill,
    "lerp": interpolated,
    "glu": gated,
    "prelu": prelu,
    "_prelu_kernel": prelu,
    "isinf": is_finite,
}
"""By the name of the operator, without its overload."""
