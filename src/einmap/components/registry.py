"""Component models by name, and estimates that are made once for each distinct component."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache

from einmap.components.base import AttributeValue, ComponentModel, Estimate
from einmap.errors import SpecError, did_you_mean


class Registry:
    """Models found by name or alias, without regard to case, `-` and `_`.

    A later model takes the names that an earlier one has too.
    """

    def __init__(self, models: Iterable[ComponentModel]) -> None:
        self._models = tuple(models)
        self._by_name = {_key(name): model for model in self._models for name in (model.name, *model.aliases)}
        self._estimates: dict[object, Estimate] = {}

    def __iter__(self) -> Iterator[ComponentModel]:
        """Models in the order in which they were registered."""
        return iter(self._models)

    def __contains__(self, name: str) -> bool:
        """Whether a model has this name or alias."""
        return _key(name) in self._by_name

    def with_models(self, models: Iterable[ComponentModel]) -> Registry:
        """A registry of the models here and further ones, which take precedence."""
        return Registry((*self._models, *models))

    def find(self, name: str) -> ComponentModel:
        """The model of a component class. Raises SpecError with close names."""
        model = self._by_name.get(_key(name))
        if model is None:
            names = sorted({name for model in self._models for name in (model.name, *model.aliases)})
            raise SpecError(
                f"component_class {name!r} is not a known model", hint=did_you_mean(name, names, listing="classes")
            )
        return model

    def estimate(
        self,
        name: str,
        attributes: Mapping[str, AttributeValue],
        actions: Mapping[str, Mapping[str, AttributeValue]],
    ) -> Estimate:
        """Costs by the model called `name`, remembered. Raises SpecError."""
        model = self.find(name)
        key = (
            model.name,
            model.source,
            _frozen(attributes),
            tuple((action, _frozen(overrides)) for action, overrides in sorted(actions.items())),
        )
        estimate = self._estimates.get(key)
        if estimate is None:
            estimate = self._estimates[key] = model.estimate(attributes, actions)
        return estimate


def _key(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _frozen(attributes: Mapping[str, AttributeValue]) -> tuple[tuple[str, str, object], ...]:
    """Attributes as a key: 1 and True are different values, lists are told by what they hold."""
    return tuple(
        (name, type(value).__name__, value if isinstance(value, bool | int | float | str) else repr(value))
        for name, value in sorted(attributes.items())
    )


@lru_cache(maxsize=1)
def builtin() -> Registry:
    """The models that einmap brings along."""
    from einmap.components.models import analog, dram, logic, measured_nodes, memory, network

    modules = (logic, measured_nodes, memory, dram, network, analog)
    return Registry([model for module in modules for model in module.MODELS])
