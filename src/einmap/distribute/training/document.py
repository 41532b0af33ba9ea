"""A plan of a training step as YAML, and what fixes fields of plans."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from einmap.distribute.training.plan import TrainingPlan
from einmap.errors import EinmapError, SpecError, attempt, did_you_mean, raise_all
from einmap.spec.raw import Raw, RawMap, place, to_python
from einmap.spec.schema.documented import flow_text
from einmap.visible import short

KEY = "training"
_NAMES = tuple(field.name for field in fields(TrainingPlan))
_KINDS: Mapping[str, tuple[type, str]] = {
    "sequence_parallel": (bool, "true or false"),
    "schedule": (str, "the name of a schedule"),
    "recompute": (str, "none, selective or full"),
    "stages": (tuple, "layers of each stage, such as [6, 6, 7]"),
    "overlap": (tuple, "a list, such as [data]"),
    "meshes": (tuple, "dp and tp of each stage, such as [[2, 4], [2, 2]]"),
}


def training_text(plan: TrainingPlan) -> str:
    """The plan as a YAML file, which `plan_of_training` reads."""
    lines = [f"{KEY}:\n"]
    for name in _NAMES:
        value = getattr(plan, name)
        if value is not None:
            lines.append(f"  {name}: {flow_text(_listed(value))}\n")
    return "".join(lines)


def _listed(value: Any) -> Any:
    return [_listed(one) for one in value] if isinstance(value, tuple) else value


def fixed_in(raw: Raw) -> dict[str, Any]:
    """Fields of a plan that a file gives. Raises SpecError, all that is wrong, each with its place."""
    inner = raw.get(KEY) if isinstance(raw, RawMap) else None
    if not isinstance(inner, RawMap):
        raise SpecError(f"the file has no key {KEY!r} with fields below it", at=place(raw, ()), hint="write training:")
    problems: list[EinmapError] = []
    values: dict[str, Any] = {}
    for name, value in inner.items:
        try:
            values[name] = checked(name, to_python(value))
        except SpecError as error:
            error.at = place(raw, (KEY, name))
            problems.append(error)
    raise_all(problems)
    return values


def fixed_by(texts: Sequence[str]) -> dict[str, Any]:
    """Fields of plans from words such as `tp=8`, `zero=1|3`, `stages=6+6+7`, `overlap=data+tensor`, `meshes=2x4+2x2`:
    one value, or a list of several. Raises SpecError (several problems together).
    """
    problems: list[EinmapError] = []
    values: dict[str, Any] = {}
    for text in texts:
        name, equals, words = (part.strip() for part in text.partition("="))
        if not equals:
            problems.append(SpecError(f"--fix {text!r}: '=' is missing", hint="write tp=8, or zero=1|3"))
        elif "=" in words:
            hint = "write an option for each: --fix dp=4 --fix zero=1"
            problems.append(SpecError(f"--fix {text!r} has more than one field", hint=hint))
        elif name in values:
            problems.append(SpecError(f"--fix {text!r}: {name} is fixed twice", hint="write tp=4|8"))
        else:
            found = [attempt(problems, partial(_checked_word, name, word)) for word in words.split("|")]
            if len(found) > 1 and _KINDS.get(name, (int, ""))[0] is tuple:
                problems.append(SpecError(f"--fix {text!r}: {name} has one value", hint="leave out the |"))
            values[name] = found if len(found) > 1 else found[0]
    raise_all(problems)
    return values


def _checked_word(name: str, word: str) -> Any:
    return checked(name, _value(name, word))


def _value(name: str, text: str) -> Any:
    """A word of the command line as a value."""
    kind = _KINDS.get(name, (int, ""))[0]
    if name == "meshes":
        return [_value("stages", part.replace("x", "+")) for part in text.split("+")]
    if kind is tuple:
        return [int(part) if part.strip().isdecimal() else part.strip() for part in text.split("+") if part.strip()]
    if kind is bool:
        return {"true": True, "false": False}.get(text.strip(), text)
    return int(text) if kind is int and text.strip().isdecimal() and len(text) < 10 else text.strip()


def checked(name: str, value: Any) -> Any:
    """The value of a field. Raises SpecError for an unknown field, and for a value of another kind."""
    if name not in _NAMES:
        hint = did_you_mean(name, _NAMES, listing="fields")
        raise SpecError(f"a plan of a training step has no field {short(name)}", hint=hint)
    kind, said = _KINDS.get(name, (int, "a whole number"))
    if kind is tuple and isinstance(value, list):
        if name == "stages" and not all(type(layers) is int and layers >= 0 for layers in value):
            raise SpecError(f"stages is {short(value)}; expected {said}", hint="in words: stages=6+6+7")
        if name == "meshes" and value:
            value = [tuple(mesh) if isinstance(mesh, list) else (mesh,) for mesh in value]
            TrainingPlan(pp=len(value), meshes=tuple(value))
        return tuple(value)
    if type(value) is not kind:
        raise SpecError(f"{name} is {short(value)}; expected {said}")
    if kind is not tuple:
        given: dict[str, Any] = {name: value}
        TrainingPlan(**given)
    return value
