"""The filters of templates: `value | name(...)`. What gives a list gives all of it at once."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from itertools import groupby
from typing import Any, Protocol

from einmap.frontends.yaml.parsing.work import Work
from einmap.frontends.yaml.template.attributes import item
from einmap.frontends.yaml.template.operators import add, numbers, search_cost
from einmap.frontends.yaml.template.tools import (
    checked,
    defined,
    elements_of,
    key_of,
    number_of,
    pay_text,
    stop,
    text_of,
    truth,
    weigh,
)
from einmap.frontends.yaml.template.values import Group, Missing, kind

MAX_PRECISION = 400
MAX_PATH = 1_000
_WORD = re.compile(r"([-\s({\[<]+)")


class Caller(Protocol):
    """Interpreter as filters see it: the other filters and tests by name, and where work is counted."""

    work: Work

    def filtered(self, name: str, value: Any, arguments: list[Any], options: dict[str, Any]) -> Any:
        """`value | name(...)`."""
        ...

    def tested(self, name: str, value: Any, arguments: list[Any], options: dict[str, Any]) -> bool:
        """`value is name(...)`."""
        ...


type Filter = Callable[..., Any]
type Key = Callable[[Any], Any]


def rounded(number: Any, precision: int = 0, method: str = "common") -> Any:
    """`number | round`; the precision may be negative."""
    _check_precision(precision)
    numbers("round", number, precision)
    if method == "common":
        return round(number, precision)
    if method not in ("ceil", "floor"):
        raise ValueError("the method of round is common, ceil or floor")
    scale = 10**precision
    return (math.ceil if method == "ceil" else math.floor)(number * scale) / scale


def python_round(number: Any, precision: int | None = None) -> Any:
    """Python's `round`."""
    if precision is not None:
        _check_precision(precision)
    return round(defined(number), precision)


def _check_precision(precision: int) -> None:
    if abs(precision) > MAX_PRECISION:
        stop(f"round takes at most {MAX_PRECISION} digits")


def total(work: Work, values: list[Any], start: Any = 0) -> Any:
    """The sum of numbers, or of lists after a list."""
    for value in values:
        work.step()
        start = add(work, start, value)
    return start


def read_integer(value: Any, default: Any = 0, base: int = 10) -> Any:
    """`value | int`: what cannot be read is the default."""
    try:
        return int(number_of(value), base) if isinstance(value, str) else int(number_of(value))
    except (TypeError, ValueError):
        try:
            return int(float(value))
        except (TypeError, ValueError, OverflowError):
            return default


def read_float(value: Any, default: Any = 0.0) -> Any:
    """`value | float`: what cannot be read is the default."""
    try:
        return float(number_of(value))
    except (TypeError, ValueError):
        return default


def _default(_caller: Caller, value: Any, default: Any = "", boolean: Any = False) -> Any:
    if isinstance(value, Missing):
        return default
    return default if boolean and not value else value


def _text(function: Callable[[str], str]) -> Filter:
    return lambda caller, value: function(text_of(caller.work, value))


def _title(caller: Caller, value: Any) -> str:
    text = text_of(caller.work, value)
    caller.work.step(len(text) // 4)
    return "".join(part[0].upper() + part[1:].lower() for part in _WORD.split(text) if part)


def _trim(caller: Caller, value: Any, characters: str | None = None) -> str:
    text = text_of(caller.work, value)
    caller.work.step(len(text) * len(characters or "") // 1000)
    return text.strip(characters)


def _length(_caller: Caller, value: Any) -> int:
    return len(defined(value))


def _first(_caller: Caller, values: Any) -> Any:
    return next(iter(defined(values)), Missing("the list has no first element"))


def _last(_caller: Caller, values: Any) -> Any:
    return next(iter(reversed(defined(values))), Missing("the list has no last element"))


def _reverse(caller: Caller, values: Any) -> Any:
    reversed_values = elements_of(caller.work, values)[::-1]
    return "".join(reversed_values) if isinstance(values, str) else reversed_values


def _items(_caller: Caller, value: Any) -> list[Any]:
    if isinstance(value, Missing):
        return []
    if not isinstance(value, dict):
        raise TypeError("items is for dictionaries only")
    return list(value.items())


def _join(caller: Caller, values: Any, d: Any = "", attribute: str | None = None) -> str:
    separator = text_of(caller.work, d)
    elements = elements_of(caller.work, values)
    texts = [text_of(caller.work, _key(caller, attribute)(value)) for value in elements]
    pay_text(caller.work, sum(map(len, texts)) + len(separator) * len(texts))
    return separator.join(texts)


def _replace(caller: Caller, value: Any, old: Any, new: Any, count: int | None = None) -> str:
    text, old, new = (text_of(caller.work, part) for part in (value, old, new))
    caller.work.step(search_cost(len(text), len(old)))
    pay_text(caller.work, len(text) + text.count(old) * len(new))
    return text.replace(old, new, -1 if count is None else count)


def _key(caller: Caller, path: Any, default: Any = None, *, folded: bool = False) -> Key:
    """Sort key of an element: the field at a dotted path, or itself; `folded` in small letters."""
    parts = _parts(path)

    def of(value: Any) -> Any:
        for part in parts:
            caller.work.step()
            value = item(caller.work, value, part)
            if isinstance(value, Missing) and default is not None:
                value = default
        return value.lower() if folded and isinstance(value, str) else value

    return of


def _parts(path: Any) -> list[Any]:
    if isinstance(path, str) and len(path) <= MAX_PATH:
        return [int(part) if part.isdecimal() else part for part in path.split(".")]
    if path is not None and not isinstance(path, int):
        raise TypeError(f"the name of a field is a short text or a position, found {kind(path)}")
    return [] if path is None else [path]


def _sorting_key(caller: Caller, paths: Any, case_sensitive: Any) -> Key:
    each = paths.split(",") if isinstance(paths, str) and len(paths) <= MAX_PATH else [paths]
    keys = [_key(caller, path, folded=not case_sensitive) for path in each]
    return lambda value: [defined(key(value)) for key in keys]


def _sorted(caller: Caller, values: list[Any], key: Key, reverse: Any = False) -> list[Any]:
    """Sorted; every comparison may look at all of two keys."""
    pairs = [(key(value), value) for value in values]
    before = caller.work.steps
    for of, _ in pairs:
        weigh(caller.work, of)
    caller.work.step((caller.work.steps - before + len(pairs)) * len(pairs).bit_length())
    return [value for _, value in sorted(pairs, key=lambda pair: pair[0], reverse=bool(reverse))]


def _sort(caller: Caller, values: Any, reverse: Any = False, case_sensitive: Any = False, attribute: Any = None) -> Any:
    return _sorted(caller, elements_of(caller.work, values), _sorting_key(caller, attribute, case_sensitive), reverse)


def _dictsort(caller: Caller, table: Any, case_sensitive: Any = False, by: str = "key", reverse: Any = False) -> Any:
    if by not in ("key", "value"):
        raise ValueError('dictsort sorts by "key" or "value"')
    return _sorted(
        caller, _items(caller, defined(table)), _key(caller, int(by == "value"), folded=not case_sensitive), reverse
    )


def _groupby(caller: Caller, values: Any, attribute: Any, default: Any = None, case_sensitive: Any = False) -> Any:
    key = _key(caller, attribute, default, folded=not case_sensitive)
    written = _key(caller, attribute, default)
    ordered = _sorted(caller, elements_of(caller.work, values), lambda value: defined(key(value)))
    groups = [list(group) for _, group in groupby(ordered, key)]
    return [Group(written(group[0]), group) for group in groups]


def _identity(caller: Caller, value: Any) -> Any:
    """Identity of a value: of a tuple its text, since its hash can be chosen."""
    return ("tuple", text_of(caller.work, value)) if isinstance(value, tuple) else key_of(value)


def _unique(caller: Caller, values: Any, case_sensitive: Any = False, attribute: Any = None) -> list[Any]:
    key = _key(caller, attribute, folded=not case_sensitive)
    first_of: dict[Any, Any] = {}
    for value in elements_of(caller.work, values):
        caller.work.step()
        first_of.setdefault(_identity(caller, key(value)), value)
    return list(first_of.values())


def _extreme(function: Callable[..., Any]) -> Filter:
    def extreme(caller: Caller, values: Any, case_sensitive: Any = False, attribute: Any = None) -> Any:
        elements = elements_of(caller.work, values)
        key = _key(caller, attribute, folded=not case_sensitive)
        weigh(caller.work, elements)
        return function(elements, key=lambda value: defined(key(value))) if elements else Missing("the list is empty")

    return extreme


def _sum(caller: Caller, values: Any, attribute: Any = None, start: Any = 0) -> Any:
    key = _key(caller, attribute)
    return total(caller.work, [key(value) for value in elements_of(caller.work, values)], start)


def _map(caller: Caller, values: Any, *arguments: Any, **options: Any) -> list[Any]:
    elements = elements_of(caller.work, values)
    if arguments:
        name, *rest = arguments
        return [caller.filtered(name, value, rest, options) for value in elements]
    if not options.keys() <= {"attribute", "default"} or "attribute" not in options:
        raise TypeError("map takes the name of a filter, or attribute=NAME")
    key = _key(caller, options["attribute"], options.get("default"))
    return [key(value) for value in elements]


def _selecting(kept: bool, *, by_field: bool) -> Filter:
    def select(caller: Caller, values: Any, *arguments: Any, **options: Any) -> list[Any]:
        if by_field and not arguments:
            raise TypeError("the name of a field is missing")
        key = _key(caller, arguments[0] if by_field else None)
        named = list(arguments[by_field:])

        def holds(value: Any) -> bool:
            caller.work.step()
            return caller.tested(named[0], key(value), named[1:], options) if named else truth(key(value))

        return [value for value in elements_of(caller.work, values) if holds(value) == kept]

    return select


def _list(caller: Caller, values: Any) -> list[Any]:
    return elements_of(caller.work, values)


def _paid(function: Filter) -> Filter:
    def paid(caller: Caller, *arguments: Any, **options: Any) -> Any:
        return checked(caller.work, function(caller, *arguments, **options))

    return paid


_UNPAID: dict[str, Filter] = {
    "abs": lambda _caller, number: abs(defined(number)),
    **{name: _text(getattr(str, name)) for name in ("capitalize", "lower", "upper")},
    **dict.fromkeys(("count", "length"), _length),
    **dict.fromkeys(("d", "default"), _default),
    **dict.fromkeys(("safe", "string"), _text(str)),
    "dictsort": _dictsort,
    "first": _first,
    "float": lambda _caller, value, default=0.0: read_float(value, default),
    "groupby": _groupby,
    "int": lambda _caller, value, default=0, base=10: read_integer(value, default, base),
    "items": _items,
    "join": _join,
    "last": _last,
    "list": _list,
    "map": _map,
    "max": _extreme(max),
    "min": _extreme(min),
    "reject": _selecting(False, by_field=False),
    "rejectattr": _selecting(False, by_field=True),
    "replace": _replace,
    "reverse": _reverse,
    "round": lambda _caller, number, precision=0, method="common": rounded(number, precision, method),
    "select": _selecting(True, by_field=False),
    "selectattr": _selecting(True, by_field=True),
    "sort": _sort,
    "sum": _sum,
    "title": _title,
    "trim": _trim,
    "unique": _unique,
}
FILTERS: Mapping[str, Filter] = {name: _paid(function) for name, function in _UNPAID.items()}
