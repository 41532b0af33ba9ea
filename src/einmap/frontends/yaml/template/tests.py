"""The tests of templates: `value is name(...)`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from einmap.frontends.yaml.parsing.work import Work
from einmap.frontends.yaml.template.filters import FILTERS
from einmap.frontends.yaml.template.operators import COMPARE, contains
from einmap.frontends.yaml.template.tools import defined, text_of
from einmap.frontends.yaml.template.values import Function, Missing

type Test = Callable[..., bool]

_COMPARISONS = {
    "eq": ("==", "eq", "equalto"),
    "ne": ("!=", "ne"),
    "gt": (">", "gt", "greaterthan"),
    "gteq": (">=", "ge"),
    "lt": ("<", "lt", "lessthan"),
    "lteq": ("<=", "le"),
}


def _remainder(value: Any, divisor: Any) -> Any:
    for number in (value, divisor):
        if not isinstance(defined(number), int | float):
            raise TypeError("only numbers are divided")
    return value % divisor


def _is(*types: type) -> Test:
    return lambda _work, value: isinstance(value, types)


TESTS: Mapping[str, Test] = {
    **{name: COMPARE[operator] for operator, names in _COMPARISONS.items() for name in names},
    "boolean": _is(bool),
    "callable": _is(Function),
    "defined": lambda _work, value: not isinstance(value, Missing),
    "divisibleby": lambda _work, value, num: _remainder(value, num) == 0,
    "escaped": lambda _work, _value: False,
    "even": lambda _work, value: _remainder(value, 2) == 0,
    "false": lambda _work, value: value is False,
    "filter": lambda _work, name: isinstance(name, str) and name in FILTERS,
    "float": _is(float),
    "in": contains,
    "integer": lambda _work, value: isinstance(value, int) and not isinstance(value, bool),
    "iterable": _is(str, list, tuple, dict, range),
    "lower": lambda work, value: text_of(work, value).islower(),
    "mapping": _is(dict),
    "none": lambda _work, value: value is None,
    "number": _is(int, float),
    "odd": lambda _work, value: _remainder(value, 2) == 1,
    "sameas": lambda _work, value, other: value is other,
    "sequence": _is(str, list, tuple, dict, range),
    "string": _is(str),
    "test": lambda _work, name: isinstance(name, str) and name in TESTS,
    "true": lambda _work, value: value is True,
    "undefined": _is(Missing),
    "upper": lambda work, value: text_of(work, value).isupper(),
}


def tested(work: Work, name: str, value: Any, arguments: list[Any], options: dict[str, Any]) -> bool:
    """`value is name(...)`."""
    return bool(TESTS[name](work, value, *arguments, **options))
