"""Editing a LoopTree: nodes in and out of its lists, by address."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from einmap.mapping.mapping import Mapping, PlacedNode
from einmap.mapping.nodes import Address, Compute, Node, PerEinsum, Split, Storage

type Nodes = tuple[Node, ...]


def siblings(mapping: Mapping, address: Address) -> Nodes:
    """The list that the node at `address` stands in: the root's or a branch's."""
    nodes = mapping.nodes
    for step in range(0, len(address) - 1, 2):
        split = nodes[address[step]]
        assert isinstance(split, Split)
        nodes = split.branches[address[step + 1]]
    return nodes


def replaced(mapping: Mapping, address: Address, count: int, new: Iterable[Node]) -> Mapping:
    """`count` nodes from `address` on give way to `new`."""
    return Mapping(_replaced(mapping.nodes, address, count, tuple(new)))


def _replaced(nodes: Nodes, address: Address, count: int, new: Nodes) -> Nodes:
    at = address[0]
    if len(address) == 1:
        return (*nodes[:at], *new, *nodes[at + count :])
    split, branch = nodes[at], address[1]
    assert isinstance(split, Split)
    inner = _replaced(split.branches[branch], address[2:], count, new)
    branches = (*split.branches[:branch], inner, *split.branches[branch + 1 :])
    return (*nodes[:at], replace(split, branches=branches), *nodes[at + 1 :])


def beside(address: Address, steps: int = 1) -> Address:
    """The address of the node `steps` further down the same list."""
    return (*address[:-1], address[-1] + steps)


def with_storage(mapping: Mapping, address: Address, new: Storage) -> Mapping:
    """`new` stands at `address`, before what stood there; it joins a neighbour of the same memory."""
    nodes, at = siblings(mapping, address), address[-1]
    above = nodes[at - 1] if at else None
    if isinstance(above, Storage) and _joins(above, new):
        both = replace(new, tensors=above.tensors + new.tensors)
        return replaced(mapping, beside(address, -1), 1, (both,))
    below = nodes[at]
    if isinstance(below, Storage) and _joins(below, new):
        both = replace(new, tensors=new.tensors + below.tensors)
        return replaced(mapping, address, 1, (both,))
    return replaced(mapping, address, 0, (new,))


def _joins(node: Storage, other: Storage) -> bool:
    return replace(node, tensors=()) == replace(other, tensors=())


def without_tensors(mapping: Mapping, address: Address, tensors: Iterable[str]) -> Mapping:
    """The storage node at `address` holds `tensors` no longer; one that holds nothing is gone."""
    node = mapping.at(address)
    assert isinstance(node, Storage)
    gone = frozenset(tensors)
    left = tuple(t for t in node.tensors if t not in gone)
    kept = (replace(node, tensors=left),) if left else ()
    return replaced(mapping, address, 1, kept)


def paths_through(mapping: Mapping, address: Address) -> dict[str, tuple[PlacedNode, ...]]:
    """The paths of the Einsums below the node at `address`, in written order."""
    step = len(address) - 1
    near = mapping.paths_in.get(address[:-1], {})
    return {name: path for name, path in near.items() if path[-1].address[step] >= address[-1]}


def einsums_in(nodes: Nodes) -> tuple[str, ...]:
    """The Einsums whose Compute stands in this list or below it."""
    paths = Mapping(nodes).paths
    return tuple(path[-1].node.einsum for path in paths if path and isinstance(path[-1].node, Compute))


def position_in(path: tuple[PlacedNode, ...], address: Address) -> int:
    """How many nodes of `path` stand above the one at `address`."""
    return next(i for i, placed in enumerate(path) if placed.address == address)


def each[T](values: dict[str, T]) -> PerEinsum[T]:
    """One value for each Einsum, written once where all are equal."""
    distinct = set(values.values())
    return PerEinsum(distinct.pop()) if len(distinct) == 1 else PerEinsum(by_einsum=tuple(values.items()))
