"""Pointing into a mapping: addresses, and names where they are unambiguous.

A loop is `m` (the only one over this rank variable), `m#2` (the second one in written order) or `nodes[3]`; tensors in
a storage node are `A@GLB`, `A,B@GLB`, `A@nodes[1]` or `nodes[1]` (all that it holds).
"""

from __future__ import annotations

from dataclasses import dataclass

from einmap.errors import At, MappingError, did_you_mean
from einmap.mapping.mapping import Mapping, PlacedNode
from einmap.mapping.nodes import (
    Address,
    LoopNode,
    Spatial,
    Split,
    Storage,
    Temporal,
    format_address,
    parse_address,
)
from einmap.visible import listed

type Ref = Address | str


@dataclass(frozen=True, slots=True)
class PlacedLoop:
    """A loop and where it stands."""

    address: Address
    node: LoopNode


@dataclass(frozen=True, slots=True)
class Held:
    """Some or all tensors of a storage node."""

    address: Address
    node: Storage
    tensors: tuple[str, ...]


def at(address: Address) -> At:
    """The place of a node, for messages."""
    return At(path=f"mapping.{format_address(address)}")


def refuse(text: str, address: Address, hint: str | None = None) -> MappingError:
    """The error to raise where a rewrite does not apply to the node at `address`."""
    return MappingError(text, at=at(address), hint=hint)


def variables(node: LoopNode) -> tuple[str, ...]:
    """The rank variables that a loop names."""
    names = [name for _, name in node.rank_variable.by_einsum]
    return tuple(dict.fromkeys([*names, *([node.rank_variable.default] if node.rank_variable.default else [])]))


def find_node(mapping: Mapping, ref: Ref) -> PlacedNode:
    """The node at an address, or the loop of a name. Raises MappingError."""
    address = _address(ref)
    if address is None:
        loop = find_loop(mapping, ref)
        return PlacedNode(loop.address, loop.node)
    for placed in mapping.placed:
        if placed.address == address:
            return placed
    hint = f"the outermost nodes are nodes[0] to nodes[{len(mapping.nodes) - 1}]"
    raise MappingError(f"the mapping has no node {format_address(address)}", at=At(path="mapping"), hint=hint)


def find_loop(mapping: Mapping, ref: Ref) -> PlacedLoop:
    """The loop that `ref` names. Raises MappingError when there is none, or more than one."""
    if _address(ref) is not None:
        placed = find_node(mapping, ref)
        if not isinstance(placed.node, Temporal | Spatial):
            raise refuse("this is not a loop", placed.address, "name a Temporal or Spatial node, or its rank variable")
        return PlacedLoop(placed.address, placed.node)
    assert isinstance(ref, str)
    name, _, number = ref.partition("#")
    loops = [PlacedLoop(p.address, p.node) for p in mapping.placed if isinstance(p.node, Temporal | Spatial)]
    matches = [loop for loop in loops if name in variables(loop.node)]
    if not matches:
        hint = did_you_mean(name, (v for loop in loops for v in variables(loop.node)), listing="loops over")
        raise MappingError(f"the mapping has no loop over {name!r}", at=At(path="mapping"), hint=hint)
    if number.isdecimal() and 1 <= int(number) <= len(matches):
        return matches[int(number) - 1]
    if number or "#" in ref or len(matches) > 1:
        listing = listed(f"{name}#{i} is {format_address(loop.address)}" for i, loop in enumerate(matches, start=1))
        says = f"{ref!r} names no loop" if "#" in ref else f"{ref!r} names {len(matches)} loops"
        raise MappingError(says, at=At(path="mapping"), hint=listing)
    return matches[0]


def find_split(mapping: Mapping, ref: Ref | None) -> tuple[Address, Split]:
    """The split at an address; the only one of the mapping when `ref` is None. Raises MappingError."""
    splits = [(p.address, p.node) for p in mapping.placed if isinstance(p.node, Split)]
    if ref is None:
        if len(splits) == 1:
            return splits[0]
        shown = ", ".join(format_address(address) for address, _ in splits)
        hint = f"name one of them: {shown}" if splits else None
        raise MappingError(f"the mapping has {len(splits) or 'no'} splits", at=At(path="mapping"), hint=hint)
    placed = find_node(mapping, ref)
    if not isinstance(placed.node, Split):
        hint = f"splits: {', '.join(format_address(address) for address, _ in splits) or 'none'}"
        raise refuse("this is not a split", placed.address, hint)
    return placed.address, placed.node


def find_storage(mapping: Mapping, ref: Ref) -> Held:
    """The tensors in a storage node that `ref` names. Raises MappingError when there are none, or several nodes."""
    if _address(ref) is not None:
        placed = find_node(mapping, ref)
        if not isinstance(placed.node, Storage):
            raise refuse("this is not a storage node", placed.address, "name a Storage node, or a tensor: A@GLB")
        return Held(placed.address, placed.node, placed.node.tensors)
    tensors, where = tensors_at(ref)
    if _address(where) is not None:
        held = find_storage(mapping, where)
        missing = [t for t in tensors if t not in held.node.tensors]
        if missing:
            hint = did_you_mean(missing[0], held.node.tensors, listing="it holds")
            raise refuse(f"{held.node.component} does not hold {missing[0]!r} here", held.address, hint)
        return Held(held.address, held.node, tensors)
    return _named(mapping, tensors, where)


def _named(mapping: Mapping, tensors: tuple[str, ...], component: str) -> Held:
    nodes = [(p.address, p.node) for p in mapping.placed if isinstance(p.node, Storage)]
    matches = [Held(a, n, tensors) for a, n in nodes if n.component == component and set(tensors) <= set(n.tensors)]
    if len(matches) == 1:
        return matches[0]
    shown = ",".join(tensors)
    if matches:
        hint = "name one: " + listed(f"{shown}@{format_address(h.address)}" for h in matches)
        raise MappingError(f"{len(matches)} nodes hold {shown} in {component}", at=At(path="mapping"), hint=hint)
    of_component = [n for _, n in nodes if n.component == component]
    if not of_component:
        hint = did_you_mean(component, (n.component for _, n in nodes), listing="memories that hold something")
        raise MappingError(f"no node holds anything in {component!r}", at=At(path="mapping"), hint=hint)
    held = {t for n in of_component for t in n.tensors}
    unknown = [t for t in tensors if t not in held]
    if unknown:
        hint = did_you_mean(unknown[0], held, listing=f"{component} holds")
        raise MappingError(f"no node holds {unknown[0]!r} in {component!r}", at=At(path="mapping"), hint=hint)
    text = f"no node holds all of {shown} in {component!r}"
    raise MappingError(text, at=At(path="mapping"), hint="name them one at a time")


def tensors_at(ref: Ref) -> tuple[tuple[str, ...], str]:
    """`A,B@GLB` as tensors and memory. Raises MappingError."""
    names, sign, where = ref.partition("@") if isinstance(ref, str) else ("", "", "")
    tensors = tuple(name.strip() for name in names.split(","))
    if not sign or not where or not all(tensors):
        hint = "write tensors and memory, for example A@GLB or A,B@GLB"
        raise MappingError(f"{ref!r} names no tensor in a memory", at=At(path="mapping"), hint=hint)
    return tuple(dict.fromkeys(tensors)), where.strip()


def _address(ref: Ref) -> Address | None:
    """None for a name. Raises MappingError for text that is neither."""
    if isinstance(ref, tuple):
        return ref
    if not ref.startswith("nodes["):
        return None
    try:
        return parse_address(ref)
    except ValueError as error:
        raise MappingError(str(error), at=At(path="mapping")) from None
