"""Lower bounds that hold for every mapping of one Einsum: what cannot be avoided at all."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from einmap.arch.component import Compute, Memory, Toll
from einmap.arch.tree import Architecture, outermost_memory, own_fanout
from einmap.einsum.einsum import Einsum
from einmap.mapper.objective.metrics import METRICS, Parts, values_of


@dataclass(frozen=True, slots=True)
class LowerBound:
    """J (without leakage, and of leakage) and s of one instance of the Einsum that no mapping can go below."""

    dynamic: float
    latency: float
    leak: float = 0.0

    @property
    def energy(self) -> float:
        """J with leakage."""
        return self.dynamic + self.leak


def lower_bounds(einsum: Einsum, arch: Architecture) -> LowerBound:
    """Every operation is done once, every tensor passes its outermost memory once.

    Latency: operations over all lanes of a path, and the outermost memory's compulsory traffic. Components with
    a `total_latency` of their own, gated leakage and copies are taken as free. Where an action has a negative energy
    there is no bound of energy (minus infinity).
    """
    bounds = [_of_path(einsum, arch, unit) for unit in arch.computes if unit.enabled]
    if not bounds:
        return LowerBound(0.0, 0.0)
    return LowerBound(min(b.dynamic for b in bounds), min(b.latency for b in bounds), min(b.leak for b in bounds))


def least_costs(einsum: Einsum, arch: Architecture, goals: Sequence[str]) -> tuple[float, ...]:
    """Lower bounds of some objectives (J, s, J*s) of one instance by compulsory traffic; of any other objective 0."""
    low = lower_bounds(einsum, arch)
    values = values_of(goals, Parts(low.energy, low.dynamic, low.leak, low.latency))
    # a product bounds nothing where one of its factors may be negative
    is_open = [low.energy < 0 and len(METRICS[goal].parts) > 1 if goal in METRICS else False for goal in goals]
    return tuple(-math.inf if unknown else value for unknown, value in zip(is_open, values, strict=True))


def _of_path(einsum: Einsum, arch: Architecture, unit: Compute) -> LowerBound:
    leaves = arch.path(unit.name)
    if any(each.energy < 0 for leaf in leaves if isinstance(leaf, Memory | Toll | Compute) for each in leaf.actions):
        return LowerBound(-math.inf, 0.0)
    if einsum.is_copy:
        return LowerBound(0.0, 0.0)
    lanes = 1
    for leaf in leaves:
        lanes *= own_fanout(leaf)
    action = unit.action("compute")
    operations = einsum.n_computes * unit.actions_scale
    energy, latency = operations * action.energy, 0.0
    if unit.total_latency is None and action.throughput > 0:
        latency = operations / lanes / action.throughput
    outer = outermost_memory(leaves)
    if outer is not None:
        moved, busy = _through(outer, einsum, arch)
        energy += moved
        latency = latency if outer.total_latency is not None else max(latency, busy)
    may_be_gated = _may_be_gated(arch)
    certain = [(n, p) for n, c in arch.components.items() for p in c.powers if not (p.gated and may_be_gated)]
    power = sum(p.watts * arch.instances[n] for n, p in certain)
    return LowerBound(energy, latency, power * latency)


def _through(outer: Memory, einsum: Einsum, arch: Architecture) -> tuple[float, float]:
    """Energy and busy time of the outermost memory for the tensors that it must keep, each moved once."""
    energy = busy = 0.0
    by_action = {"read": 0.0, "write": 0.0}
    kept = outer.placement.choices({})[0] if outer.placement else frozenset()
    for access in einsum.accesses:
        if access.tensor in kept:
            moved = outer.action("write" if access.output else "read")
            # of a result, not of a partial sum
            of_one = moved.actions_per_value[access.tensor] - moved.saved_by_complete.get(access.tensor, 0.0)
            actions = _values_touched(einsum, access.tensor) * of_one
            energy += actions * outer.actions_scale * moved.energy
            seconds = actions * outer.actions_scale / moved.throughput if moved.throughput > 0 else 0.0
            busy += seconds / arch.instances[outer.name]
            by_action[moved.name] += seconds / arch.instances[outer.name]
    if outer.ports is not None:
        busy = float(outer.ports.seconds(by_action["read"], by_action["write"]))
    return energy, busy


def _may_be_gated(arch: Architecture) -> bool:
    """Whether unused lanes or branches may stop leaking: then no leakage is certain."""
    if any(d.power_gateable for leaf in arch.leaves.values() for d in leaf.spatial):
        return True
    return any(fork.forked_power_gateable or fork.non_forked_power_gateable for fork in arch.forks)


def _values_touched(einsum: Einsum, tensor: str) -> int:
    """Elements that are certainly used: distinct values of one variable for each rank."""
    access = einsum.by_tensor[tensor]
    seen: set[str] = set()
    total = 1
    for _, index in access.projection:
        free = [einsum.extents[v] for v, _ in index.terms if v not in seen]
        seen.update(v for v, _ in index.terms)
        total *= max(free, default=1)
    return total
