"""The interface of models of hardware components: attributes in; area, leakage and the cost of actions out."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from einmap.errors import SpecError, did_you_mean
from einmap.units import format_bits, format_si
from einmap.visible import brief

type AttributeValue = float | str | bool | list[Any] | tuple[Any, ...] | dict[str, Any]
"""Value of one attribute, as a spec gives it: a number in J, s, m, V, bits, or a name; Python models take lists too."""

_QUANTITY = re.compile(r"\s*([+-]?[0-9.]+(?:[eE][+-]?[0-9]+)?)\s*([a-zA-Zµ]*)\s*")
_PREFIXES = {"": 1.0, "f": 1e-15, "p": 1e-12, "n": 1e-9, "u": 1e-6, "µ": 1e-6, "m": 1e-3, "c": 1e-2, "k": 1e3}
_PREFIXES |= {"K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}


@dataclass(frozen=True, slots=True)
class Attribute:
    """One input of a model.

    `name` as specs write it, `unit` ("bits", "m", "V", "s", or empty for counts and names), `meaning` a sentence,
    `default` the value without one (None: required), `least` and `most` the range for which the source holds (outside
    of it the estimate carries a warning), `aliases` further spellings, `choices` the names allowed where it is a name,
    `optional`: without a value the model does without. `same_as`: an attribute whose value stands for the default
    where it is in the range. `is_size`: it says how large the component is, or of what kind: estimates name it, and
    warn where they take its default, unless all attributes of `unless` are there, which make it idle.
    """

    __repr__ = brief

    name: str
    unit: str
    meaning: str
    default: float | str | None = None
    least: float = 0.0
    most: float = math.inf
    aliases: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    optional: bool = False
    same_as: str = ""
    is_size: bool = False
    unless: tuple[str, ...] = ()

    def read(self, value: AttributeValue, model: str) -> float | str:
        """The value as number in `unit` ("45nm" is 4.5e-8), or as one of `choices`. Raises SpecError."""
        if self.choices:
            chosen = {choice.lower(): choice for choice in self.choices}.get(str(value).strip().lower())
            if chosen is None:
                raise SpecError(
                    f"{self.name} of {model} is {value!r}, expected one of {', '.join(self.choices)}",
                    hint=did_you_mean(str(value), self.choices, listing="choices"),
                )
            return chosen
        number = quantity(value, self.unit)
        if number is None or not math.isfinite(number) or number <= 0:
            unit = f" ({self.unit})" if self.unit else ""
            raise SpecError(f"{self.name} of {model} is {value!r}, expected a finite number above 0{unit}")
        return number / 1e9 if self.name == "tech_node" and number >= 1 else number

    def warning(self, value: float | str, model: str) -> str | None:
        """A sentence if the value is outside the range for which the source holds."""
        if isinstance(value, str) or self.least <= value <= self.most:
            return None
        return (
            f"{self.name} {value:g} of {model} is outside the range of its source, "
            f"{self.least:g} to {self.most:g}{' ' + self.unit if self.unit else ''}: extrapolated"
        )

    def spelling(self, written: Mapping[str, AttributeValue]) -> str | None:
        """The name under which it is written; `written` by small letters with `_`."""
        return next((name for name in (self.name, *self.aliases) if name in written), None)

    def value_without(self, others: Mapping[str, AttributeValue]) -> float | str | None:
        """The value where it is not written: that of `same_as` if it is in the range, or the default."""
        value = quantity(others.get(self.same_as), self.unit) if self.same_as else None
        return value if value is not None and self.least <= value <= self.most else self.default

    def missing(self, others: Mapping[str, AttributeValue], model: str) -> str | None:
        """A sentence if a default says how large the component is."""
        value = self.value_without(others)
        is_idle = bool(self.unless) and all(name in others for name in self.unless)
        if not self.is_size or self.default is None or value != self.default or is_idle:
            return None
        if self.same_as and quantity(others.get(self.same_as), self.unit) == value:
            return None
        return (
            f"{self.name} is not given, priced for {self.text(value)} (the default of {model}); "
            f"set {self.name} in extra_attributes_for_component_model"
        )

    def text(self, value: float | str) -> str:
        """A value for people: `64 bits`, `45 nm`, `DDR4`, a size as `32 KiB`."""
        if isinstance(value, str):
            return value
        if self.name == "size":
            return format_bits(value)
        if self.unit == "m":
            return format_si(value, "m")
        return f"{value:.10g}{' ' + self.unit if self.unit else ''}"


def quantity(value: object, unit: str) -> float | None:
    """A plain number, or one with a unit written behind it: "1.5 ns"; None where it is neither."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    match = _QUANTITY.fullmatch(value) if isinstance(value, str) else None
    try:
        number = float(match[1] if match else value)
    except (ValueError, OverflowError):
        return None
    suffix = match[2] if match else ""
    prefix = suffix.removesuffix(unit if unit in ("m", "V", "s") else "")
    if prefix not in _PREFIXES:
        return None
    factor = _PREFIXES[prefix]
    # 45 nm is 4.5e-8 m: a division by a power of ten, which is exact, rounds once
    return number * factor if factor >= 1 else number / round(1 / factor)


@dataclass(frozen=True, slots=True)
class ActionCost:
    """One action: `energy` in J, `throughput` in actions per second (may be inf), `source` of the figure, and
    `scaling`: what was done to it since, a phrase for each step. `delay`: s from the start of one action to its end,
    None where that is the inverse of the throughput. `priced_for`: attributes of the price, as `Estimate` has them."""

    __repr__ = brief

    energy: float
    throughput: float
    source: str
    scaling: tuple[str, ...] = ()
    delay: float | None = None
    priced_for: str = ""

    @property
    def latency(self) -> float:
        """Seconds of one action: its delay, or else the inverse of the throughput."""
        return 1 / self.throughput if self.delay is None else self.delay


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a figure is from, and what was done to it since: a phrase for each step."""

    source: str
    scaling: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Estimate:
    """Answer of a model about one instance of a component: `area` in m^2, `leak_power` in W, cost of each action,
    where the figures are from, how they were scaled, the steps of modelling (`log`) and `warnings`.

    `area_from`, `leak_from`: where area and leakage are from, None if from `source` without any step.
    `priced_for`: the size, width and node of the price in words, empty where the model does not say.
    """

    __repr__ = brief

    area: float
    leak_power: float
    actions: Mapping[str, ActionCost]
    source: str
    scaling: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    area_from: Origin | None = None
    leak_from: Origin | None = None
    priced_for: str = ""

    def origin(self, quantity: str) -> Origin:
        """Where the figure of `area` or `leak_power` is from."""
        return (self.area_from if quantity == "area" else self.leak_from) or Origin(self.source)


class ComponentModel(Protocol):
    """A model of a kind of component, found by its name or an alias."""

    @property
    def name(self) -> str:
        """Class name, as `component_class` has it."""

    @property
    def aliases(self) -> tuple[str, ...]:
        """Further class names."""

    @property
    def summary(self) -> str:
        """One sentence on what is modelled."""

    @property
    def source(self) -> str:
        """Publication of the figures."""

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """Inputs that the model reads; further ones are ignored."""

    @property
    def actions(self) -> tuple[str, ...]:
        """Names of the actions that have a cost."""

    def estimate(
        self, attributes: Mapping[str, AttributeValue], actions: Mapping[str, Mapping[str, AttributeValue]]
    ) -> Estimate:
        """Costs of a component with `attributes`; each entry of `actions` overrides them for that action.

        Raises SpecError if an attribute is missing or impossible, or an action is unknown.
        """


@dataclass(frozen=True, slots=True)
class Values:
    """Attributes of one component after defaults, by the names that the model uses."""

    values: Mapping[str, float | str]

    def number(self, name: str) -> float:
        """A value that the model declared as a number."""
        return float(self.values[name])

    def text(self, name: str) -> str:
        """A value that the model declared as a name."""
        return str(self.values[name])

    def get(self, name: str) -> float | None:
        """A number, or None if the attribute is optional and absent."""
        value = self.values.get(name)
        return None if value is None else float(value)


@dataclass(frozen=True, slots=True)
class FormulaModel:
    """A model that is a formula: `price(values)` gives an Estimate with all actions for attributes that were read.

    A model with one action takes any name for it (`compute`, `add`, `hop`); with several, further names go through
    `synonyms` (`fill` -> `write`).
    """

    __repr__ = brief

    name: str
    summary: str
    source: str
    attributes: tuple[Attribute, ...]
    actions: tuple[str, ...]
    price: Callable[[Values], Estimate]
    aliases: tuple[str, ...] = ()
    synonyms: Mapping[str, str] | None = None

    def estimate(
        self, attributes: Mapping[str, AttributeValue], actions: Mapping[str, Mapping[str, AttributeValue]]
    ) -> Estimate:
        """Costs for attributes after aliases and defaults, with the warnings of values outside the source's range."""
        values, warnings = read_attributes(self, attributes)
        estimate = self._priced(values)
        costs = {name: replace(cost, priced_for=priced_for(self, values)) for name, cost in estimate.actions.items()}
        for action, overrides in actions.items():
            changed = self._overridden(attributes, values, overrides) if overrides else attributes
            action_values, more = read_attributes(self, changed)
            warnings += tuple(text for text in more if text not in warnings)
            cost = self._priced(action_values).actions[self._action(action)]
            costs[action] = replace(cost, priced_for=priced_for(self, action_values))
        log = (f"{self.name}: {self.source}",)
        return replace(
            estimate,
            actions=costs,
            log=log + estimate.log,
            warnings=estimate.warnings + warnings,
            priced_for=priced_for(self, values),
        )

    def _overridden(
        self,
        attributes: Mapping[str, AttributeValue],
        values: Values,
        overrides: Mapping[str, AttributeValue],
    ) -> dict[str, AttributeValue]:
        """Attributes of an action: a row that the component does not write is the component's, not the action's."""
        written = _by_small_name({**attributes, **overrides})
        rows = {a.name: values.values[a.name] for a in self.attributes if a.same_as and a.spelling(written) is None}
        return {**attributes, **overrides, **rows}

    def _priced(self, values: Values) -> Estimate:
        """The formula's estimate. Raises SpecError if attributes are so extreme that a cost is not a finite number."""
        try:
            estimate = self.price(values)
        except (OverflowError, ZeroDivisionError) as error:
            raise self._too_extreme(values) from error
        numbers = (estimate.area, estimate.leak_power, *(cost.energy for cost in estimate.actions.values()))
        if not all(map(math.isfinite, numbers)) or any(cost.throughput <= 0 for cost in estimate.actions.values()):
            raise self._too_extreme(values)
        return estimate

    def _too_extreme(self, values: Values) -> SpecError:
        """An error that names the attributes."""
        words = ", ".join(f"{name} {value}" for name, value in values.values.items())
        return SpecError(f"{self.name} has no finite cost for {words}", hint="values are in bits, m, s, V")

    def _action(self, name: str) -> str:
        """The action that `name` stands for. Raises SpecError."""
        if name in self.actions:
            return name
        if len(self.actions) == 1:
            return self.actions[0]
        synonym = (self.synonyms or {}).get(name.lower())
        if synonym is None:
            raise SpecError(
                f"{self.name} has no action {name!r}, it has {', '.join(self.actions)}",
                hint=did_you_mean(name, self.actions, listing="actions"),
            )
        return synonym


def priced_for(model: ComponentModel, values: Values) -> str:
    """The case for which a price was made: size, width, kind, node, as `width 64 bits, 45 nm, size 1 KiB`."""
    texts = []
    for attribute in model.attributes:
        value = values.values.get(attribute.name)
        if value is not None and attribute.name == "tech_node":
            texts.append(attribute.text(value))
        elif value is not None and attribute.is_size:
            texts.append(f"{attribute.name} {attribute.text(value)}")
    return ", ".join(texts)


def _by_small_name(attributes: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    """Attributes that have a value, by names in small letters with `_`."""
    return {name.lower().replace("-", "_"): value for name, value in attributes.items() if value is not None}


def read_attributes(
    model: ComponentModel, attributes: Mapping[str, AttributeValue | None]
) -> tuple[Values, tuple[str, ...]]:
    """Values of the attributes that the model reads, and warnings; names are compared without case, `-` is `_`.

    Raises SpecError, with the names that are expected, if one is missing or impossible.
    """
    present = _by_small_name(attributes)
    values: dict[str, float | str] = {}
    warnings: list[str] = []
    for attribute in model.attributes:
        spelling = attribute.spelling(present)
        without = attribute.value_without(present)
        if spelling is not None:
            value = attribute.read(present[spelling], model.name)
        elif without is not None:
            value = without
            missing = attribute.missing(present, model.name)
            warnings += [missing] if missing else []
        elif attribute.optional:
            continue
        else:
            also = f" (also written {', '.join(attribute.aliases)})" if attribute.aliases else ""
            raise SpecError(
                f"{model.name} needs {attribute.name}{also}, which is missing",
                hint=f"set {attribute.name} in extra_attributes_for_component_model: {attribute.meaning}",
            )
        values[attribute.name] = value
        warning = attribute.warning(value, model.name)
        if warning:
            warnings.append(warning)
    return Values(values), tuple(warnings)
