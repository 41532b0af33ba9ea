"""The functions of map expressions, one entry for each: what a new function adds here is all that the algebra asks.

Other places that speak of functions by name: `execute.kernels` computes one value by its `Code`, and each printer of
`emit` has a spelling. `tests/einsum/test_functions.py` fails where one of them misses a function.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import numpy as np

# the error function, which NumPy does not have

# Rational approximations of W. J. Cody, Rational Chebyshev approximations for the error function, Mathematics of
# Computation 23, 1969, 631-637: of erf(x)/x in x^2, of exp(x^2) erfc(x) in x, and of what that lacks of 1/(x sqrt(pi)).
_SMALL = (
    (1.85777706184603153e-1, 3.16112374387056560, 1.13864154151050156e2, 3.77485237685302021e2, 3.20937758913846947e3),
    (1.0, 2.36012909523441209e1, 2.44024637934444173e2, 1.28261652607737228e3, 2.84423683343917062e3),
)
_MIDDLE = (
    (2.15311535474403846e-8, 5.64188496988670089e-1, 8.88314979438837594, 6.61191906371416295e1, 2.98635138197400131e2,
     8.81952221241769090e2, 1.71204761263407058e3, 2.05107837782607147e3, 1.23033935479799725e3),
    (1.0, 1.57449261107098347e1, 1.17693950891312499e2, 5.37181101862009858e2, 1.62138957456669019e3,
     3.29079923573345963e3, 4.36261909014324716e3, 3.43936767414372164e3, 1.23033935480374942e3),
)  # fmt: skip
_LARGE = (
    (1.63153871373020978e-2, 3.05326634961232344e-1, 3.60344899949804439e-1, 1.25781726111229246e-1,
     1.60837851487422766e-2, 6.58749161529837803e-4),
    (1.0, 2.56852019228982242, 1.87295284992346725, 5.27905102951428412e-1, 6.05183413124413191e-2,
     2.33520497626869185e-3),
)  # fmt: skip
_ONE_OVER_ROOT_PI = 0.56418958354775628695


def erf(xp: Any, x: Any) -> Any:
    """The error function of each number, to a few units in the last place of a double.

    `xp`: a module with the names of NumPy; all three approximations are computed, and the fitting one is taken.
    """
    size = xp.abs(x)
    small = x * _quotient(_SMALL, xp.minimum(size, 0.5) ** 2)
    inner = xp.clip(size, 0.46875, 4.0)
    middle = xp.exp(-inner * inner) * _quotient(_MIDDLE, inner)
    outer = xp.clip(size, 4.0, 6.0)
    square = 1 / (outer * outer)
    large = xp.exp(-outer * outer) / outer * (_ONE_OVER_ROOT_PI - square * _quotient(_LARGE, square))
    rest = xp.sign(x) * (1 - xp.where(size < 4.0, middle, large))
    # a number that is none stays one
    return xp.where(size <= 0.46875, small, rest)


def _quotient(parts: tuple[tuple[float, ...], tuple[float, ...]], x: Any) -> Any:
    """A quotient of polynomials, coefficients of the highest powers first."""
    numerator, denominator = (_polynomial(part, x) for part in parts)
    return numerator / denominator


def _polynomial(coefficients: tuple[float, ...], x: Any) -> Any:
    total = coefficients[0]
    for coefficient in coefficients[1:]:
        total = total * x + coefficient
    return total


type Degree = int | None
"""How an expression depends on some tensors: 0 not at all, 1 linearly without a constant, None otherwise."""


class Code(IntEnum):
    """Instructions of a compiled map expression: push a constant, push an operand, or apply a function."""

    CONSTANT = 0
    OPERAND = 1
    MULTIPLY = 2
    ADD = 3
    SUBTRACT = 4
    DIVIDE = 5
    MAX = 6
    MIN = 7
    POWER = 8
    EXP = 9
    LOG = 10
    SQRT = 11
    RSQRT = 12
    ABS = 13
    TANH = 14
    SIGMOID = 15
    RELU = 16
    NEGATIVE = 17
    ERF = 18
    GELU = 19
    SIN = 20
    COS = 21
    FLOOR = 22
    CEIL = 23
    ROUND = 24
    SIGN = 25
    LESS = 26
    EQUAL = 27
    SELECT = 28


@dataclass(frozen=True, slots=True)
class MapFunction:
    """A function of a map expression, value by value, by the rules of IEEE 754 (1/0 is inf).

    `meaning`: its value of x, y and z in words. `compute(xp, *arguments)`: its value for arrays of `xp`, a module
    with the names of numpy. `exact_on_integers`: integers give an integer, so that sums of it are exact in any order.
    `is_linear`: whether it is linear where its arguments have these degrees (at least one of which is not 0).
    `derivatives`: the derivative by each argument, as map expressions of the arguments x, y and z and of the `value`
    of the function. At a tie `max` and `min` give each argument a half; at their steps and corners functions have the
    derivative that JAX gives them: 0 for relu, abs, and all that is piecewise constant.
    """

    name: str
    arity: int
    meaning: str
    code: Code
    compute: Callable[..., Any]
    derivatives: tuple[str, ...]
    infix: str = ""
    exact_on_integers: bool = False
    is_linear: Callable[[Sequence[Degree]], bool] = lambda _degrees: False


_ENTRIES = (
    MapFunction("exp", 1, "e ** x", Code.EXP, lambda xp, x: xp.exp(x), ("value",)),
    MapFunction("log", 1, "the natural logarithm", Code.LOG, lambda xp, x: xp.log(x), ("1 / x",)),
    MapFunction("sqrt", 1, "the square root", Code.SQRT, lambda xp, x: xp.sqrt(x), ("0.5 / value",)),
    MapFunction("rsqrt", 1, "1 / sqrt(x)", Code.RSQRT, lambda xp, x: 1 / xp.sqrt(x), ("-0.5 * value * value * value",)),
    MapFunction(
        "abs", 1, "x without its sign", Code.ABS, lambda xp, x: xp.abs(x),
        ("sign(x)",), exact_on_integers=True,
    ),
    MapFunction("tanh", 1, "the hyperbolic tangent", Code.TANH, lambda xp, x: xp.tanh(x), ("1 - value * value",)),
    MapFunction(
        "sigmoid", 1, "1 / (1 + exp(-x))", Code.SIGMOID, lambda xp, x: 1 / (1 + xp.exp(-x)),
        ("value * (1 - value)",),
    ),
    MapFunction(
        "relu", 1, "the larger of x and 0", Code.RELU, lambda xp, x: xp.maximum(x, 0),
        ("less(0, value)",), exact_on_integers=True,
    ),
    MapFunction(
        "negative", 1, "x with the other sign", Code.NEGATIVE, lambda xp, x: xp.negative(x), ("-1",),
        exact_on_integers=True, is_linear=lambda degrees: list(degrees) == [1],
    ),
    MapFunction("erf", 1, "the error function", Code.ERF, erf, ("1.1283791670955126 * exp(-x * x)",)),
    MapFunction(
        "gelu", 1, "x * (1 + erf(x / sqrt(2))) / 2", Code.GELU,
        lambda xp, x: 0.5 * x * (1 + erf(xp, x * 0.7071067811865476)),
        ("0.5 * (1 + erf(0.7071067811865476 * x)) + 0.3989422804014327 * x * exp(-0.5 * x * x)",),
    ),
    MapFunction("sin", 1, "the sine", Code.SIN, lambda xp, x: xp.sin(x), ("cos(x)",)),
    MapFunction("cos", 1, "the cosine", Code.COS, lambda xp, x: xp.cos(x), ("-sin(x)",)),
    MapFunction(
        "floor", 1, "the integer below or at x", Code.FLOOR, lambda xp, x: xp.floor(x),
        ("0",), exact_on_integers=True,
    ),
    MapFunction(
        "ceil", 1, "the integer above or at x", Code.CEIL, lambda xp, x: xp.ceil(x),
        ("0",), exact_on_integers=True,
    ),
    MapFunction(
        "round", 1, "the nearest integer, the even one of two", Code.ROUND, lambda xp, x: xp.rint(x), ("0",),
        exact_on_integers=True,
    ),
    MapFunction("sign", 1, "-1, 0 or 1", Code.SIGN, lambda xp, x: xp.sign(x), ("0",), exact_on_integers=True),
    MapFunction(
        "less", 2, "1 if x < y, else 0", Code.LESS, lambda xp, x, y: xp.where(xp.less(x, y), 1.0, 0.0), ("0", "0"),
        exact_on_integers=True,
    ),
    MapFunction(
        "equal", 2, "1 if x = y, else 0", Code.EQUAL, lambda xp, x, y: xp.where(xp.equal(x, y), 1.0, 0.0), ("0", "0"),
        exact_on_integers=True,
    ),
    MapFunction(
        "select", 3, "y if x is not 0, else z", Code.SELECT, lambda xp, x, y, z: xp.where(xp.not_equal(x, 0), y, z),
        ("0", "1 - equal(x, 0)", "equal(x, 0)"),
        exact_on_integers=True,
    ),
    MapFunction(
        "max", 2, "the larger one", Code.MAX, lambda xp, x, y: xp.maximum(x, y),
        ("less(y, x) + 0.5 * equal(x, y)", "less(x, y) + 0.5 * equal(x, y)"), exact_on_integers=True,
    ),
    MapFunction(
        "min", 2, "the smaller one", Code.MIN, lambda xp, x, y: xp.minimum(x, y),
        ("less(x, y) + 0.5 * equal(x, y)", "less(y, x) + 0.5 * equal(x, y)"), exact_on_integers=True,
    ),
    MapFunction(
        "add", 2, "the sum", Code.ADD, lambda xp, x, y: xp.add(x, y), ("1", "1"), infix="+",
        exact_on_integers=True, is_linear=lambda degrees: list(degrees) == [1, 1],
    ),
    MapFunction(
        "subtract", 2, "the difference", Code.SUBTRACT, lambda xp, x, y: xp.subtract(x, y), ("1", "-1"), infix="-",
        exact_on_integers=True, is_linear=lambda degrees: list(degrees) == [1, 1],
    ),
    MapFunction(
        "multiply", 2, "the product", Code.MULTIPLY, lambda xp, x, y: xp.multiply(x, y), ("y", "x"), infix="*",
        exact_on_integers=True, is_linear=lambda degrees: sorted(-1 if d is None else d for d in degrees) == [0, 1],
    ),
    MapFunction(
        "divide", 2, "the quotient", Code.DIVIDE, lambda xp, x, y: xp.divide(x, y), ("1 / y", "-value / y"), infix="/",
        is_linear=lambda degrees: list(degrees) == [1, 0],
    ),
    MapFunction(
        "power", 2, "x to the power of y", Code.POWER, lambda xp, x, y: xp.power(x, y),
        ("y * x ** (y - 1)", "select(x, log(x) * value, 0)"),
    ),
)  # fmt: skip

FUNCTIONS = {entry.name: entry for entry in _ENTRIES}
"""All functions by name."""


def apply(function: str, *arguments: Any, xp: Any = np) -> Any:
    """The value of a function for arrays of `xp`, a module with the names of numpy."""
    return FUNCTIONS[function].compute(xp, *arguments)
