"""Costs of a component that its specification leaves out, from the model that it names.

`component_model` names a Python model that came with the specification, and goes before `component_class`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from einmap.errors import At, ExpressionError, Note, SpecError
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.scope import Scope, lazy_layer
from einmap.spec.binding.component.component_context import ComponentContext
from einmap.spec.schema.arch import ActionInput

if TYPE_CHECKING:
    from einmap.components.base import Attribute, AttributeValue, ComponentModel, Estimate
    from einmap.components.registry import Registry

_COSTS = {"energy", "throughput", "latency", "energy_scale", "throughput_scale", "latency_scale", "name"}
"""Fields of an action that are not attributes of a model."""
_NESTED = {"values_per_action", "extra_attributes_for_component_model"}
_KINDS = (bool, int, float, str, list, tuple, dict)
"""Types of values that a model may take."""


@dataclass(frozen=True, slots=True)
class ModelledCost:
    """One action of an instance, before scales: `energy` in J, `throughput` in 1/s, `delay` in s from start to end."""

    energy: float
    throughput: float
    delay: float


@dataclass(frozen=True, eq=False)
class ModelledCosts:
    """Costs of one component from a component model.

    `component_class` and `component_model` as they were written, one of them given. `attributes`: the component's
    fields and extra attributes, as they were written; they are evaluated in the context. `priced`: the actions whose
    cost the model has to give, by name. `moves_bits`: actions move values. `fields`: the attributes that are fields,
    which are evaluated elsewhere too. `notes` takes the model's warnings.
    """

    context: ComponentContext
    component_class: str | None
    component_model: object
    attributes: Mapping[str, object]
    priced: Mapping[str, ActionInput]
    moves_bits: bool
    fields: Collection[str]
    per_value: bool = False
    """Whether the component says how many values an action moves."""
    notes: list[Note] = field(default_factory=list)

    @property
    def _at(self) -> At:
        """Where the model is named."""
        return self.context.at("component_class" if self.component_model is None else "component_model")

    @cached_property
    def _model(self) -> tuple[Registry, str, ComponentModel]:
        """The registry that remembers estimates, the model's name in it, the model. Raises SpecError if unknown."""
        models = self.context.models
        try:
            if self.component_model is not None:
                registry, name = models.find_model(self.component_model)
            else:
                registry, name = models.find_class(self.component_class or "")
            return registry, name, registry.find(name)
        except SpecError as error:
            text = error.message.replace(" is not a", f" of {self.context.name!r} is not a", 1)
            text = text if text != error.message else f"{self.context.name!r}: {text}"
            raise SpecError(text, at=self._at, hint=error.hint) from None

    @property
    def model_attributes(self) -> tuple[Attribute, ...]:
        """Attributes that the model reads. Raises SpecError if it is unknown."""
        return self._model[2].attributes

    @cached_property
    def estimate(self) -> Estimate:
        """Area (m^2), leakage (W) and costs of actions of one instance, before scales.

        A model is asked once for components with the same attributes. Raises SpecError for an unknown class and for
        attributes that are missing or impossible, with the place where the model is named.
        """
        registry, name, _ = self._model
        attributes = _values(self.attributes, self.context.scope)
        actions = {key: self._overrides(action) for key, action in self.priced.items()}
        try:
            answer = registry.estimate(name, attributes, actions)
        except SpecError as error:
            self._check_fields(error.message)
            text = f"{self.context.name!r}: {error.message}{self._why_text(error.message)}"
            raise SpecError(text, at=self._at, hint=error.hint) from None
        self.notes.extend(Note(f"{self.context.name}: {text}", self._at) for text in answer.warnings)
        return answer

    def _check_fields(self, message: str) -> None:
        """Evaluate the fields that a message quotes as texts. Raises the error of the first that has no value."""
        for name in self.fields:
            if isinstance(self.attributes.get(name), str) and name in message:
                evaluate(self.attributes[name], self.context.scope, at=self.context.at(name))

    def _why_text(self, message: str) -> str:
        """Why an attribute that a message quotes as text is not a number: an expression that has no value."""
        for name, text in self.attributes.items():
            if isinstance(text, str) and name in message:
                try:
                    evaluate(text, self.context.scope)
                except ExpressionError as error:
                    return f"; {name} is taken as a text, since {error.message}"
        return ""

    def cost(self, action: str) -> ModelledCost:
        """Cost of one action of an instance, before scales. Raises SpecError.

        Where nothing says what an action moves, it moves one bit: a part of a row, which a formula prices as a whole.
        A Python model is told so (`bits_per_action` 1), and its answer is taken as it is.
        """
        cost = self.estimate.actions[action]
        bits = self.bits_of(action)
        return ModelledCost(cost.energy / bits, cost.throughput * bits, cost.latency)

    def bits_of(self, action: str) -> float:
        """Bits of the row that the model prices, of which an action moves one; 1 where the price is the action's."""
        return self._row() if self._moves_one_bit(self.priced[action]) and not self._is_code else 1.0

    @property
    def _is_code(self) -> bool:
        from einmap.components.object_model import ObjectModel

        return isinstance(self._model[2], ObjectModel)

    def _moves_one_bit(self, action: ActionInput) -> bool:
        """Whether it is not said how many bits or values an action moves, and it is not a compute unit's operation."""
        if not self.moves_bits or "bits_per_action" in self.attributes or action.bits_per_action is not None:
            return False
        return not (self.per_value or action.values_per_action)

    def _row(self) -> float:
        """Bits that an action of the model moves."""
        from einmap.components.base import read_attributes

        attributes = _values(self.attributes, self.context.scope)
        values, _ = read_attributes(self._model[2], attributes)
        return values.get("bits_per_action") or values.get("width") or 1.0

    def _overrides(self, action: ActionInput) -> dict[str, AttributeValue]:
        """Attributes of an action, which stand for those of the component."""
        written = {name: getattr(action, name) for name in type(action).model_fields if name not in _COSTS}
        written |= action.extra_attributes_for_component_model
        attributes = {
            name: value for name, value in written.items() if isinstance(value, _KINDS) and name not in _NESTED
        }
        if self._is_code and self._moves_one_bit(action):
            attributes["bits_per_action"] = 1
        scope = lazy_layer(attributes, self.context.scope, lambda name: self.context.at("actions", name))
        return _values(attributes, scope)


def _values(written: Mapping[str, object], scope: Scope) -> dict[str, AttributeValue]:
    """Attributes with their values; text that is not an expression, such as DDR4 or 45nm, stays as it is."""
    values: dict[str, AttributeValue] = {}
    for name, text in written.items():
        try:
            value = evaluate(text, scope)
        except ExpressionError:
            if "(" in str(text):  # a call is meant as an expression
                raise
            value = text
        if isinstance(value, _KINDS):
            values[name] = value
    return values
