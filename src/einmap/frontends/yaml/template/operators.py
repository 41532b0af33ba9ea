"""The operators of templates: Python's own on plain values, paid by the size of what they take and make."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from einmap.frontends.yaml.parsing.work import Work
from einmap.frontends.yaml.template.tools import check_bits, checked, defined, key_of, pay_elements, pay_text, weigh
from einmap.frontends.yaml.template.values import kind

type Binary = Callable[[Work, Any, Any], Any]

_SEQUENCES = (str, list, tuple)


def numbers(name: str, left: Any, right: Any) -> None:
    """Raise TypeError when one of the operands is not a number."""
    for value in (left, right):
        if not isinstance(defined(value), int | float):
            raise TypeError(f"{name} takes numbers, found {kind(value)}")


def add(work: Work, left: Any, right: Any) -> Any:
    """`left + right`: numbers, texts or lists."""
    for sequence in _SEQUENCES:
        if isinstance(left, sequence) and isinstance(right, sequence):
            pay = pay_text if sequence is str else pay_elements
            pay(work, len(left) + len(right))
            return operator.add(left, right)
    numbers("+ (of values that are not both texts or both lists)", left, right)
    return checked(work, left + right)


def multiply(work: Work, left: Any, right: Any) -> Any:
    """`left * right`; a text or list times a number repeats it."""
    for sequence, times in ((left, right), (right, left)):
        if isinstance(sequence, _SEQUENCES) and isinstance(times, int):
            pay = pay_text if isinstance(sequence, str) else pay_elements
            pay(work, len(sequence) * max(times, 0))
            return sequence * times
    numbers("*", left, right)
    if isinstance(left, int) and isinstance(right, int):
        check_bits(left.bit_length() + right.bit_length())
    return checked(work, left * right)


def power(work: Work, base: Any, exponent: Any) -> Any:
    """`base ** exponent`, refused before it is computed when the integer would be too large."""
    numbers("**", base, exponent)
    if isinstance(base, int) and isinstance(exponent, int):
        check_bits(max(base.bit_length() - (base > 0), 0) * abs(exponent))
    return checked(work, base**exponent)


def _arithmetic(symbol: str, function: Callable[[Any, Any], Any]) -> Binary:
    def operate(work: Work, left: Any, right: Any) -> Any:
        if symbol == "%" and isinstance(left, str):
            raise TypeError("% does not format text in templates; join texts with ~")
        numbers(symbol, left, right)
        weigh(work, left)
        weigh(work, right)
        return checked(work, function(left, right))

    return operate


def _comparison(function: Callable[[Any, Any], Any]) -> Binary:
    def compare(work: Work, left: Any, right: Any) -> bool:
        weigh(work, defined(left))
        weigh(work, defined(right))
        return bool(function(left, right))

    return compare


def contains(work: Work, part: Any, whole: Any) -> bool:
    """`part in whole`: an element, a key, or a part of a text."""
    if not isinstance(defined(whole), str | list | tuple | dict | range):
        raise TypeError(f"{kind(whole)} has no elements")
    weigh(work, defined(part))
    if isinstance(whole, str):
        work.step(search_cost(len(whole), len(part) if isinstance(part, str) else 0))
    elif isinstance(whole, dict):
        return key_of(part) in whole
    else:
        weigh(work, whole)
    return part in whole


def search_cost(length: int, part: int) -> int:
    """Steps to look for a part in a text: short ones are compared at every place, long ones cleverly."""
    return min(length * part // 1000, 5_000) + (length + part) // 32


BINARY: Mapping[str, Binary] = {
    "Add": add,
    "Sub": _arithmetic("-", operator.sub),
    "Mul": multiply,
    "Div": _arithmetic("/", operator.truediv),
    "FloorDiv": _arithmetic("//", operator.floordiv),
    "Mod": _arithmetic("%", operator.mod),
    "Pow": power,
}
COMPARE: Mapping[str, Binary] = {
    "eq": _comparison(operator.eq),
    "ne": _comparison(operator.ne),
    "lt": _comparison(operator.lt),
    "lteq": _comparison(operator.le),
    "gt": _comparison(operator.gt),
    "gteq": _comparison(operator.ge),
    "in": contains,
    "notin": lambda work, part, whole: not contains(work, part, whole),
}
