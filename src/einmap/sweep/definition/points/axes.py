"""The axes of a sweep with their values."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from einmap.errors import At, EinmapError, SpecError, attempt, did_you_mean, raise_all
from einmap.expressions.arithmetic import evaluate, number
from einmap.expressions.evaluator.interpreter import plain
from einmap.expressions.scope import Scope
from einmap.sweep.definition.inputs import AxisInput, GeometricInput
from einmap.visible import brief, short

type Value = bool | int | float | str
MOST_VALUES = 1_000_000
"""Values of one axis."""
_WAYS = ("values", "range", "powers_of_two", "geometric")


@dataclass(frozen=True, slots=True)
class Axis:
    """One parameter: `values` go to each of `paths`, or into the template variable `variable`."""

    __repr__ = brief

    name: str
    values: tuple[Value, ...]
    paths: tuple[str, ...] = ()
    variable: str | None = None
    at: At = field(default_factory=At, compare=False)


type Dimension = tuple[Axis, ...]
"""Axes that step together."""


def read_axis(fields: AxisInput, at: Callable[..., At]) -> Axis:
    """The axis; `at` gives the place of one of its fields. Raises SpecError."""
    paths = (fields.path,) if isinstance(fields.path, str) else tuple(fields.path or ())
    if bool(paths) == bool(fields.variable):
        raise SpecError("an axis has either a path or a variable", at=at(), hint="for example path: arch.Buffer.size")
    name = fields.name or fields.variable or "_".join(paths[0].split(".")[-2:])
    if not name.isidentifier():
        hint = "name: buffer; conditions use it"
        raise SpecError(f"{name!r} cannot be the name of an axis", at=at("name") if fields.name else at(), hint=hint)
    return Axis(name, _values(fields, at), paths, fields.variable, at())


def _values(fields: AxisInput, at: Callable[..., At]) -> tuple[Value, ...]:
    ways = [way for way in _WAYS if getattr(fields, way) is not None]
    if len(ways) != 1:
        raise SpecError(f"an axis has one of {', '.join(_WAYS)}, found {' and '.join(ways) or 'none'}", at=at())
    if fields.values is not None:
        problems: list[EinmapError] = []
        values = [attempt(problems, partial(_value, v, at("values", i))) for i, v in enumerate(fields.values)]
        raise_all(problems)
        made = tuple(value for value in values if value is not None)
    elif fields.range is not None:
        least, most, step = (_bound(getattr(fields.range, n), at("range", n), n) for n in ("least", "most", "step"))
        if step <= 0:
            raise SpecError(f"step must be > 0, found {step:g}", at=at("range", "step"))
        count = math.floor((most - least) / step + 1e-9) + 1
        _check_count(count, at("range"))
        made = tuple(least + i * step for i in range(count))
    elif fields.geometric is not None:
        made = _geometric(fields.geometric, partial(at, "geometric"))
    else:
        assert fields.powers_of_two is not None
        powers = fields.powers_of_two
        least, most = (_bound(getattr(powers, n), at("powers_of_two", n), n) for n in ("least", "most"))
        if least <= 0:
            raise SpecError(f"least must be > 0, found {least:g}", at=at("powers_of_two", "least"))
        count = math.floor(math.log2(most / least) + 1e-9) + 1 if most > 0 else 0
        _check_count(count, at("powers_of_two"))
        made = tuple(least * 2**i for i in range(count))
    if len({(type(value) is str, value) for value in made}) < len(made):
        raise SpecError("a value stands there twice", at=at(ways[0]))
    _check_count(len(made), at(ways[0]))
    return made


def _geometric(fields: GeometricInput, at: Callable[..., At]) -> tuple[int | float, ...]:
    least, most, given = (_bound(getattr(fields, name), at(name), name) for name in ("least", "most", "count"))
    if least <= 0:
        raise SpecError(f"least must be > 0, found {least:g}", at=at("least"))
    if given != int(given) or given < 2:
        raise SpecError(f"count is an integer of at least 2, found {given:g}", at=at("count"))
    if most <= least:
        raise SpecError(f"most must be above least, found {most:g}", at=at("most"))
    count = int(given)
    _check_count(count, at())
    # the ends are what was written, not what rounding makes of them
    made = (least, *(least * (most / least) ** (i / (count - 1)) for i in range(1, count - 1)), most)
    return tuple(round(value) for value in made) if isinstance(least, int) and isinstance(most, int) else made


def _check_count(count: int, at: At) -> None:
    if count < 1:
        raise SpecError("an axis without a value", at=at, hint="`most` must not be below `least`")
    if count > MOST_VALUES:
        raise SpecError(f"{count:,} values, more than {MOST_VALUES:,}", at=at, hint="take larger steps")


def _bound(text: object, at: At, name: str) -> int | float:
    return number(text, Scope(), at=at, what=name, allow_inf=False)


def _value(text: Any, at: At) -> Value:
    """The value of an expression of numbers; a text that is none stands for itself."""
    if not isinstance(text, str) or type(text) is not str:
        return text  # type: ignore[no-any-return]
    try:
        value = plain(evaluate(text, Scope()))
    except SpecError:
        return text
    if isinstance(value, bool | int | float):
        return value
    raise SpecError(f"a value is a number, a truth value or a text, found {short(value)}", at=at)


def linked(axes: list[tuple[Axis, AxisInput]], at: Callable[..., At]) -> tuple[Dimension, ...]:
    """The axes by what steps together, in their order; `at` gives the place of a field of the axes.

    Raises SpecError for links to nothing and between axes of different lengths.
    """
    dimensions: dict[str, list[Axis]] = {}
    first: dict[str, str] = {}
    for i, (axis, fields) in enumerate(axes):
        if axis.name in first:
            raise SpecError(f"two axes are called {axis.name!r}", at=at(i), hint="give one of them another name")
        other = fields.linked_with
        if other is None:
            dimensions[axis.name] = [axis]
            first[axis.name] = axis.name
            continue
        if other not in first:
            hint = did_you_mean(other, first, listing="axes above")
            raise SpecError(f"there is no axis {other!r} above", at=at(i, "linked_with"), hint=hint)
        group = dimensions[first[other]]
        if len(group[0].values) != len(axis.values):
            text = f"{axis.name} has {len(axis.values)} values, {group[0].name} has {len(group[0].values)}"
            raise SpecError(f"linked axes need equally many values: {text}", at=at(i))
        group.append(axis)
        first[axis.name] = first[other]
    return tuple(tuple(group) for group in dimensions.values())
