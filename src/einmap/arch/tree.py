"""The architecture tree: hierarchy, forks, the flat path of one Compute, instances and power gating."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from einmap.arch.component import Component, Compute, Container, Leaf, Memory
from einmap.errors import SpecError, did_you_mean
from einmap.visible import brief

type Node = Leaf | Fork | Hierarchical


@dataclass(frozen=True)
class Hierarchical:
    """A nested list, transparent when flattening."""

    __repr__ = brief

    nodes: tuple[Node, ...]


@dataclass(frozen=True)
class Array(Hierarchical):
    """Memories, networks and tolls that are spread over lanes; the last node is the fanout that makes these."""


@dataclass(frozen=True)
class Fork:
    """A side branch: its nodes hang below what stands before it and are not parents of what follows."""

    __repr__ = brief

    nodes: tuple[Node, ...]
    forked_power_gateable: bool = False
    non_forked_power_gateable: bool = False


@dataclass(frozen=True)
class Architecture:
    """A tree of memories, fanouts and compute units, bound for one Einsum; outermost node first."""

    __repr__ = brief

    nodes: tuple[Node, ...]

    @cached_property
    def leaves(self) -> Mapping[str, Leaf]:
        """All leaves by name, in written order."""
        return {leaf.name: leaf for leaf in _leaves(self.nodes)}

    @cached_property
    def components(self) -> Mapping[str, Component]:
        """All leaves that cost something (containers do not)."""
        return {name: leaf for name, leaf in self.leaves.items() if not isinstance(leaf, Container)}

    @cached_property
    def computes(self) -> tuple[Compute, ...]:
        """All compute units in written order, disabled ones included."""
        return tuple(leaf for leaf in self.leaves.values() if isinstance(leaf, Compute))

    @cached_property
    def memories(self) -> tuple[Memory, ...]:
        """All memories in written order, disabled ones included."""
        return tuple(leaf for leaf in self.leaves.values() if isinstance(leaf, Memory))

    @property
    def forks(self) -> tuple[Fork, ...]:
        """All forks, nested ones included."""
        return tuple(_forks(self.nodes))

    def find(self, name: str) -> Leaf:
        """The leaf of that name. Raises SpecError with the closest name."""
        if name not in self.leaves:
            raise SpecError(f"the architecture has no component {name!r}", hint=did_you_mean(name, self.leaves))
        return self.leaves[name]

    def is_above(self, outer: str, inner: str) -> bool:
        """Whether `outer` is passed before `inner` on the way to some Compute. Raises SpecError for unknown names."""
        for name in (outer, inner):
            self.find(name)
        paths = ([leaf.name for leaf in self.path(unit.name)] for unit in self.computes)
        return any(inner in path and outer in path[: path.index(inner)] for path in paths)

    def fanout(self, name: str, dimension: str | None = None) -> int:
        """Copies that the dimensions of a leaf make, or that one of them makes. Raises SpecError for unknown names."""
        sizes = {spatial_dimension.name: spatial_dimension.fanout for spatial_dimension in self.find(name).spatial}
        if dimension is None:
            return math.prod(sizes.values())
        if dimension not in sizes:
            raise SpecError(f"{name!r} has no dimension {dimension!r}", hint=did_you_mean(dimension, sizes))
        return sizes[dimension]

    def path(self, compute: str) -> tuple[Leaf, ...]:
        """The leaves from the root to `compute`, which is the last one.

        Other computes and forks that do not hold it are left out.
        """
        if compute not in self._paths:
            self.find(compute)
            raise SpecError(
                f"{compute!r} is not a Compute", hint=f"computes: {', '.join(c.name for c in self.computes)}"
            )
        return self._paths[compute]

    @cached_property
    def _paths(self) -> Mapping[str, tuple[Leaf, ...]]:
        return {unit.name: _flatten(self, unit.name) for unit in self.computes}

    def with_leaf(self, leaf: Leaf) -> Architecture:
        """This architecture with `leaf` in place of the leaf of its name."""
        return Architecture(_with_leaf(self.nodes, leaf))

    def only(self, compute: str | None) -> Architecture:
        """This architecture with all computes but one disabled."""
        arch = self
        for unit in self.computes:
            if unit.enabled and unit.name != compute:
                arch = arch.with_leaf(replace(unit, enabled=False))
        return arch

    @cached_property
    def instances(self) -> Mapping[str, int]:
        """Number of instances of each leaf: fanouts of the leaf itself and of its true ancestors, and units of it."""
        return dict(_instances(self.nodes, 1)[0])

    @cached_property
    def total_area(self) -> float | None:
        """m^2 of all instances; None when a component has no area."""
        areas = [c.area for c in self.components.values()]
        if any(area is None for area in areas):
            return None
        return math.fsum(c.area * self.instances[name] for name, c in self.components.items() if c.area)

    @cached_property
    def total_leak_power(self) -> float:
        """W of all instances, nothing gated."""
        return math.fsum(c.leak_power * self.instances[name] for name, c in self.components.items())

    @cached_property
    def total_constant_power(self) -> float:
        """W that all instances draw for as long as an Einsum runs, nothing gated."""
        return math.fsum(c.constant_power * self.instances[name] for name, c in self.components.items())

    def drawn(self, compute: str, used: Mapping[tuple[str, str], float]) -> Iterator[tuple[str, str, float]]:
        """Component, name and W of each power of all its instances while `compute` works, gated as `gating` says."""
        on: Mapping[str, float] | None = None
        for name, component in self.components.items():
            for power in component.powers:
                if power.watts:
                    on = self.gating(compute, used) if on is None else on
                    yield name, power.name, power.watts * self.instances[name] * (on[name] if power.gated else 1)

    def gating(self, compute: str, used: Mapping[tuple[str, str], float]) -> Mapping[str, float]:
        """The fraction of each component's leakage that is not gated while `compute` works.

        `used`: instances used on each (component, dimension); 1 where absent. Along the ancestors of a
        component each gateable dimension contributes used/fanout, or 0 off the active path.
        """
        factors: dict[str, float] = {}
        active = frozenset(leaf.name for leaf in self.path(compute))
        _gate(self.nodes, 1.0, _Gating(compute, active, used, factors))
        return factors


def _leaves(nodes: tuple[Node, ...]) -> Iterator[Leaf]:
    for node in nodes:
        if isinstance(node, Hierarchical | Fork):
            yield from _leaves(node.nodes)
        else:
            yield node


def _with_leaf(nodes: tuple[Node, ...], leaf: Leaf) -> tuple[Node, ...]:
    replaced: list[Node] = []
    for node in nodes:
        if isinstance(node, Hierarchical | Fork):
            replaced.append(replace(node, nodes=_with_leaf(node.nodes, leaf)))
        else:
            replaced.append(leaf if node.name == leaf.name else node)
    return tuple(replaced)


def _forks(nodes: tuple[Node, ...]) -> Iterator[Fork]:
    for node in nodes:
        if isinstance(node, Fork):
            yield node
        if isinstance(node, Hierarchical | Fork):
            yield from _forks(node.nodes)


def _holds(node: Node, name: str) -> bool:
    return any(leaf.name == name for leaf in _leaves((node,)))


def _flatten(arch: Architecture, compute: str) -> tuple[Leaf, ...]:
    path: list[Leaf] = []

    def walk(nodes: tuple[Node, ...]) -> bool:
        for node in nodes:
            match node:
                case Fork(nodes=inner):
                    if _holds(node, compute):
                        return walk(inner)
                case Hierarchical(nodes=inner):
                    if walk(inner):
                        return True
                case Compute():
                    if node.name == compute:
                        path.append(node)
                        return True
                case _:
                    path.append(node)
        return False

    walk(arch.nodes)
    return tuple(path)


def own_fanout(leaf: Leaf) -> int:
    """Copies that the leaf's own dimensions make."""
    return math.prod(dimension.fanout for dimension in leaf.spatial)


def _instances(nodes: tuple[Node, ...], outside: int) -> tuple[list[tuple[str, int]], int]:
    counts: list[tuple[str, int]] = []
    for node in nodes:
        match node:
            case Fork(nodes=inner):
                counts += _instances(inner, outside)[0]
            case Hierarchical(nodes=inner):
                more, outside = _instances(inner, outside)
                counts += more
            case Compute():
                # a Compute is a side exit: nothing stands below it
                counts.append((node.name, outside * own_fanout(node)))
            case _:
                outside *= own_fanout(node)
                units = node.number_of_units if isinstance(node, Memory) else 1
                counts.append((node.name, outside * units))
    return counts, outside


@dataclass(frozen=True)
class _Gating:
    compute: str
    active: frozenset[str]
    used: Mapping[tuple[str, str], float]
    factors: dict[str, float]

    def share_in_use(self, leaf: Leaf) -> float:
        factor = 1.0
        for dimension in leaf.spatial:
            if dimension.power_gateable:
                busy = self.used.get((leaf.name, dimension.name), 1.0) if leaf.name in self.active else 0.0
                factor *= busy / dimension.fanout
        return factor


def _gate(nodes: tuple[Node, ...], outside: float, gating: _Gating) -> float:
    for node in nodes:
        match node:
            case Fork(nodes=inner):
                inside = _holds(node, gating.compute)
                _gate(inner, 0.0 if node.forked_power_gateable and not inside else outside, gating)
                if node.non_forked_power_gateable and inside:
                    outside = 0.0
            case Hierarchical(nodes=inner):
                outside = _gate(inner, outside, gating)
            case Compute():
                gating.factors[node.name] = outside * gating.share_in_use(node)
            case _:
                outside *= gating.share_in_use(node)
                gating.factors[node.name] = outside
    return outside


def outermost_memory(path: tuple[Leaf, ...]) -> Memory | None:
    """The first memory on a path."""
    return next((leaf for leaf in path if isinstance(leaf, Memory)), None)
