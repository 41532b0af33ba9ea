"""How one LoopTree differs from another: nodes added, removed, moved, and loops with other tile shapes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import groupby
from typing import Literal

from einmap.mapping.mapping import Mapping
from einmap.mapping.nodes import Address, Compute, Node, Pipeline, Spatial, Split, Storage, Temporal, Toll
from einmap.mapping.pretty import describe, manner, manner_of_split

type Key = tuple[object, ...]


@dataclass(frozen=True, slots=True)
class NodeChange:
    """One difference. `before` and `after`: what the node says and where it stands; None where it is missing."""

    kind: Literal["added", "removed", "moved", "changed"]
    what: str
    before: str | None
    before_at: Address | None
    after: str | None
    after_at: Address | None


@dataclass(frozen=True, slots=True)
class _Item:
    """A node, or one tensor of a storage node; nodes with equal keys are the same one."""

    key: Key
    what: str
    text: str
    address: Address


def tree_changes(before: Mapping, after: Mapping) -> tuple[NodeChange, ...]:
    """The differences in the order of `after`, what is gone at its old place.

    Nodes are aligned by kind, rank variable, component and tensor: the longest common sequence stays, what stands
    elsewhere has moved. Tensors of one memory's storage nodes side by side are compared one by one, in any order.
    """
    old, new = tuple(_items(before.nodes, ())), tuple(_items(after.nodes, ()))
    matcher = SequenceMatcher(None, [item.key for item in old], [item.key for item in new], autojunk=False)
    gone: list[_Item] = []
    come: list[_Item] = []
    changes: list[tuple[Address, NodeChange]] = []
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag == "equal":
            for x, y in zip(old[a:b], new[c:d], strict=True):
                if x.text != y.text:
                    changes.append((y.address, _change("changed", x, y)))
            continue
        gone += old[a:b]
        come += new[c:d]
    for y in come:
        moved = next((x for x in gone if x.key == y.key), None)
        if moved is not None:
            gone.remove(moved)
        if y.what:
            changes.append((y.address, _change("added" if moved is None else "moved", moved, y)))
    changes += [(x.address, _change("removed", x, None)) for x in gone if x.what]
    return tuple(change for _, change in sorted(changes, key=lambda pair: pair[0]))


def _change(
    kind: Literal["added", "removed", "moved", "changed"], before: _Item | None, after: _Item | None
) -> NodeChange:
    item, *_ = [side for side in (after, before) if side is not None]
    old = (before.text, before.address) if before else (None, None)
    new = (after.text, after.address) if after else (None, None)
    return NodeChange(kind, item.what, *old, *new)


def _items(nodes: tuple[Node, ...], prefix: Address) -> Iterator[_Item]:
    """Nodes in written order; tensors of storage nodes of one memory side by side by name."""
    for (kind, _), group in groupby(_in_order(nodes, prefix), lambda item: (item.key[0], item.key[2:])):
        side_by_side = list(group)
        if kind == "storage":
            side_by_side.sort(key=lambda item: str(item.key))
        yield from side_by_side


def _in_order(nodes: tuple[Node, ...], prefix: Address) -> Iterator[_Item]:
    for index, node in enumerate(nodes):
        address = (*prefix, index)
        match node:
            case Split(branches=branches):
                if isinstance(node, Pipeline):
                    yield _Item(("pipeline",), "pipeline", manner_of_split(node), address)
                for b, branch in enumerate(branches):
                    # aligns branches with branches; a branch is told by what stands in it
                    yield _Item(("branch", _first_einsum(branch)), "", "", (*address, b))
                    yield from _in_order(branch, (*address, b))
            case Storage(tensors=tensors, component=component):
                for tensor in tensors:
                    text = f"{tensor} in {component}{manner(node)}"
                    yield _Item(("storage", tensor, component), f"{tensor} in {component}", text, address)
            case Toll(tensors=tensors, component=component):
                for tensor in sorted(tensors):
                    text = f"{tensor} through {component}"
                    yield _Item(("toll", tensor, component), text, text, address)
            case Temporal(rank_variable=variable):
                yield _Item(("for", str(variable)), f"for {variable}", describe(node), address)
            case Spatial(rank_variable=variable, component=component, name=name):
                what = f"spatial-for {variable} on {component}.{name}"
                yield _Item(("spatial-for", str(variable), component, name), what, describe(node), address)
            case Compute(einsum=einsum):
                yield _Item(("compute", einsum), f"compute {einsum}", describe(node), address)


def _first_einsum(nodes: tuple[Node, ...]) -> str:
    last = nodes[-1]
    if isinstance(last, Split):
        return _first_einsum(last.branches[0])
    return last.einsum if isinstance(last, Compute) else ""
