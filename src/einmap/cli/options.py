"""Options in groups: a class whose fields are options, which commands take as one parameter."""

from __future__ import annotations

import gc
import inspect
from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, field, fields, is_dataclass
from typing import Annotated, Any, dataclass_transform, get_args, get_origin, get_type_hints

import typer

from einmap.gc_pause import set_imported_aside

INPUT, OUTPUT, EFFORT = "Input", "Output", "Effort"
"""Panels of the help that several commands have."""
_KEY = "option"


def option(metavar: str | None, text: str, *names: str, default: Any = None, **settings: Any) -> Any:
    """A field of a group that takes a value; `text`: its help. `default`: its value where it is not given, `...`
    where it has to be.

    `names`: beside the name of the field, or in its place where one of them is long. Among `settings`, those of
    typer.Option, are `panel`, a panel of the help, and `shown`, what the help says of the default.
    """
    return _field(typer.Option, names, default, text, metavar=metavar, **settings)


def several(metavar: str, text: str, *names: str, **settings: Any) -> Any:
    """A field of a group that may be given again: a list, empty where the option is not given."""
    return option(metavar, text, *names, default=[], **settings)


def flag(text: str, *names: str, default: bool | None = False, **settings: Any) -> Any:
    """A field of a group that takes no value."""
    return _field(typer.Option, names, default, text, **settings)


def argument(metavar: str | None = None, text: str | None = None, default: Any = ...) -> Any:
    """A field of a group that is an argument."""
    return _field(typer.Argument, (), default, text, metavar=metavar)


def output_option(text: str, metavar: str = "FILE", **settings: Any) -> Any:
    """The field `output` of a group: the file that `-o` names."""
    return option(metavar, text, "-o", panel=OUTPUT, **settings)


def force_option() -> Any:
    """The field `force` of a group: whether files may be replaced."""
    return flag("Replace files that exist; never one that is read.", panel=OUTPUT)


def _field(make: Any, names: tuple[str, ...], default: Any, text: str | None, **settings: Any) -> Any:
    shown = settings.pop("shown", default not in (None, ..., []))
    panel = settings.pop("panel", None)
    info = make(default, *names, help=text, show_default=shown, rich_help_panel=panel, **settings)
    return field(metadata={_KEY: info})


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(option, several, flag, argument))
def group[C: type](cls: C) -> C:
    """A frozen dataclass whose fields are options. A command that has a parameter of this class has them all."""
    return dataclass(frozen=True, slots=True, kw_only=True)(cls)  # type: ignore[return-value]


@dataclass(frozen=True, slots=True)
class Without:
    """The options of a group that a command does not have, `Annotated[Group, Without({"root"})]`; they are None."""

    names: frozenset[str] | set[str]


def expanded(command: Callable[..., None]) -> Callable[..., None]:
    """The command with a parameter for each option in place of its groups."""
    flat: list[inspect.Parameter] = []
    single: list[str] = []
    groups: dict[str, Any] = {}
    for parameter in inspect.signature(command, eval_str=True).parameters.values():
        whole = parameter.annotation
        kind, *marks = get_args(whole) if get_origin(whole) is Annotated else (whole,)
        if is_dataclass(kind):
            groups[parameter.name] = kind
            left_out = {name for mark in marks if isinstance(mark, Without) for name in mark.names}
            flat += [one for one in _parameters(kind) if one.name not in left_out]
        else:
            single.append(parameter.name)
            flat.append(parameter.replace(kind=parameter.KEYWORD_ONLY))

    def run(**values: Any) -> None:
        if not gc.isenabled():  # as the program `einmap` has it; others go on with what they have
            set_imported_aside()
        gc.enable()
        given = {
            name: kind(**{one.name: values.get(one.name) for one in fields(kind)}) for name, kind in groups.items()
        }
        command(**{name: values[name] for name in single}, **given)

    run.__doc__ = command.__doc__
    run.__signature__ = inspect.Signature(flat)  # type: ignore[attr-defined]
    return run


def _parameters(kind: Any) -> list[inspect.Parameter]:
    """The parameters that the fields of a group stand for."""
    types = get_type_hints(kind)
    parameters = []
    for one in fields(kind):
        info = copy(one.metadata.get(_KEY, inspect.Parameter.empty))
        if isinstance(info, typer.models.OptionInfo) and not any(name[:2] == "--" for name in info.param_decls or ()):
            info.param_decls = (f"--{one.name.replace('_', '-')}", *(info.param_decls or ()))
        parameters.append(
            inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=info, annotation=types[one.name])
        )
    return parameters
