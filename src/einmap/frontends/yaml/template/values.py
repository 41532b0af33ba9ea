"""Values of templates: plain values of Python, and a few opaque kinds of ours.

Plain are None, truth values, numbers, texts, and lists, tuples, dictionaries and ranges. The others have no
method that Python would call, so that handing them to a function of Python reaches nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any, NamedTuple

from einmap.errors import SpecError

type Arguments = list[Any]
type Options = dict[str, Any]

MAX_NESTED = 100
"""Levels of lists in the value of a variable that the user gives."""


class Missing:
    """Stands for a name or field that is not there; only `is defined` and `default` may look at it.

    A `blank` one, of an `if` without `else`, is false, and written as nothing.
    """

    __slots__ = ("blank", "name", "text")

    def __init__(self, text: str, name: str | None = None, *, blank: bool = False) -> None:
        self.text = text
        self.name = name
        self.blank = blank

    def __repr__(self) -> str:
        return "Undefined"


class Function:
    """A function that a template may call. `call` takes arguments and keywords; a template sees nothing of it."""

    __slots__ = ("call", "name")

    def __init__(self, name: str, call: Callable[[Arguments, Options], Any]) -> None:
        self.name = name
        self.call = call

    def __repr__(self) -> str:
        return f"<function {self.name}>"


class Namespace:
    """Result of `namespace()`: names that loops may set."""

    __slots__ = ("names",)

    def __init__(self, names: dict[str, Any]) -> None:
        self.names = names

    def __repr__(self) -> str:
        return "<namespace>"


class Module:
    """Result of `import`: the macros and variables of a file."""

    __slots__ = ("file", "names")

    def __init__(self, file: str, names: dict[str, Any]) -> None:
        self.file = file
        self.names = names

    def __repr__(self) -> str:
        return "<imported template>"


class Group(NamedTuple):
    """One group of the filter `groupby`."""

    grouper: Any
    list: list[Any]


@dataclass(slots=True, eq=False)
class LoopVariable:
    """The variable `loop`: `values` are all elements, `at` is the position of this one, from 0."""

    values: list[Any]
    at: int = 0
    last: tuple[Any, ...] | None = None
    """Arguments of the last call of `loop.changed`."""

    def __repr__(self) -> str:
        return "<loop>"

    def attribute(self, name: str) -> Any:
        """One of the numbers and neighbours that `loop` has; Missing for another name."""
        at, length = self.at, len(self.values)
        if name in ("previtem", "nextitem"):
            beside = at - 1 if name == "previtem" else at + 1
            return self.values[beside] if 0 <= beside < length else Missing(f"there is no {name}")
        numbers = {
            **{"index": at + 1, "index0": at, "revindex": length - at, "revindex0": length - at - 1, "length": length},
            **{"first": at == 0, "last": at == length - 1, "depth": 1, "depth0": 0},
        }
        return numbers.get(name, Missing(f"'loop' has no attribute {name!r}"))


OPAQUE = (Missing, Function, Namespace, Module, LoopVariable)
PLAIN = (type(None), bool, int, float, str, list, tuple, dict, range, Group)
"""Exactly these types: a class derived from one of them may do anything when it is asked for its text."""


def kind(value: object) -> str:
    """Kind of a value, for a message."""
    match value:
        case Function():
            return f"the function {value.name}"
        case Namespace():
            return "a namespace"
        case Module():
            return "an imported template"
        case LoopVariable():
            return "the variable loop"
        case Group():
            return "'tuple'"
        case None:
            return "none"
        case _:
            return repr(type(value).__name__)


def plain_variables(define: Mapping[str, object]) -> dict[str, Any]:
    """The user's variables as plain values. Raises SpecError for a value of any other kind."""
    variables = {}
    for name, value in define.items():
        try:
            variables[name] = _plain(value, 0)
        except TypeError as problem:
            raise SpecError(f"the template variable {name} {problem}") from None
    return variables


def _plain(value: Any, depth: int) -> Any:
    """A copy, so that a template changes nothing of the caller's."""
    if depth > MAX_NESTED:
        raise TypeError(f"has more than {MAX_NESTED} lists in one another")
    match value:
        case None | bool():
            return value
        case int():
            return int(value)
        case float():
            return float(value)
        case str() | PurePath():
            return "".join(str(value))
        case range():
            return value
        case list():
            return [_plain(item, depth + 1) for item in value]
        case tuple():
            return tuple(_plain(item, depth + 1) for item in value)
        case Mapping():
            return {_plain(key, depth + 1): _plain(item, depth + 1) for key, item in value.items()}
        case _ if type(value).__module__ == "numpy":
            return _plain(value.tolist(), depth + 1)
        case _:
            hint = "numbers, texts, truth values, none, and lists and dictionaries of them"
            raise TypeError(f"is of the type {type(value).__name__}; templates take {hint}")
