"""Graph inputs with several users: copies for the search, and what is left of them in the mapping found.

Every such input gets a copy Einsum that may be left out. In a mapping where it is, the input has its own name again,
and the mapping is one of the workload without that copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from einmap.arch.component import Leaf, Memory, Toll
from einmap.arch.constraint import DeferredSet, Names
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import EinmapError
from einmap.mapper.branch_and_bound.isomorphism import leaves_key
from einmap.mapper.mapspace.dataplacement import choices
from einmap.mapper.mapspace.enumeration import InOrder
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.spec.shared_inputs import shareable
from einmap.spec.spec import Spec


@dataclass(frozen=True)
class Sharing:
    """A specification with copies. `copies`: the name of each by that of its input.

    `covers`: every mapping without copies is one with copies that are left out. It is not so if the architecture
    treats an intermediate tensor differently, beyond letting it leave the outermost memory.
    """

    original: Spec
    spec: Spec
    copies: Mapping[str, str]
    covers: bool

    def settled(self, mapping: LoopTree) -> tuple[Spec, LoopTree, tuple[str, ...]]:
        """A mapping found with the specification that it belongs to, and the inputs that are copied.

        Copies that are left out are no part of either.
        """
        used = {tensor: name for tensor, name in self.copies.items() if name in mapping.path_of}
        idle = {name: tensor for tensor, name in self.copies.items() if name not in mapping.path_of}
        spec = self.original
        if used:
            spec = self.spec if not idle else self.original.with_shared_inputs(used)
        return spec, LoopTree(_renamed(mapping.nodes, idle)) if idle else mapping, tuple(used)


def sharing(spec: Spec) -> Sharing | None:
    """The specification with a copy of every input that can be shared; None when there is none."""
    copies: dict[str, str] = {}
    with_copies = spec
    for tensor, name in shareable(spec.workload).items():
        attempt = spec.with_shared_inputs({**copies, tensor: name})
        if _is_sound(attempt):
            copies[tensor], with_copies = name, attempt
    if not copies:
        return None
    users = [e for e in spec.workload.einsums if e.tensors & copies.keys()]
    covers = all(_covers(spec, with_copies, e, copies) for e in users)
    return Sharing(spec, with_copies, copies, covers)


def not_shared(spec: Spec, shared: Sharing | None, why: str = "renames do not fit a copy of it") -> tuple[str, ...]:
    """Mappings not searched since inputs that could have a copy have none, in words; empty where each has one."""
    copied = shared.copies if shared is not None else {}
    names = [tensor for tensor in shareable(spec.workload) if tensor not in copied]
    return (f"mappings that fill {' or '.join(names)} once for all Einsums that read it: {why}",) if names else ()


def _is_sound(spec: Spec) -> bool:
    """Whether the specification can be bound: renames, say, may expect something that copies are not.

    Sets of what memories keep are evaluated late, so that they are tried here.
    """
    try:
        bound = spec.bound
        for einsum in spec.workload.einsums:
            for unit in bound[einsum.name].arch.computes if einsum.is_copy else ():
                next(choices(einsum, bound[einsum.name].arch.path(unit.name), frozenset(), InOrder()), None)
    except EinmapError:
        return False
    return True


def _renamed(nodes: tuple[tree.Node, ...], names: Mapping[str, str]) -> tuple[tree.Node, ...]:
    """The nodes with other names of tensors."""
    renamed: list[tree.Node] = []
    for node in nodes:
        if isinstance(node, tree.Split):
            renamed.append(replace(node, branches=tuple([_renamed(branch, names) for branch in node.branches])))
        elif isinstance(node, (tree.Storage, tree.Toll)) and not names.keys().isdisjoint(node.tensors):
            renamed.append(replace(node, tensors=tuple([names.get(t, t) for t in node.tensors])))
        else:
            renamed.append(node)
    return tuple(renamed)


# whether nothing is lost


def _covers(old: Spec, new: Spec, einsum: Einsum, copies: Mapping[str, str]) -> bool:
    """Whether a user of copies may do all that it could with the inputs themselves."""
    after = new.workload.by_name[einsum.name]
    before_arch, after_arch = old.bound[einsum.name].arch, new.bound[einsum.name].arch
    if leaves_key(einsum, before_arch) != leaves_key(after, after_arch):
        return False
    names = {t: copies.get(t, t) for t in einsum.tensors}
    outside = einsum.tensors - old.workload.intermediates
    outside_now = after.tensors - new.workload.intermediates
    for before, now in zip(_paths(before_arch), _paths(after_arch), strict=True):
        possible = {_frozen(held) for held in choices(after, now, outside_now, InOrder())}
        for held in choices(einsum, before, outside, InOrder()):
            there = {name: frozenset(names[t] for t in kept) for name, kept in held.items()}
            if _frozen(there) not in possible or not _alike(before, now, held, there, names):
                return False
    return True


def _paths(arch: Architecture) -> list[tuple[Leaf, ...]]:
    return [arch.path(unit.name) for unit in arch.computes if unit.enabled]


def _frozen(held: Mapping[str, Names]) -> frozenset[tuple[str, Names]]:
    return frozenset(held.items())


def _alike(
    before: tuple[Leaf, ...],
    now: tuple[Leaf, ...],
    held: Mapping[str, Names],
    there: Mapping[str, Names],
    names: Mapping[str, str],
) -> bool:
    """Whether the other demands of the holders are the same for this choice of what they keep."""
    above: dict[str, Names] = {}
    above_there: dict[str, Names] = {}
    for old, new in zip(before, now, strict=True):
        if not isinstance(old, Memory | Toll):
            continue
        for a, b in zip(_demands(old), _demands(new), strict=True):
            if frozenset(names.get(t, t) for t in a.given(above)) != b.given(above_there):
                return False
        above[old.name], above_there[old.name] = held[old.name], there[old.name]
    return True


def _demands(holder: Any) -> Iterator[DeferredSet]:
    placement = holder.placement
    yield placement.no_refetch_from_above
    yield placement.no_resend_to_below
    for option in placement.order_options:
        yield from option
