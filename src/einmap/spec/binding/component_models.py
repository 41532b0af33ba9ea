"""Costs of a component that its specification leaves out, from the model that its `component_class` names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from einmap.errors import ExpressionError, Note, SpecError, did_you_mean
from einmap.expressions.arithmetic import evaluate
from einmap.expressions.scope import Scope, lazy_layer
from einmap.spec.binding.component_context import ComponentContext
from einmap.spec.schema.arch import ActionInput

if TYPE_CHECKING:
    from einmap.components.base import AttributeValue, Estimate

_COSTS = {"energy", "throughput", "latency", "energy_scale", "throughput_scale", "latency_scale", "name"}
"""Fields of an action that are no attributes of a model."""


@dataclass(frozen=True, eq=False)
class ModelledCosts:
    """What a component model says of one component.

    `attributes`: the component's fields and extra attributes, as they were written; they are evaluated in the context.
    `priced`: the actions whose cost the model has to give, by name. `moves_bits`: actions move
    values. `notes` takes the model's warnings.
    """

    context: ComponentContext
    component_class: str
    attributes: Mapping[str, object]
    priced: Mapping[str, ActionInput]
    moves_bits: bool
    notes: list[Note] = field(default_factory=list)

    @cached_property
    def estimate(self) -> Estimate:
        """Area (m^2), leakage (W) and costs of actions of one instance, before scales.

        A model is asked once for components with the same attributes. Raises SpecError for an unknown class and for
        attributes that are missing or impossible, with the place of `component_class`.
        """
        from einmap.components.registry import builtin  # most specifications need no models

        attributes = _values(self.attributes, self.context.scope)
        actions = {name: self._overrides(action) for name, action in self.priced.items()}
        at, models = self.context.at("component_class"), builtin()
        if self.component_class not in models:
            names = ["Dummy", *(name for model in models for name in (model.name, *model.aliases))]
            hint = did_you_mean(self.component_class, names) or "`einmap components` lists the classes"
            text = f"component_class {self.component_class!r} of {self.context.name!r} is not a known model"
            raise SpecError(text, at=at, hint=hint)
        try:
            found = models.estimate(self.component_class, attributes, actions)
        except SpecError as error:
            raise SpecError(f"{self.context.name!r}: {error.message}", at=at, hint=error.hint) from None
        self.notes.extend(Note(f"{self.context.name}: {text}", at) for text in found.warnings)
        return found

    def cost(self, action: str) -> tuple[float, float]:
        """Energy (J) and throughput (1/s) of one action of an instance, before scales. Raises SpecError.

        Without `bits_per_action` an action moves one bit: a part of a row, which the model prices as a whole.
        """
        cost = self.estimate.actions[action]
        bits = self.bits_of(action)
        return cost.energy / bits, cost.throughput * bits

    def bits_of(self, action: str) -> float:
        """Bits of the row that the model prices, of which an action moves one; 1 where the action moves the row."""
        return 1.0 if self._has_width(self.priced[action]) else self._row()

    def _has_width(self, action: ActionInput) -> bool:
        """Whether it is said how many bits an action moves, or it is the operation of a compute unit."""
        return not self.moves_bits or "bits_per_action" in self.attributes or action.bits_per_action is not None

    def _row(self) -> float:
        """Bits that an action of the model moves."""
        from einmap.components.base import read_attributes
        from einmap.components.registry import builtin

        attributes = _values(self.attributes, self.context.scope)
        values, _ = read_attributes(builtin().find(self.component_class), attributes)
        return values.get("bits_per_action") or values.get("width") or 1.0

    def _overrides(self, action: ActionInput) -> dict[str, AttributeValue]:
        """Attributes of an action, which stand for those of the component."""
        written = {name: getattr(action, name) for name in type(action).model_fields if name not in _COSTS}
        written |= action.extra_attributes_for_component_model
        given = {name: value for name, value in written.items() if isinstance(value, bool | int | float | str)}
        scope = lazy_layer(given, self.context.scope, lambda name: self.context.at("actions", name))
        return _values(given, scope)


def _values(written: Mapping[str, object], scope: Scope) -> dict[str, AttributeValue]:
    """Attributes with their values; text that is not an expression, such as DDR4 or 45nm, stays as it is."""
    values: dict[str, AttributeValue] = {}
    for name, text in written.items():
        try:
            value = evaluate(text, scope)
        except ExpressionError:
            value = text
        if isinstance(value, bool | int | float | str):
            values[name] = value
    return values
