"""Results of an execution: tensors, counts, occupancy over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.mapping.nodes import Address
from einmap.schedule.routes import Instance
from einmap.visible import brief

type CountKey = tuple[str, str, str | None, str]
"""Einsum, component, tensor (None for operations), action."""


type ChildKey = tuple[str, str, str | None, str, str]
"""Einsum, component, tensor, action, and the component of the child whose fill or write-back it is."""


type Crossed = tuple[str, str, str]
"""Einsum, network, and the component of the child whose fill or write-back crosses it."""


type Load = tuple[Instance, str, tuple[object, ...]]
"""Lanes above a network, tensor where each has links of its own, link."""


type Tile = tuple[tuple[int, int], ...]
"""The first and the last index of each rank."""


@dataclass(frozen=True, slots=True)
class CountRow:
    """Actions of all instances together, instance factors of workload and Einsum included."""

    einsum: str
    component: str
    tensor: str | None
    action: str
    count: float


@dataclass(frozen=True, slots=True)
class OccupancyRow:
    """From operation `step` on (of the whole run) the fullest instance of `component` holds `bits`."""

    step: int
    component: str
    bits: float


@dataclass(frozen=True, slots=True)
class Event:
    """One exchange of one tile or value: `count` values of `tensor` at the component's instance.

    `tile` holds the first and the last index of each rank. Where the component moves lines, these are counted.
    """

    step: int
    component: str
    instance: Instance
    tensor: str
    action: str
    count: int
    tile: Tile


type TurnKey = tuple[Address, int, int]
"""A Pipeline, which of its runs, and which tile."""


@dataclass(frozen=True, slots=True)
class SpanRow:
    """Consecutive visits of innermost loops, from operation `step` of the run on: actions by key and instance.

    Instance factors are left out, as in `Execution.per_instance`. `tiles`: what the actions belong to where there is
    one visit; a tensor's first tile where lanes have one each. `turn`: the tile of a Pipeline that a stage works on.
    """

    step: int
    visits: int
    actions: Mapping[CountKey, Mapping[Instance, float]]
    tiles: Mapping[CountKey, Tile]
    turn: TurnKey | None = None


type ExchangeKey = tuple[str, str, Address, Address]
"""Einsum, tensor, node of the child (() for the Compute), node of the station that pays."""


@dataclass(frozen=True, slots=True)
class ExchangeRow:
    """Values of all instances that pass a station between a child and its parent.

    `down`: fills, `up`: write-backs, `skipped`: fills that are not made since there is no result yet.
    """

    down: int = 0
    up: int = 0
    skipped: int = 0


@dataclass(frozen=True, slots=True)
class VisitRow:
    """One visit of a storage node for one tensor, begun at operation `step` of the run.

    `parts`: by Einsum and instance the part of the tensor that is used, rank by rank the first and the last index;
    `values`: the same by rank variable of the Einsum, as first value and number of values. `kept`: by instance what
    the visit before has left in the buffer.
    """

    step: int
    address: Address
    tensor: str
    parts: Mapping[str, Mapping[Instance, tuple[tuple[int, int], ...]]]
    values: Mapping[str, Mapping[Instance, Mapping[str, tuple[int, int]]]]
    kept: Mapping[Instance, tuple[tuple[int, int], ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class LifeRow:
    """The buffer of one tensor at one storage node: how often it comes to life, and which Einsums run meanwhile.

    `bits`: the most in one instance.
    `begins`, `ends`: the nodes or branches whose begin and end are those of its life; () for the whole run.
    """

    address: Address
    tensor: str
    begins: Address
    ends: Address
    times: int
    einsums: tuple[str, ...]
    bits: float


type Moment = tuple[tuple[str, Address, float], ...]
"""Buffers that live in a memory at one time: tensor, node, bits of the largest instance."""


type StateKey = tuple[str, str, str | None, str, int]
"""Einsum, component, tensor (None for operations), action, and state: a position in `savings.STATES`."""


@dataclass(frozen=True)
class Held:
    """Space of a tensor's tiles in one memory: of the fullest one, and of all of them together.

    `values`, `metadata`: of the tile that takes most bits; `sum_values`, `sum_metadata`: of all `tiles`.
    """

    values: int = 0
    metadata: int = 0
    sum_values: int = 0
    sum_metadata: int = 0
    tiles: int = 0


@dataclass(frozen=True)
class ZeroCounts:
    """Counts of what was done, gated and skipped, by instance and without instance factors.

    `masks`: true where a value is nonzero. `values`: values and operations, `metadata`: bits; `held`: room of tiles by
    Einsum, memory and tensor.
    """

    masks: Mapping[str, NDArray[np.bool_]]
    values: Mapping[StateKey, Mapping[Instance, float]]
    metadata: Mapping[StateKey, Mapping[Instance, float]]
    held: Mapping[tuple[str, str, str], Held]

    def total(self, key: StateKey) -> float:
        """Values or operations of all instances."""
        return sum(self.values.get(key, {}).values())


@dataclass(frozen=True)
class Execution:
    """The outcome of running a mapping.

    `tensors`: every tensor that an Einsum wrote, whole, indexed by its ranks. `actions`: as in `Cost.actions`, without
    energies. `per_instance`: the same counts for each instance, without instance factors. `usage`: the largest
    fraction of each memory in use at one time. `occupancy`: bits over time. `steps`: operations of the busiest
    compute instance, for each Einsum. `calls`: actions of the busiest instance by (einsum, component, action), each
    action by itself. `exchanges`: what the counts are made of. `lives`: when buffers live. `fullest`: the most bits
    in one instance by (einsum, memory) while the Einsum runs, `moments`: what lives then. `visits`: those
    of traced memories. `link_traffic`: actions that passed the busiest link of a network, by (einsum, network);
    `longest_route`: steps of the longest route over it. `link_loads`, `first_link_loads`, `routes`: these by child, and
    the steps by tensor, too. `spans`: everything in the order of time, where asked for.
    `by_child`: as `per_instance`, by the component that is filled or writes back, copies and operations left out;
    `transfers`: in how many fills and write-backs of tiles of memories these come; `first`: what
    the first fill and the first write-back of each node of a memory have of it, `first_transfers`: in how many.
    `turns`: as `per_instance`, for each tile of each run of a Pipeline. `rounds`: of memories with interleaved banks,
    as `calls`, the actions that come one after another; `rounds_by_child`: as `by_child`, of tensors in lines there.
    `zeros`: what was done, gated and skipped; None where all tensors are dense.
    """

    __repr__ = brief

    tensors: Mapping[str, NDArray[np.float64]]
    inputs: Mapping[str, NDArray[np.float64]]
    actions: tuple[CountRow, ...]
    per_instance: Mapping[CountKey, Mapping[Instance, float]]
    usage: Mapping[str, float]
    occupancy: tuple[OccupancyRow, ...]
    steps: Mapping[str, int]
    calls: Mapping[tuple[str, str, str], float]
    events: tuple[Event, ...] = field(default=())
    visits: tuple[VisitRow, ...] = field(default=())
    exchanges: Mapping[ExchangeKey, ExchangeRow] = field(default_factory=dict)
    lives: tuple[LifeRow, ...] = field(default=())
    fullest: Mapping[tuple[str, str], float] = field(default_factory=dict)
    moments: Mapping[tuple[str, str], Moment] = field(default_factory=dict)
    link_traffic: Mapping[tuple[str, str], float] = field(default_factory=dict)
    longest_route: Mapping[tuple[str, str], int] = field(default_factory=dict)
    spans: tuple[SpanRow, ...] = field(default=())
    by_child: Mapping[ChildKey, Mapping[Instance, float]] = field(default_factory=dict)
    transfers: Mapping[ChildKey, Mapping[Instance, int]] = field(default_factory=dict)
    first: Mapping[ChildKey, Mapping[Instance, float]] = field(default_factory=dict)
    first_transfers: Mapping[ChildKey, Mapping[Instance, float]] = field(default_factory=dict)
    turns: Mapping[TurnKey, Mapping[CountKey, Mapping[Instance, float]]] = field(default_factory=dict)
    rounds: Mapping[tuple[str, str, str], float] = field(default_factory=dict)
    rounds_by_child: Mapping[ChildKey, Mapping[Instance, float]] = field(default_factory=dict)
    link_loads: Mapping[Crossed, Mapping[Load, float]] = field(default_factory=dict)
    first_link_loads: Mapping[Crossed, Mapping[Load, float]] = field(default_factory=dict)
    routes: Mapping[tuple[Crossed, str], int] = field(default_factory=dict)
    zeros: ZeroCounts | None = None

    def to_dict(self) -> dict[str, Any]:
        """Counts and usage as plain dictionaries; tensors are left out."""
        return {
            "actions": [
                {"einsum": r.einsum, "component": r.component, "tensor": r.tensor, "action": r.action, "count": r.count}
                for r in self.actions
            ],
            "usage": [{"component": name, "usage": usage} for name, usage in self.usage.items()],
            "steps": dict(self.steps),
        }
