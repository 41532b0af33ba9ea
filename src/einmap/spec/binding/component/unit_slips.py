"""Costs that hardware does not have, most often a slip of a unit: asked of an architecture once it is bound."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from einmap.arch.component import Action, Component, Compute, Memory
from einmap.errors import Note
from einmap.spec.binding.component.applied_scales import CostOrigin
from einmap.spec.binding.component.component_context import Where
from einmap.spec.raw import Path
from einmap.spec.schema.arch import ComponentInput

_MOST_JOULES = 1e-6
"""Energy of one action: above a microjoule no action of a component is; energies of 1, 10, 100 are relative ones."""
_RELATIVE = 1e9
"""Relative energies of one architecture do not differ by more."""
_OFF_CHIP = 2**30
"""Bits above which a memory is on other chips."""


@dataclass(frozen=True)
class BoundPart:
    """A component that was bound, as it was written at `path`, and what its costs came from."""

    component: Component
    given: ComponentInput
    path: Path
    origin: CostOrigin


def unit_slips(parts: Iterable[BoundPart], where: Where) -> list[Note]:
    """A note for each cost outside what published hardware has. Values of 0 and infinity are chosen on purpose.

    An architecture whose energies are relative, as 1, 10 and 100, has no units to slip: only components that a model
    prices are asked unless half of all energies above 0 are below a microjoule. Where a few are, energies a billion
    times as large are asked too: relative ones do not lie so far apart.
    """
    all_parts = tuple(parts)
    energies = [a.energy for part in all_parts for a in part.component.actions if a.energy > 0]
    small = [energy for energy in energies if energy < _MOST_JOULES]
    in_joules = len(small) * 2 >= len(energies) > 0
    far = _RELATIVE * max(small, default=math.inf)
    outermost = next((part.component.name for part in all_parts if isinstance(part.component, Memory)), None)
    notes = []
    for part in all_parts:
        is_asked = in_joules or part.origin.estimate is not None
        if not is_asked and all(action.energy <= far for action in part.component.actions):
            continue
        for field, sentence in _sentences(part, is_outermost=part.component.name == outermost):
            if is_asked or field[-1:] == ("energy",):
                notes.append(Note(f"{part.component.name}: {sentence}", where((*part.path, *field))))
    return notes


def _sentences(part: BoundPart, *, is_outermost: bool) -> Iterator[tuple[Path, str]]:
    """Sentences on what is implausible in one component, each with its field."""
    from einmap.components.plausible import implausible, implausible_area  # where energies are relative, not needed

    unit, kinds = part.component, _kinds(part.component, is_outermost=is_outermost)

    def asked(quantity: str, value: float, *field: str | int) -> Iterator[tuple[Path, str]]:
        sentences = [implausible(kind, quantity, value) for kind in kinds]
        if sentences[0] is not None and all(sentence is not None for sentence in sentences):
            yield field, sentences[0]

    size = unit.size_bits if isinstance(unit, Memory) and "memory" in kinds else math.inf
    area, leak = _of_one(part, "area", unit.area or 0.0), _of_one(part, "leak_power", unit.leak_power)
    if math.isfinite(size):
        sentence = implausible_area(size, area)
        if sentence is not None:
            yield _field(part.given, "area"), sentence
        if size:
            yield from asked("leak_power_per_bit", leak / size, *_field(part.given, "leak_power"))
    else:
        yield from asked("area", area, *_field(part.given, "area"))
        yield from asked("leak_power", leak, *_field(part.given, "leak_power"))
    for action in unit.actions:
        path = _action_path(part.given, action)
        if isinstance(unit, Compute):
            yield from asked("energy", action.energy, *path, "energy")
        else:
            bits = float(_attributes(action)["bits_per_action"] or 1)
            yield from asked("energy_per_bit", action.energy / bits, *path, "energy")
        yield from asked("throughput", action.throughput, *path, _rate_field(part.given, action))


def _kinds(unit: Component, *, is_outermost: bool) -> tuple[str, ...]:
    """Kinds that a component may be of; the outermost memory may be on the chip or not."""
    match unit:
        case Memory() if unit.size_bits >= _OFF_CHIP:
            return ("dram",)
        case Memory():
            return ("memory", "dram") if is_outermost else ("memory",)
        case Compute():
            return ("compute",)
        case _:
            return ("network",)


def _of_one(part: BoundPart, quantity: str, value: float) -> float:
    """Area or leakage of one of the instances that work as one."""
    scaled = part.origin.scaled.get((None, quantity))
    together = (f.value for f in scaled.factors if f.field == "n_parallel_instances") if scaled else ()
    return value / next(iter(together), 1.0)


def _field(given: ComponentInput, name: str) -> Path:
    """The field, or the class of the component where a model gives it."""
    return (name,) if getattr(given, name) is not None else ("component_class",)


def _action_path(given: ComponentInput, action: Action) -> Path:
    index = next((i for i, written in enumerate(given.actions) if written.name == action.name), None)
    return () if index is None else ("actions", index)


def _rate_field(given: ComponentInput, action: Action) -> str:
    """The field that says how fast an action is."""
    is_latency = any(written.name == action.name and written.latency is not None for written in given.actions)
    return "latency" if is_latency else "throughput"


def _attributes(action: Action) -> Mapping[str, float]:
    return {name: value for name, value in action.attributes if isinstance(value, int | float)}
