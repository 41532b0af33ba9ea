"""The functions and constants that every template may use: those of expressions, as opaque values."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from einmap.errors import NotSupportedError
from einmap.frontends.yaml.parsing.work import Work
from einmap.frontends.yaml.template.attributes import update
from einmap.frontends.yaml.template.filters import python_round, total
from einmap.frontends.yaml.template.operators import multiply, power
from einmap.frontends.yaml.template.tools import (
    MAX_RANGE,
    checked,
    defined,
    elements_of,
    number_of,
    stop,
    text_of,
    truth,
    weigh,
)
from einmap.frontends.yaml.template.values import Function, Namespace

MAX_FACTORIAL = 1_000
_FACTORIAL_STEPS = 50

_MATH = (
    *("ceil", "copysign", "fabs", "floor", "fmod", "frexp", "fsum", "gcd", "isclose", "isfinite", "isinf", "isnan"),
    *("isqrt", "ldexp", "modf", "remainder", "trunc", "exp", "expm1", "log", "log1p", "log2", "log10", "sqrt"),
    *("acos", "asin", "atan", "atan2", "cos", "dist", "hypot", "sin", "tan", "degrees", "radians", "acosh", "asinh"),
    *("atanh", "cosh", "sinh", "tanh", "erf", "erfc", "gamma", "lgamma"),
)
_CONSTANTS = ("pi", "e", "tau", "inf", "nan")

type Call = Callable[..., Any]


def functions(work: Work) -> dict[str, Any]:
    """The functions of templates by name, counted by `work`."""
    opaque_calls: dict[str, Any] = {name: opaque(work, name, call) for name, call in _calls(work).items()}
    return opaque_calls | {name: getattr(math, name) for name in _CONSTANTS}


def opaque(work: Work, name: str, call: Call) -> Function:
    """A function of Python for templates: it may look at all of its arguments, and gives plain values."""

    def called(arguments: list[Any], options: dict[str, Any]) -> Any:
        for value in (*arguments, *options.values()):
            weigh(work, defined(value))
        return checked(work, call(*arguments, **options))

    return Function(name, called)


def _calls(work: Work) -> Mapping[str, Call]:
    limited = {name: _limited(work, name) for name in ("factorial", "comb", "perm")}
    of_math = {name: getattr(math, name) for name in _MATH}
    return (
        of_math
        | limited
        | {
            "abs": abs,
            "bool": truth,
            "dict": lambda *pairs, **named: _dictionary(work, *pairs, **named),
            "enumerate": lambda values, start=0: list(enumerate(elements_of(work, values), start)),
            "float": lambda value=0.0: float(number_of(value)),
            "int": lambda value=0, *base: int(number_of(value), *base),
            "len": len,
            "list": lambda values=(): elements_of(work, values),
            "max": lambda *values: max(_operands(work, values)),
            "min": lambda *values: min(_operands(work, values)),
            "namespace": lambda *pairs, **named: Namespace(_dictionary(work, *pairs, **named)),
            "pow": lambda base, exp: power(work, base, exp),
            "prod": lambda values, start=1: _product(work, elements_of(work, values), start),
            "range": _range,
            "round": python_round,
            "setenv": _setenv,
            "str": lambda value="": text_of(work, value),
            "sum": lambda values, start=0: total(work, elements_of(work, values), start),
            "tuple": lambda values=(): tuple(elements_of(work, values)),
        }
    )


def _dictionary(work: Work, *pairs: Any, **named: Any) -> dict[Any, Any]:
    table: dict[Any, Any] = {}
    update(work, table, *pairs, **named)
    return table


def _operands(work: Work, values: tuple[Any, ...]) -> list[Any]:
    return elements_of(work, values[0]) if len(values) == 1 else list(values)


def _product(work: Work, values: list[Any], start: Any) -> Any:
    for value in values:
        work.step()
        start = multiply(work, start, value)
    return start


def _range(*limits: int) -> range:
    numbers = range(*limits)
    first, last, step = numbers.start, numbers.stop, numbers.step
    if (last - first) // step > MAX_RANGE:  # not len(), which fails for very long ranges
        stop(f"range of more than {MAX_RANGE:,} numbers")
    return numbers


def _limited(work: Work, name: str) -> Call:
    function = getattr(math, name)

    def limited(*arguments: Any) -> int:
        if any(isinstance(value, int) and value > MAX_FACTORIAL for value in arguments):
            stop(f"{name} takes numbers up to {MAX_FACTORIAL}")
        work.step(_FACTORIAL_STEPS)
        result: int = function(*arguments)
        return result

    return limited


def _setenv(*_arguments: object) -> NoReturn:
    hint = "give values to templates with -D NAME=VALUE or load(..., define={...})"
    raise NotSupportedError("setenv is not supported: a specification does not change the environment", hint=hint)
