"""Mappings of the Einsums of a workload put together into one tree that fuses nothing."""

from __future__ import annotations

from dataclasses import replace

from einmap.arch.constraint import Names
from einmap.arch.tree import outermost_memory
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.spec.spec import Spec


def joined(spec: Spec, whole: Names, parts: list[LoopTree]) -> LoopTree:
    """One tree: what the outermost memory holds stands above the split, the rest in a branch each.

    `whole`: tensors that Einsums exchange whole below the outermost memory.
    """
    if len(parts) == 1:
        return parts[0]
    held_outside: dict[tuple[str, bool], dict[str, None]] = {}
    branches = []
    for part in parts:
        lead = 0
        last = part.nodes[-1]
        assert isinstance(last, tree.Compute)
        outer = outermost_memory(spec.arch(last.einsum).path(last.component))
        for node in part.nodes:
            if not (isinstance(node, tree.Storage) and outer is not None and node.component == outer.name):
                break
            held_outside.setdefault((node.component, node.persistent), {}).update(dict.fromkeys(node.tensors))
            lead += 1
        branches.append(_without(whole, part.nodes[lead:], held_outside))
    storage = [tree.Storage(tuple(tensors), name, lasting) for (name, lasting), tensors in held_outside.items()]
    return LoopTree((*_once(storage), tree.Sequential(tuple(branches))))


def _without(
    exchanged: Names, nodes: tuple[tree.Node, ...], held_outside: dict[tuple[str, bool], dict[str, None]]
) -> tuple[tree.Node, ...]:
    """A branch without the outermost nodes of tensors that are exchanged whole: these stand above the split.

    `held_outside`: tensors held above the split, by memory and whether they are persistent; takes these nodes' tensors.
    """
    seen = {tensor for tensors in held_outside.values() for tensor in tensors}
    kept: list[tree.Node] = []
    seen_here: set[str] = set()
    for node in nodes:
        if isinstance(node, tree.Storage):
            whole = [t for t in node.tensors if t in exchanged and t not in seen_here]
            seen_here.update(node.tensors)
            inside = [t for t in whole if t not in seen or t in held_outside.get((node.component, node.persistent), {})]
            held_outside.setdefault((node.component, node.persistent), {}).update(dict.fromkeys(inside))
            rest = tuple(t for t in node.tensors if t not in inside)
            if rest:
                kept.append(replace(node, tensors=rest))
        else:
            kept.append(node)
    return tuple(kept)


def _once(storage: list[tree.Storage]) -> list[tree.Storage]:
    """A tensor that is persistent for one Einsum is held persistently, once."""
    seen: set[str] = set()
    nodes = []
    for node in sorted(storage, key=lambda node: not node.persistent):
        tensors = tuple(t for t in node.tensors if t not in seen)
        seen.update(tensors)
        if tensors:
            nodes.append(replace(node, tensors=tensors))
    return nodes
