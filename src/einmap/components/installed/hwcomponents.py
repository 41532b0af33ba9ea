"""Component models of installed hwcomponents packages; the package is imported only when these functions are called."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from einmap.components.base import AttributeValue, ComponentModel
from einmap.components.installed.hwcomponents_classes import package_of
from einmap.components.installed.installed_caveats import caveats
from einmap.components.object_model import ObjectModel, model_from_object
from einmap.components.registry import Registry, builtin
from einmap.errors import SpecError
from einmap.optional import require
from einmap.visible import brief, short

EXTRA = "components"
"""Extra of einmap that installs the packages."""
PREFIX = "hwcomponents_"
"""How the names of packages with models begin."""
_SETTINGS = (".yaml", ".yml", ".cell", ".cfg")
_PROGRAMS = {"hwcomponents_cacti": "CACTI", "hwcomponents_neurosim": "NeuroSim"}
_NEEDED = (2, 38)
"""Version of glibc that the programs in these packages need."""


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
    # of two classes with one name, hwcomponents takes the one of the higher priority; a registry takes the last
    for kind in sorted(dict.fromkeys(classes), key=lambda kind: (_priority(kind), kind.__name__, kind.__module__)):
        try:
            models[f"{kind.__module__}.{kind.__name__}"] = _model(kind)
        except SpecError as error:
            refused.append(Refused(kind.__name__, error.message))
    return InstalledModels(tuple(models.values()), tuple(refused))


class InstalledRegistry(Registry):
    """The models of installed packages by name, and what was refused."""

    def __init__(self, installed: InstalledModels) -> None:
        super().__init__(installed.models)
        self._refused = installed.refused

    def find(self, name: str) -> ComponentModel:
        """The model of a class. Raises SpecError if it is unknown or refused, with what einmap offers."""
        holder = next((refused for refused in self._refused if name in (refused.name, *refused.classes)), None)
        if holder is not None and name not in self:
            raise SpecError(f"{name} of hwcomponents: {holder}", hint=_built_in([name]))
        try:
            return super().find(name)
        except SpecError as error:
            package = package_of(name)
            if package is not None:
                text = f"{name} is a class of {package}, which is not installed"
                raise SpecError(text, hint=f"pip install {package}") from None
            if self._refused:
                error.advise("; ".join(map(str, self._refused)))
            raise


@lru_cache(maxsize=1)
def installed_registry() -> InstalledRegistry:
    """The models of installed packages, found once. Raises SpecError if hwcomponents is not installed."""
    return InstalledRegistry(installed_models())


def installed_model(name: str) -> ComponentModel:
    """The model of a class of an installed hwcomponents package, by name or alias.

    Raises SpecError if hwcomponents is not installed, or the class is unknown or refused, with what einmap offers.
    """
    return InstalledRegistry(installed_models()).find(name)


def has_packages() -> bool:
    """Whether hwcomponents is installed; it is not imported."""
    return importlib.util.find_spec("hwcomponents") is not None


def _priority(kind: type[Any]) -> float:
    """How strongly a class claims its names among the classes of hwcomponents: 0 to 1."""
    value = getattr(kind, "priority", 0.5)
    return float(value) if isinstance(value, int | float) else 0.5


def _model(kind: type[Any]) -> ComponentModel:
    """One class as a model. Raises SpecError if it has no action."""
    model = model_from_object(kind)
    if not isinstance(model, ObjectModel):
        return model
    written = getattr(kind, "component_name", None)
    names: Iterable[object] = [written] if isinstance(written, str) else written or ()
    package = kind.__module__.partition(".")[0]
    aliases = (*(str(name) for name in names if name != kind.__name__), f"{package}.{kind.__name__}")
    advice = partial(_advice, package, _built_in((kind.__name__, *aliases)))
    version = _version(package)
    source = f"{package} {version}: {_first_line(kind)}"
    known = partial(caveats, package, version, kind.__name__)
    return replace(model, aliases=aliases, source=source, hint=advice(""), advice=advice, check=_checked, caveats=known)


def _advice(package: str, replacement: str, text: str) -> str:
    """Advice where code of a package raises an error with this text."""
    program = next((name for name in _PROGRAMS.values() if name.lower() in text.lower()), _PROGRAMS.get(package))
    if program is None or not re.search(r"exit code|error code", text):
        return f"see the documentation of {package}; {replacement}"
    family, version = platform.libc_ver()
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    here = f", here is {family} {version}" if family and numbers < _NEEDED else ""
    return f"{program} ships a program that needs glibc {_NEEDED[0]}.{_NEEDED[1]} or newer{here}; {replacement}"


def _checked(values: Mapping[str, AttributeValue]) -> None:
    """Refuse texts that name files other than settings of cells: installed models open what they are told to.

    Raises SpecError.
    """
    for name, value in values.items():
        if isinstance(value, str) and not value.isprintable():
            raise SpecError(f"{name} is {short(value)}, expected a text of one line")
        is_path = isinstance(value, str) and ("/" in value or "\\" in value)
        if is_path and Path(str(value)).suffix not in _SETTINGS:
            words = ", ".join(_SETTINGS)
            raise SpecError(f"{name} is {short(value)}, installed models may read files {words} only")


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package.replace("_", "-"))
    except importlib.metadata.PackageNotFoundError:
        return "(not installed by pip)"


def _built_in(names: Iterable[str]) -> str:
    """The shipped model that can be used instead."""
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
