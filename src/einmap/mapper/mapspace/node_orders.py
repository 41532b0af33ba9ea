"""Orders of storage nodes that are never better than others: two neighbours in a memory without a loop between them.

Neighbours with no loop between them cost and take the same in either order. So one order of each such pair is enough:

- Above the loop over the steps of a recurrence only loops stand over what it does not carry.
- Between outermost nodes there is none where no loop may stand above the second one.
- Below an inner node of a tensor that every loop indexes there is none, since such loops are never worse above that
  node (`templates.chain_template`): it stands behind its neighbour as well as before it.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from functools import cached_property

from einmap.arch.component import Leaf, Memory, Toll
from einmap.arch.constraint import Names
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.mapspace.recomputation import variables_above

type Node = tuple[str, str]
"""A storage node: the memory and the tensor."""


@dataclass
class NodeOrders:
    """The orders of storage nodes worth listing for an Einsum.

    `shared`: tensors that other Einsums use too; `uncut`: see `variables_above`; `joint`: tensors that several Einsums
    may hold in one inner node, which stay where they are. `variable`: that of a recurrence, whose one loop stands
    right above the node of `token`; None where the Einsum is not a part of one.
    """

    einsum: Einsum
    leaves: tuple[Leaf, ...]
    shared: Names
    uncut: Set[tuple[str, str]]
    joint: Names
    variable: str | None
    token: str | None
    outside: Names = frozenset()

    def admits(self, above: tuple[Node, ...], node: Node) -> bool:
        """Whether a node is worth trying right below others, the last of which may be in the same memory."""
        memory, tensor = node
        if not above or above[-1][0] != memory or memory not in self._free:
            return True
        held = {t for _, t in above[:-1]}
        first, second = self._rank(above[-1][1], held), self._rank(tensor, held)
        return first < second or not self._no_loop_between(above, node, held)

    def _rank(self, tensor: str, held: Set[str]) -> tuple[bool, int]:
        """Where a node belongs among neighbours that may stand in any order: inner ones that all loops index last."""
        inner = tensor in held and self._is_indexed(tensor, self._loops)
        return inner, self._position[tensor]

    def _no_loop_between(self, above: tuple[Node, ...], node: Node, held: Set[str]) -> bool:
        """Whether a mapping with the two nodes swapped is as good as any in which they stand like this."""
        first, second = above[-1][1], node[1]
        step = self.variable if self.token not in held | {first} else None
        if first in held and self._is_indexed(first, self._loops if step is None else self._loops | {step}):
            return True
        if step is not None:
            # an inner node that the loop over the steps indexes takes less room right above it
            free = (t not in held or self._relevance(t, step) is Relevance.NONE for t in (first, second))
            waiting = self.einsum.tensors - held - {first}
            between = self.outside.intersection(*(self._above(t) for t in waiting))
            return second != self.token and all(free) and not between
        if first == self.token or first in held or second in held:
            # what stands right below the token stands below the loop over the steps, too
            return False
        waiting = self.einsum.tensors - held - {first}
        return not self._loops.intersection(*(self._above(t) for t in waiting))

    def _is_indexed(self, tensor: str, loops: Names) -> bool:
        """Whether every one of some loops goes over other values of a tensor, whose inner nodes may be moved."""
        access = self.einsum.by_tensor[tensor]
        fixed = tensor in self.joint or access.gathered or access.lookups
        return not fixed and all(self._relevance(tensor, v) is Relevance.FULL for v in loops)

    def _relevance(self, tensor: str, variable: str) -> Relevance:
        return self.einsum.by_tensor[tensor].relevance(variable)

    def _above(self, tensor: str) -> Names:
        """Variables whose loops may stand above the outermost node of a tensor."""
        return variables_above(self.einsum.by_tensor[tensor], tensor in self.shared, self.uncut)

    @cached_property
    def _loops(self) -> Names:
        """Variables with loops, beside that of the recurrence."""
        return frozenset(v for v, bound in self.einsum.bounds if bound > 1 and v != self.variable)

    @cached_property
    def _position(self) -> dict[str, int]:
        return {access.tensor: i for i, access in enumerate(self.einsum.accesses)}

    @cached_property
    def _free(self) -> Names:
        """Memories whose nodes may stand in any order, and for which nothing is asked of tile shapes."""
        if any(isinstance(leaf, Toll) for leaf in self.leaves):
            return frozenset()
        memories = [leaf for leaf in self.leaves if isinstance(leaf, Memory) and leaf.placement is not None]
        return frozenset(
            m.name for m in memories if m.placement and not (m.placement.order_options or m.placement.tile_shape)
        )
