"""Component models that are Python objects or classes: constructor arguments in, actions as methods."""

from __future__ import annotations

import builtins
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from einmap.components.base import ActionCost, Attribute, AttributeValue, ComponentModel, Estimate, quantity
from einmap.errors import SpecError, did_you_mean
from einmap.visible import brief, short

_UNITS = {"tech_node": "m", "voltage": "V", "cycle_period": "s"}
_NEITHER = ("area", "leak_power")
_HINT = "area in m^2, leak_power in W, and methods named as the actions: energy in J, or energy and latency in s"


@dataclass(frozen=True, slots=True)
class ObjectModel:
    """A class, made anew for each component with its attributes as arguments, or one object that is used as it is.

    `subject`: the class or object. Its methods are the actions, or those that are marked as actions where some are;
    they return energy in J, a pair of energy and latency in s, or an object with `energy` and `throughput` or
    `latency`. It has `area` in m^2 and `leak_power` in W, as attributes or methods.
    `hint` goes with its errors.
    """

    __repr__ = brief

    name: str
    subject: Any
    attributes: tuple[Attribute, ...]
    actions: tuple[str, ...]
    source: str
    aliases: tuple[str, ...] = ()
    hint: str = _HINT

    @property
    def summary(self) -> str:
        """What is modelled, one sentence."""
        kind = "class" if isinstance(self.subject, type) else "object"
        return f"{self.name}, a Python {kind}"

    def estimate(
        self, attributes: Mapping[str, AttributeValue], actions: Mapping[str, Mapping[str, AttributeValue]]
    ) -> Estimate:
        """Costs that the object states; each entry of `actions` overrides `attributes` for that action.

        Raises SpecError that names the argument, action or quantity that is missing, or says what the object raised.
        """
        values = _values(attributes)
        component = self._made(values)
        area, leak_power = (self._quantity(component, name) for name in _NEITHER)
        log = self._messages(component)
        costs = {}
        for action, overrides in (actions or {name: {} for name in self.actions}).items():
            merged = values | _values(overrides)
            constructed = {attribute.name.lower() for attribute in self.attributes} & _values(overrides).keys()
            target = self._made(merged) if constructed else component
            costs[action] = self._cost(target, self._action(action), merged)
            log += tuple(message for message in self._messages(target) if message not in log)
        return Estimate(area, leak_power, costs, self.source, (), log)

    def _made(self, values: Mapping[str, AttributeValue]) -> Any:
        """The object with these values as arguments. Raises SpecError."""
        if not isinstance(self.subject, type):
            return self.subject
        missing = [a.name for a in self.attributes if not a.optional and a.name.lower() not in values]
        if missing:
            raise SpecError(
                f"{self.name} needs {', '.join(missing)}, which is missing",
                hint=f"set {missing[0]} in extra_attributes_for_component_model",
            )
        arguments = {a.name: values[a.name.lower()] for a in self.attributes if a.name.lower() in values}
        return self._run("the constructor", lambda: self.subject(**arguments))

    def _run(self, part: str, call: Callable[[], Any]) -> Any:
        """What the code of the object gives; whatever it raises becomes a SpecError."""
        try:
            return call()
        except Exception as error:  # code of others raises anything
            text = f"{part} of {self.name} failed: {type(error).__name__}: {short(str(error))}"
            raise SpecError(text, hint=self.hint) from error

    def _quantity(self, component: Any, name: str) -> float:
        """`area` or `leak_power`. Raises SpecError if it is missing or impossible."""
        value = self._run(name, lambda: getattr(component, name, None))
        value = self._run(name, value) if callable(value) else value
        if value is None:
            raise SpecError(f"{self.name} has no {name}", hint=self.hint)
        return self._number(name, value)

    def _number(self, part: str, value: Any) -> float:
        """A finite float, not negative. Raises SpecError."""
        number = self._run(part, lambda: float(value)) if not isinstance(value, bool | str) else math.nan
        if not math.isfinite(number) or number < 0:
            text = f"{part} of {self.name} is {short(value)}, expected a finite number, 0 or above"
            raise SpecError(text, hint=self.hint)
        return cast(float, number)

    def _action(self, name: str) -> str:
        """The method of an action, without regard to case. Raises SpecError."""
        action = next((action for action in self.actions if action.lower() == name.lower()), None)
        if action is None:
            raise SpecError(
                f"{self.name} has no action {short(name)}, it has {', '.join(self.actions) or 'none'}",
                hint=did_you_mean(name, self.actions, listing="actions"),
            )
        return action

    def _cost(self, component: Any, action: str, values: Mapping[str, AttributeValue]) -> ActionCost:
        """Cost that the method states, with the arguments that it takes. Raises SpecError."""
        method = self._run(action, lambda: getattr(component, action))
        names, required = _parameters(method)
        names |= {name.lower(): name for name in getattr(method, "_additional_kwargs", ())}
        missing = [name for name in required if name.lower() not in values]
        if missing:
            raise SpecError(f"{action} of {self.name} needs {', '.join(missing)}, which is missing", hint=self.hint)
        arguments = {name: values[key] for key, name in names.items() if key in values}
        result = self._run(action, lambda: method(**arguments))
        if isinstance(result, tuple) and len(result) == 2:
            energy, latency, throughput = result[0], result[1], None
        elif hasattr(result, "energy"):
            energy, latency = result.energy, getattr(result, "latency", 0.0)
            throughput = getattr(result, "throughput", None)
        else:
            energy, latency, throughput = result, 0.0, None
        if energy is None:
            raise SpecError(f"{action} of {self.name} gives no energy", hint=self.hint)
        energy = self._number(f"energy of {action}", energy)
        if throughput is None:
            seconds = self._number(f"latency of {action}", latency)
            return ActionCost(energy, 1 / seconds if seconds else math.inf, self.source)
        if throughput == math.inf:
            return ActionCost(energy, math.inf, self.source)
        rate = self._number(f"throughput of {action}", throughput)
        if not rate:
            raise SpecError(f"throughput of {action} of {self.name} is 0, expected a number above 0", hint=self.hint)
        return ActionCost(energy, rate, self.source)

    def _messages(self, component: Any) -> tuple[str, ...]:
        """Steps of modelling that the object has kept, if it keeps any."""
        messages = getattr(component, "get_log_messages", None)
        return tuple(map(str, self._run("the log", messages))) if callable(messages) else ()


def model_from_object(subject: Any, name: str | None = None) -> ComponentModel:
    """The model that a Python object or class given as `component_model` stands for.

    A ComponentModel is taken as it is. Of anything else, the arguments of the constructor are the attributes, and the
    methods are the actions. Raises SpecError if there is no method that could be an action.
    """
    if not isinstance(subject, type) and all(hasattr(subject, part) for part in ("estimate", "attributes", "actions")):
        return cast(ComponentModel, subject)
    kind = subject if isinstance(subject, type) else type(subject)
    name = name or kind.__name__
    if getattr(builtins, kind.__name__, None) is kind:
        raise SpecError(f"component_model is {short(subject)}, expected a Python object or class", hint=_HINT)
    methods = {
        method: function
        for method in dir(kind)
        if not method.startswith("_") and inspect.isfunction(function := getattr(kind, method, None))
    }
    marked = [method for method, function in methods.items() if getattr(function, "_is_component_action", False)]
    actions = tuple(marked or [method for method in methods if method not in _NEITHER and method != "get_log_messages"])
    if not actions:
        raise SpecError(f"component_model {name} has no method that is an action", hint=_HINT)
    attributes: tuple[Attribute, ...] = ()
    if isinstance(subject, type):
        parameters, required = _parameters(subject)
        attributes = tuple(
            Attribute(parameter, _UNITS.get(parameter, ""), "argument of the constructor", optional=needless)
            for parameter in parameters.values()
            for needless in (parameter not in required,)
        )
    return ObjectModel(name, subject, attributes, actions, f"{kind.__module__}.{kind.__qualname__}")


def _parameters(function: Callable[..., Any]) -> tuple[dict[str, str], list[str]]:
    """Names that can be given to a function, by their small letters, and those that must be."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # functions that are not written in Python
        return {}, []
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {p.name.lower(): p.name for p in named}, [p.name for p in named if p.default is p.empty]


def _values(attributes: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    """Values by small letters; a number written with its unit is a number, nodes of 1 and above are nm."""
    values: dict[str, AttributeValue] = {}
    for spelling, value in attributes.items():
        if value is None:
            continue
        name = spelling.lower().replace("-", "_")
        number = quantity(value, _UNITS.get(name, "")) if isinstance(value, str) else None
        read = value if number is None else number
        is_node = name == "tech_node" and isinstance(read, int | float) and read >= 1
        values[name] = read * 1e-9 if is_node and not isinstance(read, str) else read
    return values
