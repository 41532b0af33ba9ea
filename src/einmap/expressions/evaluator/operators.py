"""The operators of expressions: Python's own, with a bound on what they may build."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from einmap.errors import ExpressionError
from einmap.expressions.evaluator.budget import check_bits, check_length
from einmap.expressions.records import Record
from einmap.expressions.sets import NameSet

type Binary = Callable[[Any, Any], Any]


def is_array(value: object) -> bool:
    """Whether this is one number for each of many tile shapes rather than a single number.

    What has the operators of an array, such as a recorded value, counts as one.
    """
    return isinstance(value, np.ndarray | NDArrayOperatorsMixin)


def apply(function: Binary, a: Any, b: Any) -> Any:
    """`function(a, b)`; numpy would take a list beside an array for another array."""
    for array, other in ((a, b), (b, a)):
        if is_array(array) and isinstance(other, str | list | tuple):
            raise ExpressionError(f"an array of values does not combine with a {type(other).__name__}")
    return function(a, b)


def real(value: Any) -> Any:
    """`value`, unless it is a complex number."""
    if isinstance(value, complex):
        raise ExpressionError("the result is a complex number")
    return value


def multiply(a: Any, b: Any) -> Any:
    """`a * b`; a list times a number repeats it."""
    for sequence, times in ((a, b), (b, a)):
        if isinstance(sequence, str | list | tuple):
            if not isinstance(times, int):
                raise ExpressionError(f"a {type(sequence).__name__} can be multiplied by an integer only")
            check_length(len(sequence) * times)
    return a * b


def power(a: Any, b: Any) -> Any:
    """`a ** b`, refused before it is computed when the integer would be too large."""
    if isinstance(a, int) and isinstance(b, int) and abs(a) > 1:
        check_bits((abs(a).bit_length() - 1) * b)
    return real(a**b)


def shift_left(a: Any, b: Any) -> Any:
    """`a << b`, refused before it is computed when the integer would be too large."""
    if isinstance(a, int) and isinstance(b, int):
        check_bits(a.bit_length() + b)
    return a << b


def invert(a: Any) -> Any:
    """`~a`: complement of a set, or bits of an integer."""
    a = as_set(a)
    return ~int(a) if isinstance(a, bool) else ~a


def as_set(value: Any) -> Any:
    """A memory within a set expression stands for the tensors that it holds, if that is known; or ExpressionError."""
    if isinstance(value, Record) and "tensors" in value.refused:
        return value.expression_attribute("tensors")
    if isinstance(value, Record) and isinstance(held := value.attributes.get("tensors"), NameSet):
        return held
    return value


def _number_by(function: Binary) -> Binary:
    """Division. By the number zero it is an error for arrays too; `%` does not format texts."""

    def divide(a: Any, b: Any) -> Any:
        if isinstance(a, str):
            raise ExpressionError("a text cannot be divided")
        if is_array(a) and isinstance(b, int | float) and b == 0:
            raise ZeroDivisionError
        return function(a, b)

    return divide


def _on_sets(function: Binary) -> Binary:
    return lambda a, b: function(as_set(a), as_set(b))


def _contains(a: Any, b: Any) -> bool:
    return as_set(a) in as_set(b)


BINARY: Mapping[type[ast.operator], Binary] = {
    ast.Add: operator.add,
    ast.Sub: _on_sets(operator.sub),
    ast.Mult: multiply,
    ast.Div: _number_by(operator.truediv),
    ast.FloorDiv: _number_by(operator.floordiv),
    ast.Mod: _number_by(operator.mod),
    ast.Pow: power,
    ast.LShift: shift_left,
    ast.RShift: operator.rshift,
    ast.BitAnd: _on_sets(operator.and_),
    ast.BitOr: _on_sets(operator.or_),
    ast.BitXor: _on_sets(operator.xor),
}

UNARY: Mapping[type[ast.unaryop], Callable[[Any], Any]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Invert: invert,
}

COMPARE: Mapping[type[ast.cmpop], Binary] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
    ast.In: _contains,
    ast.NotIn: lambda a, b: not _contains(a, b),
}
