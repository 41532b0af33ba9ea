"""Mapping: a complete LoopTree, the path above a node, the part of one Einsum."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from functools import cached_property

from einmap.mapping.nodes import Address, Compute, Node, Pipeline, Spatial, Split, Storage, Temporal, Toll
from einmap.visible import brief


@dataclass(frozen=True)
class PlacedNode:
    """A node and where it stands."""

    address: Address
    node: Node

    @cached_property
    def held(self) -> frozenset[str]:
        """The tensors that a storage node or toll names. One above a split may name those of a thousand Einsums."""
        return frozenset(self.node.tensors if isinstance(self.node, Storage | Toll) else ())

    @cached_property
    def first_named(self) -> MappingOf[str, int]:
        """The tensors that a node names, with the place of each in its list (the first if there are several)."""
        named = self.node.tensors if isinstance(self.node, Storage | Toll) else ()
        return {tensor: i for i, tensor in reversed([*enumerate(named)])}


@dataclass(frozen=True)
class Mapping:
    """A complete LoopTree: `nodes` from the root down, each the parent of the next; only the last may split.

    Every loop has its tile shape. Partial trees and templates are other types (`template`).
    """

    __repr__ = brief

    nodes: tuple[Node, ...]

    @cached_property
    def paths(self) -> tuple[tuple[PlacedNode, ...], ...]:
        """For each leaf, in written order, the nodes from the root to it, splits included."""
        return self._walked[1]

    @cached_property
    def path_of(self) -> MappingOf[str, tuple[PlacedNode, ...]]:
        """The path of each Einsum that a Compute node names (the first one if there are several)."""
        paths: dict[str, tuple[PlacedNode, ...]] = {}
        for path in self.paths:
            last = path[-1].node
            if isinstance(last, Compute):
                paths.setdefault(last.einsum, path)
        return paths

    @cached_property
    def paths_in(self) -> MappingOf[Address, MappingOf[str, tuple[PlacedNode, ...]]]:
        """Paths by the lists of nodes that they lead through: the root's is (), a branch's the split's address and
        its number.
        """
        paths: dict[Address, dict[str, tuple[PlacedNode, ...]]] = {}
        for name, path in self.path_of.items():
            for listed in {placed.address[:-1] for placed in path}:
                paths.setdefault(listed, {})[name] = path
        return paths

    @cached_property
    def placed(self) -> tuple[PlacedNode, ...]:
        """All nodes, parents before children, in written order."""
        return self._walked[0]

    @cached_property
    def _walked(self) -> tuple[tuple[PlacedNode, ...], tuple[tuple[PlacedNode, ...], ...]]:
        placed: list[PlacedNode] = []
        paths: list[tuple[PlacedNode, ...]] = []
        _walk(self.nodes, (), (), placed, paths)
        return tuple(placed), tuple(paths)

    @cached_property
    def loops(self) -> tuple[PlacedNode, ...]:
        """All temporal and spatial loops, parents before children, in written order."""
        return tuple(placed for placed in self.placed if isinstance(placed.node, Temporal | Spatial))

    @cached_property
    def times_held(self) -> Counter[tuple[str, str]]:
        """How many storage nodes of each memory hold each tensor, by (memory, tensor)."""
        nodes = [placed.node for placed in self.placed if isinstance(placed.node, Storage)]
        return Counter((node.component, tensor) for node in nodes for tensor in dict.fromkeys(node.tensors))

    @cached_property
    def is_pipelined(self) -> bool:
        """Whether a Pipeline stands in it."""
        return any(isinstance(placed.node, Pipeline) for placed in self.placed)

    def at(self, address: Address) -> Node:
        """The node at `address`. Raises IndexError or LookupError."""
        for placed in self.placed:
            if placed.address == address:
                return placed.node
        raise LookupError(f"no node at {address}")


def _walk(
    nodes: tuple[Node, ...],
    prefix: Address,
    above: tuple[PlacedNode, ...],
    placed: list[PlacedNode],
    paths: list[tuple[PlacedNode, ...]],
) -> None:
    """Add all nodes of a list and of its branches to `placed`, and to `paths` what leads to each leaf."""
    way = list(above)
    ends = True
    for index, node in enumerate(nodes):
        here = PlacedNode((*prefix, index), node)
        placed.append(here)
        way.append(here)
        if isinstance(node, Split):
            for branch, inner in enumerate(node.branches):
                _walk(inner, (*here.address, branch), tuple(way), placed, paths if ends else [])
            ends = False
    if ends:
        paths.append(tuple(way))
