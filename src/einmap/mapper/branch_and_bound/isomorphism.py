"""Keys of searches that are the same but for names, so that one search or set of tables serves several Einsums."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import cache, partial

from einmap.arch.component import Compute, Container, Leaf, Memory, Network, Toll
from einmap.arch.constraint import AdjustedSet, Comparison, DeferredSet
from einmap.arch.tree import Architecture, Fork, Hierarchical, Node
from einmap.einsum.einsum import Einsum
from einmap.einsum.isomorphism import Positions
from einmap.errors import ExpressionError
from einmap.expressions.names_seen import looked_for, words
from einmap.expressions.records import Record, RecordList, SafeFunction
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.templates.chain_template import ChainTemplate


def canonical_key(einsum: Einsum, arch: Architecture, paths: Sequence[Path]) -> Hashable:
    """Equal for two Einsums only if their searches are the same up to names of tensors and rank variables."""
    positions = Positions(einsum)
    plans = tuple(hash(tuple(_plan(positions, plan) for plan in path.plans)) for path in paths)
    return tables_key(einsum, arch, paths), plans


def tables_key(einsum: Einsum, arch: Architecture, paths: Sequence[Path]) -> Hashable:
    """Equal for two Einsums only if dataplacements that they both have are searched alike, up to names."""
    if _has_lines(arch) or any(path.cut or not path.all_plans for path in paths):
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
    leaves = tuple((_leaf(positions, leaf), _lanes(positions, leaf)) for leaf in arch.leaves.values())
    return positions.sizes(), leaves


def rules_key(einsum: Einsum, arch: Architecture) -> Hashable:
    """A key of Einsums that are equal but for names, by what is written: finds fewer than `canonical_key`.

    Sets of tensors are alike if they are written alike, and each name in them means the same by position.
    """
    if _has_lines(arch):
        return "alone", einsum.name
    positions = Positions(einsum)
    leaves = tuple((_leaf(positions, leaf), _rules(positions, leaf)) for leaf in arch.leaves.values())
    return positions.sizes(), leaves, _shape(arch.nodes)


def _has_lines(arch: Architecture) -> bool:
    """Whether memories move lines: these begin where indices do, which positions do not say."""
    return any(isinstance(leaf, Memory) and leaf.layout for leaf in arch.leaves.values())


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
    latency: Hashable = None
    if leaf.total_latency is not None:
        attributes = tuple(_value(positions, dict(a.attributes)) for a in leaf.actions)
        latency = _written(positions, leaf.total_latency.source, leaf.total_latency.scope), attributes
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
                positions.by_tensor(leaf.layout),
            )
        case Toll():
            of_kind = positions.by_tensor(leaf.direction)
        case Network():
            of_kind = leaf.topology, leaf.hop_latency, leaf.multicast, leaf.reduction, leaf.links, leaf.array
        case Compute():
            of_kind = leaf.skip_initial_output_write
    return leaf.name, spatial, actions, leaf.powers, leaf.enabled, leaf.actions_scale, latency, of_kind


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
    written = cache(partial(_written, positions))  # most sets are All or Nothing, in one scope
    sets = tuple(_set(positions, tensors, written) for tensors in (*kept, *moved))
    orders = tuple(tuple(_set(positions, tensors, written) for tensors in option) for option in placement.order_options)
    return lanes, sets, orders, placement.force_hierarchy_order


def _set(positions: Positions, deferred: DeferredSet, written: Callable[[str, Scope], Hashable]) -> Hashable:
    """A set by what is `written`, and further tensors."""
    adjusted = isinstance(deferred, AdjustedSet) and (
        positions.of_tensors(deferred.less), positions.of_tensors(deferred.more)
    )  # fmt: skip
    return written(str(deferred.source), deferred.scope), adjusted


def _written(positions: Positions, source: object, scope: Scope) -> Hashable:
    """An expression as it is written, and what each name in it means; equal to no other if it looks at names in sets.

    So two are equal only if they have the same value, up to names of tensors and rank variables.
    """
    text = str(source)
    tested = looked_for(text)
    if tested is None or not all(isinstance(_meaning(scope, name), NameSet) for name in tested):
        return object()
    return text, tuple((name, _value(positions, _meaning(scope, name))) for name in words(text))


def _meaning(scope: Scope, name: str) -> object:
    """The value of a name; None where it has none, which is an error for whoever asks for it."""
    try:
        return scope.get(name)
    except ExpressionError:
        return None


def _value(positions: Positions, value: object) -> Hashable:
    """A value of an expression: sets by position, others as they are; what cannot be looked into equals no other."""
    match value:
        case bool() | int() | float() | str() | None:
            return type(value).__name__, value
        case NameSet():
            of_kind = positions.of_tensors if value.kind == "tensors" else positions.of_variables
            return value.kind, of_kind(value.members), _value(positions, value.holder)
        case list() | tuple():
            return type(value).__name__, tuple(_value(positions, inner) for inner in value)
        case set() | frozenset():
            return type(value).__name__, frozenset(_value(positions, inner) for inner in value)
        case Record():
            return value.name, _value(positions, value.attributes), tuple(value.refused)
        case RecordList():
            return "records", tuple(_value(positions, record) for record in value)
        case Mapping():
            return "mapping", tuple((_value(positions, k), _attribute(positions, v)) for k, v in value.items())
        case _:
            return object()


def _attribute(positions: Positions, value: object) -> Hashable:
    """A value that belongs to another one: functions of a component count lanes, which stand in its own key."""
    return value.name if isinstance(value, SafeFunction) else _value(positions, value)


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
    return axes, path.lanes.bounds.shape, path.lanes.digest()
