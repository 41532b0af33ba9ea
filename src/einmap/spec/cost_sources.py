"""Where the costs of components come from: a line of the specification, or a model with its publication."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import PurePath

from einmap.arch.component import Compute, Memory, Network, Toll
from einmap.spec.raw import Path, place
from einmap.spec.schema.arch import ComponentInput
from einmap.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class CostSource:
    """One number. `quantity`: area (m^2), leak_power (W), or energy (J) and latency (s) of an action of one instance.

    `source`: the place where it is written, or the model and its publication. `scaling`: what was done to the published
    figure, in words.
    """

    component: str
    action: str | None
    quantity: str
    value: float | None
    source: str
    scaling: tuple[str, ...] = ()


def cost_sources(spec: Spec, einsum: str) -> tuple[CostSource, ...]:
    """All costs of the components as one Einsum sees them, outermost first. Raises SpecError for a bad specification.

    Values are those that count: scales are applied.
    """
    arch = spec.bound[einsum].arch
    found: list[CostSource] = []
    for leaf in spec.arch_inputs.leaves:
        unit = arch.components.get(leaf.given.name)
        if isinstance(unit, Memory | Toll | Compute | Network) and isinstance(leaf.given, ComponentInput):
            found += _of_component(spec, einsum, unit, leaf.given, leaf.path)
    return tuple(found)


def _of_component(
    spec: Spec, einsum: str, unit: Memory | Toll | Compute | Network, given: ComponentInput, path: Path
) -> list[CostSource]:
    estimate = spec.bound[einsum].estimates.get(given.name)
    written = {action.name: index for index, action in enumerate(given.actions)}

    def source(action: str | None, fields: tuple[str, ...]) -> tuple[str, tuple[str, ...]]:
        """Where the first of some fields is written, or which model stands for it."""
        index = None if action is None else written.get(action)
        holder = given if action is None else None if index is None else given.actions[index]
        for name in fields if holder is not None else ():
            if getattr(holder, name) is not None:
                parts = (name,) if index is None else ("actions", index, name)
                at = place(spec.raw, (*path, *parts))
                # shipped and given files are told by their names; the whole path stands in error messages
                return f"{PurePath(at.file).name}:{at.line}" if at.file else at.path, ()
        if estimate is None:
            return "not given" if given.component_class is None else "component_class: Dummy", ()
        figures = estimate if action is None else estimate.actions[action]
        return f"{given.component_class}: {figures.source}", figures.scaling

    found = [
        CostSource(unit.name, None, "area", unit.area, *source(None, ("area",))),
        CostSource(unit.name, None, "leak_power", unit.leak_power, *source(None, ("leak_power",))),
    ]
    for action in unit.actions:
        latency = 1 / action.throughput if action.throughput else math.inf
        energy = source(action.name, ("energy",))
        found.append(CostSource(unit.name, action.name, "energy", action.energy, *energy))
        time = source(action.name, ("throughput", "latency"))
        found.append(CostSource(unit.name, action.name, "latency", latency, *time))
    return found
