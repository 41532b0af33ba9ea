"""Limit of the latency of each Einsum, where the energy goes, and how many lanes work."""

from __future__ import annotations

from collections.abc import Iterator

from einmap.model.cost import Cost
from einmap.model.counting.spatial import lanes_used
from einmap.model.evaluate import Workings
from einmap.model.explanation.values import Bottleneck, EnergyShare, Fanout


def bottlenecks_of(workings: Workings) -> Iterator[Bottleneck]:
    """For each Einsum how long each component works on it, the slowest first."""
    for name in workings.order:
        rows = [(row.component, row.latency) for row in workings.cost.latencies if row.einsum == name]
        latency = workings.cost.latency_by_einsum.get(name, 0.0)
        limiting = workings.cost.limited_by.get(name, ())
        yield Bottleneck(name, tuple(sorted(rows, key=lambda row: -row[1])), latency, limiting)


def energy_of(cost: Cost) -> Iterator[EnergyShare]:
    """Energy by component, tensor and action, the largest first."""
    energies = cost.energy_by("component", "tensor", "action")
    for (component, tensor, action), energy in sorted(energies.items(), key=lambda item: -item[1]):
        yield EnergyShare(component, tensor, action, energy, energy / cost.energy if cost.energy else 0.0)


def fanouts_of(workings: Workings) -> Iterator[Fanout]:
    """Lanes that each Einsum uses of every fanout on its path."""
    for name in workings.order:
        path = workings.paths[name]
        used = lanes_used(path)
        for leaf in path.leaves:
            for dimension in leaf.spatial:
                yield Fanout(name, leaf.name, dimension.name, used[leaf.name, dimension.name], dimension.fanout)
