"""Keys of searches that are the same but for names, so that one search or set of tables serves several Einsums."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence

from einmap.arch.component import Compute, Container, Leaf, Memory, Network, Toll
from einmap.arch.constraint import AdjustedSet, Comparison, DeferredSet
from einmap.arch.tree import Architecture, Fork, Hierarchical, Node
from einmap.einsum.einsum import Einsum
from einmap.einsum.isomorphism import Positions
from einmap.errors import ExpressionError
from einmap.expressions.sets import NameSet
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.templates.chain_template import ChainTemplate

_NAME = re.compile(r"[A-Za-z_]\w*")
_SETS = ("Inputs", "Outputs", "All", "Shared", "Intermediates")


def canonical_key(einsum: Einsum, arch: Architecture, paths: Sequence[Path]) -> Hashable:
    """Equal for two Einsums only if their searches are the same up to names of tensors and rank variables."""
    positions = Positions(einsum)
    plans = tuple(hash(tuple(_plan(positions, plan) for plan in path.plans)) for path in paths)
    return tables_key(einsum, arch, paths), plans


def tables_key(einsum: Einsum, arch: Architecture, paths: Sequence[Path]) -> Hashable:
    """Equal for two Einsums only if dataplacements that they both have are searched alike, up to names."""
    if _stands_alone(arch, einsum) or not all(path.all_plans for path in paths):
        return "alone", einsum.name
    positions = Positions(einsum)
    leaves = tuple(_leaf(positions, leaf) for leaf in arch.leaves.values())
    return positions.sizes(), leaves, _shape(arch.nodes), tuple(_path(positions, path) for path in paths)


def plan_key(einsum: Einsum, plan: ChainTemplate) -> Hashable:
    """Equal for dataplacements that are the same, of Einsums that have their tables in common."""
    return _plan(Positions(einsum), plan)


def leaves_key(einsum: Einsum, arch: Architecture) -> Hashable:
    """Equal for two Einsums with equal numbers, up to names, but perhaps other choices of what memories keep."""
    positions = Positions(einsum)
    alone = einsum.name if _stands_alone(arch, einsum) else None
    leaves = tuple((_leaf(positions, leaf), _lanes(positions, leaf)) for leaf in arch.leaves.values())
    return alone, positions.sizes(), leaves


def rules_key(einsum: Einsum, arch: Architecture) -> Hashable:
    """A key of Einsums that are equal but for names, by what is written: finds fewer than `canonical_key`.

    Sets of tensors are alike if they are written alike, and each name in them means the same by position.
    """
    if _stands_alone(arch, einsum):
        return "alone", einsum.name
    positions = Positions(einsum)
    leaves = tuple((_leaf(positions, leaf), _rules(positions, leaf)) for leaf in arch.leaves.values())
    return positions.sizes(), leaves, _shape(arch.nodes)


def _stands_alone(arch: Architecture, einsum: Einsum) -> bool:
    """Whether a latency is written with names of tensors or of sets of them, or lines begin where indices do."""
    if any(isinstance(leaf, Memory) and leaf.layout for leaf in arch.leaves.values()):
        return True
    texts = [unit.total_latency.text for unit in arch.components.values() if unit.total_latency is not None]
    return any(name in text for text in texts for name in (*einsum.tensors, *_SETS))


def _shape(nodes: Iterable[Node]) -> Hashable:
    """The tree of an architecture with the names of its leaves."""
    return tuple(
        (type(node).__name__, _shape(node.nodes) if isinstance(node, Fork | Hierarchical) else node.name)
        for node in nodes
    )


def _limits(positions: Positions, limits: Iterable[Comparison]) -> Hashable:
    return tuple(
        (positions.of_variables(limit.variables), limit.operator, limit.value, limit.values) for limit in limits
    )


def _leaf(positions: Positions, leaf: Leaf) -> Hashable:
    """The numbers of a component."""
    spatial = tuple(
        (d.name, d.fanout, positions.of_tensors(d.may_reuse), d.usage_scale, d.power_gateable, d.skew)
        for d in leaf.spatial
    )
    if isinstance(leaf, Container):
        return leaf.name, spatial
    actions = tuple(
        (
            *(a.name, a.energy, a.throughput, a.startup, a.pipeline_latency),
            *(positions.by_tensor(a.per_value), positions.by_tensor(a.narrower)),
        )
        for a in leaf.actions
    )
    latency = None if leaf.total_latency is None else leaf.total_latency.text
    of_kind: Hashable = None
    match leaf:
        case Memory():
            limits = _limits(positions, leaf.placement.tile_shape) if leaf.placement else ()
            bits = positions.by_tensor(leaf.bits_per_value)
            of_kind = (
                leaf.size_bits,
                bits,
                leaf.skip_initial_output_write,
                limits,
                leaf.ports,
                leaf.buffering,
                leaf.wind_up,
                leaf.stalls,
                leaf.units,
                positions.of_tensors(leaf.replicate),
            )
        case Toll():
            of_kind = positions.by_tensor(leaf.direction)
        case Network():
            of_kind = leaf.topology, leaf.hop_latency, leaf.multicast, leaf.reduction, leaf.links, leaf.array
        case Compute():
            of_kind = leaf.skip_initial_output_write
    return leaf.name, spatial, actions, leaf.leak_power, leaf.enabled, leaf.actions_scale, latency, of_kind


def _lanes(positions: Positions, leaf: Leaf) -> Hashable:
    """Constraints on the lanes of a component."""
    return tuple(
        (d.name, positions.of_tensors(d.reuse), _limits(positions, d.loop_bounds), d.min_usage, d.vector)
        for d in leaf.spatial
    )


def _rules(positions: Positions, leaf: Leaf) -> Hashable:
    """Constraints on what is kept, and on lanes."""
    lanes = _lanes(positions, leaf)
    placement = leaf.placement if isinstance(leaf, Memory | Toll) else None
    if placement is None:
        return lanes
    kept = (placement.keep, placement.may_keep, placement.back)
    moved = (placement.no_refetch_from_above, placement.no_resend_to_below)
    sets = tuple(_set(positions, tensors) for tensors in (*kept, *moved))
    orders = tuple(tuple(_set(positions, tensors) for tensors in option) for option in placement.order_options)
    return lanes, sets, orders, placement.force_hierarchy_order


def _set(positions: Positions, deferred: DeferredSet) -> Hashable:
    """A set as it is written, and what each name in it means."""
    text = str(deferred.source)
    meanings = tuple((name, _meaning(positions, deferred, name)) for name in sorted(set(_NAME.findall(text))))
    adjusted = isinstance(deferred, AdjustedSet) and (
        positions.of_tensors(deferred.less), positions.of_tensors(deferred.more)
    )  # fmt: skip
    return text, meanings, adjusted


def _meaning(positions: Positions, deferred: DeferredSet, name: str) -> Hashable:
    """What a name means: tensors by position, other values as they are."""
    try:
        value = deferred.scope.get(name)
    except ExpressionError:
        return "nothing"
    if isinstance(value, NameSet):
        return positions.of_tensors(value.members)
    return value if isinstance(value, bool | int | float | str) else type(value).__name__


def _plan(positions: Positions, plan: ChainTemplate) -> Hashable:
    """A dataplacement with the loops that its gaps may have."""
    return (
        tuple((memory, positions.tensors[t]) for memory, t in plan.placement.nodes),
        plan.placement.n_outer,
        tuple((toll, positions.of_tensors(held)) for toll, held in plan.placement.tolls),
        tuple(step.axes for step in plan.steps),
    )


def _path(positions: Positions, path: Path) -> Hashable:
    """The lattice of a path, and the uses of the fanouts."""
    axes = tuple(
        (tuple((positions.variables[v], bound) for v, bound in axis.members), axis.sizes) for axis in path.lattice.axes
    )
    return axes, path.lanes.bounds.shape, path.lanes.tobytes()
