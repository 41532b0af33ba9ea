"""Choices of what the memories of a path may keep, where any choice may go with any loops."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice

from einmap.arch.component import Leaf, Memory, Toll
from einmap.arch.constraint import Names
from einmap.einsum.einsum import Einsum
from einmap.mapper.cost_bounds.coefficients import pays_for_visits
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.cost_bounds.least_of_nodes import Way
from einmap.mapper.mapspace.dataplacement import choices
from einmap.mapper.mapspace.enumeration import InOrder
from einmap.mapper.mapspace.lanes.spatial_mappings import first_routed

FEW_NODES = 6
"""Storage nodes below the outermost memory, at most, of which all choices and orders are soon listed."""
MOST_CHOICES = 100_000
"""Choices of what memories keep that are looked at."""

type Masks = tuple[int, ...]
"""Tensors that each memory keeps, from the outside in: bit t for the tensor of access t."""


@dataclass(frozen=True)
class Keeping:
    """Choices of what the memories of a path keep. `levels`: those that are enabled, from the outside in.

    The outermost memory keeps all tensors; memories keep nodes in any order, in the order of the hierarchy.
    """

    einsum: Einsum
    leaves: tuple[Leaf, ...]
    levels: tuple[int, ...]
    choices: tuple[Masks, ...]

    @cached_property
    def begun(self) -> frozenset[Masks]:
        """Tensors of the first memories in some choice, for all numbers of memories."""
        return frozenset(masks[:n] for masks in self.choices for n in range(len(masks) + 1))

    @cached_property
    def kept(self) -> tuple[frozenset[int], ...]:
        """Sets that each memory keeps in some choice."""
        return tuple(frozenset(masks[m] for masks in self.choices) for m in range(len(self.levels)))

    @cached_property
    def by_nodes(self) -> Counter[int]:
        """Dataplacements by the number of nodes below the outermost memory."""
        found = Counter[int]()
        for masks in self.choices:
            each = [mask.bit_count() for mask in masks[1:]]
            found[sum(each)] += math.prod(map(math.factorial, each))
        return found

    @cached_property
    def states(self) -> frozenset[tuple[int, Masks]]:
        """Places that mappings come to: a memory below the outermost one, and the memory that holds each tensor last.

        Memories are numbered from the outside in. Each keeps what it keeps in some choice: so there are more states
        than those of `choices`, but none of a memory that holds what it may not.
        """
        found, every = {(0,) * len(self.einsum.accesses)}, set[tuple[int, Masks]]()
        for memory in range(1, len(self.levels)):
            parts = {part for mask in self.kept[memory] for part in range(mask + 1) if part & mask == part}
            after = {
                part: {tuple(memory if part >> t & 1 else m for t, m in enumerate(held)) for held in found}
                for part in parts
            }
            every |= {(memory, held) for of_part in after.values() for held in of_part}
            found = set().union(*(after[mask] for mask in self.kept[memory]))
        return frozenset(every)

    @property
    def kept_at_top(self) -> int:
        """All tensors, which the outermost memory keeps."""
        return (1 << len(self.einsum.accesses)) - 1

    @property
    def size(self) -> int:
        """Dataplacements."""
        return self.by_nodes.total()

    @cached_property
    def ways(self) -> dict[str, list[Way]]:
        """The ways in which each tensor may be held."""
        ways = {}
        for t, access in enumerate(self.einsum.accesses):
            held = {tuple(m for m, mask in enumerate(masks) if mask >> t & 1) for masks in self.choices}
            below = [tuple(self.levels[m] for m in memories) for memories in sorted(held)]
            ways[access.tensor] = [
                ((*levels, len(self.leaves) - 1), tuple((level, -1) for level in levels[1:])) for levels in below
            ]
        return ways


def keeping(path: Path) -> Keeping | None:
    """The choices of a path; None where they are few or too many, or where a bound over all of them is not known."""
    einsum, leaves = path.einsum, path.leaves
    memories = [leaf for leaf in leaves if isinstance(leaf, Memory) and leaf.enabled]
    if (len(memories) - 1) * len(einsum.accesses) <= FEW_NODES or not _is_plain(path, memories):
        return None
    found = list[Masks]()
    mask_of = [_masks(memory, einsum) for memory in memories]
    every = choices(einsum, leaves, path.backed_outside, InOrder())
    for number, held in enumerate(islice(every, MOST_CHOICES + 1)):
        masks = [mask_of[m].get(held[memory.name], -1) for m, memory in enumerate(memories)]
        if number >= MOST_CHOICES or held[memories[0].name] != einsum.tensors:
            return None
        if min(masks) >= 0:
            found.append(tuple(masks))
    levels = tuple(level for level, leaf in enumerate(leaves) if isinstance(leaf, Memory) and leaf.enabled)
    return Keeping(einsum, leaves, levels, tuple(found)) if found else None


def _masks(memory: Memory, einsum: Einsum) -> dict[Names, int]:
    """Sets of tensors of which a memory has room for one value each, as masks."""
    tensors = [access.tensor for access in einsum.accesses]
    found = {}
    for mask in range(1 << len(tensors)):
        kept = [tensor for t, tensor in enumerate(tensors) if mask >> t & 1]
        if sum(memory.bits[tensor] for tensor in kept) <= memory.size_bits:
            found[frozenset(kept)] = mask
    return found


def _is_plain(path: Path, memories: Sequence[Memory]) -> bool:
    """Whether costs are sums over nodes that stand in the order of the hierarchy, in any order within a memory."""
    asked, leaves = path.request, path.leaves
    is_asked = asked.given is None and not asked.shared and asked.steps is None and asked.remainder is None
    is_even = not (asked.uneven_loops or asked.uneven_lanes or asked.rules.lowering) and asked.force_hierarchy_order
    if not (is_asked and is_even and path.prunes) or asked.intermediates or asked.joint:
        return False
    if any(isinstance(leaf, Toll) for leaf in leaves) or first_routed(leaves) < len(leaves) or pays_for_visits(leaves):
        return False
    top = next((level for level, leaf in enumerate(leaves) if leaf is memories[0]), 0) if memories else 0
    if any(leaf.spatial for leaf in leaves[: top + 1]) or any(memory.is_spread for memory in memories):
        return False
    if any(access.gathered or access.lookups or access.kept is not None for access in path.einsum.accesses):
        return False
    placements = [memory.placement for memory in memories if memory.placement is not None]
    return all(p.force_hierarchy_order and not p.order_options and not p.tile_shape for p in placements)
