"""Energy and latency of one instance of an Einsum by itself, of one mapping or of many at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from einmap.arch.component import Compute, Network
from einmap.arch.tree import Architecture
from einmap.model.counting.path import EinsumPath
from einmap.model.counting.spatial import lanes_used
from einmap.model.counting.tiles import Count
from einmap.model.timing.buffering import serial_latency, turns
from einmap.model.timing.latency import busy_time, network_time, seconds_of
from einmap.model.timing.stalls import stalled_latency, stalling
from einmap.model.timing.systolic import skew_seconds
from einmap.model.timing.ways import alone
from einmap.model.traffic.actions import Actions
from einmap.model.traffic.copies import copy_busiest, copy_totals
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.mesh_crossing import NetworkUse
from einmap.model.traffic.networks_crossed import network_use


@dataclass(frozen=True, slots=True)
class EinsumCost:
    """`dynamic` energy (J), `power` (W) of what is not gated, `latency` (s); arrays for many mappings.

    `totals`: actions of all instances, by component and tensor, before `actions_scale`.
    """

    dynamic: Any
    power: Any
    latency: Any
    totals: Mapping[tuple[str, str], Actions]

    @property
    def energy(self) -> Any:
        """J, leakage included."""
        # an infinite latency is refused by name once its mapping is evaluated
        with np.errstate(over="ignore", invalid="ignore"):
            return self.dynamic + self.power * self.latency


def einsum_cost(path: EinsumPath, traffic: EinsumTraffic, arch: Architecture) -> EinsumCost:
    """The cost of one instance, capacity not looked at. Stalls tile by tile are counted of one mapping at a time."""
    if path.einsum.is_copy:
        totals, busiest = copy_totals(path), copy_busiest(path)
    else:
        totals, busiest = traffic.totals(), traffic.busiest()
    operations, most = traffic.operations()
    energy: Any = 0.0
    for (name, _), actions in totals.items():
        unit = arch.components[name]
        for action, count in (("read", actions.read), ("write", actions.write)):
            if not isinstance(count, int | float) or count:
                energy = energy + count * (unit.actions_scale * unit.action(action).energy)
    compute = path.compute.component
    networks = network_use(traffic)
    for name, use in networks.items():
        unit = arch.components[name]
        for hops in use.hops.values():
            energy = energy + hops * (unit.actions_scale * unit.action("hop").energy)
    energy = energy + operations * (compute.actions_scale * compute.action("compute").energy)
    latency = _latency(path, traffic, busiest, most)
    for name, use in networks.items():
        network = arch.components[name]
        assert isinstance(network, Network)
        latency = np.maximum(latency, network_time(network, use, path.einsum.name))
    power: Any = 0.0
    for _, _, watts in arch.drawn(compute.name, lanes_used(path)):
        power = power + watts
    return EinsumCost(energy, power, latency, totals)


def _latency(path: EinsumPath, traffic: EinsumTraffic, busiest: Mapping[str, Actions], operations: Count) -> Any:
    components = path.arch.components

    def busy(name: str, done: Actions | NetworkUse) -> Any:
        return seconds_of(components[name], done, path.einsum.name)

    held = {s.component.name for stations in path.stations.values() for s in stations}
    latency: Any = 0.0
    computing: Any = 0.0
    for leaf in path.leaves:
        if isinstance(leaf, Compute) and not path.einsum.is_copy:
            calls = {"compute": operations * leaf.actions_scale}
            computing = busy_time(components[leaf.name], calls, path.einsum.name)
            seconds = computing = computing + skew_seconds(path, traffic)
        elif leaf.name in held:
            seconds = busy(leaf.name, busiest.get(leaf.name, Actions(0, 0)))
        else:
            continue
        latency = np.maximum(latency, seconds)
    if stalling(path.leaves):
        latency = np.maximum(latency, stalled_latency(path, traffic, computing, busy))
    if way := alone(path):
        latency = np.maximum(latency, way)
    if not turns(path.leaves):
        return latency
    return np.maximum(latency, serial_latency(path, traffic, computing, busy))
