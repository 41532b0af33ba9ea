"""Memories, tolls, networks, computes and containers, with every number bound for one Einsum."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeGuard

from einmap.arch.constraint import Comparison, Latency, Names, Placement
from einmap.arch.layout import Layout
from einmap.arch.ports import Ports
from einmap.errors import At
from einmap.visible import brief

type Direction = Literal["up", "down", "up_and_down"]
type Buffering = Literal["ideal", "double", "single"]
type Stalls = Literal["average", "tile_by_tile"]
type Skew = Literal["none", "once", "each_fold"]
type Topology = Literal["mesh", "torus", "ring", "systolic", "tree", "bus", "all_to_all"]
type Reduction = Literal["in_network", "at_parent"]
type Links = Literal["shared", "per_tensor"]
type Leaf = Memory | Toll | Network | Compute | Container
type Component = Memory | Toll | Network | Compute
type Holder = Memory | Toll


@dataclass(frozen=True)
class SpatialDimension:
    """A fanout: `fanout` copies of the node and of everything below it.

    `may_reuse`: tensors multicast or reduced across the copies. `reuse`: tensors that must be the same
    in all copies. `usage_scale`, `min_usage`: see spec fields; `power_gateable`: unused copies do not leak.
    `skew`: whether copies begin one step of the compute after another, once or in each fold (`model.timing.systolic`).
    `vector`: the copies are the lanes of one instruction: one loop over neighbouring values of one rank variable.
    """

    name: str
    fanout: int
    may_reuse: Names
    reuse: Names = frozenset()
    loop_bounds: tuple[Comparison, ...] = ()
    min_usage: float = 0.0
    usage_scale: float = 1.0
    power_gateable: bool = False
    skew: Skew = "none"
    vector: bool = False


@dataclass(frozen=True)
class Units:
    """The places of an array's memory along one dimension: `number` units, one for every `stride` lanes."""

    name: str
    number: int
    stride: int


@dataclass(frozen=True)
class Action:
    """`energy`: J for one action, scales included. `throughput`: actions/s of one instance, may be inf.

    `per_value`: actions for one value of each tensor (empty where the component holds no tensors), for a partial sum
    where that is wider; `narrower`: how many fewer a complete value of such an output takes. `startup`: s that each
    transfer takes before its first action. `pipeline_latency`: s until the value of an action is
    there. `at`: where the throughput was written, or the latency in its place.
    """

    name: str
    energy: float
    throughput: float
    per_value: tuple[tuple[str, float], ...] = ()
    attributes: tuple[tuple[str, object], ...] = field(default=(), compare=False)
    startup: float = 0.0
    narrower: tuple[tuple[str, float], ...] = ()
    pipeline_latency: float = 0.0
    at: At | None = field(default=None, compare=False, repr=False)

    @cached_property
    def actions_per_value(self) -> Mapping[str, float]:
        """`per_value` as a mapping."""
        return dict(self.per_value)

    @cached_property
    def saved_by_complete(self) -> Mapping[str, float]:
        """`narrower` as a mapping."""
        return dict(self.narrower)


@dataclass(frozen=True, slots=True)
class Power:
    """Power that one instance draws as long as an Einsum runs, in use or not: `name` is its action in reports; `watts`.

    `gated`: whether power gating switches it off.
    """

    name: str
    watts: float
    gated: bool = True


@dataclass(frozen=True)
class Container:
    """A node that only fans out."""

    __repr__ = brief

    name: str
    spatial: tuple[SpatialDimension, ...] = ()


@dataclass(frozen=True)
class _Priced:
    """Fields of all components. `area`: m^2 of one instance or None when not given; `powers`: leakage, and others."""

    name: str
    actions: tuple[Action, ...]
    area: float | None
    powers: tuple[Power, ...]
    spatial: tuple[SpatialDimension, ...] = ()
    enabled: bool = True
    actions_scale: float = 1.0
    total_latency: Latency | None = None

    @cached_property
    def known(self) -> dict[Hashable, Any]:
        """Values worked out for it, by those who need them again."""
        return {}

    @cached_property
    def leak_power(self) -> float:
        """W that one instance leaks."""
        return sum(power.watts for power in self.powers if power.name == "leak")

    @cached_property
    def constant_power(self) -> float:
        """W that one instance draws for as long as an Einsum runs, whatever it does."""
        return sum(power.watts for power in self.powers)

    def action(self, name: str) -> Action:
        """The action of that name."""
        return self.actions_by_name[name]

    def saved_by_complete(self, action: str, tensor: str) -> float:
        """How many fewer actions of that name a complete value takes than a partial sum; 0 without such an action."""
        found = self.actions_by_name.get(action)
        return 0.0 if found is None else found.saved_by_complete.get(tensor, 0.0)

    @cached_property
    def actions_by_name(self) -> Mapping[str, Action]:
        """All actions, extra ones included."""
        return {action.name: action for action in self.actions}


@dataclass(frozen=True)
class Memory(_Priced):
    """Stores tiles over time. `size_bits` is that of one instance, may be inf; of one half where it is double-buffered.

    `bits_per_value`: for each tensor of the Einsum, as stored here. `ports`: None for one port, which serves reads and
    writes one after another, or as `total_latency` says. `buffering`: whether it is filled while what is below it works
    (`ideal`, `double`) or not (`single`). `wind_up`: what is below it waits for its first tiles, and its last ones
    leave after the end. `layout`: of tensors of which accesses move whole lines. `stalls`: whether transfers hide
    behind work on average or turn by turn (`model.timing.stalls`). `array`: the array that it stands in, if any, and
    `units`: how many of it there are along each dimension of that; all else is of one unit. `replicate`: tensors of
    which each unit that needs them has a copy.
    """

    __repr__ = brief

    size_bits: float = 0
    bits_per_value: tuple[tuple[str, float], ...] = ()
    placement: Placement | None = None
    skip_initial_output_write: bool = True
    ports: Ports | None = None
    buffering: Buffering = "ideal"
    wind_up: bool = False
    stalls: Stalls = "average"
    layout: tuple[tuple[str, Layout], ...] = ()
    array: str = ""
    units: tuple[Units, ...] = ()
    replicate: Names = frozenset()

    @cached_property
    def number_of_units(self) -> int:
        """Units that are one memory to the mapping."""
        return math.prod(units.number for units in self.units)

    @property
    def is_spread(self) -> bool:
        """Whether it is several units."""
        return self.number_of_units > 1

    @cached_property
    def layouts(self) -> Mapping[str, Layout]:
        """`layout` as a mapping from tensor."""
        return dict(self.layout)

    @cached_property
    def interleaved(self) -> bool:
        """Whether lines are dealt out to banks, so that those in one bank come one after another."""
        return any(layout.banks for _, layout in self.layout)

    @cached_property
    def bits(self) -> Mapping[str, float]:
        """`bits_per_value` as a mapping."""
        return dict(self.bits_per_value)

    @cached_property
    def starts(self) -> bool:
        """Whether transfers from or to this memory take time to begin."""
        return any(action.startup for action in self.actions)

    @property
    def parts(self) -> int:
        """How many times `size_bits` one instance has: 2 if one half is filled while the other one is used."""
        return 2 if self.buffering == "double" else 1


@dataclass(frozen=True)
class Toll(_Priced):
    """Charges for values that pass in the enabled directions; holds nothing."""

    __repr__ = brief

    direction: tuple[tuple[str, Direction], ...] = ()
    placement: Placement | None = None

    @cached_property
    def directions(self) -> Mapping[str, Direction]:
        """`direction` as a mapping from tensor."""
        return dict(self.direction)


@dataclass(frozen=True)
class Network(_Priced):
    """Carries what memories above exchange with the lanes below; each step of a value is charged as a `hop`.

    `hop_latency`: s for one step. The throughput of `hop` is that of one link. `multicast`: what lanes share is passed
    on once. `reduction`: whether results of lanes that reduce are added on their way back or go there one by one.
    `links`: whether all tensors share the links. `array`: the array that it stands in, if any.
    """

    __repr__ = brief

    topology: Topology = "mesh"
    hop_latency: float = 0.0
    multicast: bool = True
    reduction: Reduction = "in_network"
    links: Links = "shared"
    array: str = ""

    @property
    def adds_on_the_way(self) -> bool:
        """Whether results of lanes that reduce are added before they arrive."""
        return self.reduction == "in_network"

    @property
    def is_plain(self) -> bool:
        """Whether it is a mesh or all to all that multicasts and reduces, with links for all tensors."""
        able = self.multicast and self.adds_on_the_way and self.links == "shared"
        return able and self.topology in ("mesh", "all_to_all")


def is_carrying(leaf: object) -> TypeGuard[Network]:
    """Whether a node is a network that carries values: one that is not enabled has no links, and no hops."""
    return isinstance(leaf, Network) and leaf.enabled


@dataclass(frozen=True)
class Compute(_Priced):
    """Executes Einsums, one point of the iteration space for one `compute` action."""

    __repr__ = brief

    skip_initial_output_write: bool = True
