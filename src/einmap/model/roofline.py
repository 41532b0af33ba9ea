"""The roofline of a result: what computes and memories could do at most, and what each Einsum does.

Williams, Waterman, Patterson, "Roofline: an insightful visual performance model for multicore architectures", CACM
2009; with a roof for each memory as in Ilic, Pratas, Sousa, "Cache-aware roofline model", 2014.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from einmap.arch.component import Compute, Memory
from einmap.model.cost import Cost
from einmap.model.fusion import moved_bits
from einmap.spec.spec import Spec


@dataclass(frozen=True, slots=True)
class Roof:
    """Peak rate of a component, all instances together: operations/s, or bytes/s of a memory."""

    component: str
    rate: float


@dataclass(frozen=True, slots=True)
class Point:
    """One Einsum at one memory: `intensity` is operations for each byte that the memory moves, `rate` operations/s."""

    einsum: str
    memory: str
    intensity: float
    rate: float


@dataclass(frozen=True, slots=True)
class Roofline:
    """`peaks` of computes, `bandwidths` of memories (what takes no time has none), and the points."""

    peaks: tuple[Roof, ...]
    bandwidths: tuple[Roof, ...]
    points: tuple[Point, ...]


@dataclass(frozen=True, slots=True)
class Counted:
    """Amounts of a cost for a roofline: peaks and bandwidths by component, operations by Einsum, and bits that memories
    move by Einsum and memory; outermost memories first.
    """

    peaks: dict[str, float]
    bandwidths: dict[str, float]
    operations: dict[str, float]
    moved: dict[tuple[str, str], float]


def counted(cost: Cost, spec: Spec) -> Counted:
    """Operations, bits that are moved, and rates of a cost.

    The bandwidth of a memory is that of its fastest action on all its ports and its widest tensor.
    """
    instances = {row.component: row.instances for row in cost.components}
    moved: dict[tuple[str, str], float] = {}
    peaks: dict[str, float] = {}
    bandwidths: dict[str, float] = {}
    operations: dict[str, float] = {}
    for row in cost.actions:
        unit = spec.arch(row.einsum).components[row.component]
        if isinstance(unit, Compute) and row.action == "compute":
            scale = unit.actions_scale or 1.0
            peaks[unit.name] = unit.action("compute").throughput * instances[unit.name] / scale
            operations[row.einsum] = operations.get(row.einsum, 0.0) + (row.count or 0.0) / scale
        if not isinstance(unit, Memory) or row.tensor is None or not row.count:
            continue
        action = row.action.removeprefix("metadata_")
        if action not in unit.actions_by_name:  # gated or skipped
            continue
        bits = moved_bits(row, unit, spec)
        moved[row.einsum, unit.name] = moved.get((row.einsum, unit.name), 0.0) + bits
        ports = 1.0 if unit.ports is None else unit.ports.shares[-1].at_once
        rate = unit.action(action).throughput * ports * bits / row.count * instances[unit.name] / 8
        bandwidths[unit.name] = max(bandwidths.get(unit.name, 0.0), rate)
    place = {row.component: number for number, row in enumerate(cost.components)}
    return Counted(
        peaks,
        dict(sorted(bandwidths.items(), key=lambda item: place[item[0]])),
        operations,
        dict(sorted(moved.items(), key=lambda item: place[item[0][1]])),
    )


def roofline(cost: Cost, spec: Spec) -> Roofline:
    """The roofline of a cost, outermost memories first."""
    found = counted(cost, spec)
    points = [
        Point(einsum, memory, operations / (bits / 8), operations / cost.latency_by_einsum[einsum])
        for (einsum, memory), bits in found.moved.items()
        if (operations := found.operations.get(einsum)) and bits and cost.latency_by_einsum.get(einsum)
    ]
    return Roofline(finite_roofs(found.peaks), finite_roofs(found.bandwidths), tuple(points))


def finite_roofs(rates: dict[str, float]) -> tuple[Roof, ...]:
    """Roofs of the components that limit anything."""
    return tuple(Roof(name, rate) for name, rate in rates.items() if rate and math.isfinite(rate))
