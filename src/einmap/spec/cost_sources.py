"""Where the costs of components come from: a line of the specification, or a model with its publication."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import PurePath

from einmap.arch.component import Compute, Memory, Network, Toll
from einmap.errors import At
from einmap.spec.binding.component.applied_scales import CostOrigin, Factor, Scaled
from einmap.spec.raw import Path, place
from einmap.spec.schema.arch import ComponentInput
from einmap.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class CostFactor:
    """A factor that the specification applies: its `field`, `value` as written there, and `place`, the line.

    `divides`: the cost is divided by it, as a latency by `throughput_scale`. `bits of a row` has no line: without
    `bits_per_action` an action moves one bit of the row that a model prices.
    """

    field: str
    value: float
    place: str = ""
    divides: bool = False

    def __str__(self) -> str:
        sign = "/" if self.divides else "x"
        if not self.place:
            return f"{sign} {self.value:.6g} {self.field}"
        return f"{sign} {self.field} {self.value:.6g} ({self.place})"


@dataclass(frozen=True, slots=True)
class CostSource:
    """One number of one instance. `quantity`: area (m^2), leak_power, refresh_power (W), or of an action energy (J),
    latency (s).

    A network's `hop` has the seconds of a value on one link as latency, and as `hop_latency` those of one step.
    `value`: what counts, scales applied; None where nothing is given. `source`: the place where it is written, or the
    model and its publication. `scaling`: what the model did to the published figure, in words. `before`: the number
    before `factors`, those of the specification; their product with `before` is `value` up to rounding.
    `einsums`: the Einsums for which it holds, () for all.
    """

    component: str
    action: str | None
    quantity: str
    value: float | None
    source: str
    scaling: tuple[str, ...] = ()
    before: float | None = None
    factors: tuple[CostFactor, ...] = ()
    einsums: tuple[str, ...] = ()

    @property
    def steps(self) -> tuple[str, ...]:
        """Steps from the number of the source, in words and in order: of the model, then of the specification."""
        return (*self.scaling, *map(str, self.factors))


@dataclass(frozen=True, slots=True)
class UsedModel:
    """A component model that gives costs: its class, the components that name it, and its publications.

    `priced_for`: for each component its size, width, node as far as the model says, in words; else empty.
    """

    component_class: str
    components: tuple[str, ...]
    sources: tuple[str, ...]
    priced_for: tuple[str, ...]


def cost_sources(spec: Spec, einsum: str) -> tuple[CostSource, ...]:
    """All costs of the components as one Einsum sees them, outermost first. Raises SpecError for a bad specification.

    Values are those that count: scales are applied.
    """
    return tuple(_sources(spec, einsum))


def cost_sources_of_all(spec: Spec) -> tuple[CostSource, ...]:
    """All costs of the components, outermost first; one that is not the same for all Einsums is told for each.

    Raises SpecError for a bad specification.
    """
    users: dict[str, list[str]] = {}
    for name, bound in spec.bound.items():
        users.setdefault(bound.like, []).append(name)
    by_number: dict[tuple[str, str | None, str], dict[CostSource, list[str]]] = {}
    for like, names in users.items():
        for row in _sources(spec, like):
            by_number.setdefault((row.component, row.action, row.quantity), {}).setdefault(row, []).extend(names)
    found: list[CostSource] = []
    for rows in by_number.values():
        same = len(rows) == 1
        found += [row if same else replace(row, einsums=tuple(names)) for row, names in rows.items()]
    return tuple(found)


def used_models(spec: Spec) -> tuple[UsedModel, ...]:
    """The models that give costs which the specification leaves out, in the order of the architecture."""
    components: dict[str, dict[str, str]] = {}
    sources: dict[str, dict[str, None]] = {}
    firsts = {bound.like for bound in spec.bound.values()}
    for leaf in spec.arch_inputs.leaves:
        given = leaf.given
        model = (given.component_model or given.component_class) if isinstance(given, ComponentInput) else None
        for einsum in firsts if model is not None else ():
            origin = spec.bound[einsum].origins.get(given.name, CostOrigin())
            if origin.estimate is not None and model is not None:
                priced = [cost.source for cost in origin.estimate.actions.values()] or [origin.estimate.source]
                components.setdefault(model, {})[given.name] = origin.estimate.priced_for
                sources.setdefault(model, {}).update(dict.fromkeys(priced))
    return tuple(
        UsedModel(name, tuple(priced), tuple(sources[name]), tuple(priced.values()))
        for name, priced in components.items()
    )


def _sources(spec: Spec, einsum: str) -> Iterator[CostSource]:
    bound = spec.bound[einsum]
    for leaf in spec.arch_inputs.leaves:
        unit = bound.arch.components.get(leaf.given.name)
        if isinstance(unit, Memory | Toll | Compute | Network) and isinstance(leaf.given, ComponentInput):
            origin = bound.origins.get(leaf.given.name, CostOrigin())
            yield from _Sources(spec, leaf.given, leaf.path, origin).of(unit)


@dataclass(frozen=True)
class _Sources:
    """One component as written at `path`, and what its costs came from."""

    spec: Spec
    given: ComponentInput
    path: Path
    origin: CostOrigin

    def of(self, unit: Memory | Toll | Compute | Network) -> Iterator[CostSource]:
        """The costs of the component, which is bound as `unit`."""
        yield self.source(None, "area", unit.area, ("area",))
        for power in unit.powers:
            field = f"{power.name}_power"
            yield self.source(None, field, power.watts, (field,))
        for action in unit.actions:
            latency = 1 / action.throughput if action.throughput else math.inf
            yield self.source(action.name, "energy", action.energy, ("energy",))
            if not isinstance(unit, Network):
                yield self.source(action.name, "latency", latency, ("throughput", "latency"))
                continue
            yield self.source(action.name, "latency", latency, ("throughput",))
            if action.name == "hop":
                yield self.source(action.name, "hop_latency", unit.hop_latency, ("latency",))

    def source(self, action: str | None, quantity: str, value: float | None, fields: tuple[str, ...]) -> CostSource:
        """Where a number is from: the first of some fields that is written, or the model that stands for it."""
        origin, scaling = self.written_or_modelled(action, fields)
        scaled = self.origin.scaled.get((action, quantity))
        if scaled is None:
            scaled = Scaled(value, ()) if value is not None else None
        before = None if scaled is None else scaled.before
        factors = () if scaled is None else tuple(map(self.factor, scaled.factors))
        return CostSource(self.given.name, action, quantity, value, origin, scaling, before, factors)

    def written_or_modelled(self, action: str | None, fields: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """The place of a field, or the model with what it did to the published figure."""
        index = next((i for i, written in enumerate(self.given.actions) if written.name == action), None)
        holder = self.given if action is None else None if index is None else self.given.actions[index]
        for name in fields if holder is not None else ():
            if getattr(holder, name) is not None:
                return self.place((name,) if index is None else ("actions", index, name)), ()
        estimate = self.origin.estimate
        if estimate is None:
            return "not given" if self.given.component_class is None else "component_class: Dummy", ()
        figures = estimate.origin(fields[0]) if action is None else estimate.actions[action]
        # no model scales how long an action takes
        scaling = () if "throughput" in fields else figures.scaling
        priced_for = estimate.priced_for if action is None else estimate.actions[action].priced_for
        model = f"{self.given.component_model or self.given.component_class}{f' ({priced_for})' if priced_for else ''}"
        return f"{model}: {figures.source}", scaling

    def factor(self, factor: Factor) -> CostFactor:
        """A factor with its line."""
        return CostFactor(factor.field, factor.value, self.place(factor.path) if factor.path else "", factor.divides)

    def place(self, path: Path) -> str:
        """Where a field of the component is written: file and line, else the path of the field.

        Shipped and given files are told by their names; error messages have the whole path.
        """
        at: At = place(self.spec.raw, (*self.path, *path))
        return f"{PurePath(at.file).name}:{at.line}" if at.file else at.path


def component_modeling_log(spec: Spec, einsum: str) -> dict[str, tuple[str, ...]]:
    """Steps of the models of components for one Einsum, by component. Raises SpecError for a bad one."""
    estimates = {name: origin.estimate for name, origin in spec.bound[einsum].origins.items()}
    return {name: estimate.log for name, estimate in estimates.items() if estimate is not None}
