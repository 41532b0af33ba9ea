"""Lower bounds that hold for every mapping of one Einsum: what cannot be avoided at all."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.arch.component import Compute
from einmap.arch.tree import Architecture, outermost_memory, own_fanout
from einmap.einsum.einsum import Einsum


@dataclass(frozen=True, slots=True)
class LowerBound:
    """J and s of one instance of the Einsum that no mapping can go below."""

    energy: float
    latency: float


def lower_bounds(einsum: Einsum, arch: Architecture) -> LowerBound:
    """Every operation is done once, every tensor passes its outermost memory once.

    Latency: operations over all lanes of a path, and the outermost memory's compulsory traffic. Components with
    a `total_latency` of their own, negative energies and gated leakage are taken as free.
    """
    found = [_of_path(einsum, arch, unit) for unit in arch.computes if unit.enabled]
    if not found:
        return LowerBound(0.0, 0.0)
    return LowerBound(min(b.energy for b in found), min(b.latency for b in found))


def _of_path(einsum: Einsum, arch: Architecture, unit: Compute) -> LowerBound:
    leaves = arch.path(unit.name)
    lanes = 1
    for leaf in leaves:
        lanes *= own_fanout(leaf)
    action = unit.action("compute")
    operations = einsum.n_computes * unit.actions_scale
    energy = max(0.0, operations * action.energy)
    latency = 0.0
    if unit.total_latency is None and action.throughput > 0:
        latency = operations / lanes / action.throughput
    outer = outermost_memory(leaves)
    if outer is None or einsum.is_copy:
        return LowerBound(energy, latency)
    busy = 0.0
    copies = arch.instances[outer.name]
    for access in einsum.accesses:
        name = "write" if access.output else "read"
        moved = outer.action(name)
        values = _values_touched(einsum, access.tensor)
        actions = values * moved.actions_per_value[access.tensor] * outer.actions_scale
        if access.tensor in (outer.placement.choices({})[0] if outer.placement else frozenset()):
            energy += max(0.0, actions * moved.energy)
            busy += actions / copies / moved.throughput if moved.throughput > 0 else 0.0
    if outer.total_latency is None:
        latency = max(latency, busy)
    if not _may_be_gated(arch):
        energy += sum(c.leak_power * arch.instances[n] for n, c in arch.components.items()) * latency
    return LowerBound(energy, latency)


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
