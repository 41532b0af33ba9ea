"""Functions that users give: called with plain values only; what goes wrong in them is an error of the expression."""

from __future__ import annotations

import keyword
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from einmap.errors import ExpressionError, SpecError
from einmap.expressions.evaluator.functions import BUILT_IN
from einmap.expressions.evaluator.operators import is_array
from einmap.expressions.records import FunctionView, SafeFunction
from einmap.expressions.sets import NameSet
from einmap.visible import short


def custom_functions(functions: Mapping[Any, Any]) -> dict[str, SafeFunction]:
    """The functions as expressions may call them, by name. Raises SpecError for what is not a name or function."""
    for name, function in functions.items():
        if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
            raise SpecError(f"{name!r} cannot be the name of a function in expressions")
        if not callable(function):
            raise SpecError(f"the function {name!r} must be callable, found {short(function)}")
    return {name: custom_function(function, name) for name, function in functions.items()}


def hidden_built_ins(functions: Mapping[str, object]) -> list[str]:
    """The given names that expressions have anyway: what users give wins."""
    return [name for name in functions if name in BUILT_IN]


def custom_function(function: Callable[..., Any], name: str) -> SafeFunction:
    """`function` for expressions.

    It gets numbers, texts, truth values, None, functions, and lists, tuples, dictionaries and sets of them; a set of
    tensors or rank variables as the frozenset of their names. It must give back the same kinds. Where an
    argument is an array (one number for each of many tile shapes), it is called for each element.
    """

    def call(*arguments: Any, **options: Any) -> Any:
        plain = [_plain(value, f"{name} takes") for value in arguments]
        named = {key: _plain(value, f"{name} takes") for key, value in options.items()}
        arrays = [value for value in (*plain, *named.values()) if is_array(value)]
        if not arrays:
            return _result(_called(function, name, plain, named), name)
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        results = np.empty(shape)
        for at in np.ndindex(shape):
            result = _called(
                function,
                name,
                [_at(value, at, shape) for value in plain],
                {k: _at(v, at, shape) for k, v in named.items()},
            )
            results[at] = _number(result, name)
        return results

    return SafeFunction(call, name)


def _called(function: Callable[..., Any], name: str, arguments: list[Any], options: dict[str, Any]) -> Any:
    try:
        return function(*arguments, **options)
    except (Exception, SystemExit) as error:  # users' code may raise anything
        frame = traceback.extract_tb(error.__traceback__)[-1]
        where = "" if frame.filename == __file__ else f" ({Path(frame.filename).name}:{frame.lineno})"
        detail = f": {error}" if str(error) else ""
        raise ExpressionError(f"the function {name} failed{where}: {type(error).__name__}{detail}") from error


def _at(value: Any, at: tuple[int, ...], shape: tuple[int, ...]) -> Any:
    return np.broadcast_to(value, shape)[at].item() if is_array(value) else value


def _result(value: Any, name: str) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    if is_array(value):
        raise ExpressionError(f"{name} must give a single number, found an array")
    return _plain(value, f"{name} must give")


def _number(value: Any, name: str) -> float:
    value = _result(value, name)
    if not isinstance(value, bool | int | float):
        raise ExpressionError(f"{name} must give a number here, found {short(value)}")
    return value


def _plain(value: Any, what: str) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case FunctionView() | SafeFunction():
            return value
        case NameSet():
            return frozenset(value)
        case list() | range():
            return [_plain(item, what) for item in value]
        case tuple():
            parts = [_plain(item, what) for item in value]
            # a named tuple stays one: functions hand it to each other through expressions
            return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
        case set() | frozenset():
            return frozenset(_plain(item, what) for item in value)
        case Mapping():
            return {_plain(key, what): _plain(item, what) for key, item in value.items()}
        case _ if is_array(value):
            return value
        case _:
            text = f"{what} numbers, texts, truth values, and lists, dictionaries and sets of them"
            raise ExpressionError(f"{text}, found {short(value)}")
