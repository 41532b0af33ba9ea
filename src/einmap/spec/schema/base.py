"""What all input models share, and the translation of Pydantic's complaints into located errors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from einmap.errors import At, EinmapError, SpecError, did_you_mean
from einmap.spec.raw import Path, Raw, RawMap, place, to_python

type Expression = bool | int | float | str
type SetExpression = str | list[str]


class Input(BaseModel):
    """Base of the input models: unknown fields are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)


def check[M: Input](
    model: type[M],
    raw: Raw,
    root: Raw,
    path: Path,
    problems: list[EinmapError],
    *,
    drop: tuple[str, ...] = (),
) -> M | None:
    """`raw`, which stands at `path` of `root`, as a `model`; None after adding to `problems`.

    Fields in `drop` are read by somebody else (a node's `nodes`).
    """
    at = place(root, path)
    if not isinstance(raw, RawMap):
        problems.append(SpecError(f"expected a dictionary with the fields of {_title(model)}", at=at))
        return None
    values: dict[str, Any] = to_python(raw)
    if raw.tag:
        values.pop("type", None)
    for name in drop:
        values.pop(name, None)
    try:
        return model.model_validate(values)
    except ValidationError as failure:
        problems += [_located(model, dict(error), root, path) for error in failure.errors()]
        return None


def _title(model: type[BaseModel]) -> str:
    return model.__name__.removesuffix("Input")


def _located(model: type[Input], error: Mapping[str, Any], root: Raw, path: Path) -> EinmapError:
    # members of unions appear in Pydantic's path, fields and positions are what the user wrote
    steps: list[str | int] = []
    owner: type[BaseModel] = model
    for step in error["loc"]:
        if isinstance(step, int):
            steps.append(step)
        elif step in owner.model_fields:
            steps.append(step)
            owner = _model_of(owner.model_fields[step].annotation) or owner
        elif not _is_type(str(step)) and (error["type"] == "extra_forbidden" or not str(step)[:1].isupper()):
            steps.append(step)
    at = place(root, (*path, *steps))
    match error["type"]:
        case "extra_forbidden":
            known = list(owner.model_fields)
            return SpecError(
                f"unknown field {error['loc'][-1]!r} of {_title(owner)}",
                at=at,
                hint=did_you_mean(str(error["loc"][-1]), known, listing="fields"),
            )
        case "missing":
            return SpecError(f"{_title(owner)} needs the field {error['loc'][-1]!r}", at=place(root, path))
        case _:
            found = error.get("input")
            shown = f", found {found!r}" if isinstance(found, bool | int | float | str) else ""
            return SpecError(f"{error['msg'].removeprefix('Value error, ')}{shown}", at=at)


def _is_type(step: str) -> bool:
    """Pydantic names the members of a union in its paths."""
    return step in {"bool", "int", "float", "str"} or step.startswith(("list[", "dict["))


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


__all__ = ["At", "Expression", "Input", "SetExpression", "check", "fields_given"]
