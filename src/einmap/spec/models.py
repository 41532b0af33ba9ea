"""Component models that a specification may name: those that come with it, and in which order names are looked up."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any, Literal

from einmap.errors import At, SpecError, did_you_mean
from einmap.spec.raw import RawList, RawMap, RawScalar
from einmap.spec.schema.arch import ComponentInput
from einmap.visible import short

if TYPE_CHECKING:
    from einmap.components.registry import Registry

type Installed = bool | Literal["first"]
"""Whether models of installed packages are used: for classes that einmap has not, never, or before its own."""

PREFIX = "hwcomponents."
"""Before the name of a class of installed packages, whatever einmap has under that name."""
_FIELD = "config.use_installed_component_models"
_GIVE = "give it: load(..., component_models=[...]), Spec.from_dict(..., component_models=[...])"


@dataclass(frozen=True)
class Models:
    """Component models that come with one specification, beside those that einmap has.

    `classes`: Python classes and objects (as `components.object_model` reads them) and models of tables, found by
    the names that `component_class` has; a later one goes before an earlier one. `objects`: what stands under
    `component_model`, by the name that the raw tree has in its place. `files`: the entries of
    `config.component_models` that were read.
    """

    classes: tuple[object, ...] = ()
    objects: Mapping[str, object] = field(default_factory=dict)
    files: frozenset[str] = frozenset()

    def __reduce__(self) -> tuple[Any, ...]:
        return Models, (self.classes, self.objects, self.files)

    def with_objects(self, objects: Mapping[str, object]) -> Models:
        """With further objects that `component_model` may name."""
        return Models(self.classes, {**self.objects, **objects}, self.files) if objects else self

    @cached_property
    def registry(self) -> Registry | None:
        """The models of `classes` by name; None without any. Raises SpecError for what is not a model."""
        from einmap.components.object_model import model_from_object
        from einmap.components.registry import Registry

        return Registry([model_from_object(model) for model in self.classes]) if self.classes else None

    @cached_property
    def by_name(self) -> Mapping[str, Registry]:
        """Models by the name that `component_model` gives. Raises SpecError for an object that is not a model."""
        from einmap.components.object_model import model_from_object
        from einmap.components.registry import Registry

        return {name: Registry([model_from_object(model, name)]) for name, model in self.objects.items()}

    @cached_property
    def fingerprint(self) -> str | None:
        """A text that is equal only for models that say the same; None where Python code decides what they say."""
        from einmap.components.tables import TableModel

        tables = [model for model in self.classes if isinstance(model, TableModel)]
        if self.objects or len(tables) < len(self.classes):
            return None
        return repr([table.content for table in tables])


@dataclass(frozen=True, eq=False)
class ModelChoice:
    """Where the components of one specification find their models.

    `component_class` names, in this order: a model that comes with the specification, a built-in one, a class of an
    installed hwcomponents package, a plug-in. So what is installed never changes the costs of a specification, it only
    prices classes that were an error. `installed` says otherwise, or the prefix `hwcomponents.` before the class.
    """

    models: Models
    installed: Installed = True

    def find_class(self, name: str) -> tuple[Registry, str]:
        """The registry that has the model of a component class, and its name there. Raises SpecError for others."""
        from einmap.components.registry import builtin  # most specifications need no models

        beside = self.models.registry
        if beside is not None and name in beside:
            return beside, name
        if name.lower().startswith(PREFIX):
            if self.installed is False:
                text = f"component_class {name!r} asks for an installed model, and {_FIELD} is false"
                raise SpecError(text, hint=f"leave out {_FIELD}, or the prefix {PREFIX}")
            return self._of_packages(), name[len(PREFIX) :]
        if self.installed == "first":
            packages = self._of_packages()
            if name in packages:
                return packages, name
        if name in builtin():
            return builtin(), name
        return self._last(name, beside), name

    def _last(self, name: str, beside: Registry | None) -> Registry:
        """The registry of installed packages if it has the class. Raises SpecError with close names, or the package."""
        from einmap.components.installed.hwcomponents import has_packages
        from einmap.components.installed.hwcomponents_classes import package_of
        from einmap.components.registry import builtin

        models = [*(beside or ()), *builtin()]
        if self.installed and has_packages():
            packages = self._of_packages()
            if name in packages:
                return packages
            models += packages
        if self.installed and (added := _added(name)) is not None:
            return added
        names = ["Dummy", *(name for model in models for name in (model.name, *model.aliases))]
        package = package_of(name)
        hint = did_you_mean(name, names) or "`einmap components` lists the classes"
        if package is not None and self.installed:
            hint = f"it is a class of {package}: pip install 'einmap[components]' installs it"
        elif package is not None:
            hint = f"it is a class of {package}, and {_FIELD} is false"
        raise SpecError(f"component_class {short(name)} is not a known model", hint=hint)

    def _of_packages(self) -> Registry:
        from einmap.components.installed.hwcomponents import installed_registry

        return installed_registry()

    def find_model(self, name: object) -> tuple[Registry, str]:
        """The registry of what `component_model` names, and the name there. Raises SpecError for unknown names."""
        objects = self.models.by_name
        if isinstance(name, str) and name in objects:
            registry = objects[name]
            return registry, next(iter(registry)).name
        beside = self.models.registry
        if isinstance(name, str) and beside is not None and name in beside:
            return beside, name
        names = [*objects, *(model.name for model in beside or ())]
        hint = did_you_mean(str(name), names, listing="models") if names else _GIVE
        text = f"component_model {short(name)} is not a model that was given"
        raise SpecError(text, hint=f"{hint}; component_class names built-in models")

    def runs_code(self, component: ComponentInput) -> bool:
        """Whether Python code that is not einmap's own decides the costs of a component."""
        component_class = component.component_class
        if component.component_model is not None:
            return True
        if component_class is None or component_class.lower() == "dummy":
            return False
        from einmap.components.object_model import ObjectModel

        try:
            registry, name = self.find_class(component_class)
            return isinstance(registry.find(name), ObjectModel)
        except SpecError:  # which is raised where the costs are needed
            return False


def take_objects(
    value: Any, taken: Mapping[str, object] | None = None, *, is_model: bool = False
) -> tuple[Any, dict[str, object]]:
    """Plain data in which names stand for the Python objects under `component_model`, and these objects by name.

    `taken`: objects that have names already; `is_model`: the value itself stands under `component_model`. The name is
    that of the class, with a number where another object has it.
    """
    objects = dict(taken or {})

    def named(model: object) -> str:
        name = _name_of(model)
        spellings = (name, *(f"{name}_{number}" for number in range(2, 3 + len(objects))))
        free = next(spelling for spelling in spellings if objects.get(spelling, model) is model)
        objects[free] = model
        return free

    def plain(part: Any, is_model: bool) -> Any:
        if is_model and not _is_data(part):
            return named(part)
        if isinstance(part, Mapping):
            return {key: plain(inner, key == "component_model") for key, inner in part.items()}
        return [plain(inner, False) for inner in part] if type(part) in (list, tuple) else part

    return plain(value, is_model), {name: model for name, model in objects.items() if name not in (taken or {})}


def _is_data(value: object) -> bool:
    """Whether a value is something that a file may hold."""
    return value is None or isinstance(value, str | int | float | list | tuple | Mapping | RawScalar | RawList | RawMap)


def _name_of(model: object) -> str:
    """The name of a class, of a model, or of the class of an object."""
    name = getattr(model, "name", None)
    if not isinstance(model, type) and isinstance(name, str):
        return name
    return model.__name__ if isinstance(model, type) else type(model).__name__


def models_given(given: object) -> tuple[object, ...]:
    """Models in the argument `component_models`, one or several. Raises SpecError for an object that is not a model."""
    from einmap.components.object_model import model_from_object

    several: Sequence[object] = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
    for model in several:
        if _is_data(model):
            text = f"component_models holds {short(model)}, expected Python classes, objects or models"
            raise SpecError(text, hint="files go under config.component_models, or among the files to load")
        model_from_object(model)
    return tuple(several)


def check_files_read(named: Iterable[str], models: Models, at: At) -> None:
    """Raise SpecError if `config.component_models` names files of which nobody has read the models."""
    if not models.files.issuperset(named):
        text = "config.component_models names files, which only load() reads"
        hint = "give models in Python: Spec.from_dict(..., component_models=[...]), or load a file that names these"
        raise SpecError(text, at=at, hint=hint)


def checked_installed(value: bool | str, at: At) -> Installed:
    """The value of `config.use_installed_component_models`. Raises SpecError for other words than `first`."""
    if isinstance(value, bool):
        return value
    if value != "first":
        raise SpecError(f"{_FIELD} is {short(value)}, expected true, false or first", at=at)
    return "first"


@lru_cache(maxsize=64)
def _added(name: str) -> Registry | None:
    """The model that a plug-in adds under the name of a class. Raises SpecError for what is not a model."""
    from einmap.components.object_model import model_from_object
    from einmap.components.registry import Registry
    from einmap.plugins import plugin

    model = plugin("component_models", name)
    return None if model is None else Registry([model_from_object(model, name)])
