"""A mapping of one Einsum, as it is for another one that is the same but for names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from einmap.einsum.isomorphism import Renaming
from einmap.mapping.nodes import Compute, Node, PerEinsum, Spatial, Split, Storage, Temporal, Toll


def renamed_nodes(nodes: Iterable[Node], names: Renaming) -> tuple[Node, ...]:
    """The nodes above one Einsum with the names of another."""
    return tuple([_renamed(node, names) for node in nodes])


def _renamed(node: Node, names: Renaming) -> Node:
    match node:
        case Storage() | Toll():
            return replace(node, tensors=tuple([names.tensors[t] for t in node.tensors]))
        case Temporal() | Spatial():
            old = node.rank_variable.default
            new = names.variables[str(old)]
            # layers mostly use the same letters
            return node if new == old else replace(node, rank_variable=PerEinsum(new))
        case Compute():
            return replace(node, einsum=names.new.name)
        case Split():
            raise TypeError("a split stands above several Einsums")
