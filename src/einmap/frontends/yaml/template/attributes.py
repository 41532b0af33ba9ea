"""Fields and methods of values: those listed here, and no others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from einmap.frontends.yaml.parsing.work import Work
from einmap.frontends.yaml.template.operators import search_cost
from einmap.frontends.yaml.template.tools import checked, defined, elements_of, key_of, pay_elements, weigh
from einmap.frontends.yaml.template.values import Function, Group, LoopVariable, Missing, Module, Namespace, kind

type Method = Callable[..., Any]

_SIMPLE = (
    *("capitalize", "isalnum", "isalpha", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric", "isspace"),
    *("istitle", "isupper", "lower", "swapcase", "title", "upper", "removeprefix", "removesuffix"),
)
_SEARCHING = ("count", "find", "index", "partition")
_BACKWARDS = ("rfind", "rindex", "rpartition", "rsplit", "strip", "lstrip", "rstrip")
_SPLITTING = ("split", "splitlines")
_STARTING = ("startswith", "endswith")


def attribute(work: Work, value: Any, name: str) -> Any:
    """`value.name`, or Missing."""
    match defined(value):
        case Namespace() | Module():
            return value.names.get(name, Missing(f"{kind(value)} has no attribute {name!r}"))
        case LoopVariable():
            method = _LOOP.get(name)
            return value.attribute(name) if method is None else _bound(work, method, value, name)
        case Group() if name in ("grouper", "list"):
            return getattr(value, name)
    method = _METHODS.get(type(value), {}).get(name)
    if method is not None:
        return _bound(work, method, value, name)
    if isinstance(value, dict) and name in value:
        return value[name]
    return Missing(f"{kind(value)} has no attribute {name!r}")


def item(work: Work, value: Any, key: Any) -> Any:
    """`value[key]`, or Missing. A text that is not a key is taken for an attribute, as in Jinja2."""
    defined(key)
    if isinstance(defined(value), dict):
        if key_of(key) in value:
            return value[key]
    elif isinstance(value, str | list | tuple | range) and isinstance(key, int | slice):
        return _chosen(work, value, key)
    return attribute(work, value, key) if isinstance(key, str) else Missing(f"{kind(value)} has no element {key!r:.40}")


def _chosen(work: Work, value: Any, key: int | slice) -> Any:
    if isinstance(key, int):
        return value[key] if -len(value) <= key < len(value) else Missing(f"{kind(value)} has no element {key!r:.40}")
    if not isinstance(value, range):
        pay_elements(work, len(range(*key.indices(len(value)))))
    return value[key]


def _bound(work: Work, method: Method, value: Any, name: str) -> Function:
    return Function(name, lambda arguments, options: checked(work, method(work, value, *arguments, **options)))


def _of_text(name: str) -> Method:
    """A method of `str`, paid by how long it may take."""
    function = getattr(str, name)

    def method(work: Work, text: str, *arguments: Any, **options: Any) -> Any:
        part = arguments[0] if arguments and isinstance(arguments[0], str) else ""
        work.step(len(text) // 32)
        if name in _SEARCHING:
            work.step(search_cost(len(text), len(part)))
        elif name in _BACKWARDS:  # compared at every place
            work.step(len(text) * len(part) // 1000)
        elif name in _STARTING:
            weigh(work, arguments)
        if name in _SPLITTING or name == "rsplit":
            work.step(len(text) // 8)
            work.step(search_cost(len(text), len(part)))
        return function(text, *map(defined, arguments), **options)

    return method


def _append(_work: Work, values: list[Any], item: Any) -> None:
    values.append(item)


def _extend(work: Work, values: list[Any], more: Any) -> None:
    added = elements_of(work, more)
    pay_elements(work, len(values) + len(added))
    values += added


def _insert(work: Work, values: list[Any], at: int, item: Any) -> None:
    work.step(len(values) // 64)
    values.insert(at, item)


def _pop(work: Work, values: list[Any], at: int = -1) -> Any:
    work.step(len(values) // 64)
    return values.pop(at)


def _looking(name: str) -> Method:
    def method(work: Work, values: Any, item: Any, *limits: Any) -> Any:
        weigh(work, values)
        weigh(work, item)
        return getattr(list if isinstance(values, list) else tuple, name)(values, defined(item), *limits)

    return method


def _changing(name: str) -> Method:
    def method(work: Work, values: list[Any]) -> Any:
        weigh(work, values)
        if name == "sort":
            work.step(len(values) * len(values).bit_length())
        return getattr(list, name)(values)

    return method


def update(work: Work, table: dict[Any, Any], more: Any = (), /, **named: Any) -> None:
    """The method `update` of dictionaries."""
    pairs = list(more.items()) if isinstance(more, dict) else elements_of(work, more)
    pay_elements(work, len(table) + len(pairs))
    for pair in pairs:
        if not isinstance(pair, list | tuple) or len(pair) != 2:
            raise TypeError("a dictionary is made of pairs")
    table.update({key_of(key): value for key, value in pairs}, **named)


def _get(_work: Work, table: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return table.get(key_of(key), default)


def _set_default(_work: Work, table: dict[Any, Any], key: Any, default: Any = None) -> Any:
    return table.setdefault(key_of(key), default)


def _take(_work: Work, table: dict[Any, Any], key: Any, *default: Any) -> Any:
    return table.pop(key_of(key), *default)


def _cycle(_work: Work, loop: LoopVariable, *values: Any) -> Any:
    if not values:
        raise TypeError("loop.cycle needs values")
    return values[loop.at % len(values)]


def _changed(work: Work, loop: LoopVariable, *values: Any) -> bool:
    weigh(work, values)
    if loop.last == values:
        return False
    loop.last = values
    return True


_LOOP: Mapping[str, Method] = {"cycle": _cycle, "changed": _changed}
_METHODS: Mapping[type, Mapping[str, Method]] = {
    str: {name: _of_text(name) for name in (*_SIMPLE, *_SEARCHING, *_BACKWARDS, *_SPLITTING, *_STARTING)},
    list: {
        **{"append": _append, "extend": _extend, "insert": _insert, "pop": _pop},
        **{name: _looking(name) for name in ("count", "index", "remove")},
        **{name: _changing(name) for name in ("clear", "copy", "reverse", "sort")},
    },
    tuple: {name: _looking(name) for name in ("count", "index")},
    dict: {
        "keys": elements_of,
        "values": lambda _work, table: list(table.values()),
        "items": lambda _work, table: list(table.items()),
        **{"get": _get, "pop": _take, "setdefault": _set_default, "update": update},
        "copy": lambda _work, table: dict(table),
    },
    int: {
        "bit_length": lambda _work, number: number.bit_length(),
        "bit_count": lambda _work, number: number.bit_count(),
        "is_integer": lambda _work, _number: True,
    },
    float: {"is_integer": lambda _work, number: number.is_integer()},
}
