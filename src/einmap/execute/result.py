"""What an execution leaves behind: tensors, counts, occupancy over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

type Instance = tuple[int, ...]
"""Lane of each spatial loop that spreads a component, in path order; () when there is one instance."""
type CountKey = tuple[str, str, str | None, str]
"""Einsum, component, tensor (None for operations), action."""


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

    `tile` holds the first and the last index of each rank.
    """

    step: int
    component: str
    instance: Instance
    tensor: str
    action: str
    count: int
    tile: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Execution:
    """The outcome of running a mapping.

    `tensors`: every tensor that an Einsum wrote, whole, indexed by its ranks. `actions`: as in `Cost.actions`, without
    energies. `per_instance`: the same counts for each instance, without instance factors. `usage`: the largest
    fraction of each memory in use at one time. `occupancy`: bits over time. `steps`: operations of the busiest
    compute instance, for each Einsum. `calls`: actions of the busiest instance by (einsum, component, action), each
    action by itself. `link_traffic`: actions that passed the busiest link of a network, by (einsum, network);
    `longest_route`: steps of the longest route over it.
    """

    tensors: Mapping[str, NDArray[np.float64]]
    inputs: Mapping[str, NDArray[np.float64]]
    actions: tuple[CountRow, ...]
    per_instance: Mapping[CountKey, Mapping[Instance, float]]
    usage: Mapping[str, float]
    occupancy: tuple[OccupancyRow, ...]
    steps: Mapping[str, int]
    calls: Mapping[tuple[str, str, str], float]
    events: tuple[Event, ...] = field(default=())
    link_traffic: Mapping[tuple[str, str], float] = field(default_factory=dict)
    longest_route: Mapping[tuple[str, str], int] = field(default_factory=dict)

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
