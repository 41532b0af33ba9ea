"""Einsums that are alike: equal but for names, so that one search serves all of them."""

from __future__ import annotations

import re
from collections.abc import Mapping as Map
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from einmap.arch.component import Compute, Container, Leaf, Memory, Toll
from einmap.arch.constraint import AdjustedSet, Comparison, DeferredSet, Names
from einmap.arch.tree import Architecture
from einmap.einsum.einsum import Einsum
from einmap.errors import ExpressionError
from einmap.expressions.sets import NameSet
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapping import nodes as tree
from einmap.mapping.mapping import Mapping

_NAME = re.compile(r"[A-Za-z_]\w*")


def canonical_key(einsum: Einsum, arch: Architecture, paths: Sequence[Path]) -> Any:
    """Equal for two Einsums only if their searches are the same up to names of tensors and rank variables."""
    names = _Names(einsum)
    plans = tuple(hash(tuple(names.plan(plan) for plan in path.plans)) for path in paths)
    return tables_key(einsum, arch, paths), plans


def tables_key(einsum: Einsum, arch: Architecture, paths: Sequence[Path]) -> Any:
    """Equal for two Einsums only if dataplacements that they both have are searched alike, up to names."""
    if any(
        c.total_latency is not None and _speaks_of(c.total_latency.text, einsum) for c in arch.components.values()
    ) or not all(path.all_plans for path in paths):
        return ("own", einsum.name)
    names = _Names(einsum)
    return (
        names.einsum(),
        tuple(names.leaf(leaf) for leaf in arch.leaves.values()),
        repr(_shape(arch.nodes)),
        tuple(names.path(path) for path in paths),
    )


def plan_key(einsum: Einsum, plan: ChainTemplate) -> Any:
    """Equal for dataplacements that are the same, of Einsums that have their tables in common."""
    return _Names(einsum).plan(plan)


def leaves_key(einsum: Einsum, arch: Architecture) -> Any:
    """Equal for two Einsums with equal numbers, up to names, but perhaps other choices of what memories keep."""
    names = _Names(einsum)
    texts = [None if c.total_latency is None else c.total_latency.text for c in arch.components.values()]
    own = einsum.name if any(text is not None and _speaks_of(text, einsum) for text in texts) else None
    lanes = tuple(
        (d.name, names.tensors(d.reuse), names.limits(d.loop_bounds), d.min_usage)
        for leaf in arch.leaves.values()
        for d in leaf.spatial
    )
    return own, names.einsum(), tuple(names.leaf(leaf) for leaf in arch.leaves.values()), lanes


def rules_key(einsum: Einsum, arch: Architecture) -> Any:
    """A key of Einsums that are equal but for names, by what is written: finds fewer than `canonical_key`.

    Sets of tensors are alike if they are written alike, and each name in them means the same by position.
    """
    if any(c.total_latency is not None and _speaks_of(c.total_latency.text, einsum) for c in arch.components.values()):
        return ("own", einsum.name)
    names = _Names(einsum)
    leaves = tuple((names.leaf(leaf), names.rules(leaf)) for leaf in arch.leaves.values())
    return names.einsum(), leaves, repr(_shape(arch.nodes))


def renamed(mapping: Mapping, old: Einsum, new: Einsum) -> Mapping:
    """The mapping of an Einsum that is alike: names are exchanged by position."""
    return Mapping(tuple(renamed_nodes(mapping.nodes, old, new)))


def renamed_nodes(nodes: Sequence[tree.Node], old: Einsum, new: Einsum) -> list[tree.Node]:
    """Nodes of a mapping with the names of another Einsum."""
    tensors = {a.tensor: b.tensor for a, b in zip(old.accesses, new.accesses, strict=True)}
    variables = dict(zip(old.rank_variables, new.rank_variables, strict=True))
    return [_renamed(node, tensors, variables, new.name) for node in nodes]


def _renamed(node: tree.Node, tensors: Map[str, str], variables: Map[str, str], einsum: str) -> tree.Node:
    if isinstance(node, tree.Storage):
        return replace(node, tensors=tuple([tensors[t] for t in node.tensors]))
    if isinstance(node, tree.Temporal | tree.Spatial):
        variable = node.rank_variable.default
        name = variables[str(variable)]
        # layers mostly use the same letters
        return node if name == variable else replace(node, rank_variable=tree.PerEinsum(name))
    if isinstance(node, tree.Toll):
        return tree.Toll(tuple([tensors[t] for t in node.tensors]), node.component)
    if isinstance(node, tree.Compute):
        return tree.Compute(einsum, node.component)
    raise TypeError(f"no node of one Einsum: {node!r}")


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
        return accesses, tuple(b for _, b in e.bounds), e.is_copy, e.n_instances

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

    def rules(self, leaf: Leaf) -> Any:
        """Constraints on what is kept, and on lanes."""
        lanes = tuple((d.name, self.tensors(d.reuse), self.limits(d.loop_bounds), d.min_usage) for d in leaf.spatial)
        placement = leaf.placement if isinstance(leaf, Memory | Toll) else None
        if placement is None:
            return lanes
        kept = (placement.keep, placement.may_keep, placement.back)
        moved = (placement.no_refetch_from_above, placement.no_resend_to_below)
        sets = tuple(self.set(one) for one in (*kept, *moved))
        orders = tuple(tuple(self.set(one) for one in option) for option in placement.order_options)
        return lanes, sets, orders, placement.force_hierarchy_order

    def set(self, deferred: DeferredSet) -> Any:
        """A set as it is written, and what each name in it means."""
        text = str(deferred.source)
        meanings = tuple((name, self.meaning(deferred, name)) for name in sorted(set(_NAME.findall(text))))
        adjusted = isinstance(deferred, AdjustedSet) and (self.tensors(deferred.less), self.tensors(deferred.more))
        return text, meanings, adjusted

    def meaning(self, deferred: DeferredSet, name: str) -> Any:
        """What a name means: tensors by position, other values as they are."""
        try:
            value = deferred.scope.get(name)
        except ExpressionError:
            return "nothing"
        if isinstance(value, NameSet):
            return self.tensors(value.members)
        return value if isinstance(value, bool | int | float | str) else type(value).__name__

    def plan(self, plan: ChainTemplate) -> Any:
        """One dataplacement with the loops that its gaps may have."""
        return (
            tuple((memory, self.tensor[t]) for memory, t in plan.placement.nodes),
            plan.placement.n_outer,
            tuple((toll, self.tensors(held)) for toll, held in plan.placement.tolls),
            tuple(step.axes for step in plan.steps),
        )

    def path(self, path: Path) -> Any:
        """The lattice of a path, and the uses of the fanouts."""
        axes = tuple(
            (tuple((self.variable[v], bound) for v, bound in axis.members), axis.sizes) for axis in path.lattice.axes
        )
        return axes, path.lanes.bounds.shape, path.lanes.bounds.tobytes(), path.lanes.shapes.tobytes()
