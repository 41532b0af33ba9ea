"""Costs of a component: area, leakage, and for each action energy, throughput and actions for one value."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from einmap.arch.component import Action, Power
from einmap.errors import At, EinmapError, Note, SpecError, attempt, closest, raise_all
from einmap.expressions.arithmetic import check_size, number
from einmap.expressions.scope import Scope, lazy_layer
from einmap.spec.binding.component.applied_scales import Factor, Scales
from einmap.spec.binding.component.component_context import ComponentContext
from einmap.spec.binding.component.component_models import ModelledCosts
from einmap.spec.dialects.dialect import NEEDED_ACTIONS
from einmap.spec.raw import Path
from einmap.spec.schema.arch import ActionInput, CarrierInput, ComponentInput, ComputeInput, MemoryInput, NetworkInput

if TYPE_CHECKING:
    from einmap.components.base import Estimate


@dataclass(frozen=True, eq=False)
class ComponentCosts:
    """Costs of one component, scales applied. `parallel`: instances that work as one; `dummy`: what is missing is 0.

    `rate`: the scale of all throughputs. `notes` takes what the user should know.
    """

    context: ComponentContext
    given: ComponentInput
    parallel: float
    rate: float
    dummy: bool
    model: ModelledCosts | None = None
    """Gives what is missing, if the component names a class."""
    notes: list[Note] = field(default_factory=list)
    scales: Scales = field(default_factory=Scales)
    """Takes what each cost was before scales, and the scales."""

    def area(self) -> float | None:
        """Area in m^2 of all instances that work as one; None where it is not given."""
        if self.given.area is None and self.dummy:
            return 0.0
        if self.given.area is None and self.model is None:
            return None
        if self.given.area is not None:
            area = self.context.number("area", self.given.area, minimum=0, allow_inf=False)
        else:
            area = self._modelled().area
        scale = self.context.number("area_scale", self.given.area_scale, minimum=0, allow_inf=False)
        found = self.scales.times(None, "area", area, Factor("area_scale", scale, ("area_scale",)), self._together())
        if not math.isfinite(found):
            raise SpecError(f"the area of {self.given.name!r} is {found}: it is too large", at=self.context.at("area"))
        return found

    def powers(self) -> tuple[Power, ...]:
        """Powers that instances that work as one always draw. Raises SpecError where the leakage is missing."""
        leak = Power("leak", self.leak_power())
        if not isinstance(self.given, MemoryInput):
            return (leak,)
        # a memory that forgets is refreshed wherever it stands
        watts = self._scaled_power("refresh_power", self.given.refresh_power)
        return (leak, Power("refresh", watts, gated=False)) if watts else (leak,)

    def leak_power(self) -> float:
        """Leakage in W of all instances that work as one. Raises SpecError where it is missing."""
        if self.given.leak_power is None:
            if self.dummy:
                return 0.0
            if self.model is None:
                hint = "set leak_power (W), 0 if unknown, or component_class (`einmap components` lists classes)"
                raise SpecError(f"{self.given.name!r} has no leak_power", at=self.context.at(), hint=hint)
            return self._scaled_power("leak_power", self._modelled().leak_power)
        return self._scaled_power("leak_power", self.given.leak_power)

    def _scaled_power(self, field: str, value: object) -> float:
        """W of all instances that work as one; `value`: of one instance, as it is written or modelled."""
        watts = self.context.number(field, value, minimum=0, allow_inf=False)
        scale = self.context.number("leak_power_scale", self.given.leak_power_scale, minimum=0, allow_inf=False)
        written = Factor("leak_power_scale", scale, ("leak_power_scale",))
        return self.scales.times(None, field, watts, written, self._together())

    @cached_property
    def _serving(self) -> Factor:
        """The part of the time in which it is not refreshed, by which a latency is divided."""
        busy = 0.0
        if isinstance(self.given, MemoryInput):
            busy = self.context.number("refresh_busy", self.given.refresh_busy, minimum=0)
            if busy >= 1:
                text = f"refresh_busy must be below 1, found {busy:.6g}"
                hint = "it is a part of the time: tRFC / tREFI"
                raise SpecError(text, at=self.context.at("refresh_busy"), hint=hint)
        return Factor("time without refresh", 1 - busy, ("refresh_busy",), divides=True)

    def _together(self, *, divides: bool = False) -> Factor:
        """The factor of instances that work as one."""
        return Factor("n_parallel_instances", self.parallel, ("n_parallel_instances",), divides)

    def _modelled(self) -> Estimate:
        assert self.model is not None
        return self.model.estimate

    def actions(self, tag: str, bits: Mapping[str, float]) -> tuple[Action, ...]:
        """All actions; `bits`: of a value of each tensor. Raises SpecError for missing and for wrong costs."""
        names = [action.name for action in self.given.actions]
        problems: list[EinmapError] = []
        for index, name in enumerate(names):
            if name in names[:index]:
                at = self.context.at("actions", index)
                problems.append(SpecError(f"action {name!r} of {self.given.name!r} is given twice", at=at))
        written: list[tuple[ActionInput, int | None]] = [(action, i) for i, action in enumerate(self.given.actions)]
        written += [(ActionInput(name=name), None) for name in NEEDED_ACTIONS[tag] if name not in names]
        found = [attempt(problems, partial(self._action, action, i, bits)) for action, i in written]
        raise_all(problems)
        return tuple(action for action in found if action is not None)

    def _action(self, action: ActionInput, index: int | None, bits: Mapping[str, float]) -> Action:
        path: Path = () if index is None else ("actions", index)
        fields = {
            name: value
            for name in type(action).model_fields
            if isinstance(value := getattr(action, name), bool | int | float | str) and name != "name"
        }
        extra = action.extra_attributes_for_component_model
        raise_all(self.context.changed_globals(extra, self.context.scope, path))
        fields |= {k: v for k, v in extra.items() if v is not None}
        scope = lazy_layer(fields, self.context.scope.layer({"name": action.name}), lambda n: self.context.at(*path, n))

        def amount(field: str, value: object, **limits: Any) -> float:
            return number(value, scope, at=partial(self.context.at, *path, field), what=field, **limits)

        energy = self._scaled_energy(action, path, amount)
        timed = action
        if isinstance(self.given, NetworkInput):
            timed = action.model_copy(update={"latency": None, "latency_scale": None})
            if action.throughput is None and self.model is None and action.latency is not None:
                # steps that take no time, over links of which nothing is said
                is_timeless = amount("latency", action.latency, minimum=0) == 0
                timed = timed.model_copy(update={"throughput": math.inf} if is_timeless else {})
        throughput = self._throughput(timed, path, amount)
        rate = rate_of(timed.throughput_scale, timed.latency_scale, scope, partial(self.context.at, *path))
        self._note_rates(timed, path, throughput, rate)
        scale = self.rate * rate * self.parallel * self._serving.value
        if throughput:
            throughput *= scale
        per_value = self._per_value(action, path, bits, scope) if isinstance(self.given, CarrierInput) else ()
        check_size(
            f"energy of {action.name!r} in {self.context.name!r}", energy, partial(self.context.at, *path, "energy")
        )
        check_size(
            f"throughput of {action.name!r} in {self.context.name!r}",
            throughput,
            partial(self.context.at, *path, "throughput"),
        )
        for tensor, size in per_value:
            check_size(
                f"number of actions {action.name!r} for one value of {tensor!r} in {self.context.name!r}",
                size,
                partial(self.context.at, *path),
            )
        width = (
            action.bits_per_action
            if action.bits_per_action is not None
            else getattr(self.given, "bits_per_action", None)
        )
        shown: dict[str, object] = {
            "name": action.name,
            "energy": energy,
            "throughput": throughput,
            "latency": self._latency_of(action, path, amount, throughput),
            "bits_per_action": 1 if width is None else amount("bits_per_action", width, minimum=0),
        }
        startup, way = self._startup(action, path, amount), self._pipeline_latency(action, path, amount)
        narrower = self._narrower(action, path, per_value, scope)
        at = self.context.at(*path, *self._field_of_throughput(timed))
        return Action(action.name, energy, throughput, per_value, tuple(shown.items()), startup, narrower, way, at)

    @staticmethod
    def _field_of_throughput(action: ActionInput) -> tuple[str, ...]:
        """The field of an action that gives its throughput; none where a model does."""
        fields = ("throughput", "latency", "throughput_scale", "latency_scale")
        return next(((name,) for name in fields if getattr(action, name) is not None), ())

    def _narrower(
        self, action: ActionInput, path: Path, per_value: tuple[tuple[str, float], ...], scope: Scope
    ) -> tuple[tuple[str, float], ...]:
        """Actions that a complete value takes less than a partial sum."""
        if not self.context.partial_bits or not per_value:
            return ()
        complete = dict(self._per_value(action, path, self.bits(), scope))
        return tuple((t, n - complete[t]) for t, n in per_value if n != complete[t])

    def _pipeline_latency(self, action: ActionInput, path: Path, amount: Callable[..., float]) -> float:
        """Seconds until the value of an action is there. Raises SpecError where no single value is looked at."""
        seconds = amount("pipeline_latency", action.pipeline_latency, minimum=0, allow_inf=False)
        passed = isinstance(self.given, MemoryInput) and action.name in ("read", "write")
        if seconds and not passed and not (isinstance(self.given, ComputeInput) and action.name == "compute"):
            text = f"{action.name!r} of {self.given.name!r} is not on the way of a value"
            hint = "pipeline_latency is for read and write of memories and for compute"
            raise SpecError(text, at=self.context.at(*path, "pipeline_latency"), hint=hint)
        return seconds

    def _startup(self, action: ActionInput, path: Path, amount: Callable[..., float]) -> float:
        """Seconds in which a transfer begins. Raises SpecError where nothing is transferred by tiles."""
        startup = amount("startup", action.startup, minimum=0, allow_inf=False)
        if startup and not (isinstance(self.given, MemoryInput) and action.name in ("read", "write")):
            text = f"{action.name!r} of {self.given.name!r} has no transfers of tiles that could take time to begin"
            raise SpecError(
                text, at=self.context.at(*path, "startup"), hint="startup is for read and write of memories"
            )
        return startup

    def _scaled_energy(self, action: ActionInput, path: Path, amount: Callable[..., float]) -> float:
        """J of one action, scales applied."""
        before = self._energy(action, path, amount)
        whole = self.context.number("energy_scale", self.given.energy_scale, minimum=0, allow_inf=False)
        own = amount("energy_scale", action.energy_scale, minimum=0, allow_inf=False)
        factors = Factor("energy_scale", whole, ("energy_scale",)), Factor("energy_scale", own, (*path, "energy_scale"))
        row = self._row(action) if action.energy is None else Factor("", 1)
        self.scales.note(action.name, "energy", before * row.value, row, *factors)
        return before * whole * own

    def _row(self, action: ActionInput) -> Factor:
        """Divisor of a model's figure: it prices a row of bits, of which an action moves one."""
        bits = 1.0 if self.model is None else self.model.bits_of(action.name)
        return Factor("bits of a row", bits, divides=True)

    def _note_rates(self, timed: ActionInput, path: Path, throughput: float, rate: float) -> None:
        """Keep what the seconds of an action were before scales: they are the inverse of the throughput."""
        modelled = timed.throughput is None and timed.latency is None
        row = self._row(timed) if modelled else Factor("", 1)
        seconds = math.inf if throughput == 0 else row.value / throughput
        rates = _rate(self.given, self.rate, ()), _rate(timed, rate, path), self._together(divides=True), self._serving
        self.scales.note(timed.name, "latency", seconds, row, *rates)

    def _energy(self, action: ActionInput, path: Path, amount: Callable[..., float]) -> float:
        if action.energy is None:
            if self.dummy:
                return 0.0
            if self.model is not None:
                return self.model.cost(action.name).energy
            hint = (
                "set energy (J for one action), or component_class (`einmap components` lists classes; "
                "of Dummy all costs are 0)"
            )
            others = [other.name for other in self.given.actions]
            if not path and (guess := closest(action.name, others)) is not None:
                hint = f"is {guess!r} (actions[{others.index(guess)}]) meant to be {action.name!r}?"
            raise SpecError(
                f"action {action.name!r} of {self.context.name!r} has no energy", at=self.context.at(*path), hint=hint
            )
        energy = amount("energy", action.energy, allow_inf=False)
        if energy < 0:
            self.notes.append(
                Note(f"energy of {self.context.name}.{action.name} is negative: {energy}", self.context.at(*path))
            )
        return energy

    def _throughput(self, action: ActionInput, path: Path, amount: Callable[..., float]) -> float:
        found: list[float] = []
        if action.throughput is not None:
            found.append(amount("throughput", action.throughput, minimum=0))
        if action.latency is not None:
            latency = amount("latency", action.latency, minimum=0)
            found.append(math.inf if latency == 0 else 1 / latency)
        if len(found) == 2 and not math.isclose(found[0], found[1], rel_tol=1e-9):
            raise SpecError(
                f"throughput and latency of {self.context.name}.{action.name} disagree; give only one",
                at=self.context.at(*path, "latency"),
            )
        if found:
            return found[0]
        if self.dummy:
            return math.inf
        if self.model is not None:
            return self.model.cost(action.name).throughput
        hint = "set throughput (actions/s, may be inf), or latency (s)"
        if action.name == "hop":
            hint = "set throughput (actions/s of one link, may be inf); latency (s for one step) does not stand for it"
        raise SpecError(
            f"action {action.name!r} of {self.context.name!r} has no throughput", at=self.context.at(*path), hint=hint
        )

    def _latency_of(self, action: ActionInput, path: Path, amount: Callable[..., float], throughput: float) -> float:
        """Seconds of one action: of a network's step as given or modelled, of others the inverse of the throughput."""
        if not isinstance(self.given, NetworkInput):
            return math.inf if throughput == 0 else 1 / throughput
        if action.latency is None and (self.dummy or action.name != "hop"):
            return 0.0
        if action.latency is not None:
            seconds = amount("latency", action.latency, minimum=0, allow_inf=False)
        elif self.model is not None:
            seconds = self.model.cost(action.name).delay
        else:
            raise SpecError(
                f"action 'hop' of {self.context.name!r} has no latency",
                at=self.context.at(*path),
                hint="set latency (s for one step of a value) and throughput (actions/s of one link, may be inf), "
                "or component_class (Wire, Router, ...)",
            )
        factors: list[Factor] = []
        if action.latency_scale is not None:
            scale = amount("latency_scale", action.latency_scale, minimum=0, allow_inf=False)
            factors.append(Factor("latency_scale", scale, (*path, "latency_scale")))
        if self.given.latency_scale is not None:
            scale = self.context.number("latency_scale", self.given.latency_scale, minimum=0, allow_inf=False)
            factors.append(Factor("latency_scale", scale, ("latency_scale",)))
        return self.scales.times(action.name, "hop_latency", seconds, *factors)

    def bits(self, partial_bits: Mapping[str, float] | None = None) -> dict[str, float]:
        """Bits of a value of each tensor, as this component stores or carries it. Raises SpecError.

        `partial_bits`: of those that are wider while they are summed; what the component says for itself wins.
        """
        carrier = self.given
        assert isinstance(carrier, CarrierInput)
        universe = sorted(self.context.all.universe)
        workload = {t: self.context.all.with_members(frozenset({t})).bits_per_value for t in universe}
        workload |= partial_bits or {}
        absolute = self.context.table(carrier.bits_per_value, self.context.scope, "bits_per_value")
        factors = self.context.table(carrier.bits_per_value_scale, self.context.scope, "bits_per_value_scale")
        bits: dict[str, float] = {}
        for tensor in universe:
            if tensor in absolute and tensor in factors:
                raise SpecError(f"{tensor!r} has both bits_per_value and bits_per_value_scale", at=factors[tensor][1])
            bits[tensor] = workload[tensor]
            for table, base in ((absolute, 1), (factors, workload[tensor])):
                if tensor in table:
                    value, at = table[tensor]
                    amount = number(value, self.context.scope, at=at, what=f"bits of {tensor!r}", allow_inf=False)
                    bits[tensor] = amount * base
                    if bits[tensor] < 0:
                        text = f"bits of {tensor!r} in {self.given.name!r} must be >= 0, found {bits[tensor]:g}"
                        raise SpecError(text, at=at)
        return bits

    def _per_value(
        self, action: ActionInput, path: Path, bits: Mapping[str, float], scope: Scope
    ) -> tuple[tuple[str, float], ...]:
        carrier = self.given
        assert isinstance(carrier, CarrierInput)
        own = self.context.table(action.values_per_action, scope, *path, "values_per_action")
        shared = self.context.table(carrier.values_per_action, scope, "values_per_action")
        if action.bits_per_action is not None:
            width, where = action.bits_per_action, self.context.at(*path, "bits_per_action")
        else:
            width, where = (
                carrier.bits_per_action if carrier.bits_per_action is not None else 1,
                self.context.at("bits_per_action"),
            )
        wide = number(width, scope, at=where, what="bits_per_action", minimum=0)
        found = []
        for tensor in sorted(self.context.all.universe):
            table = own if tensor in own else shared
            if tensor in table:
                value, at = table[tensor]
                values = number(value, scope, at=at, what="values_per_action", minimum=0)
                if values == 0:
                    raise SpecError("values_per_action must be > 0, found 0", at=at)
                found.append((tensor, 1 / values))
            elif wide == 0:
                raise SpecError("bits_per_action must be > 0, found 0", at=where)
            else:
                found.append((tensor, bits[tensor] / wide))
        return tuple(found)


def _rate(given: ComponentInput | ActionInput, rate: float, path: Path) -> Factor:
    """The factor of a latency that a scale of the throughput, or of the latency itself, makes."""
    if given.latency_scale is not None and not isinstance(given, NetworkInput):
        return Factor("latency_scale", 0.0 if math.isinf(rate) else 1 / rate, (*path, "latency_scale"))
    return Factor("throughput_scale", rate, (*path, "throughput_scale"), divides=True)


def rate_of(throughput: object | None, latency: object | None, scope: Scope, at: Callable[[str], At]) -> float:
    """By what a throughput is multiplied, given by its own scale or by the latency's. Raises SpecError for both."""
    if throughput is not None and latency is not None:
        raise SpecError("give only one of throughput_scale and latency_scale", at=at("latency_scale"))
    if latency is not None:
        scale = number(
            latency, scope, at=partial(at, "latency_scale"), what="latency_scale", minimum=0, allow_inf=False
        )
        return math.inf if scale == 0 else 1 / scale
    if throughput is None:
        return 1.0
    return number(throughput, scope, at=partial(at, "throughput_scale"), what="throughput_scale", minimum=0)
