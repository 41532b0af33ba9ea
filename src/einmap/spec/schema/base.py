"""Base of all input models, and the translation of Pydantic's complaints into located errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Any, ClassVar, get_args

from pydantic import BaseModel, ConfigDict, Tag, ValidationError

from einmap.errors import At, EinmapError, SpecError, did_you_mean
from einmap.expressions.evaluator.budget import MAX_BITS
from einmap.spec.raw import Path, Raw, RawMap, RawScalar, get_value, place, to_python
from einmap.spec.schema.documented import hint_of

type Expression = bool | int | float | str
type SetExpression = str | list[str]


class Input(BaseModel):
    """Base of the input models: unknown fields are errors."""

    # validators are made when they are first needed: most commands need few of them
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, defer_build=True)
    former: ClassVar[Mapping[str, str]] = {}
    """Replacement of fields that earlier formats of these files had."""


def check[M: Input](
    model: type[M],
    raw: Raw,
    root: Raw,
    path: Path,
    problems: list[EinmapError],
    *,
    drop: tuple[str, ...] = (),
    node: bool = False,
) -> M | None:
    """`raw`, which stands at `path` of `root`, as a `model`; None after adding to `problems`.

    Fields in `drop` are read by somebody else (a node's `nodes`). A `node` may have the field `type`, a
    synonym of its tag.
    """
    at = place(root, path)
    if not isinstance(raw, RawMap):
        problems.append(SpecError(f"expected a dictionary with the fields of {_title(model)}", at=at))
        return None
    values: dict[str, Any] = to_python(raw)
    if node:
        _check_type(raw, root, path, problems)
    if raw.tag or node:
        values.pop("type", None)
    for name in drop:
        values.pop(name, None)
    try:
        return model.model_validate(values)
    except ValidationError as failure:
        problems += [_located(model, error, root, path, drop) for error in _merged(failure.errors())]
        return None


def sound_values(
    model: type[Input],
    raw: Raw,
    root: Raw,
    path: Path,
    problems: list[EinmapError],
    *,
    drop: tuple[str, ...] = (),
) -> dict[str, Any]:
    """The plain values of `raw`, which stands at `path` of `root`, without the fields in `drop` and without those,
    at any depth, that are not as `model` says: their problems are added, and what is left can still be checked.
    """
    found: list[EinmapError] = []
    check(model, raw, root, path, found, drop=drop)
    problems += found
    values: dict[str, Any] = to_python(raw) if isinstance(raw, RawMap) else {}
    for name in ("type", *drop) if isinstance(raw, RawMap) and raw.tag else drop:
        values.pop(name, None)
    if found:
        try:
            model.model_validate(values)
        except ValidationError as failure:
            locs = [error["loc"] for error in failure.errors() if error["type"] != "missing"]
            # all of them first: a union complains several times of one field
            for owner, key in [_innermost(values, loc) for loc in locs]:
                owner.pop(key, None)
    return values


def _innermost(values: dict[str, Any], loc: tuple[str | int, ...]) -> tuple[dict[str, Any], str]:
    """The innermost dictionary on the way to a problem, and its key."""
    owner = values
    for step, after in pairwise(loc):
        inner = owner.get(str(step))
        if not (isinstance(inner, dict) and str(after) in inner):
            return owner, str(step)
        owner = inner
    return owner, str(loc[-1])


def _check_type(raw: RawMap, root: Raw, path: Path, problems: list[EinmapError]) -> None:
    written = raw.get("type")
    kind = written.value if isinstance(written, RawScalar) else written
    if raw.tag and written is not None and kind != raw.tag:
        at = place(root, (*path, "type"))
        shown = repr(kind) if isinstance(kind, str) else "something else"
        problems.append(SpecError(f"the tag says !{raw.tag}, type says {shown}", at=at, hint="leave out one of them"))


def _written(model: type[Input], error: Mapping[str, Any]) -> str | None:
    """How the field of `model` is written in which something of the wrong type stands, if it is a field of its own."""
    name = str(error["loc"][0]) if len(error["loc"]) == 1 else ""
    return hint_of(name, model.model_fields[name]) if name in model.model_fields else None


def _former(model: type[BaseModel], field: str) -> str | None:
    return model.former.get(field) if issubclass(model, Input) else None


def _title(model: type[BaseModel]) -> str:
    return model.__name__.removesuffix("Input")


def _located(
    model: type[Input], error: Mapping[str, Any], root: Raw, path: Path, read_elsewhere: tuple[str, ...] = ()
) -> EinmapError:
    # members of unions appear in Pydantic's path, fields and positions are what the user wrote
    steps: list[str | int] = []
    owner: type[BaseModel] = model
    parent, annotation = owner, None
    for step in error["loc"]:
        parent = owner
        if isinstance(step, int):
            steps.append(step)
        elif step in owner.model_fields:
            steps.append(step)
            annotation = owner.model_fields[step].annotation
            owner = _model_of(annotation) or owner
        elif _is_type(str(step)):
            owner = _model_of(_member(annotation, str(step))) or owner
        elif (
            error["type"] == "extra_forbidden"
            or not str(step)[:1].isupper()
            or _stands(root, (*path, *steps, str(step)))
        ):
            steps.append(step)
    at = place(root, (*path, *steps))
    match error["type"]:
        case "extra_forbidden":
            known = [*owner.model_fields, *(read_elsewhere if owner is model else ())]
            return SpecError(
                f"unknown field {error['loc'][-1]!r} of {_title(owner)}",
                at=at,
                hint=_former(owner, str(error["loc"][-1]))
                or did_you_mean(str(error["loc"][-1]), known, listing="fields"),
            )
        case "model_type":
            fields = _title(_model_of(owner) or owner)
            shown = _shown(error["input"])
            return SpecError(f"expected a dictionary with the fields of {fields}, found {shown}", at=at)
        case "missing":
            name = str(error["loc"][-1])
            hint = hint_of(name, parent.model_fields[name]) if name in parent.model_fields else None
            return SpecError(
                f"{_title(parent)} needs the field {name!r}", at=place(root, (*path, *steps[:-1])), hint=hint
            )
        case "expected" | "bool_type" | "string_type" | "list_type" | "dict_type":
            expected = error.get("expected") or _KINDS[error["type"].removesuffix("_type")]
            hint = "write true or false without quotes" if error["type"] == "bool_type" else _written(model, error)
            return SpecError(f"expected {expected}, found {_shown(error['input'])}", at=at, hint=hint)
        case _:
            return SpecError(f"{error['msg'].removeprefix('Value error, ')}, found {_shown(error['input'])}", at=at)


def _stands(root: Raw, path: Path) -> bool:
    try:
        get_value(root, path)
    except SpecError:
        return False
    return True


_KINDS = {
    "bool": "true or false",
    "int": "a number",
    "float": "a number",
    "str": "text",
    "string": "text",
    "list": "a list",
    "dict": "a dictionary",
}


def _shown(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return str(value).lower()
        case int() if value.bit_length() > MAX_BITS:
            return f"an integer of {value.bit_length()} bits"
        case int() | float() | str():
            return repr(value)[:80]
        case Mapping():
            return "a dictionary"
        case _:
            return "a list"


def _merged(errors: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Pydantic's errors; those about the alternatives of one field (a union) as one.

    What is wrong inside the alternative that fits (an element of a list) says more than that the others
    do not fit.
    """
    found: list[Mapping[str, Any]] = []
    unions: dict[tuple[str | int, ...], list[Mapping[str, Any]]] = {}
    for error in errors:
        loc = error["loc"]
        union = next((i for i, step in enumerate(loc) if isinstance(step, str) and _is_type(step)), None)
        if union is None:
            found.append(error)
            continue
        if loc[:union] not in unions:
            unions[loc[:union]] = []
            found.append({"type": "union", "loc": loc[:union]})
        unions[loc[:union]].append({**error, "within": loc[union], "loc": loc[union + 1 :]})
    return [one for error in found for one in _of_union(error, unions)]


def _of_union(
    error: Mapping[str, Any], unions: Mapping[tuple[str | int, ...], list[Mapping[str, Any]]]
) -> list[Mapping[str, Any]]:
    if error["type"] != "union":
        return [error]
    parts = unions[error["loc"]]
    deeper = [part for part in parts if part["loc"]]
    if deeper:
        # which alternative is meant, where one is: its model knows the fields
        meant = {part["within"] for part in deeper}
        begin = (*error["loc"], *(meant if len(meant) == 1 else ()))
        return [{**part, "loc": (*begin, *part["loc"])} for part in _merged(deeper)]
    if len(parts) == 1 and parts[0]["type"] == "value_error":  # what a model says of itself
        return [{**parts[0], "loc": error["loc"]}]
    kinds = dict.fromkeys(_KINDS[part["within"].partition("[")[0]] for part in parts)
    *others, last = kinds
    expected = f"{', '.join(others)} or {last}" if others else last
    return [{"type": "expected", "loc": error["loc"], "expected": expected, "input": parts[0]["input"]}]


def _is_type(step: str) -> bool:
    """Pydantic names the members of a union in its paths."""
    return step in {"bool", "int", "float", "str"} or step.startswith(("list[", "dict["))


def _member(annotation: Any, kind: str) -> Any:
    """The alternative of a union that is tagged so; None where there is none."""
    inner, *tags = get_args(annotation) or (None,)
    if any(isinstance(tag, Tag) and tag.tag == kind for tag in tags):
        return inner
    return next((found for one in get_args(annotation) if (found := _member(one, kind)) is not None), None)


def _model_of(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in get_args(annotation):
        found = _model_of(argument)
        if found is not None:
            return found
    return None


def fields_given(model: BaseModel) -> dict[str, Any]:
    """The fields that the user wrote, as plain values."""
    return {name: getattr(model, name) for name in model.model_fields_set}


__all__ = ["At", "Expression", "Input", "SetExpression", "check", "fields_given", "sound_values"]
