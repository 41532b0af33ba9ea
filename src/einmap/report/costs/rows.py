"""The numbers of a report as rows, taken from a Cost; nothing here knows how they are shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from einmap.arch.component import Component, Memory
from einmap.model.cost import ActionRow, Cost
from einmap.model.timing.ways import has_ways
from einmap.report.text.formatting import summed
from einmap.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class EnergyRow:
    """Joules of one component: for each tensor, for its computes, `by_power`; `share` of the whole energy.

    `by_power`: for each power that it draws all the time (`leak`, ...).
    """

    component: str
    by_tensor: Mapping[str, float]
    compute: float
    by_power: Mapping[str, float]
    total: float
    share: float


@dataclass(frozen=True, slots=True)
class BusyRow:
    """How long a component works (s), all Einsums together, as part of the whole latency (`share`).

    `limits`: the part of the latency that belongs to Einsums for which no component works longer.
    """

    component: str
    busy: float
    share: float
    limits: float


@dataclass(frozen=True, slots=True)
class EinsumRow:
    """One Einsum: energy (J), latency (s), their shares of the whole, and what it fills most.

    `limited_by`: the components that work longest. `memory`, `usage`: the finite memory that its own
    tensors fill most; None and 0 when there is none.
    """

    einsum: str
    energy: float
    energy_share: float
    latency: float
    latency_share: float
    limited_by: tuple[str, ...]
    memory: str | None
    usage: float


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """The largest part of a memory in use at one time; `size_bits` of one instance, inf, or None if unknown.

    `by_tensor`: the largest part that one Einsum needs for each of its tensors.
    """

    component: str
    usage: float
    size_bits: float | None
    instances: int
    by_tensor: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class SpatialRow:
    """The part of a fanout in use: averaged over the time of its Einsums, and where it is lowest.

    `fanout` is None when the architecture is not known.
    """

    component: str
    dimension: str
    fanout: int | None
    mean: float
    lowest: float
    lowest_in: str
    highest: float


def energy_rows(cost: Cost) -> tuple[EnergyRow, ...]:
    """One row for each component that did something, in the order of the architecture."""
    by_component: dict[str, list[ActionRow]] = {}
    for row in cost.actions:
        by_component.setdefault(row.component, []).append(row)
    rows = []
    for component, actions in ((c.component, by_component.get(c.component, [])) for c in cost.components):
        if actions:
            by_tensor = summed((row.tensor, row.energy) for row in actions if row.tensor is not None)
            total = sum(row.energy for row in actions)
            compute = sum(row.energy for row in actions if row.tensor is None and not row.is_constant)
            rows.append(EnergyRow(component, by_tensor, compute, by_power(actions), total, _part(total, cost.energy)))
    return tuple(rows)


def by_power(actions: Iterable[ActionRow]) -> dict[str, float]:
    """J of each power that is drawn all the time, by name."""
    return summed((row.action, row.energy) for row in actions if row.is_constant)


def powers(cost: Cost) -> tuple[str, ...]:
    """The names of powers that are drawn all the time and cost energy somewhere: `leak`, ..."""
    return tuple(name for name, energy in by_power(cost.actions).items() if energy)


def power_name(action: str) -> str:
    """A power that is drawn all the time as a sentence names it: `leakage` for `leak`."""
    return "leakage" if action == "leak" else action


def tensors(cost: Cost) -> tuple[str, ...]:
    """The tensors that cost energy somewhere, in the order of the Einsums."""
    return tuple(dict.fromkeys(row.tensor for row in cost.actions if row.tensor is not None))


def busy_rows(cost: Cost) -> tuple[BusyRow, ...]:
    """One row for each component that data pass through, in the order of the architecture."""
    busy, limits = _busy(cost), dict[str, float]()
    waited = _waited(cost)
    for einsum, limiting in cost.limited_by.items():
        for component in limiting:
            limits[component] = limits.get(component, 0.0) + waited[einsum]
    if cost.together:
        limits = dict.fromkeys(cost.together, cost.latency)
    for pipeline in cost.pipelines:
        if pipeline.limited_by is not None:
            limits[pipeline.limited_by] = limits.get(pipeline.limited_by, 0.0) + pipeline.latency
    return tuple(
        BusyRow(name, busy[name], _part(busy[name], cost.latency), _part(limits.get(name, 0.0), cost.latency))
        for name in (row.component for row in cost.components)
        if name in busy
    )


def _busy(cost: Cost) -> dict[str, float]:
    """Seconds that the busiest instance of each component works: where stages divide it, that of the busiest stage."""
    place = {
        (einsum, component): (number, position)
        for number, pipeline in enumerate(cost.pipelines)
        for position, stage in enumerate(pipeline.stages)
        for einsum in stage.einsums
        for component in pipeline.divided
    }
    shared = [row for row in cost.latencies if (row.einsum, row.component) not in place]
    divided = [row for row in cost.latencies if (row.einsum, row.component) in place]
    by_stage = summed(((row.component, *place[row.einsum, row.component]), row.latency) for row in divided)
    longest: dict[tuple[str, int], float] = {}
    for (component, number, _), seconds in by_stage.items():
        longest[component, number] = max(longest.get((component, number), 0.0), seconds)
    both = [*((row.component, row.latency) for row in shared), *((key[0], longest[key]) for key in longest)]
    return summed(both)


def _waited(cost: Cost) -> dict[str, float]:
    """The seconds of each Einsum that the whole latency is made of.

    In a Pipeline these are those of its slowest stage and a tile of each other step; none where a component that stages
    have in common takes longer.
    """
    waited = dict(cost.latency_by_einsum)
    for pipeline in cost.pipelines:
        for einsum, part in pipeline.parts.items():
            waited[einsum] *= part if pipeline.limited_by is None else 0.0
    return waited


def einsum_rows(cost: Cost) -> tuple[EinsumRow, ...]:
    """One row for each Einsum, in execution order."""
    energy = cost.energy_by("einsum")
    limiting = cost.limited_by
    rows = []
    for einsum, latency in cost.latency_by_einsum.items():
        memory, usage = _fullest(cost, einsum)
        joules = energy.get((einsum,), 0.0)
        shares = _part(joules, cost.energy), _part(latency, cost.latency)
        rows.append(EinsumRow(einsum, joules, shares[0], latency, shares[1], limiting[einsum], memory, usage))
    return tuple(rows)


def memory_rows(cost: Cost, spec: Spec | None = None) -> tuple[MemoryRow, ...]:
    """One row for each memory, outermost first; where sizes depend on the Einsum with the largest one."""
    archs = (spec.arch(), *(bound.arch for bound in spec.bound.values())) if spec else ()
    instances = {row.component: row.instances for row in cost.components}
    rows = []
    for row in cost.memory_usage:
        by_tensor: dict[str, float] = {}
        for part in cost.memory_usage_by_tensor:
            if part.component == row.component:
                by_tensor[part.tensor] = max(by_tensor.get(part.tensor, 0.0), part.usage)
        memories = [memory for a in archs if isinstance(memory := a.components.get(row.component), Memory)]
        size = max((memory.size_bits for memory in memories), default=None)
        rows.append(MemoryRow(row.component, row.usage, size, instances[row.component], by_tensor))
    return tuple(rows)


def spatial_rows(cost: Cost, spec: Spec | None = None) -> tuple[SpatialRow, ...]:
    """One row for each fanout that an Einsum passes, outermost first."""
    groups: dict[tuple[str, str], dict[str, float]] = {}
    for row in cost.spatial_usage:
        groups.setdefault((row.component, row.dimension), {})[row.einsum] = row.usage
    rows = []
    for (component, dimension), usage in groups.items():
        time = {einsum: cost.latency_by_einsum.get(einsum, 0.0) for einsum in usage}
        whole = sum(time.values())
        mean = sum(usage[e] * time[e] for e in usage) / whole if whole else min(usage.values())
        lowest_in = min(usage, key=lambda einsum: usage[einsum])
        leaf = spec.arch().leaves.get(component) if spec else None
        fanout = next((d.fanout for d in leaf.spatial if d.name == dimension), None) if leaf else None
        extremes = usage[lowest_in], lowest_in, max(usage.values())
        rows.append(SpatialRow(component, dimension, fanout, mean, *extremes))
    return tuple(rows)


_WAITS = (
    ("buffering", "single", "what is below {} waits while it is filled and emptied (buffering: single)"),
    ("wind_up", True, "what is below {} waits for its first tiles, and its last ones leave at the end (wind_up)"),
    ("stalls", "tile_by_tile", "turns wait for tiles of {} (stalls: tile_by_tile)"),
)
"""A field of memories, the value with which something waits, and why."""


def waiting_reasons(cost: Cost, spec: Spec | None = None) -> tuple[str, ...]:
    """Why Einsums take longer than their busiest component: what their components ask for; `spec` tells it."""
    units: dict[str, list[Component]] = {row.einsum: [] for row in cost.longer} if spec else {}
    for row in cost.latencies:
        if spec and row.einsum in units:
            units[row.einsum].append(spec.arch(row.einsum).components[row.component])
    # nothing fills the outermost one
    memories = [unit for used in units.values() for unit in used[1:] if isinstance(unit, Memory)]
    found = []
    for field, value, text in _WAITS:
        names = dict.fromkeys(unit.name for unit in memories if getattr(unit, field) == value)
        found += [text.format(" and ".join(names))] if names else []
    if any(has_ways(used) for used in units.values()):
        found.append("values are on their way (pipeline_latency)")
    return tuple(found) or ("components wait for one another",)


def _fullest(cost: Cost, einsum: str) -> tuple[str | None, float]:
    usage = summed((row.component, row.usage) for row in cost.memory_usage_by_tensor if row.einsum == einsum)
    if not usage:
        return None, 0.0
    memory = max(usage, key=lambda name: usage[name])
    return memory, usage[memory]


def _part(value: float, whole: float) -> float:
    return value / whole if whole else 0.0
