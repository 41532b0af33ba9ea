"""Evaluate the expressions of a specification; what the layers above call.

`evaluate` gives any value; `number`, `boolean`, `tensor_set` and `rank_variable_set` a value of the
type that a field has, or an error that says what was found and what was expected.
"""

from __future__ import annotations

import math
import re
import sys
from functools import partial
from typing import Any, Literal

import numpy as np

from einmap.errors import MOST_NAMES, At, ExpressionError, SpecError, Where, closest
from einmap.expressions.evaluator.budget import size_checked
from einmap.expressions.evaluator.interpreter import MISSING, Interpreter, Names, plain, shown
from einmap.expressions.evaluator.operators import as_set
from einmap.expressions.evaluator.syntax import check_text_length, one_line, parse, quoted
from einmap.expressions.records import Record, RecordList, SafeFunction, safe_function
from einmap.expressions.sets import SET_NAMES, Kind, NameSet

_NUMBER = re.compile(r"[+-]?(\d[\d_]*+(\.\d*+)?|\.\d++)([eE][+-]?\d+)?")
_UNDEFINED = re.compile(r"name '(\w+)' is not defined")
_WORDS = {"true": True, "false": False}
_LARGEST = int(sys.float_info.max)
SMALLEST, LARGEST = 1e-100, 1e100
"""Costs (J, s, 1/s) between these have sums and products that stay finite."""
_EXACT = 2.0**53
"""Up to here every integer is a float, so that a float without fraction means that integer."""


def evaluate(text: object, scope: Names, *, at: Where = None) -> Any:
    """The value of an expression; what is not a text is its own value.

    Numbers, `true` and `false` in any case stand for themselves, the name of something in `scope` for
    that, and any other text is a Python expression. Floats without fraction become integers. Where
    values of the scope are numpy arrays, arithmetic works on each of their elements.
    Raises ExpressionError, placed at `at`.
    """
    value = _evaluated(text, scope, at)
    is_exact = isinstance(value, float) and value.is_integer() and abs(value) <= _EXACT
    return int(value) if is_exact else value


def _evaluated(text: object, scope: Names, at: Where) -> Any:
    try:
        return _of_text(text, scope) if isinstance(text, str) else plain(text)
    except ExpressionError as problem:
        problem.at = problem.at or at
        raise
    except RecursionError:
        raise ExpressionError(f"{quoted(str(text))} is nested too deeply", at=at) from None


def _of_text(text: str, scope: Names) -> Any:
    check_text_length(text)
    source = one_line(text)
    if source.lower() in _WORDS:
        return _WORDS[source.lower()]
    if _NUMBER.fullmatch(source):
        return _literal(source)
    value = scope.get(source, MISSING)
    if value is not MISSING:
        return plain(value)
    if not source:
        raise ExpressionError("an empty text where an expression is expected")
    interpreter = Interpreter(source, scope)
    scope.account.check()
    try:
        with np.errstate(all="ignore"):  # elements may be infinite; whoever uses them looks
            return interpreter.value(parse(source), {})
    finally:
        scope.account.settle(interpreter.budget)


def _literal(source: str) -> int | float:
    is_integer = source.lstrip("+-").replace("_", "").isdigit()
    try:
        value = size_checked(int(source)) if is_integer else float(source)
    except ValueError:
        raise ExpressionError(f"{quoted(source)} is not a number, or too long") from None
    if isinstance(value, float) and math.isinf(value):
        raise ExpressionError(f"the number {quoted(source)} is too large for a float", hint="write inf for infinity")
    return value


def number(
    text: object,
    scope: Names,
    *,
    at: Where,
    what: str,
    minimum: float | None = None,
    integer: bool | Literal["exact"] = False,
    allow_inf: bool = True,
) -> int | float:
    """The number that an expression gives, checked against the limits of the field `what`.

    `integer`: without fraction; "exact": computed without a division into fractions, so that `K/2` is refused for
    every K. Raises ExpressionError: "size must be >= 0, found -1".
    """
    value = evaluate(text, scope, at=at)

    def refuse(expected: str) -> ExpressionError:
        return ExpressionError(f"{what} must be {expected}, found {_found(value, text)}", at=at)

    if isinstance(value, bool) or not isinstance(value, int | float) or value != value:  # noqa: PLR0124 - nan
        raise refuse("a number")
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise ExpressionError(f"{what} is too large: an integer of {value.bit_length()} bits", at=at)
    if integer and not (isinstance(value, int) or value.is_integer()):
        raise refuse("an integer")
    if integer == "exact" and isinstance(text, str) and not _NUMBER.fullmatch(one_line(text)):
        exact = _evaluated(text, scope, at)
        if isinstance(exact, float):
            raise ExpressionError(f"{what} must be an integer, found the fraction {exact} ({quoted(text)})", at=at)
    if not allow_inf and math.isinf(value):
        raise refuse("finite")
    if minimum is not None and value < minimum:
        raise refuse(f">= {minimum:g}")
    return int(value) if integer else value


def boolean(text: object, scope: Names, *, at: Where, what: str) -> bool:
    """The truth value that an expression gives. Raises ExpressionError for numbers and sets, too."""
    expected = f"{what} must be true or false"
    try:
        value = evaluate(text, scope, at=at)
    except ExpressionError as problem:
        name = _UNDEFINED.fullmatch(problem.message)
        # one that is not defined further away is not a set that is missing here
        is_here = name is not None and isinstance(text, str) and name[1] in re.findall(r"\w+", text)
        hint = _sets_like(name[1], scope, "tensors") if name is not None and is_here else problem.hint
        problem.hint = f"{expected}; {hint}" if hint else expected
        raise
    if not isinstance(value, bool):
        raise ExpressionError(f"{expected}, found {_found(value, text)}", at=at)
    return value


def tensor_set(text: object, scope: Names, *, at: At | None = None) -> NameSet:
    """The tensors that a set expression selects; a list of expressions, and `{A, B}`, is their union.

    Raises ExpressionError: "expected tensors, got rank variables {m}".
    """
    return _set(text, scope, "tensors", at)


def rank_variable_set(text: object, scope: Names, *, at: At | None = None) -> NameSet:
    """The rank variables that a set expression selects; a list of expressions, and `{m, k}`, is their union.

    Raises ExpressionError: "expected rank variables, got tensors {A}".
    """
    return _set(text, scope, "rank variables", at)


def _set(text: object, scope: Names, kind: Kind, at: At | None) -> NameSet:
    parts = text if isinstance(text, list | tuple) else [text]
    try:
        union, *others = [_one_set(part, scope, kind, at) for part in parts or ["Nothing"]]
        for other in others:
            union |= other
    except ExpressionError as problem:
        problem.at = problem.at or at
        name = _UNDEFINED.fullmatch(problem.message)
        if name is None or problem.at != at:
            raise
        hint = partial(_sets_like, name[1], scope, kind)
        raise ExpressionError(problem.message, at=at, hint=hint) from problem
    return union


def _sets_like(name: str, scope: Names, kind: Kind) -> str:
    """A hint for a name that is not defined in a set: the closest name, tensors and renames first, how to rename."""
    sets = {set_name: value for set_name, value in scope.sets().items() if set_name not in SET_NAMES}
    guess = closest(name, sorted(scope.names()))
    parts = [f"did you mean {guess!r}?"] if guess else []
    for listed, title in (("tensors", "tensors and renames"), ("rank variables", "rank variables")):
        names = sorted(set_name for set_name, value in sets.items() if value.kind == listed)
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        if listed in ("tensors", kind):
            parts.append(f"{title}: {', '.join(names[:MOST_NAMES]) or 'none'}{more};")
    sets_text = f"sets: {', '.join(SET_NAMES)}"
    source = guess if guess in SET_NAMES else "Inputs"
    rename = f"a name of the architecture's own is given to tensors by `renames: {{{name}: {source}}}` of an Einsum"
    return " ".join((*parts, f"{sets_text};", rename))


def _one_set(text: object, scope: Names, kind: Kind, at: At | None) -> NameSet:
    value = as_set(evaluate(text, scope, at=at))
    if isinstance(value, set | frozenset | list | tuple) and value:
        value = _joined([as_set(element) for element in value]) or value
    if not isinstance(value, NameSet):
        raise ExpressionError(f"expected {kind}, got {_found(value, text)}")
    if kind == "rank variables" and value.kind == "tensors" and not value:
        return value.rank_variables  # no tensors have no rank variables: `Nothing` is empty of either kind
    return value.expect(kind)


def _joined(values: list[Any]) -> NameSet | None:
    """The union of sets; None where something else is among them."""
    sets = sorted((value for value in values if isinstance(value, NameSet)), key=str)
    if len(sets) < len(values):
        return None
    union, *others = sets
    for other in others:
        union |= other
    return union


def _found(value: object, text: object) -> str:
    """A value in a message, with the expression that gave it."""
    result = {True: "true", False: "false"}[value] if isinstance(value, bool) else shown(value)
    return f"{result} ({quoted(text)})" if isinstance(text, str) and text.strip() != result else result


__all__ = [
    "Record",
    "RecordList",
    "SafeFunction",
    "boolean",
    "evaluate",
    "number",
    "parse",
    "rank_variable_set",
    "safe_function",
    "tensor_set",
]


def check_size(what: str, value: float, at: Where) -> None:
    """Refuse costs (J, s, 1/s) whose sums and products leave the range of floats; 0 and infinity pass.

    Raises SpecError.
    """
    if value and not math.isinf(value) and not SMALLEST <= abs(value) <= LARGEST:
        hint = f"expected 0, or a size from {SMALLEST:g} to {LARGEST:g}"
        raise SpecError(f"{what} is {value:g}", at=at, hint=hint)
