"""Primitives that compute number by number: a map expression for each."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.cascade.values import Value, broadcast
from einmap.frontends.jax.equation import Equation

TEXTS = {
    "abs": "abs(a)", "acosh": "log(a + sqrt(a * a - 1))", "add": "a + b", "add_any": "a + b",
    "asinh": "log(a + sqrt(a * a + 1))", "atanh": "log((1 + a) / (1 - a)) / 2", "ceil": "ceil(a)", "cos": "cos(a)",
    "cosh": "(exp(a) + exp(-a)) / 2", "eq": "equal(a, b)", "erf": "erf(a)", "erfc": "1 - erf(a)", "exp": "exp(a)",
    "exp2": "power(2, a)", "expm1": "exp(a) - 1", "floor": "floor(a)", "ge": "1 - less(a, b)", "gt": "less(b, a)",
    "is_finite": "equal(a - a, 0)", "le": "1 - less(b, a)", "le_to": "1 - less(b, a)", "log": "log(a)",
    "log1p": "log(1 + a)",
    "logistic": "sigmoid(a)", "lt": "less(a, b)", "lt_to": "less(a, b)", "mul": "a * b",
    "ne": "1 - equal(a, b)", "neg": "-a",
    "one_minus_square": "1 - a * a", "pow": "power(a, b)", "rsqrt": "rsqrt(a)", "sign": "sign(a)", "sin": "sin(a)",
    "sinh": "(exp(a) - exp(-a)) / 2", "sqrt": "sqrt(a)", "square": "a * a", "sub": "a - b", "tan": "sin(a) / cos(a)",
    "tanh": "tanh(a)",
}  # fmt: skip
"""Primitives whose expression needs no parameters."""
LOGICAL = {"and": "a * b", "or": "max(a, b)", "xor": "abs(a - b)", "not": "1 - a"}
"""Primitives on truth values; on integers they are bit by bit."""
SAME = ("copy", "copy_p", "stop_gradient", "reduce_precision", "name", "sharding_constraint", "pvary", "device_put")
"""Primitives whose result is their operand."""


def plain(equation: Equation) -> list[Value]:
    """A primitive of TEXTS."""
    return [equation.pointwise(TEXTS[equation.primitive], *equation.operands, bits=equation.bits)]


def logical(equation: Equation) -> list[Value]:
    """A primitive of LOGICAL."""
    if equation.kind.kind != "b":
        raise NotExpressible(f"{equation.primitive} of {equation.kind} works bit by bit")
    return [equation.pointwise(LOGICAL[equation.primitive], *equation.operands, bits=equation.bits)]


def extreme(equation: Equation) -> list[Value]:
    """max and min; an infinity that changes nothing, as softmax has one, is left out."""
    nothing = -np.inf if equation.primitive == "max" else np.inf
    for one, other in (equation.operands, equation.operands[::-1]):
        if one.array is not None and one.array.size and bool((one.array == nothing).all()) and one.shape == ():
            return [other]
    return [equation.pointwise(f"{equation.primitive}(a, b)", *equation.operands)]


_TOWARDS_ZERO = "select(less(a / b, 0), ceil(a / b), floor(a / b))"


def divided(equation: Equation) -> list[Value]:
    """div: of integers towards 0."""
    return [equation.pointwise(_TOWARDS_ZERO if equation.kind.kind in "iu" else "a / b", *equation.operands)]


def left(equation: Equation) -> list[Value]:
    """rem: what is left has the sign of what is divided."""
    return [equation.pointwise(f"a - b * {_TOWARDS_ZERO}", *equation.operands)]


def integer_power(equation: Equation) -> list[Value]:
    """integer_pow: products for small powers, which more hardware has."""
    y = int(equation.params["y"])
    text = " * ".join("a" * y) if 1 <= y <= 4 else f"power(a, ({y}))"
    return [equation.pointwise(text, *equation.operands)]


def polynomial(equation: Equation) -> list[Value]:
    """polynomial: the coefficients, of the lowest power first, by Horner's rule."""
    x, *coefficients = equation.operands
    value = broadcast(coefficients[-1], x.shape)
    for coefficient in reversed(coefficients[:-1]):
        value = equation.pointwise("a + b * c", coefficient, x, value)
    return [value]


def rounded(equation: Equation) -> list[Value]:
    """round: halves to the even integer, or away from 0."""
    to_even = int(equation.params["rounding_method"]) == 1
    return [equation.pointwise("round(a)" if to_even else "sign(a) * floor(abs(a) + 0.5)", *equation.operands)]


def chosen(equation: Equation) -> list[Value]:
    """select_n of two values."""
    if len(equation.operands) != 3:
        raise NotExpressible(f"it chooses among {len(equation.operands) - 1} values")
    which, no, yes = equation.operands
    return [equation.pointwise("select(a, b, c)", which, yes, no, bits=equation.bits)]


def clamped(equation: Equation) -> list[Value]:
    """clamp."""
    low, value, high = equation.operands
    return [equation.pointwise("min(max(a, b), c)", value, low, high, bits=equation.bits)]


def converted(equation: Equation) -> list[Value]:
    """convert_element_type: fractions become integers towards 0, and truth values 1 and 0."""
    (value,) = equation.operands
    if equation.kind.kind == "b":
        return [equation.pointwise("1 - equal(a, 0)", value, bits=equation.bits)]
    if equation.kind.kind in "iu":
        return [equation.pointwise("select(less(a, 0), ceil(a), floor(a))", value, bits=equation.bits)]
    return [value]


ELEMENTWISE: dict[str, Callable[[Equation], list[Value]]] = {
    **dict.fromkeys(TEXTS, plain),
    **dict.fromkeys(LOGICAL, logical),
    **dict.fromkeys(SAME, lambda equation: [*equation.operands]),
    "max": extreme,
    "min": extreme,
    "div": divided,
    "rem": left,
    "integer_pow": integer_power,
    "polynomial": polynomial,
    "round": rounded,
    "select_n": chosen,
    "clamp": clamped,
    "convert_element_type": converted,
    "optimization_barrier": lambda equation: [*equation.operands],
}
"""By the name of the primitive."""
