"""The functions and constants that every expression may use."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from einmap.errors import ExpressionError
from einmap.expressions.evaluator.budget import check_bits, check_length
from einmap.expressions.evaluator.operators import is_array, multiply, power
from einmap.expressions.records import Record, RecordList, SafeFunction
from einmap.expressions.sets import NameSet

_ON_ARRAYS = {
    **{name: name for name in ("ceil", "copysign", "exp", "expm1", "fabs", "floor", "fmod", "hypot", "trunc")},
    **{name: name for name in ("log", "log10", "log1p", "log2", "sqrt", "sin", "cos", "tan", "sinh", "cosh", "tanh")},
    **{name: f"arc{name[1:]}" for name in ("acos", "asin", "atan", "atan2", "acosh", "asinh", "atanh")},
    **{name: name for name in ("degrees", "radians", "isfinite", "isinf", "isnan")},
}
"""Functions of `math` that work on arrays, and what numpy calls them."""

_OF_NUMBERS = (
    *("dist", "erf", "erfc", "frexp", "fsum", "gamma", "gcd", "isclose", "isqrt", "ldexp", "lgamma"),
    *("modf", "remainder"),
)


def items(value: Any) -> list[Any]:
    """The elements of a list, set, range, dictionary (its keys), text or list of records; sets are sorted."""
    match value:
        case set() | frozenset():
            return _sorted(value)
        case list() | tuple() | range() | str() | NameSet() | RecordList() | Mapping():
            return list(value)
        case _ if is_array(value):
            raise ExpressionError("an array of values is one number here; it has no elements")
        case Record():
            raise ExpressionError(f"{value.name} has attributes, and no elements")
        case _:
            raise ExpressionError(f"{type(value).__name__} {value!r:.40} has no elements")


def _sorted(value: Iterable[Any]) -> list[Any]:
    try:
        return sorted(value)
    except TypeError:
        return sorted(value, key=repr)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or is_array(value)


def _operands(name: str, arguments: tuple[Any, ...]) -> list[Any]:
    """`max(a, b)`, `max(a)` and `max([a, b])` alike: the numbers."""
    only = arguments[0] if len(arguments) == 1 else None
    numbers = items(only) if only is not None and not _is_number(only) else list(arguments)
    for value in numbers:
        if not _is_number(value):
            raise ExpressionError(f"{name} of numbers only, got {type(value).__name__} {value!r:.40}")
    return numbers


def _maximum(*arguments: Any) -> Any:
    return _extreme("max", max, np.maximum, arguments)


def _minimum(*arguments: Any) -> Any:
    return _extreme("min", min, np.minimum, arguments)


def _extreme(
    name: str, of_numbers: Callable[..., Any], of_arrays: Callable[..., Any], arguments: tuple[Any, ...]
) -> Any:
    values = _operands(name, arguments)
    if not values:
        raise ExpressionError(f"{name} of nothing; it needs at least one number")
    if any(is_array(value) for value in values):
        return functools.reduce(of_arrays, values)
    return of_numbers(values)


def _sum(*arguments: Any, start: Any = 0) -> Any:
    """Several numbers, or one iterable of them and perhaps a start."""
    match arguments:
        case (values, first) if not _is_number(values):
            arguments, start = (values,), first
    return sum(_operands("sum", arguments), *_operands("sum", (start,)))


def _prod(values: Any, start: Any = 1) -> Any:
    total: Any = start
    for value in _operands("prod", (items(values),)):
        total = multiply(total, value)
        if isinstance(total, int):
            check_bits(total.bit_length())
    return total


def _pow(base: Any, exp: Any, mod: Any = None) -> Any:
    if mod is None:
        return power(base, exp)
    return pow(base, exp, mod)


def _pow_cost(base: Any, exp: Any, mod: Any = None) -> int:  # noqa: ARG001 - the names are those of `pow`
    """With a modulus there is a product of its length for each bit of the exponent."""
    if not isinstance(exp, int) or not isinstance(mod, int):
        return 0
    return int(exp.bit_length() * (1 + mod.bit_length() // 64) ** 2 // 128)


def _of_integer_cost(*numbers: Any) -> int:
    """Steps of a function that takes longer than in proportion to the length of its arguments."""
    return sum(int((1 + number.bit_length() // 64) ** 2 // 256) for number in numbers if isinstance(number, int))


def _factorial(n: Any) -> int:
    if isinstance(n, int) and n > 1000:
        raise ExpressionError("factorial of more than 1000")
    return math.factorial(n)


def _comb(n: Any, k: Any) -> int:
    if isinstance(n, int) and isinstance(k, int):
        check_bits(min(k, abs(n - k)) * n.bit_length() // 2)
    return math.comb(n, k)


def _perm(n: Any, k: Any = None) -> int:
    if k is None:
        return _factorial(n)
    if isinstance(n, int) and isinstance(k, int):
        check_bits(min(k, n) * n.bit_length() // 2)
    return math.perm(n, k)


def _round(number: Any, ndigits: int | None = None) -> Any:
    if ndigits is not None and abs(ndigits) > 400:
        raise ExpressionError("round to more than 400 digits")
    if is_array(number):
        return np.round(number, ndigits or 0)
    return round(number, ndigits)


def _range(*limits: int) -> range:
    numbers = range(*limits)
    first, last, step = numbers.start, numbers.stop, numbers.step
    check_length((last - first) // step)  # not len(), which fails for very long ranges
    return numbers


def _map(function: Any, *values: Any) -> list[Any]:
    if not isinstance(function, SafeFunction):
        raise ExpressionError(f"map needs a function, got {type(function).__name__}")
    return [function(*row) for row in zip(*(items(value) for value in values), strict=False)]


def _enumerate(values: Any, start: int = 0) -> list[tuple[int, Any]]:
    return list(enumerate(items(values), start))


def _list(values: Any = ()) -> list[Any]:
    return items(values)


def _tuple(values: Any = ()) -> tuple[Any, ...]:
    return tuple(items(values))


def _str(value: Any = "") -> str:
    return str(_sorted(value)) if isinstance(value, set | frozenset) else str(value)


def _has_array(arguments: Iterable[Any]) -> bool:
    return any(
        is_array(value) or (isinstance(value, list | tuple) and any(map(is_array, value))) for value in arguments
    )


def _of_numbers(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Numpy would take an array of one element for a number, and go on with a wrong one for more."""

    def call(*arguments: Any, **options: Any) -> Any:
        if _has_array(arguments):
            raise ExpressionError(f"{name} takes single numbers, not an array of values")
        return function(*arguments, **options)

    return call


def _elementwise(name: str) -> Callable[..., Any]:
    on_numbers = getattr(math, name)
    on_arrays = getattr(np, _ON_ARRAYS[name])

    def call(*arguments: Any) -> Any:
        if not _has_array(arguments):
            return on_numbers(*arguments)
        if name == "log" and len(arguments) == 2:
            return np.log(arguments[0]) / np.log(arguments[1])
        return on_arrays(*arguments)

    return call


def _functions() -> dict[str, Callable[..., Any]]:
    by_name: dict[str, Callable[..., Any]] = {name: _elementwise(name) for name in _ON_ARRAYS}
    by_name |= {name: _of_numbers(name, getattr(math, name)) for name in _OF_NUMBERS}
    by_name |= {
        "factorial": _of_numbers("factorial", _factorial),
        "comb": _of_numbers("comb", _comb),
        "perm": _of_numbers("perm", _perm),
        "range": _of_numbers("range", _range),
        "float": _of_numbers("float", float),
        "int": _of_numbers("int", int),
        "str": _of_numbers("str", _str),
        "bool": _of_numbers("bool", bool),
        "len": lambda value: len(items(value)),
    }
    return by_name | {
        "abs": abs,
        "enumerate": _enumerate,
        "getcwd": os.getcwd,
        "list": _list,
        "map": _map,
        "max": _maximum,
        "min": _minimum,
        "pow": _pow,
        "prod": _prod,
        "round": _round,
        "sum": _sum,
        "tuple": _tuple,
    }


_COSTS: Mapping[str, Callable[..., int]] = {
    "pow": _pow_cost,
    **dict.fromkeys(("factorial", "comb", "perm"), lambda *_numbers: 50),
    **dict.fromkeys(("gcd", "isqrt", "str"), _of_integer_cost),
}

BUILT_IN: Mapping[str, object] = {
    **{name: getattr(math, name) for name in ("pi", "e", "tau", "inf", "nan")},
    **{name: SafeFunction(function, name, _COSTS.get(name)) for name, function in _functions().items()},
}
"""Names that every expression knows; a scope may give any of them another meaning."""
