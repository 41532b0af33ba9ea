"""Einsums that are alike: equal but for names, so that one search serves all of them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from einmap.arch.component import Compute, Container, Leaf, Memory, Toll
from einmap.arch.constraint import Comparison, Names
from einmap.einsum.einsum import Einsum
from einmap.mapper.mapspace import Mapspace, Subspace
from einmap.mapping import nodes as tree
from einmap.mapping.template import OpenSpatial, OpenTemporal


def canonical_key(space: Mapspace) -> Any:
    """Equal for two whole mapspaces iff they are the same up to names of tensors and rank variables.

    Subspaces are made in an order that depends on positions only, so a point of one is a point of the other.
    """
    einsum = space.einsum
    # two truncated ones hold different parts, and to compare them would cost time that is short
    if space.truncated or any(
        c.total_latency is not None and _speaks_of(c.total_latency.text, einsum) for c in space.arch.components.values()
    ):
        return ("own", einsum.name)
    names = _Names(einsum)
    return (
        names.einsum(),
        tuple(names.leaf(leaf) for leaf in space.arch.leaves.values()),
        repr(_shape(space.arch.nodes)),
        tuple(names.subspace(s) for s in space.subspaces),
    )


def _speaks_of(text: str, einsum: Einsum) -> bool:
    return any(name in text for name in (*einsum.tensors, "Inputs", "Outputs", "All", "Shared", "Intermediates"))


def _shape(nodes: Any) -> Any:
    return [(type(n).__name__, getattr(n, "name", None) or _shape(n.nodes)) for n in nodes]


class _Names:
    """Tensors and rank variables by position."""

    def __init__(self, einsum: Einsum) -> None:
        self.of_einsum = einsum
        self.tensor = {access.tensor: i for i, access in enumerate(einsum.accesses)}
        self.variable = {v: i for i, v in enumerate(einsum.rank_variables)}

    def einsum(self) -> Any:
        e = self.of_einsum
        accesses = tuple(
            (
                tuple((tuple((self.variable[v], a) for v, a in index.terms)) for _, index in access.projection),
                access.output,
                access.bits_per_value,
                access.persistent,
            )
            for access in e.accesses
        )
        return accesses, tuple(b for _, b in e.bounds), e.is_copy

    def tensors(self, names: Names) -> Any:
        return tuple(sorted(self.tensor[n] for n in names if n in self.tensor))

    def pairs(self, pairs: Any) -> Any:
        return tuple(sorted((self.tensor[t], value) for t, value in pairs))

    def limits(self, limits: tuple[Comparison, ...]) -> Any:
        return tuple((tuple(sorted(self.variable[v] for v in c.variables)), c.operator, c.value) for c in limits)

    def leaf(self, leaf: Leaf) -> Any:
        spatial = tuple(
            (d.name, d.fanout, self.tensors(d.may_reuse), d.usage_scale, d.power_gateable) for d in leaf.spatial
        )
        if isinstance(leaf, Container):
            return leaf.name, spatial
        actions = tuple((a.name, a.energy, a.throughput, self.pairs(a.per_value)) for a in leaf.actions)
        common = (leaf.name, spatial, actions, leaf.leak_power, leaf.enabled, leaf.actions_scale)
        latency = None if leaf.total_latency is None else leaf.total_latency.text
        own: Any = None
        match leaf:
            case Memory():
                limits = self.limits(leaf.placement.tile_shape) if leaf.placement else ()
                own = (
                    leaf.size_bits,
                    self.pairs(leaf.bits_per_value),
                    leaf.skip_initial_output_write,
                    limits,
                )
            case Toll():
                own = self.pairs(leaf.direction)
            case Compute():
                own = leaf.skip_initial_output_write
        return (*common, latency, own)

    def subspace(self, subspace: Subspace) -> Any:
        lanes = tuple(replace(c, variable=str(self.variable[c.variable])) for c in subspace.spatial)
        return hash((lanes, tuple(self.node(n) for n in subspace.template.nodes)))

    def node(self, node: Any) -> Any:
        match node:
            case OpenTemporal(rank_variable=v):
                return self.variable[v]
            case OpenSpatial(rank_variable=v, component=component, name=name):
                return self.variable[v], component, name
            case tree.Storage(tensors=tensors, component=component, persistent=persistent):
                return tuple(self.tensor[t] for t in tensors), component, persistent
            case tree.Toll(tensors=tensors, component=component):
                return tuple(self.tensor[t] for t in tensors), component
            case _:
                return type(node).__name__
