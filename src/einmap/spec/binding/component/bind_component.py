"""One memory, toll, network or compute, bound for one Einsum: scales applied, costs per action, placement."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from einmap.arch.component import (
    Buffering,
    Component,
    Compute,
    Memory,
    Network,
    SpatialDimension,
    Toll,
)
from einmap.arch.constraint import Latency
from einmap.errors import (
    EinmapError,
    ExpressionError,
    Note,
    SpecError,
    attempt,
    attempt_all,
    raise_all,
)
from einmap.expressions.arithmetic import boolean, evaluate, tensor_set
from einmap.expressions.records import Record, RecordList, safe_function
from einmap.expressions.scope import Lazy, Scope, lazy_layer
from einmap.spec.binding.component.applied_scales import CostOrigin
from einmap.spec.binding.component.component_context import ComponentContext
from einmap.spec.binding.component.component_costs import ComponentCosts, rate_of
from einmap.spec.binding.component.component_layout import layouts_of
from einmap.spec.binding.component.component_models import ModelledCosts
from einmap.spec.binding.component.component_placement import direction_of, placement_of, refuse_back
from einmap.spec.binding.component.component_ports import ports_of
from einmap.spec.binding.component.misspelt_attributes import misspelt_attributes
from einmap.spec.dialects.dialect import NEEDED_ACTIONS
from einmap.spec.schema.arch import (
    ActionInput,
    CarrierInput,
    ComponentInput,
    ComputeInput,
    ContainerInput,
    HolderInput,
    MemoryInput,
    NetworkInput,
    TollInput,
)
from einmap.spec.schema.documented import word_in

type Spatial = tuple[SpatialDimension, ...]

_NOT_FIELDS = {
    "name",
    "component_class",
    "component_model",
    "component_modeling_log",
    "actions",
    "spatial",
    "tensors",
}


@dataclass(frozen=True)
class BoundComponent:
    """A component, what expressions of nodes below may ask of it, and what the user should know."""

    component: Component
    record: Record
    notes: tuple[Note, ...]
    origin: CostOrigin
    """Costs from a model where none is written, and the scales of all costs."""


def unknown_holding(holder: str) -> str:
    """Why an expression may not ask here for the tensors that a component above holds."""
    return (
        f"which tensors {holder} holds depends on the mapping; only keep, may_keep, back, no_refetch_from_above, "
        "no_resend_to_below and tensor_order_options may ask for it"
    )


def record_of(name: str, spatial: Spatial, attributes: Mapping[str, Any], *, holds: bool = False) -> Record:
    """Attributes that expressions below may ask of a component; `holds`: it holds tensors, which ones is not known."""
    sizes = {dimension.name: dimension.fanout for dimension in spatial}
    functions = {
        "get_fanout": safe_function(lambda: math.prod(sizes.values())),
        "get_fanout_along": safe_function(lambda dimension, default=1: sizes.get(dimension, default)),
    }
    refused = {"tensors": unknown_holding(name)} if holds else {}
    return Record(name, {"name": name, **attributes, **functions}, refused)


def bind_component(
    outside: ComponentContext, tag: str, base: ContainerInput, spatial_in: Callable[[Scope], Spatial]
) -> BoundComponent:
    """The component as one Einsum sees it; `outside`: with the scope around it. Raises SpecError."""
    assert isinstance(base, ComponentInput)
    given = _with_hop(base)
    context, fields = _own_context(outside, given)
    model = _model_of(tag, given, context, fields)
    extra = given.extra_attributes_for_component_model
    problems: list[EinmapError] = context.changed_globals(extra, outside.scope, ())
    spatial = attempt(problems, lambda: spatial_in(context.scope)) or ()
    count = given.n_parallel_instances
    parallel = (
        attempt(problems, lambda: context.number("n_parallel_instances", count, minimum=1, allow_inf=False)) or 1.0
    )
    # of a network's hop, latency and throughput are two things
    latency_scale = None if isinstance(given, NetworkInput) else given.latency_scale
    rate = attempt(problems, lambda: rate_of(given.throughput_scale, latency_scale, context.scope, context.at))
    dummy = model is None and given.component_class is not None
    costs = ComponentCosts(context, given, parallel, 1.0 if rate is None else rate, dummy, model)
    shared: dict[str, Any] = {
        "name": given.name,
        "area": attempt(problems, costs.area),
        "powers": attempt(problems, costs.powers),
        "spatial": spatial,
        "enabled": attempt(
            problems, lambda: boolean(given.enabled, context.scope, at=partial(context.at, "enabled"), what="enabled")
        ),
        "actions_scale": attempt(
            problems, lambda: context.number("actions_scale", given.actions_scale, minimum=0, allow_inf=False)
        ),
        "total_latency": _total_latency(context, given, parallel),
    }
    bits: dict[str, float] | None = {}
    if isinstance(given, CarrierInput):
        bits = attempt(problems, lambda: costs.bits(context.partial_bits))
    shared["actions"] = () if bits is None else attempt(problems, partial(costs.actions, tag, bits))
    component = attempt(problems, lambda: _component(context, given, shared, bits or {}))
    raise_all(problems)
    assert component is not None
    visible = {name: value for name, field in fields.items() if (value := _visible(context, field)) is not None}
    visible["actions"] = RecordList(tuple(Record(a.name, dict(a.attributes)) for a in component.actions))
    record = record_of(given.name, spatial, visible, holds=isinstance(given, HolderInput))
    if model is None or not (model.priced or given.area is None or given.leak_power is None):
        return BoundComponent(component, record, tuple(costs.notes), CostOrigin(None, costs.scales.noted))
    origin = CostOrigin(model.estimate, costs.scales.noted)
    slips = misspelt_attributes(given, model.model_attributes, context)
    return BoundComponent(component, record, (*costs.notes, *model.notes, *slips), origin)


def _with_hop(given: ComponentInput) -> ComponentInput:
    """A network's `hops` are its `hop`."""
    names = {action.name for action in given.actions}
    if not isinstance(given, NetworkInput) or "hops" not in names or "hop" in names:
        return given
    actions = [a.model_copy(update={"name": "hop"}) if a.name == "hops" else a for a in given.actions]
    return given.model_copy(update={"actions": actions})


def _model_of(
    tag: str, given: ComponentInput, context: ComponentContext, fields: Mapping[str, Any]
) -> ModelledCosts | None:
    """The model of costs that are missing; None where no model is named, or `Dummy`."""
    if given.component_model is None and (given.component_class or "dummy").lower() == "dummy":
        return None
    extra = {**context.defaults, **given.extra_attributes_for_component_model}
    attributes = {name: value for name, value in {**extra, **fields}.items() if value is not None}
    written = {action.name: action for action in given.actions}
    needed = {name: ActionInput(name=name) for name in NEEDED_ACTIONS[tag] if name not in written}
    is_network = isinstance(given, NetworkInput)
    priced = {name: a for name, a in (written | needed).items() if a.energy is None or _lacks_time(a, is_network)}
    return ModelledCosts(
        context,
        given.component_class,
        given.component_model,
        attributes,
        priced,
        isinstance(given, CarrierInput),
        fields,
        isinstance(given, CarrierInput) and bool(given.values_per_action),
    )


def _lacks_time(action: ActionInput, is_network: bool) -> bool:
    """Whether throughput or latency of an action is missing; of a network's hop both are needed."""
    if is_network and action.name == "hop":
        return action.throughput is None or action.latency is None
    return action.throughput is None and action.latency is None


def _own_context(outside: ComponentContext, given: ComponentInput) -> tuple[ComponentContext, dict[str, Any]]:
    """The context of the component's fields, which may name one another, and those that are plain expressions."""
    extra = {
        **outside.defaults,
        **{k: v for k, v in given.extra_attributes_for_component_model.items() if v is not None},
    }
    around = outside.scope
    if given.throughput_scale is None and any("throughput_scale" in str(text) for text in extra.values()):
        around = around.layer({"throughput_scale": 1})  # its value where it is left out
    attributes = lazy_layer(extra, around, lambda n: outside.at("extra_attributes_for_component_model", n))
    fields = {
        name: value
        for name in type(given).model_fields
        if name not in _NOT_FIELDS and isinstance(value := getattr(given, name), bool | int | float | str)
    }
    fields.pop("total_latency", None)
    scope = lazy_layer(fields, attributes.layer({"name": given.name}), outside.at)
    return outside.inside(scope, {*extra, *fields, *outside.symbols}), fields


def _total_latency(context: ComponentContext, given: ComponentInput, parallel: float) -> Latency | None:
    """The component's own expression; it may speak of the component and of variables, not of other components."""
    if given.total_latency is None:
        return None
    others = [name for name in context.components if name not in context.own]
    refused = {name: Lazy(partial(_refuse_other, given, name)) for name in others}
    names = {"n_parallel_instances": parallel, **refused}
    return Latency(given.total_latency, context.scope.layer(names), context.at("total_latency"))


def _refuse_other(given: ComponentInput, name: str) -> object:
    needed = NEEDED_ACTIONS[type(given).__name__.removesuffix("Input")]
    actions = dict.fromkeys((*(action.name for action in given.actions), *needed))
    symbols = [*(f"{action}_{quantity}" for action in actions for quantity in ("actions", "latency"))]
    symbols += ["max_hops", "max_link_traffic"] if isinstance(given, NetworkInput) else []
    raise ExpressionError(
        f"total_latency of {given.name!r} cannot speak of another component, {name!r}",
        hint=f"it may use {', '.join(symbols)}, action2latency, actions, its own fields and variables",
    )


def _visible(context: ComponentContext, field: object) -> object | None:
    """A field as nodes below see it; None for fields that are not plain expressions."""
    try:
        value = evaluate(field, context.scope)
    except ExpressionError:
        return None
    return value if isinstance(value, bool | int | float) else None


def _component(
    context: ComponentContext, given: ComponentInput, shared: dict[str, Any], bits: dict[str, float]
) -> Component:
    match given:
        case MemoryInput():
            fields = attempt_all(
                size_bits=lambda: context.number("size", given.size, minimum=0),
                placement=lambda: placement_of(context, given.tensors),
                ports=lambda: ports_of(context, given),
                buffering=lambda: _buffering(context, given),
                layout=lambda: layouts_of(context, given, bits),
                stalls=lambda: word_in(given, "stalls", context.at("stalls"), listing="kinds"),
                replicate=lambda: tensor_set(given.replicate, context.scope, at=context.at("replicate")).members,
            )
            if fields["buffering"] == "double":  # one half is filled while the other one is used
                fields["size_bits"] /= 2
            fields |= {"skip_initial_output_write": given.skip_initial_output_write, "wind_up": given.wind_up}
            return Memory(**shared, **fields, bits_per_value=tuple(bits.items()))
        case TollInput():
            placement = placement_of(context, given.tensors)
            refuse_back(context, placement)
            return Toll(**shared, direction=direction_of(context, given), placement=placement)
        case NetworkInput():
            actions = shared["actions"] or ()  # None where they are a problem of their own
            seconds = next((float(dict(a.attributes)["latency"]) for a in actions if a.name == "hop"), 0.0)
            return Network(**shared, hop_latency=seconds, **_topology(context, given))
        case ComputeInput():
            return Compute(**shared, skip_initial_output_write=given.skip_initial_output_write)
        case _:
            raise AssertionError(type(given))


def _buffering(context: ComponentContext, given: MemoryInput) -> Buffering:
    buffering: Buffering = word_in(given, "buffering", context.at("buffering"), listing="kinds")
    if given.buffering == "single" and given.wind_up:
        text = (
            f"{given.name!r} has one buffer, for whose tiles what is below it waits each time, the first time included"
        )
        raise SpecError(text, at=context.at("wind_up"), hint="leave out wind_up, or write buffering: double")
    return buffering


def _topology(context: ComponentContext, given: NetworkInput) -> dict[str, Any]:
    """How the lanes of a network are joined, and what its links can do."""
    reduction = given.reduction or ("at_parent" if given.topology == "bus" else "in_network")
    given = given.model_copy(update={"reduction": reduction})
    listings = {"topology": "topologies", "reduction": "choices", "links": "choices"}
    found = {field: word_in(given, field, context.at(field), listing=listings[field]) for field in listings}
    if given.topology == "bus" and reduction == "in_network":
        text = f"results of several lanes cannot be added on their way over the bus {given.name!r}"
        raise SpecError(text, at=context.at("reduction"), hint="leave out reduction, or write reduction: at_parent")
    return {**found, "multicast": given.multicast}
