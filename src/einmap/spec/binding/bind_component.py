"""One memory, toll, network or compute, bound for one Einsum: scales applied, costs per action, placement."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, cast

from einmap.arch.component import (
    Action,
    Component,
    Compute,
    Direction,
    Memory,
    Network,
    SpatialDimension,
    Toll,
    Topology,
)
from einmap.arch.constraint import OPERATORS, Comparison, DeferredSet, Latency, Placement, check_order_options
from einmap.errors import (
    At,
    EinmapError,
    ExpressionError,
    Note,
    NotSupportedError,
    SpecError,
    attempt,
    closest,
    did_you_mean,
    raise_all,
)
from einmap.expressions.arithmetic import boolean, evaluate, number, rank_variable_set
from einmap.expressions.records import Record, RecordList, safe_function
from einmap.expressions.scope import Lazy, Scope, lazy_layer
from einmap.expressions.sets import NameSet
from einmap.spec.binding.per_tensor import per_tensor
from einmap.spec.binding.symbols import union_text
from einmap.spec.dialects.dialect import NEEDED_ACTIONS
from einmap.spec.raw import Path
from einmap.spec.schema.arch import (
    ActionInput,
    CarrierInput,
    ComparisonInput,
    ComponentInput,
    ComputeInput,
    ContainerInput,
    HolderInput,
    MemoryInput,
    NetworkInput,
    TensorsInput,
    TollInput,
)

type Spatial = tuple[SpatialDimension, ...]
type Where = Callable[[Path], At]
"""Where what stands at a path is written."""

SMALLEST, LARGEST = 1e-100, 1e100
"""What J, actions/s and actions for one value may be, where they are not 0 or infinite: sums of them stay finite."""
_TOPOLOGIES = ("mesh", "all_to_all")
_DIRECTIONS = ("up", "down", "up_and_down")
_NOT_FIELDS = {
    "name",
    "component_class",
    "component_model",
    "component_modeling_log",
    "actions",
    "spatial",
    "tensors",
}


def unknown_holding(holder: str) -> str:
    """Why an expression may not ask here for the tensors that a component above holds."""
    return (
        f"which tensors {holder} holds depends on the mapping; only keep, may_keep, back, no_refetch_from_above, "
        "no_resend_to_below and tensor_order_options may ask for it"
    )


def record_of(name: str, spatial: Spatial, attributes: Mapping[str, Any], *, holds: bool = False) -> Record:
    """What expressions of nodes below may ask of a component; `holds`: it holds tensors, which ones is not known."""
    sizes = {dimension.name: dimension.fanout for dimension in spatial}
    functions = {
        "get_fanout": safe_function(lambda: math.prod(sizes.values())),
        "get_fanout_along": safe_function(lambda dimension, default=1: sizes.get(dimension, default)),
    }
    refused = {"tensors": unknown_holding(name)} if holds else {}
    return Record(name, {"name": name, **attributes, **functions}, refused)


class ComponentBinder:
    """Binds one component; `scope` holds what is above it, `symbols` the names of the Einsum."""

    defaults: Mapping[str, Any] = {}
    components: Collection[str] = ()

    def __init__(self, where: Where, path: Path, scope: Scope, symbols: Mapping[str, NameSet], einsum: str) -> None:
        self.where = where
        self.path = path
        self.outer = scope
        self.scope = scope
        self.symbols = symbols
        self.einsum = einsum
        self.notes: list[Note] = []
        self.name = ""
        self.own: set[str] = set()

    @property
    def all(self) -> NameSet:
        """All tensors of the Einsum."""
        return self.symbols["All"]

    def at(self, *path: str | int) -> At:
        """Where a field of the component is written."""
        return self.where((*self.path, *path))

    def bind(self, tag: str, base: ContainerInput, spatial_in: Callable[[Scope], Spatial]) -> tuple[Component, Record]:
        """The component and the record that expressions below see. Raises SpecError."""
        assert isinstance(base, ComponentInput)
        given = base
        self.name = given.name
        if given.component_class is not None and given.component_class.lower() != "dummy":
            raise NotSupportedError(
                f"component_class {given.component_class!r} of {given.name!r}: component models are not supported yet",
                at=self.at("component_class"),
                hint=("did you mean 'Dummy'? " if closest(given.component_class, ["Dummy"]) else "")
                + "give energy, throughput, area and leak_power as numbers, or use component_class: Dummy",
            )
        if given.component_model is not None:
            text = f"component_model of {given.name!r}: component models are not supported yet"
            raise NotSupportedError(text, at=self.at("component_model"), hint="give costs as numbers")
        self.dummy = given.component_class is not None
        extra = {
            **self.defaults,
            **{k: v for k, v in given.extra_attributes_for_component_model.items() if v is not None},
        }
        attributes = lazy_layer(extra, self.outer, lambda n: self.at("extra_attributes_for_component_model", n))
        fields = {
            name: value
            for name in type(given).model_fields
            if name not in _NOT_FIELDS and isinstance(value := getattr(given, name), bool | int | float | str)
        }
        fields.pop("total_latency", None)
        self.own = {*extra, *fields, *self.symbols}
        self.scope = lazy_layer(fields, attributes.layer({"name": given.name}), self.at)
        problems: list[EinmapError] = self._changed_globals(given.extra_attributes_for_component_model, self.outer, ())
        spatial = attempt(problems, lambda: spatial_in(self.scope)) or ()
        self.parallel = 1.0
        parallel = given.n_parallel_instances
        self.parallel = attempt(problems, lambda: self.number("n_parallel_instances", parallel, minimum=1)) or 1.0
        # of a network's hop, latency and throughput are two things
        latency_scale = None if isinstance(given, NetworkInput) else given.latency_scale
        rate = attempt(problems, lambda: self._scale(given.throughput_scale, latency_scale, ()))
        self.rate = 1.0 if rate is None else rate
        shared: dict[str, Any] = {
            "name": given.name,
            "area": attempt(problems, lambda: self._area(given)),
            "leak_power": attempt(problems, lambda: self._leak(given)),
            "spatial": spatial,
            "enabled": attempt(problems, lambda: self._enabled(given)),
            "actions_scale": attempt(problems, lambda: self.number("actions_scale", given.actions_scale, minimum=0)),
            "total_latency": self._latency(given),
        }
        bits: dict[str, float] | None = {}
        if isinstance(given, CarrierInput):
            bits = attempt(problems, lambda: self._bits(given))
        shared["actions"] = () if bits is None else attempt(problems, lambda: self._actions(tag, given, bits))
        component = attempt(problems, lambda: self._build(given, shared, bits or {}))
        raise_all(problems)
        assert component is not None
        seen = {name: self._seen(value) for name, value in fields.items()}
        seen = {name: value for name, value in seen.items() if value is not None}
        seen["actions"] = RecordList(tuple(Record(a.name, dict(a.attributes)) for a in component.actions))
        return component, record_of(given.name, spatial, seen, holds=isinstance(given, HolderInput))

    def _changed_globals(self, extra: Mapping[str, Any], outer: Scope, path: Path) -> list[EinmapError]:
        """Extra attributes with a name that may not change, though it is set outside."""
        where = partial(self.at, *path, "extra_attributes_for_component_model")
        return changed_globals(extra, outer, where, f"outside of {self.name!r}")

    def _enabled(self, given: ComponentInput) -> bool:
        return boolean(given.enabled, self.scope, at=self.at("enabled"), what="enabled")

    def _latency(self, given: ComponentInput) -> Latency | None:
        """Its own expression may speak of the component and of variables, not of other components."""
        if given.total_latency is None:
            return None
        others = {
            name: Lazy(partial(self._refuse_other, given, name)) for name in self.components if name not in self.own
        }
        names = {"n_parallel_instances": self.parallel, **others}
        return Latency(given.total_latency, self.scope.layer(names), self.at("total_latency"))

    def _refuse_other(self, given: ComponentInput, name: str) -> object:
        actions = dict.fromkeys(
            (*(action.name for action in given.actions), *NEEDED_ACTIONS[type(given).__name__[:-5]])
        )
        symbols = [*(f"{action}_{what}" for action in actions for what in ("actions", "latency"))]
        symbols += ["max_hops", "max_link_traffic"] if isinstance(given, NetworkInput) else []
        raise ExpressionError(
            f"total_latency of {given.name!r} cannot speak of another component, {name!r}",
            hint=f"it may use {', '.join(symbols)}, action2latency, actions, its own fields and variables",
        )

    def _seen(self, value: object) -> object | None:
        """A field as nodes below see it; fields that are no plain expressions are left out."""
        try:
            found = evaluate(value, self.scope)
        except ExpressionError:
            return None
        return found if isinstance(found, bool | int | float) else None

    def _build(self, given: ComponentInput, shared: dict[str, Any], bits: dict[str, float]) -> Component:
        match given:
            case MemoryInput():
                problems: list[EinmapError] = []
                size = attempt(problems, lambda: self.number("size", given.size, minimum=0))
                placement = attempt(problems, lambda: self._placement(given.tensors))
                raise_all(problems)
                assert size is not None
                skip = given.skip_initial_output_write
                return Memory(
                    **shared,
                    size_bits=size,
                    bits_per_value=tuple(bits.items()),
                    placement=placement,
                    skip_initial_output_write=skip,
                )
            case TollInput():
                placement = self._placement(given.tensors)
                self._refuse_back(placement)
                return Toll(**shared, direction=self._direction(given), placement=placement)
            case NetworkInput():
                actions = shared["actions"] or ()  # None where they are a problem of their own
                seconds = next((float(dict(a.attributes)["latency"]) for a in actions if a.name == "hop"), 0.0)
                return Network(**shared, topology=self._topology(given), hop_latency=seconds)
            case ComputeInput():
                return Compute(**shared, skip_initial_output_write=given.skip_initial_output_write)
            case _:
                raise AssertionError(type(given))

    def number(self, field: str, value: object, **limits: Any) -> float:
        """The value of a numeric field in the component's own scope."""
        return number(value, self.scope, at=self.at(field), what=field, **limits)

    # costs

    def _area(self, given: ComponentInput) -> float | None:
        if given.area is None:
            return 0.0 if self.dummy else None
        area = self.number("area", given.area, minimum=0, allow_inf=False)
        return area * self.number("area_scale", given.area_scale, minimum=0) * self.parallel

    def _leak(self, given: ComponentInput) -> float:
        if given.leak_power is None:
            if self.dummy:
                return 0.0
            raise SpecError(f"{given.name!r} has no leak_power", at=self.at(), hint="set leak_power (W), 0 if unknown")
        leak = self.number("leak_power", given.leak_power, minimum=0, allow_inf=False)
        return leak * self.number("leak_power_scale", given.leak_power_scale, minimum=0) * self.parallel

    def _scale(
        self, throughput: object | None, latency: object | None, path: Path, scope: Scope | None = None
    ) -> float:
        scope = scope or self.scope
        if throughput is not None and latency is not None:
            raise SpecError("give only one of throughput_scale and latency_scale", at=self.at(*path, "latency_scale"))
        if latency is not None:
            at = self.at(*path, "latency_scale")
            scale = number(latency, scope, at=at, what="latency_scale", minimum=0)
            return math.inf if scale == 0 else 1 / scale
        if throughput is None:
            return 1.0
        at = self.at(*path, "throughput_scale")
        return number(throughput, scope, at=at, what="throughput_scale", minimum=0)

    def _actions(self, tag: str, given: ComponentInput, bits: Mapping[str, float]) -> tuple[Action, ...]:
        names = [action.name for action in given.actions]
        problems: list[EinmapError] = []
        for index, name in enumerate(names):
            if name in names[:index]:
                at = self.at("actions", index)
                problems.append(SpecError(f"action {name!r} of {given.name!r} is given twice", at=at))
        written: list[tuple[ActionInput, int | None]] = [(action, i) for i, action in enumerate(given.actions)]
        written += [(ActionInput(name=name), None) for name in NEEDED_ACTIONS[tag] if name not in names]
        found = [attempt(problems, partial(self._action, given, action, i, bits)) for action, i in written]
        raise_all(problems)
        return tuple(action for action in found if action is not None)

    def _action(
        self, given: ComponentInput, action: ActionInput, index: int | None, bits: Mapping[str, float]
    ) -> Action:
        path: Path = () if index is None else ("actions", index)
        fields = {
            name: value
            for name in type(action).model_fields
            if isinstance(value := getattr(action, name), bool | int | float | str) and name != "name"
        }
        extra = action.extra_attributes_for_component_model
        raise_all(self._changed_globals(extra, self.scope, path))
        fields |= {k: v for k, v in extra.items() if v is not None}
        scope = lazy_layer(fields, self.scope.layer({"name": action.name}), lambda n: self.at(*path, n))

        def amount(field: str, value: object, **limits: Any) -> float:
            return number(value, scope, at=self.at(*path, field), what=field, **limits)

        energy = self._energy(action, path, amount)
        energy *= self.number("energy_scale", given.energy_scale, minimum=0)
        energy *= amount("energy_scale", action.energy_scale, minimum=0)
        timed = action
        if isinstance(given, NetworkInput):
            timed = action.model_copy(update={"latency": None, "latency_scale": None})
        throughput = self._throughput(timed, path, amount)
        scale = self.rate * self._scale(timed.throughput_scale, timed.latency_scale, path, scope) * self.parallel
        if throughput:
            throughput *= scale
        per_value = self._per_value(given, action, path, bits, scope) if isinstance(given, CarrierInput) else ()
        for field, size in (("energy", energy), ("throughput", throughput), *(("", amount) for _, amount in per_value)):
            self._check_size(f"{field or 'number of actions for one value'} of {action.name!r}", size, (*path, field))
        width = (
            action.bits_per_action if action.bits_per_action is not None else getattr(given, "bits_per_action", None)
        )
        shown: dict[str, object] = {
            "name": action.name,
            "energy": energy,
            "throughput": throughput,
            "latency": self._latency_of(given, action, path, amount, throughput),
            "bits_per_action": 1 if width is None else amount("bits_per_action", width, minimum=0),
        }
        return Action(action.name, energy, throughput, per_value, tuple(shown.items()))

    def _check_size(self, what: str, size: float, path: Path) -> None:
        """Refuse numbers of which sums and products leave the range of floats. Raises SpecError."""
        if size and not math.isinf(size) and not SMALLEST <= abs(size) <= LARGEST:
            raise SpecError(
                f"{what} in {self.name!r} is {size:g}, scales included",
                at=self.at(*(step for step in path if step != "")),
                hint=f"expected 0, or a size from {SMALLEST:g} to {LARGEST:g}",
            )

    def _energy(self, action: ActionInput, path: Path, amount: Callable[..., float]) -> float:
        if action.energy is None:
            if self.dummy:
                return 0.0
            raise SpecError(
                f"action {action.name!r} of {self.name!r} has no energy",
                at=self.at(*path),
                hint="set energy (J for one action), or component_class: Dummy; component models are not supported yet",
            )
        energy = amount("energy", action.energy, allow_inf=False)
        if energy < 0:
            self.notes.append(Note(f"energy of {self.name}.{action.name} is negative: {energy}", self.at(*path)))
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
                f"throughput and latency of {self.name}.{action.name} disagree; give only one",
                at=self.at(*path, "latency"),
            )
        if found:
            return found[0]
        if self.dummy:
            return math.inf
        hint = "set throughput (actions/s, may be inf), or latency (s)"
        if action.name == "hop":
            hint = "set throughput (actions/s of one link, may be inf); latency (s for one step) does not stand for it"
        raise SpecError(f"action {action.name!r} of {self.name!r} has no throughput", at=self.at(*path), hint=hint)

    # networks

    def _topology(self, given: NetworkInput) -> Topology:
        if given.topology not in _TOPOLOGIES:
            hint = did_you_mean(given.topology, _TOPOLOGIES, listing="topologies")
            raise SpecError(f"unknown topology {given.topology!r}", at=self.at("topology"), hint=hint)
        return cast(Topology, given.topology)

    def _latency_of(
        self, given: ComponentInput, action: ActionInput, path: Path, amount: Callable[..., float], throughput: float
    ) -> float:
        """Seconds of one action: of a network's step as given, of other actions the inverse of the throughput."""
        if not isinstance(given, NetworkInput):
            return math.inf if throughput == 0 else 1 / throughput
        if action.latency is None:
            if self.dummy or action.name != "hop":
                return 0.0
            raise SpecError(
                f"action 'hop' of {self.name!r} has no latency",
                at=self.at(*path),
                hint="set latency (s for one step of a value) and throughput (actions/s of one link, may be inf)",
            )
        seconds = amount("latency", action.latency, minimum=0, allow_inf=False)
        if action.latency_scale is not None:
            seconds *= amount("latency_scale", action.latency_scale, minimum=0)
        if given.latency_scale is not None:
            seconds *= self.number("latency_scale", given.latency_scale, minimum=0)
        return seconds

    # tensors

    def _table(self, given: Mapping[str, Any], scope: Scope, *path: str | int) -> dict[str, tuple[Any, At]]:
        return per_tensor(given, self.all, scope, lambda key: self.at(*path, key))

    def _bits(self, given: CarrierInput) -> dict[str, float]:
        universe = sorted(self.all.universe)
        workload = {t: self.all.with_members(frozenset({t})).bits_per_value for t in universe}
        absolute = self._table(given.bits_per_value, self.scope, "bits_per_value")
        factors = self._table(given.bits_per_value_scale, self.scope, "bits_per_value_scale")
        bits: dict[str, float] = {}
        for tensor in universe:
            if tensor in absolute and tensor in factors:
                raise SpecError(f"{tensor!r} has both bits_per_value and bits_per_value_scale", at=factors[tensor][1])
            bits[tensor] = workload[tensor]
            for table, base in ((absolute, 1), (factors, workload[tensor])):
                if tensor in table:
                    value, at = table[tensor]
                    amount = number(value, self.scope, at=at, what=f"bits of {tensor!r}", allow_inf=False)
                    bits[tensor] = amount * base
                    if bits[tensor] < 0:
                        text = f"bits of {tensor!r} in {given.name!r} must be >= 0, found {bits[tensor]:g}"
                        raise SpecError(text, at=at)
        return bits

    def _per_value(
        self, given: CarrierInput, action: ActionInput, path: Path, bits: Mapping[str, float], scope: Scope
    ) -> tuple[tuple[str, float], ...]:
        own = self._table(action.values_per_action, scope, *path, "values_per_action")
        shared = self._table(given.values_per_action, scope, "values_per_action")
        if action.bits_per_action is not None:
            width, where = action.bits_per_action, self.at(*path, "bits_per_action")
        else:
            width, where = (
                given.bits_per_action if given.bits_per_action is not None else 1,
                self.at("bits_per_action"),
            )
        wide = number(width, scope, at=where, what="bits_per_action", minimum=0)
        found = []
        for tensor in sorted(self.all.universe):
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

    def _direction(self, given: TollInput) -> tuple[tuple[str, Direction], ...]:
        entries = given.direction if isinstance(given.direction, dict) else {"All": given.direction}
        for key, value in entries.items():
            if value not in _DIRECTIONS:
                at = self.at("direction", key) if isinstance(given.direction, dict) else self.at("direction")
                raise SpecError(
                    f"unknown direction {value!r}",
                    at=at,
                    hint=did_you_mean(value, _DIRECTIONS, listing="directions"),
                )
        table = self._table(entries, self.scope, "direction")
        missing = sorted(self.all.universe - table.keys())
        if missing:
            raise SpecError(
                f"direction of Toll {given.name!r} says nothing of {{{', '.join(missing)}}} (Einsum {self.einsum!r})",
                at=self.at("direction"),
                hint="use the key Other for the rest",
            )
        return tuple((tensor, cast(Direction, table[tensor][0])) for tensor in sorted(table))

    # placement

    def _placement(self, given: TensorsInput) -> Placement:
        def deferred(field: str, source: object, *path: int) -> DeferredSet:
            return DeferredSet(union_text(source), self.scope, self.all, self.at("tensors", field, *path))

        keep: object = "Nothing" if given.keep is None else given.keep
        default = "All" if given.keep is None else "Nothing"
        may_keep = given.may_keep if given.may_keep is not None else default
        options = tuple(
            tuple(deferred("tensor_order_options", group, i, j) for j, group in enumerate(option))
            for i, option in enumerate(given.tensor_order_options)
        )
        placement = Placement(
            deferred("keep", keep),
            deferred("may_keep", may_keep),
            deferred("back", given.back),
            deferred("no_refetch_from_above", given.no_refetch_from_above),
            deferred("no_resend_to_below", given.no_resend_to_below),
            tuple(self._comparison(c, i) for i, c in enumerate(given.tile_shape)),
            options,
            given.force_memory_hierarchy_order,
        )
        check_order_options(placement)
        return placement

    def _refuse_back(self, placement: Placement) -> None:
        """A tensor whose outermost copy is here must be held here, and a Toll holds nothing."""
        try:
            is_empty = not placement.back.given({})
        except ExpressionError:
            is_empty = False
        if not is_empty:
            raise SpecError(
                f"back of {self.name!r}: a Toll cannot be the outermost holder of a tensor",
                at=self.at("tensors", "back"),
                hint="leave out back, and name the tensors in back of a Memory",
            )

    def _comparison(self, given: ComparisonInput, index: int) -> Comparison:
        return bind_comparison(given, self.where, (*self.path, "tensors", "tile_shape", index), self.scope)


def changed_globals(names: Iterable[str], outer: Scope, where: Callable[[str], At], outside: str) -> list[EinmapError]:
    """One error for each name that starts with `global_` and is set in the outer scope, too."""
    changing = [name for name in names if name.startswith("global_")]
    known = outer.names() if changing else frozenset[str]()
    return [
        SpecError(f"{name!r} is already set {outside}; a global_ name may not change", at=where(name))
        for name in changing
        if name in known
    ]


def bind_comparison(given: ComparisonInput, where: Where, path: Path, scope: Scope) -> Comparison:
    """A limit on rank variables. Raises SpecError for unknown operators and tensor sets."""
    if given.operator not in OPERATORS:
        at = where((*path, "operator"))
        raise SpecError(f"unknown operator {given.operator!r}", at=at, hint=f"one of {', '.join(OPERATORS)}")
    variables = rank_variable_set(given.expression, scope, at=where((*path, "expression")))
    value = number(given.value, scope, at=where((*path, "value")), what="value", integer=True)
    return Comparison(
        variables.members, given.operator, int(value), f"{union_text(given.expression)} {given.operator} {value}"
    )
