"""An architecture bound for one Einsum, as it is for another one that is the same but for names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, assert_never

from einmap.arch.component import Action, Compute, Container, Leaf, Memory, Network, SpatialDimension, Toll
from einmap.arch.constraint import Comparison, DeferredSet, Latency, Placement
from einmap.arch.tree import Architecture, Fork, Hierarchical, Node
from einmap.einsum.isomorphism import Renaming
from einmap.expressions.scope import Scope
from einmap.expressions.sets import NameSet

_MISSING = object()


def renamed_arch(arch: Architecture, names: Renaming, everything: NameSet) -> Architecture:
    """`arch` with the names of another Einsum; `everything`: all tensors of that one.

    It is what binding would give where the expressions of the architecture mean the same for both by position.
    """
    return Architecture(_Renamer(names, everything).nodes(arch.nodes))


@dataclass(frozen=True)
class _Renamer:
    names: Renaming
    everything: NameSet

    def nodes(self, nodes: tuple[Node, ...]) -> tuple[Node, ...]:
        return tuple(
            replace(node, nodes=self.nodes(node.nodes)) if isinstance(node, Fork | Hierarchical) else self.leaf(node)
            for node in nodes
        )

    def leaf(self, leaf: Leaf) -> Leaf:
        spatial = tuple(map(self.dimension, leaf.spatial))
        if isinstance(leaf, Container):
            return replace(leaf, spatial=spatial)
        common: dict[str, Any] = {
            "spatial": spatial,
            "actions": tuple(map(self.action, leaf.actions)),
            "total_latency": self.latency(leaf.total_latency),
        }
        match leaf:
            case Memory():
                bits, placement = self.by_tensor(leaf.bits_per_value), self.placement(leaf.placement)
                layout = self.by_tensor(leaf.layout)
                copies = self.names.of_tensors(leaf.replicate)
                return replace(
                    leaf, **common, bits_per_value=bits, placement=placement, layout=layout, replicate=copies
                )
            case Toll():
                ways, placement = self.by_tensor(leaf.direction), self.placement(leaf.placement)
                return replace(leaf, **common, direction=ways, placement=placement)
            case Network() | Compute():
                return replace(leaf, **common)
            case _:
                assert_never(leaf)

    def dimension(self, dimension: SpatialDimension) -> SpatialDimension:
        return replace(
            dimension,
            may_reuse=self.names.of_tensors(dimension.may_reuse),
            reuse=self.names.of_tensors(dimension.reuse),
            loop_bounds=tuple(map(self.limit, dimension.loop_bounds)),
        )

    def action(self, action: Action) -> Action:
        if not action.per_value:
            return action
        return replace(action, per_value=self.by_tensor(action.per_value), narrower=self.by_tensor(action.narrower))

    def by_tensor[T](self, pairs: tuple[tuple[str, T], ...]) -> tuple[tuple[str, T], ...]:
        """By name, as binding lists them."""
        return tuple(sorted(self.names.by_tensor(dict(pairs)).items(), key=lambda pair: pair[0]))

    def limit(self, limit: Comparison) -> Comparison:
        return replace(limit, variables=self.names.of_variables(limit.variables))

    def placement(self, placement: Placement | None) -> Placement | None:
        if placement is None:
            return None
        return replace(
            placement,
            keep=self.deferred(placement.keep),
            may_keep=self.deferred(placement.may_keep),
            back=self.deferred(placement.back),
            no_refetch_from_above=self.deferred(placement.no_refetch_from_above),
            no_resend_to_below=self.deferred(placement.no_resend_to_below),
            tile_shape=tuple(map(self.limit, placement.tile_shape)),
            order_options=tuple(tuple(map(self.deferred, option)) for option in placement.order_options),
        )

    def deferred(self, tensors: DeferredSet) -> DeferredSet:
        return replace(tensors, scope=self.scope(tensors.scope), universe=self.everything)

    def latency(self, latency: Latency | None) -> Latency | None:
        return None if latency is None else replace(latency, scope=self.scope(latency.scope))

    def scope(self, scope: Scope) -> Scope:
        return Scope(_RenamedValues(scope, self))

    def value(self, value: Any) -> Any:
        """The meaning here of a name of the other Einsum's scope."""
        match value:
            case NameSet(kind="tensors"):
                members, universe = self.names.of_tensors(value.members), self.everything.universe
                return NameSet(members, universe, value.kind, self.everything.info, value.holder)
            case NameSet():
                members, universe = self.names.of_variables(value.members), self.everything.info.rank_variables
                return NameSet(members, universe, value.kind, self.everything.info)
            case list() | tuple() | set() | frozenset():
                return type(value)(map(self.value, value))
            case dict():
                return {self.value(key): self.value(inner) for key, inner in value.items()}
            case _:
                return value


@dataclass(frozen=True, eq=False)
class _RenamedValues(Mapping[str, object]):
    """The names of a scope; sets have the names of the other Einsum."""

    scope: Scope
    renamer: _Renamer

    def __getitem__(self, name: str) -> object:
        value = self.get(name, _MISSING)
        if value is _MISSING:
            raise KeyError(name)
        return value

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a name, or `default`. Raises ExpressionError when computing it fails."""
        value = self.scope.get(name, _MISSING)
        return default if value is _MISSING else self.renamer.value(value)

    def __contains__(self, name: object) -> bool:
        return any(name in values for values in self.scope.layers())

    def __iter__(self) -> Iterator[str]:
        return iter(self.scope.names())

    def __len__(self) -> int:
        return len(self.scope.names())
