"""Cost: the result of an evaluation, in joules, seconds, m^2 and fractions of capacity."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import cached_property
from typing import Any

from einmap.errors import Note
from einmap.visible import brief

BALANCE = 0.999
"""Components limit an Einsum together where each works for so much of the time of the busiest one."""
ROUNDING = 1e-12
"""Part by which times may differ and count as equal."""
SCHEMA = 1
"""Version of `Cost.to_dict()`."""


@dataclass(frozen=True, slots=True)
class ActionRow:
    """`count` actions and their `energy` in J, all instances together; None for power that is drawn all the time.

    The action is then the name of that power: `leak`, say.
    """

    einsum: str
    component: str
    tensor: str | None
    action: str
    count: float | None
    energy: float

    @property
    def is_constant(self) -> bool:
        """Whether it is energy of a power that is drawn for as long as the Einsum runs, and of no action."""
        return self.count is None


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """Seconds that a component's busiest instance works on an Einsum."""

    einsum: str
    component: str
    latency: float


@dataclass(frozen=True, slots=True)
class EinsumLatencyRow:
    """Seconds of an Einsum that takes longer than its busiest component, since components wait for one another.

    `limited_by`: the components that would make it longer if they were slower.
    """

    einsum: str
    latency: float
    limited_by: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StageRow:
    """A stage of a Pipeline: seconds of its Einsums over all tiles; how many stages, one after the other, it awaits."""

    einsums: tuple[str, ...]
    awaits: int
    latency: float


@dataclass(frozen=True, slots=True)
class PipelineRow:
    """A Pipeline: `tiles` go through each time that it runs, and it takes `latency` s in all its runs.

    `limited_by`: the component that several stages use if the Pipeline takes as long as that is busy for them, None
    where it takes as long as its steps: `filling` s for the slowest one over all tiles and one tile of each other.
    `divided`: components of which each stage has instances of its own.
    """

    tiles: int
    latency: float
    filling: float
    limited_by: str | None
    divided: tuple[str, ...]
    stages: tuple[StageRow, ...]

    @property
    def slowest(self) -> dict[int, StageRow]:
        """The slowest stage of each step, that is, of those that await equally many others."""
        steps: dict[int, StageRow] = {}
        for stage in self.stages:
            if stage.awaits not in steps or stage.latency > steps[stage.awaits].latency:
                steps[stage.awaits] = stage
        return steps

    @property
    def parts(self) -> dict[str, float]:
        """The part of each Einsum's latency that `filling` is made of: all of the slowest step, a tile of others."""
        steps = self.slowest.values()
        longest = max(steps, key=lambda stage: stage.latency)
        parts = {name: 1.0 if stage is longest else 1.0 / self.tiles for stage in steps for name in stage.einsums}
        return {name: parts.get(name, 0.0) for stage in self.stages for name in stage.einsums}


@dataclass(frozen=True, slots=True)
class TileRow:
    """Bits that the largest tile of a tensor takes in a memory: as all its values, on average, and at most.

    `expected` and `worst` are of the tensor's format there, metadata included.
    """

    einsum: str
    component: str
    tensor: str
    dense: float
    expected: float
    worst: float


@dataclass(frozen=True, slots=True)
class MemoryUsageRow:
    """The largest fraction of a memory's capacity in use at one time; 0 for infinite memories."""

    component: str
    usage: float


@dataclass(frozen=True, slots=True)
class TensorUsageRow:
    """The fraction of a memory that one Einsum needs for one of its own tensors."""

    einsum: str
    component: str
    tensor: str
    usage: float


@dataclass(frozen=True, slots=True)
class SpatialUsageRow:
    """The fraction of a fanout that an Einsum uses, times the dimension's `usage_scale`."""

    einsum: str
    component: str
    dimension: str
    usage: float


@dataclass(frozen=True, slots=True)
class ComponentRow:
    """`total_area` (m^2, None when not given) and `total_leak_power` (W) of all `instances`."""

    component: str
    instances: int
    total_area: float | None
    total_leak_power: float


@dataclass(frozen=True)
class Cost:
    """Cost of a mapping. `energy` in J (leakage included), `latency` in s, `area` in m^2 or None.

    Rows of `actions`, `latencies` and their energies include the instance factors of workload and Einsum;
    usages do not. `longer`: Einsums that take longer than their busiest component. `together`: of fused Einsums that
    overlap the components that set the latency of the whole. `pipelines`: in the order of the
    LoopTree. `tiles`: of tensors that memories store in a format. `notes`: what the user should know, e.g.
    violated architecture constraints.
    """

    __repr__ = brief

    energy: float
    latency: float
    area: float | None
    actions: tuple[ActionRow, ...]
    latencies: tuple[LatencyRow, ...]
    memory_usage: tuple[MemoryUsageRow, ...]
    memory_usage_by_tensor: tuple[TensorUsageRow, ...]
    spatial_usage: tuple[SpatialUsageRow, ...]
    components: tuple[ComponentRow, ...]
    semantics: str = "exact"
    longer: tuple[EinsumLatencyRow, ...] = ()
    together: tuple[str, ...] = ()
    pipelines: tuple[PipelineRow, ...] = ()
    tiles: tuple[TileRow, ...] = ()
    notes: tuple[Note, ...] = field(default=(), compare=False)

    @property
    def edp(self) -> float:
        """Energy times latency, in J*s."""
        return self.energy * self.latency

    @property
    def valid(self) -> bool:
        """Always true: an invalid mapping is an error and has no cost."""
        return True

    @cached_property
    def leak_energy(self) -> float:
        """The part of `energy` that time alone costs, in J: leakage, and other power that is drawn all the time."""
        return sum(row.energy for row in self.actions if row.is_constant)

    @cached_property
    def latency_by_einsum(self) -> dict[str, float]:
        """Seconds of each Einsum: the maximum over its components, or more where these wait for one another."""
        latencies: dict[str, float] = {}
        for row in self.latencies:
            latencies[row.einsum] = max(latencies.get(row.einsum, 0.0), row.latency)
        return latencies | {row.einsum: row.latency for row in self.longer}

    @property
    def limited_by(self) -> dict[str, tuple[str, ...]]:
        """For each Einsum the components that set its latency: several in balance, none where nothing takes time.

        Those that work longest, or what an Einsum that takes longer than they do waits for.
        """
        limiting: dict[str, tuple[str, ...]] = {row.einsum: () for row in self.latencies}
        longest = self.latency_by_einsum
        for row in self.latencies:
            if longest[row.einsum] > 0 and row.latency >= BALANCE * longest[row.einsum]:
                limiting[row.einsum] = (*limiting[row.einsum], row.component)
        return limiting | {row.einsum: row.limited_by for row in self.longer}

    def energy_by(self, *keys: str) -> dict[tuple[Any, ...], float]:
        """Energy (J) summed by any of `einsum`, `component`, `tensor`, `action`, in the order asked."""
        return self._sum(lambda row: row.energy, keys)

    def count_by(self, *keys: str) -> dict[tuple[Any, ...], float]:
        """Action counts summed by any of `einsum`, `component`, `tensor`, `action`, in the order asked; no leakage."""
        return self._sum(lambda row: row.count or 0, keys)

    def _sum(self, value: Callable[[ActionRow], float], keys: tuple[str, ...]) -> dict[tuple[Any, ...], float]:
        sums: dict[tuple[Any, ...], float] = {}
        for row in self.actions:
            key = tuple(getattr(row, name) for name in keys)
            sums[key] = sums.get(key, 0) + value(row)
        return sums

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists, ready for JSON; `schema` is 1."""
        return {
            "schema": SCHEMA,
            "semantics": self.semantics,
            "energy": self.energy,
            "latency": self.latency,
            "edp": self.edp,
            "area": self.area,
            "valid": self.valid,
            "actions": [asdict(row) for row in self.actions],
            "latencies": [asdict(row) for row in self.latencies],
            **({"longer": [asdict(row) for row in self.longer]} if self.longer else {}),
            **({"together": list(self.together)} if self.together else {}),
            **({"pipelines": [asdict(row) for row in self.pipelines]} if self.pipelines else {}),
            **({"tiles": [asdict(row) for row in self.tiles]} if self.tiles else {}),
            "memory_usage": [asdict(row) for row in self.memory_usage],
            "memory_usage_by_tensor": [asdict(row) for row in self.memory_usage_by_tensor],
            "spatial_usage": [asdict(row) for row in self.spatial_usage],
            "components": [asdict(row) for row in self.components],
            "notes": [str(note) for note in self.notes],
        }
