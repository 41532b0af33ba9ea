"""Component models of installed hwcomponents packages; the package is imported only when these functions are called."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from einmap.components.base import ComponentModel
from einmap.components.object_model import ObjectModel, model_from_object
from einmap.components.registry import Registry, builtin
from einmap.errors import SpecError
from einmap.optional import require
from einmap.visible import brief, short

EXTRA = "components"
"""Extra of einmap that installs the packages."""
PREFIX = "hwcomponents_"
"""How the names of packages with models begin."""


@dataclass(frozen=True, slots=True)
class Refused:
    """A package or class that is installed and cannot be used: its `name`, the `reason`, and `classes` of a package."""

    __repr__ = brief

    name: str
    reason: str
    classes: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.name} cannot be used: {self.reason}"


@dataclass(frozen=True, slots=True)
class InstalledModels:
    """`models` that hwcomponents finds, by name, and what was `refused`, by name with the reason."""

    __repr__ = brief

    models: tuple[ComponentModel, ...]
    refused: tuple[Refused, ...]


def installed_models() -> InstalledModels:
    """Models of every installed hwcomponents package, found by the discovery of hwcomponents itself.

    Constructor arguments are attributes; aliases are the component names of the class; the log of a model is in its
    estimates. A package that cannot be imported is refused by name, and the others are kept. Raises SpecError if
    hwcomponents is not installed.
    """
    finder = require("hwcomponents.find_models", EXTRA)
    packages = sorted(module.name for module in pkgutil.iter_modules() if module.name.startswith(PREFIX))
    models: dict[str, ComponentModel] = {}
    refused: list[Refused] = []
    try:
        classes = list(finder.installed_models())
    except Exception:  # one package that cannot be imported ends the discovery: each is asked for itself then
        classes = []
        for package in packages:
            try:
                module = importlib.import_module(package)
                classes += finder.get_models_in_module(module, set())
            except Exception as error:  # code of others raises anything
                refused.append(Refused(package, _reason(error), _class_names(package)))
    for kind in sorted(dict.fromkeys(classes), key=lambda kind: (kind.__name__, kind.__module__)):
        try:
            models[kind.__name__] = _model(kind)
        except SpecError as error:
            refused.append(Refused(kind.__name__, error.message))
    return InstalledModels(tuple(models.values()), tuple(refused))


def installed_model(name: str) -> ComponentModel:
    """The model of a class of an installed hwcomponents package, by name or alias.

    Raises SpecError if hwcomponents is not installed, or the class is unknown or refused, with what einmap offers.
    """
    installed = installed_models()
    registry = Registry(installed.models)
    holder = next((refused for refused in installed.refused if name in (refused.name, *refused.classes)), None)
    if holder is not None and name not in registry:
        raise SpecError(f"{name} of hwcomponents: {holder}", hint=_built_in([name]))
    try:
        return registry.find(name)
    except SpecError as error:
        if installed.refused:
            error.advise("; ".join(map(str, installed.refused)))
        raise


def _model(kind: type[Any]) -> ComponentModel:
    """One class as a model. Raises SpecError if it has no action."""
    model = model_from_object(kind)
    if not isinstance(model, ObjectModel):
        return model
    written = getattr(kind, "component_name", None)
    names: Iterable[object] = [written] if isinstance(written, str) else written or ()
    aliases = tuple(str(name) for name in names if name != kind.__name__)
    package = kind.__module__.partition(".")[0]
    replacement = _built_in((kind.__name__, *aliases))
    hint = f"code of {package} failed (CACTI ships a binary that does not run on every C library); {replacement}"
    return replace(model, aliases=aliases, source=f"{package}: {_first_line(kind)}", hint=hint)


def _built_in(names: Iterable[str]) -> str:
    """What the models here offer instead."""
    name = next((name for name in names if name in builtin()), None)
    if name is None:
        return "einmap has no model of this name: `einmap components` lists those it has"
    return f"the built-in model {builtin().find(name).name} needs no program"


def _first_line(kind: type[Any]) -> str:
    """The start of the class's description, or its name."""
    return next(iter((inspect.getdoc(kind) or "").splitlines()), "") or kind.__name__


def _class_names(package: str) -> tuple[str, ...]:
    """Public classes that the source files of a package define; nothing of it is run."""
    spec = importlib.util.find_spec(package)
    names: set[str] = set()
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for path in sorted(Path(folder).rglob("*.py")):
            try:
                tree = ast.parse(path.read_text(encoding="utf-8"))
            except (OSError, SyntaxError, ValueError):
                continue
            names |= {node.name for node in tree.body if isinstance(node, ast.ClassDef)}
    return tuple(sorted(name for name in names if not name.startswith("_")))


def _reason(error: Exception) -> str:
    """Why a package cannot be imported, and the package that it lacks."""
    if isinstance(error, ModuleNotFoundError) and error.name:
        return f"it needs {error.name}, which is not installed (pip install {error.name.replace('_', '-')})"
    return f"{type(error).__name__}: {short(str(error))}"
