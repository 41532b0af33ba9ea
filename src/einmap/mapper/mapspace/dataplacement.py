"""Dataplacements of one Einsum: which memory keeps which tensor, and in which order storage nodes stand."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from weakref import WeakKeyDictionary

from einmap.arch.component import Leaf, Memory, Toll
from einmap.arch.constraint import Names
from einmap.einsum.einsum import Einsum
from einmap.mapper.mapspace.enumeration import InOrder, Walk
from einmap.mapper.mapspace.node_orders import NodeOrders

MOST_CHOICES = 10_000
"""Choices of what each holder keeps that are looked at to explain why there is none."""
MOST_KEPT = 2_000
"""Choices of an Einsum that are kept for whoever asks again; a longer list is made anew."""
_LISTED: WeakKeyDictionary[Einsum, dict[Hashable, tuple[list[dict[str, Names]], object]]] = WeakKeyDictionary()
"""Lists of choices, by Einsum and by what they depend on."""


@dataclass(frozen=True)
class Dataplacement:
    """Storage nodes from the outside in as (memory, tensor), and the tensors that pass each toll.

    The first `n_outer` nodes are those of the outermost memory; no loop stands above or among them.
    """

    nodes: tuple[tuple[str, str], ...]
    n_outer: int
    tolls: tuple[tuple[str, Names], ...]

    def has_room(self, memories: Mapping[str, Memory]) -> bool:
        """Whether each memory has room for one value of each tensor that it holds; else no tile shapes fit."""
        left = {name: memory.size_bits for name, memory in memories.items()}
        for name, tensor in self.nodes:
            left[name] -= memories[name].bits[tensor]
        return min(left.values()) >= 0


def dataplacements(
    einsum: Einsum,
    leaves: tuple[Leaf, ...],
    *,
    backed_outside: Names,
    force_hierarchy_order: bool = True,
    walk: Walk | None = None,
    top: str | None = None,
    single: Names = frozenset(),
    node_orders: NodeOrders | None = None,
) -> Iterator[Dataplacement]:
    """All dataplacements on one architecture path, in a fixed order unless `walk` has another.

    `backed_outside`: tensors whose outermost holder must be the outermost memory that may keep them. `top`: the
    memory above whose nodes no loop stands; the outermost one that keeps something if None. `single`: tensors that no
    two memories keep. `node_orders`: the orders of nodes that are worth listing, all of them if None.
    """
    walk = walk or InOrder()
    for held in choices(einsum, leaves, backed_outside, walk):
        yield from placements_of(einsum, leaves, held, force_hierarchy_order, walk, top, single, node_orders)


def placements_of(
    einsum: Einsum,
    leaves: tuple[Leaf, ...],
    held: Mapping[str, Names],
    force: bool,
    walk: Walk,
    top: str | None,
    single: Names,
    node_orders: NodeOrders | None,
) -> Iterator[Dataplacement]:
    """The dataplacements of one choice of what each holder keeps; see `dataplacements`."""
    if any(sum(tensor in kept for kept in held.values()) > 1 for tensor in single):
        return
    tolls = tuple((leaf.name, held[leaf.name]) for leaf in leaves if isinstance(leaf, Toll) and held[leaf.name])
    for order in _orders(einsum, leaves, held, force, walk, top, node_orders):
        outer = top or next((m for m, _ in order), None)
        yield Dataplacement(order, sum(m == outer for m, _ in order), tolls)


def backings(
    einsum: Einsum, leaves: tuple[Leaf, ...], backed_outside: Names, most: int | None = None
) -> Iterator[dict[str, str]]:
    """The outermost memory of each tensor, for all choices of what the memories keep, or the first `most` of them."""
    memories = [leaf.name for leaf in leaves if isinstance(leaf, Memory)]
    every = every_choice(einsum, leaves, backed_outside, MOST_KEPT if most is None else min(most, MOST_KEPT))
    for held in every or islice(choices(einsum, leaves, backed_outside, InOrder()), most):
        yield {tensor: next(m for m in memories if tensor in held[m]) for tensor in einsum.tensors}


def kept_nowhere(einsum: Einsum, leaves: tuple[Leaf, ...]) -> list[str]:
    """Tensors that no memory of the path keeps, whatever the others keep (of the first choices, if there are many)."""
    memories = [leaf.name for leaf in leaves if isinstance(leaf, Memory)]
    left = set(einsum.tensors)
    for held in islice(choices(einsum, leaves, frozenset(), InOrder(), complete=False), MOST_CHOICES):
        left -= frozenset().union(*(held[name] for name in memories))
    return _in_order(einsum, frozenset(left))


def _in_order(einsum: Einsum, names: Names) -> list[str]:
    """Tensors by their position in the Einsum, so that names do not matter."""
    return [access.tensor for access in einsum.accesses if access.tensor in names]


def choices(
    einsum: Einsum, leaves: tuple[Leaf, ...], backed_outside: Names, walk: Walk, complete: bool = True
) -> Iterator[dict[str, Names]]:
    """Tensors that each holder keeps, decided from the outside in, so that constraints may speak of what is above.

    `complete`: only those where every tensor is kept by some memory.
    """
    holders = [leaf for leaf in leaves if isinstance(leaf, Memory | Toll)]
    held: dict[str, Names] = {}

    def extend(index: int, above: Names) -> Iterator[dict[str, Names]]:
        if index == len(holders):
            if not complete or above >= einsum.tensors:
                yield dict(held)
            return
        holder = holders[index]
        must = may = frozenset[str]()
        if holder.enabled:
            assert holder.placement is not None
            must, may = holder.placement.choices(held)
            if isinstance(holder, Toll):
                must, may = must & above, may & above
            elif holder.placement.back.given(held) & above:
                return
            else:
                must = must | (may & backed_outside - above)
                may = may - must
        for optional in walk.subsets(_in_order(einsum, may)) if holder.enabled else (may,):
            held[holder.name] = kept = must | optional
            yield from extend(index + 1, above | kept if isinstance(holder, Memory) else above)
        held.pop(holder.name, None)

    yield from extend(0, frozenset())


def every_choice(
    einsum: Einsum, leaves: tuple[Leaf, ...], backed_outside: Names, most: int
) -> list[dict[str, Names]] | None:
    """All choices in order, for whoever asks again; None where there are more than `most`. Not to be changed."""
    holders = [(leaf, leaf.placement) for leaf in leaves if isinstance(leaf, Memory | Toll)]
    # sizes and speeds do not matter for what may be kept
    asked = backed_outside, tuple([(type(leaf), leaf.name, leaf.enabled, id(placed)) for leaf, placed in holders])
    known = _LISTED.setdefault(einsum, {})
    if asked in known:
        listed = known[asked][0]
    else:
        listed = list(islice(choices(einsum, leaves, backed_outside, InOrder()), most + 1))
        if len(listed) <= min(most, MOST_KEPT):
            # what ids are of stays there as long as they are known
            known[asked] = listed, holders
    return listed if len(listed) <= most else None


def _orders(
    einsum: Einsum,
    leaves: tuple[Leaf, ...],
    held: Mapping[str, Names],
    force: bool,
    walk: Walk,
    top: str | None,
    node_orders: NodeOrders | None,
) -> Iterator[tuple[tuple[str, str], ...]]:
    """All orders of the storage nodes: outermost memory first, hierarchy order, order options."""
    memories = [leaf for leaf in leaves if isinstance(leaf, Memory) and held[leaf.name]]
    if not memories:
        return
    n_outer = 1 if top in (None, memories[0].name) else 0
    outer, inner = memories[:n_outer], memories[n_outer:]
    above = _held_above(leaves, held)
    # no loop stands among the nodes of the outermost memory, so one order is as good as another
    outer_nests = _arrangements(einsum, outer, held, InOrder())
    outer_nest = next((order for order in outer_nests if _options_allow(outer, order, above)), None)
    if outer_nest is None:
        return
    blocks = _blocks(leaves, inner, force)

    def extend(index: int, order: tuple[tuple[str, str], ...]) -> Iterator[tuple[tuple[str, str], ...]]:
        if index == len(blocks):
            yield order
            return
        for arranged in _arrangements(einsum, blocks[index], held, walk, order, node_orders):
            if _options_allow(blocks[index], arranged, above):
                yield from extend(index + 1, (*order, *arranged))

    yield from extend(0, outer_nest)


def _blocks(leaves: tuple[Leaf, ...], memories: list[Memory], force: bool) -> list[list[Memory]]:
    """Memories whose storage nodes may be mixed: one each, or neighbours without a fanout between."""
    blocks: list[list[Memory]] = []
    names = [leaf.name for leaf in leaves]
    for memory in memories:
        previous = blocks[-1][-1] if blocks else None
        mixes = (
            previous is not None
            and not (force and previous.placement and previous.placement.force_hierarchy_order)
            and not (force and memory.placement and memory.placement.force_hierarchy_order)
            and not any(leaf.spatial for leaf in leaves[names.index(previous.name) + 1 : names.index(memory.name) + 1])
        )
        if mixes:
            blocks[-1].append(memory)
        else:
            blocks.append([memory])
    return blocks


def _arrangements(
    einsum: Einsum,
    block: list[Memory],
    held: Mapping[str, Names],
    walk: Walk,
    before: tuple[tuple[str, str], ...] = (),
    node_orders: NodeOrders | None = None,
) -> Iterator[tuple[tuple[str, str], ...]]:
    """Orders of the nodes of one block, behind those `before`; the same tensor stays in hierarchy order."""
    nodes = [(memory.name, tensor) for memory in block for tensor in _in_order(einsum, held[memory.name])]

    def extend(
        chosen: tuple[tuple[str, str], ...], rest: list[tuple[str, str]]
    ) -> Iterator[tuple[tuple[str, str], ...]]:
        if not rest:
            yield chosen
        for i in walk.items(range(len(rest))):
            _, tensor = rest[i]
            if any(other == tensor for _, other in rest[:i]):
                continue
            if node_orders is None or node_orders.admits((*before, *chosen), rest[i]):
                yield from extend((*chosen, rest[i]), rest[:i] + rest[i + 1 :])

    yield from extend((), nodes)


def _held_above(leaves: tuple[Leaf, ...], held: Mapping[str, Names]) -> dict[str, dict[str, Names]]:
    """For each holder what the holders above it hold."""
    above: dict[str, Names] = {}
    held_above = {}
    for leaf in leaves:
        if isinstance(leaf, Memory | Toll):
            held_above[leaf.name] = dict(above)
            above[leaf.name] = held[leaf.name]
    return held_above


def _options_allow(
    memories: list[Memory], order: tuple[tuple[str, str], ...], above: Mapping[str, Mapping[str, Names]]
) -> bool:
    """Whether each memory's `tensor_order_options` admit its storage nodes in this order."""
    for memory in memories:
        assert memory.placement is not None
        places = {tensor: i for i, (name, tensor) in enumerate(order) if name == memory.name}
        if not memory.placement.order_allows(places, above[memory.name]):
            return False
    return True


def outermost(leaves: Sequence[Leaf]) -> str | None:
    """The outermost memory that is enabled."""
    return next((leaf.name for leaf in leaves if isinstance(leaf, Memory) and leaf.enabled), None)
