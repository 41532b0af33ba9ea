"""Shared tensors that Einsums exchange whole, below the outermost memory, also where nothing is fused.

Where the outermost memory may not keep an intermediate tensor, or is itself spread over lanes, Einsums that are mapped
one by one cannot choose loops above the tensor's outermost node each for itself: there are none, in all of them.
"""

from __future__ import annotations

from einmap.arch.component import Leaf, Memory
from einmap.arch.constraint import Names
from einmap.einsum.einsum import Einsum
from einmap.mapper.mapspace.dataplacement import backings
from einmap.spec.spec import Spec

MOST_LOOKED_AT = 1_000
"""Choices of what the memories keep that are looked at."""


def tensors_exchanged_whole(spec: Spec) -> Names:
    """Shared tensors of a workload above whose outermost nodes no loop may stand where nothing is fused."""
    workload = spec.workload
    exchanged: set[str] = set()
    for einsum in workload.einsums:
        shared = workload.shared & einsum.tensors - exchanged
        arch = spec.bound[einsum.name].arch
        for unit in arch.computes if shared else ():
            if unit.enabled:
                exchanged |= shared & _inside(einsum, arch.path(unit.name))
    return frozenset(exchanged)


def _inside(einsum: Einsum, leaves: tuple[Leaf, ...]) -> Names:
    """Tensors of an Einsum whose outermost node may stand below a loop on a path."""
    top = next((leaf for leaf in leaves if isinstance(leaf, Memory) and leaf.enabled), None)
    if top is None or any(leaf.spatial for leaf in leaves[: leaves.index(top) + 1]):
        return einsum.tensors
    held = backings(einsum, leaves, einsum.tensors, MOST_LOOKED_AT)
    return frozenset(tensor for memories in held for tensor, memory in memories.items() if memory != top.name)
