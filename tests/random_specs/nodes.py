"""Nodes of specifications that are dictionaries, and what tests change in them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from typing import Any

import einmap

type Tree = dict[str, Any]
"""A specification, or a node of one."""
type Put = Callable[[random.Random, Tree], object]
"""Put something into a specification, at random."""


def nodes(listed: list[Tree]) -> Iterator[Tree]:
    """All nodes of an architecture or of a mapping, nested ones included, from the outside in."""
    for node in listed:
        yield node
        yield from nodes(node.get("nodes", ()))


def memories(tree: Tree) -> list[Tree]:
    """The memories, outermost first."""
    return [node for node in nodes(tree["arch"]["nodes"]) if node["type"] == "Memory"]


def dimensions(tree: Tree) -> list[Tree]:
    """All dimensions of fanouts."""
    return [dimension for node in nodes(tree["arch"]["nodes"]) for dimension in node.get("spatial", ())]


def variables(tree: Tree) -> list[str]:
    """Rank variables of an Einsum whose ranks are named after them."""
    return [rank.lower() for rank in tree["workload"]["rank_sizes"]]


def spec_of(tree: Tree) -> einmap.Spec:
    """The specification that a dictionary is, read as from a file."""
    return einmap.loads(json.dumps(tree))


def changed(rng: random.Random, given: einmap.Spec, *puts: Put) -> einmap.Spec:
    """The specification with something put into it."""
    tree = given.to_dict()
    for put in puts:
        put(rng, tree)
    return spec_of(tree)
