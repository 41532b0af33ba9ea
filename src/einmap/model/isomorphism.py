"""Einsums that see the same of a mapping but for names, layers of a network say: one is counted for all of them."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import replace
from typing import assert_never

from einmap.einsum.isomorphism import Positions, Renaming
from einmap.einsum.workload import Workload
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.mapping.mapping import PlacedNode
from einmap.mapping.nodes import Address, Compute, Spatial, Split, Storage, Temporal, Toll
from einmap.model.counting.sliding import Slides
from einmap.model.occupancy.occupancy import Buffer

type Nodes = tuple[PlacedNode, ...]
"""The nodes on the path of an Einsum."""


def alike(tree: LoopTree, workload: Workload, likes: Mapping[str, str], order: tuple[str, ...]) -> Mapping[str, str]:
    """For each Einsum of `order` the first one for which everything is the same but for names; perhaps itself.

    Two Einsums are alike if they are so in the specification (`likes`: the first such Einsum), their paths through
    the tree are, and for each of their tensors all its users are, as well as which nodes those users share. No rule
    of the model looks further than from an Einsum to the other users of its tensors. Every Einsum of the workload is
    mapped once, and none is a part of a recurrence; where that does not hold, no Einsum is alike to another.
    """
    named = {t for placed in tree.placed if isinstance(placed.node, Storage | Toll) for t in placed.node.tensors}
    if (
        len(tree.paths) != len(workload.einsums)
        or tree.path_of.keys() != workload.by_name.keys()
        or not (named <= workload.users.keys())
        or workload.recurrences
    ):
        return {name: name for name in order}
    numbers: dict[Hashable, int] = {}

    def number(key: Hashable) -> int:
        return numbers.setdefault(key, len(numbers))

    path_numbers = {}
    for name, path in tree.path_of.items():
        einsum = workload.by_name[name]
        # a copy shares buffers with its source, whoever uses that
        alone = name if einsum.is_copy else None
        path_numbers[name] = number((alone, likes[name], tuple(_nodes(path, Positions(einsum)))))
    position = {name: i for i, name in enumerate(order)}
    groups, place = {}, {}
    for tensor, users in _users(tree, workload).items():
        for i, name in enumerate(users):
            place[name, tensor] = i
        groups[tensor] = number(_group(tensor, users, path_numbers, tree, workload, position))
    firsts: dict[Hashable, str] = {}
    representatives = {}
    for name in order:
        tensors = [access.tensor for access in workload.by_name[name].accesses]
        key = path_numbers[name], tuple([(groups[t], place[name, t]) for t in tensors])
        representatives[name] = firsts.setdefault(key, name)
    return representatives


def _users(tree: LoopTree, workload: Workload) -> dict[str, list[str]]:
    """The Einsums that access each tensor, in the order of their branches."""
    users: dict[str, list[str]] = {}
    for name in tree.path_of:
        for access in workload.by_name[name].accesses:
            users.setdefault(access.tensor, []).append(name)
    return users


def _nodes(path: Nodes, positions: Positions) -> Iterator[Hashable]:
    """Meaning of each node on a path for the Einsum, by position."""
    name, tensors, variables = positions.einsum.name, positions.tensors, positions.variables
    for placed in path:
        node = placed.node
        if isinstance(node, (Storage, Toll)):
            twice: Hashable = False
            if len(node.tensors) > len(tensors):
                first = placed.first_named
                twice = len(first) < len(node.tensors) and tuple(map(node.tensors.count, tensors))
                held = [i for _, i in sorted((first[t], i) for t, i in tensors.items() if t in first)]
            else:
                held = [tensors[t] for t in node.tensors if t in tensors]
            how = (node.persistent, node.sliding_window) if isinstance(node, Storage) else None
            yield node.component, tuple(held), how, twice
        elif isinstance(node, Temporal):
            variable = variables.get(node.rank_variable.of(name) or "")
            yield "temporal", variable, node.tile_shape.of(name), node.initial_tile_shape.of(name)
        elif isinstance(node, Spatial):
            variable = variables.get(node.rank_variable.of(name) or "")
            yield "spatial", variable, node.tile_shape.of(name), node.component, node.name
        elif isinstance(node, Compute):
            yield "compute", node.component
        elif isinstance(node, Split):
            yield "split"
        else:
            assert_never(node)


def _group(
    tensor: str,
    users: list[str],
    path_numbers: Mapping[str, int],
    tree: LoopTree,
    workload: Workload,
    order: Mapping[str, int],
) -> Hashable:
    """All users of a tensor, by position: how each is mapped and accesses it, and the nodes shared with the one before.

    As branches are listed in order, that says which nodes any two of them share.
    """
    ranks: dict[str, int] = {}
    run = sorted(users, key=order.__getitem__)
    key: list[Hashable] = [tuple(map(users.index, run)) if run != users else None]
    before: Nodes = ()
    for name in users:
        einsum, path = workload.by_name[name], tree.path_of[name]
        access = einsum.by_tensor[tensor]
        indices = tuple([ranks.setdefault(rank, len(ranks)) for rank, _ in access.projection])
        shared, before = _common(before, path), path
        which = next(i for i, other in enumerate(einsum.accesses) if other is access)
        key.append((path_numbers[name], which, indices, shared))
    return tuple(key)


def _common(path: Nodes, other: Nodes) -> int:
    """The number of nodes that two paths have in common."""
    n = 0
    for a, b in zip(path, other, strict=False):
        if a is not b:
            break
        n += 1
    return n


def renamed_buffers(buffers: tuple[Buffer, ...], names: Renaming, old: Nodes, new: Nodes) -> tuple[Buffer, ...]:
    """The buffers of an Einsum that is alike; `old` and `new`: the two paths."""
    einsum, tensors, to = names.new.name, names.tensors, _addresses(old, new)
    return tuple(replace(b, einsum=einsum, tensor=tensors[b.tensor], address=to[b.address]) for b in buffers)


def renamed_slides(slides: Slides, names: Renaming, old: Nodes, new: Nodes) -> Slides:
    """The nodes that slide for an Einsum that is alike, with the loops."""
    to = _addresses(old, new)
    return {
        (names.tensors[tensor], to[node]): to[loop]
        for (tensor, node), loop in slides.items()
        if tensor in names.tensors and node in to
    }


def _addresses(old: Nodes, new: Nodes) -> Mapping[Address, Address]:
    return {a.address: b.address for a, b in zip(old, new, strict=True)}
