"""The derivative of a map expression by its operands, as map expressions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

from einmap.einsum.functions import FUNCTIONS
from einmap.einsum.operation import Apply, MapExpression, Number, Operand, parse_operation

ZERO, ONE, TWO = Number(0.0), Number(1.0), Number(2.0)
_ARGUMENTS = ("x", "y", "z")


def pulled_back(
    expression: MapExpression, gradient: MapExpression, value: MapExpression | None = None
) -> dict[str, MapExpression]:
    """For each operand its gradient, given that of the value of the expression; operands without one are missing.

    What an operand gets where it stands several times is summed. `value`: an expression of the value, if it is known.
    """
    match expression:
        case Operand(tensor):
            return {tensor: gradient} if gradient != ZERO else {}
        case Number():
            return {}
        case Apply(function, arguments):
            own = expression if value is None else value
            given = {**dict(zip(_ARGUMENTS, arguments, strict=False)), "value": own}
            total: dict[str, MapExpression] = {}
            for argument, derivative in zip(arguments, _derivatives(function), strict=True):
                for tensor, part in pulled_back(argument, product(gradient, substituted(derivative, given))).items():
                    total[tensor] = _made("add", (total.get(tensor, ZERO), part))
            return {tensor: part for tensor, part in total.items() if part != ZERO}


@cache
def _derivatives(function: str) -> tuple[MapExpression, ...]:
    """The derivatives that the table of functions has, over the operands x, y, z and value."""
    read = [parse_operation(text, (*_ARGUMENTS, "value")).map for text in FUNCTIONS[function].derivatives]
    return tuple(derivative for derivative in read if derivative is not None)


def substituted(expression: MapExpression, given: Mapping[str, MapExpression]) -> MapExpression:
    """The expression with others in the place of some operands, simplified."""
    match expression:
        case Operand(tensor):
            return given.get(tensor, expression)
        case Apply(function, arguments):
            return _made(function, [substituted(argument, given) for argument in arguments])
        case _:
            return expression


def product(*factors: MapExpression) -> MapExpression:
    """The product of expressions, simplified: from left to right, without ones; 0 where one of them is."""
    total: MapExpression = ONE
    for factor in factors:
        total = _made("multiply", (total, factor))
    return total


def quotient(left: MapExpression, right: MapExpression) -> MapExpression:
    """The quotient of two expressions, simplified."""
    return _made("divide", (left, right))


def _made(function: str, arguments: Sequence[MapExpression]) -> MapExpression:
    """A function of its arguments, in the simplest of the forms that are the same."""
    rule = _RULES.get(function)
    return rule(*arguments) if rule else Apply(function, tuple(arguments))


def _multiplied(left: MapExpression, right: MapExpression) -> MapExpression:
    match left, right:
        case Number(a), Number(b):
            return Number(a * b)
        case (Number(0.0), _) | (_, Number(0.0)):
            return ZERO
        case (Number(1.0), other) | (other, Number(1.0)):
            return other
        case (Number(a), other) | (other, Number(a)) if a < 0:
            return _negated(_multiplied(other, Number(-a)))
        case Apply("negative", (inner,)), _:
            return _negated(_multiplied(inner, right))
        case _, Apply("negative", (inner,)):
            return _negated(_multiplied(left, inner))
        case _, Apply("divide", (above, below)):
            return _divided(_multiplied(left, above), below)
        case _, Apply("multiply", (first, second)):
            return _multiplied(_multiplied(left, first), second)
    return Apply("multiply", (left, right))


def _divided(left: MapExpression, right: MapExpression) -> MapExpression:
    match left, right:
        case Number(0.0), _:
            return ZERO
        case _, Number(1.0):
            return left
        case Apply("negative", (inner,)), _:
            return _negated(_divided(inner, right))
    return Apply("divide", (left, right))


def _added(left: MapExpression, right: MapExpression) -> MapExpression:
    match left, right:
        case Number(a), Number(b):
            return Number(a + b)
        case (Number(0.0), other) | (other, Number(0.0)):
            return other
        case _, Apply("negative", (inner,)):
            return _subtracted(left, inner)
    return _multiplied(TWO, left) if left == right else Apply("add", (left, right))


def _subtracted(left: MapExpression, right: MapExpression) -> MapExpression:
    match left, right:
        case Number(a), Number(b):
            return Number(a - b)
        case Number(0.0), _:
            return _negated(right)
        case _, Number(0.0):
            return left
        case _, Apply("negative", (inner,)):
            return _added(left, inner)
    return Apply("subtract", (left, right))


def _negated(inner: MapExpression) -> MapExpression:
    match inner:
        case Number(a):
            return Number(-a)
        case Apply("negative", (same,)):
            return same
    return Apply("negative", (inner,))


def _power(base: MapExpression, exponent: MapExpression) -> MapExpression:
    match exponent:
        case Number(0.0):
            return ONE
        case Number(1.0):
            return base
    return Apply("power", (base, exponent))


def _less(left: MapExpression, right: MapExpression) -> MapExpression:
    match left, right:
        case Number(0.0), Apply("relu", (inner,)):
            return Apply("less", (left, inner))
    return Apply("less", (left, right))


_RULES: Mapping[str, Callable[..., MapExpression]] = {
    "multiply": _multiplied, "divide": _divided, "add": _added, "subtract": _subtracted, "negative": _negated,
    "power": _power, "less": _less,
}  # fmt: skip
