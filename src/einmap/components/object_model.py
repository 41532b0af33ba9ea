"""Component models that are Python objects or classes: constructor arguments in, actions as methods."""

from __future__ import annotations

import builtins
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

from einmap.components.base import ActionCost, Attribute, AttributeValue, ComponentModel, Estimate, Origin, quantity
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
    `hint` goes with its errors; `advice` gives another one for the text of what its code raises. `check` may refuse
    values before they are handed over, by raising SpecError.
    """

    __repr__ = brief

    name: str
    subject: Any
    attributes: tuple[Attribute, ...]
    actions: tuple[str, ...]
    source: str
    aliases: tuple[str, ...] = ()
    hint: str = _HINT
    advice: Callable[[str], str] | None = None
    floats: tuple[str, ...] = ()
    """Arguments of the constructor that are declared as float; expressions make integers of whole numbers."""
    check: Callable[[Mapping[str, AttributeValue]], None] | None = None
    caveats: Callable[[Mapping[str, AttributeValue], Mapping[str, ActionCost]], tuple[str, ...]] | None = None
    """Known errors of costs for attributes: sentences, which go with each number."""

    @property
    def summary(self) -> str:
        """One sentence on what is modelled."""
        kind = "class" if isinstance(self.subject, type) else "object"
        return f"{self.name}, a Python {kind}"

    def estimate(
        self, attributes: Mapping[str, AttributeValue], actions: Mapping[str, Mapping[str, AttributeValue]]
    ) -> Estimate:
        """Costs that the object states; each entry of `actions` overrides `attributes` for that action.

        Raises SpecError that names the argument, action or quantity that is missing, or says what the object raised.
        """
        values = _values(attributes)
        self._check(values)
        component = self._made(values)
        area, leak_power = (self._quantity(component, name) for name in _NEITHER)
        log = self._messages(component)
        costs = {}
        for action, overrides in (actions or self._without_arguments(component, values)).items():
            merged = values | _values(overrides)
            self._check(merged)
            constructed = {attribute.name.lower() for attribute in self.attributes} & _values(overrides).keys()
            target = self._made(merged) if constructed else component
            costs[action] = self._cost(target, self._action(action), merged)
            log += tuple(message for message in self._messages(target) if message not in log)
        known = self.caveats(values, costs) if self.caveats is not None else ()
        if known:
            costs = {action: replace(cost, scaling=(*cost.scaling, *known)) for action, cost in costs.items()}
        origin = Origin(self.source, known)
        return Estimate(area, leak_power, costs, self.source, known, log, known, origin, origin)

    def _check(self, values: Mapping[str, AttributeValue]) -> None:
        if self.check is not None:
            self.check({attribute.name: values.get(attribute.name.lower(), 0.0) for attribute in self.attributes})

    def _without_arguments(
        self, component: Any, values: Mapping[str, AttributeValue]
    ) -> dict[str, Mapping[str, AttributeValue]]:
        """All actions whose arguments are among the values."""
        required = {name: _parameters(getattr(component, name))[1] for name in self.actions}
        return {name: {} for name, needed in required.items() if values.keys() >= {key.lower() for key in needed}}

    def _made(self, values: Mapping[str, AttributeValue]) -> Any:
        """The object with these values as arguments. Raises SpecError."""
        if not isinstance(self.subject, type):
            return self.subject
        missing = [a.name for a in self.attributes if not a.optional and a.name.lower() not in values]
        if missing:
            raise SpecError(
                f"{self.name} needs {', '.join(missing)}, which {_is(missing)} missing",
                hint=f"set {missing[0]} in extra_attributes_for_component_model",
            )
        arguments: dict[str, Any] = {
            a.name: values[a.name.lower()] for a in self.attributes if a.name.lower() in values
        }
        for name in self.floats:
            if isinstance(value := arguments.get(name), int) and not isinstance(value, bool):
                arguments[name] = float(value)
        return self._run("the constructor", lambda: self.subject(**arguments))

    def _run(self, part: str, call: Callable[[], Any]) -> Any:
        """Result of the object's code; whatever it raises becomes a SpecError."""
        try:
            return call()
        except Exception as error:  # code of others raises anything
            text = f"{part} of {self.name} failed: {type(error).__name__}: {short(str(error))}"
            raise SpecError(text, hint=self.advice(str(error)) if self.advice else self.hint) from error

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
        spellings = (name, "transfer", "read") if name == "hop" else (name,)
        by_name = {action.lower(): action for action in self.actions}
        action = next((by_name[spelling.lower()] for spelling in spellings if spelling.lower() in by_name), None)
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
            text = f"{action} of {self.name} needs {', '.join(missing)}, which {_is(missing)} missing"
            raise SpecError(text, hint=f"set {missing[0]} in extra_attributes_for_component_model")
        arguments = {name: values[key] for key, name in names.items() if key in values}
        result = self._run(action, lambda: method(**arguments))
        if isinstance(result, tuple) and len(result) == 2:
            energy, latency, throughput = result[0], result[1], None
        elif hasattr(result, "energy"):
            energy, latency = result.energy, getattr(result, "latency", None)
            throughput = getattr(result, "throughput", None)
        else:
            energy, latency, throughput = result, None, None
        if energy is None:
            raise SpecError(f"{action} of {self.name} gives no energy", hint=self.hint)
        energy = self._number(f"energy of {action}", energy)
        seconds = None if latency is None else self._number(f"latency of {action}", latency)
        if throughput is None:
            return ActionCost(energy, 1 / seconds if seconds else math.inf, self.source, delay=seconds)
        if throughput == math.inf:
            return ActionCost(energy, math.inf, self.source, delay=seconds)
        rate = self._number(f"throughput of {action}", throughput)
        if not rate:
            raise SpecError(f"throughput of {action} of {self.name} is 0, expected a number above 0", hint=self.hint)
        return ActionCost(energy, rate, self.source, delay=seconds)

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
    source = f"{kind.__module__}.{kind.__qualname__}"
    return ObjectModel(name, subject, attributes, actions, source, floats=_floats(subject))


def _parameters(function: Callable[..., Any]) -> tuple[dict[str, str], list[str]]:
    """Names that can be given to a function, by their small letters, and those that must be."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):  # functions that are not written in Python
        return {}, []
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return {p.name.lower(): p.name for p in named}, [p.name for p in named if p.default is p.empty]


def _floats(subject: object) -> tuple[str, ...]:
    """Arguments of a constructor whose annotation is float."""
    if not isinstance(subject, type):
        return ()
    try:
        parameters = inspect.signature(subject).parameters.values()
    except (TypeError, ValueError):  # classes that are not written in Python
        return ()
    return tuple(p.name for p in parameters if p.annotation in (float, "float"))


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
        values[name] = float(read) * 1e-9 if is_node and isinstance(read, int | float) else read
    return values


def _is(names: list[str]) -> str:
    return "are" if len(names) > 1 else "is"
