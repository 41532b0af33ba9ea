"""Counts, steps and occupancy while a mapping runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from einmap.execute.buffers import Box
from einmap.execute.result import CountKey, Event, Instance, OccupancyRow
from einmap.execute.wires import Wires


@dataclass
class Recorder:
    """Adds up what happens. `values` counts tensor elements (or operations) for each instance."""

    traced: frozenset[str]
    values: dict[CountKey, dict[Instance, int]] = field(default_factory=dict)
    wires: Wires = field(default_factory=Wires)
    step: int = 0
    events: list[Event] = field(default_factory=list)

    def count(self, key: CountKey, instance: Instance, amount: int, box: Box | None = None) -> None:
        """`amount` values of one action at one instance; `box` is the tile that they belong to."""
        if not amount:
            return
        counts = self.values.setdefault(key, {})
        counts[instance] = counts.get(instance, 0) + amount
        if key[1] in self.traced:
            tile = () if box is None else tuple((low, high - 1) for low, high in box)
            self.events.append(Event(self.step, key[1], instance, key[2] or "", key[3], amount, tile))


@dataclass(frozen=True, slots=True)
class Space:
    """A buffer that lives now: values for each instance of its memory, and who it is for."""

    memory: str
    tensor: str
    values: Mapping[Instance, int]
    users: tuple[str, ...]
    factor: int = 1


class Occupancy:
    """Which buffers live, and how full the fullest instance of each memory is."""

    def __init__(self, bits: Mapping[tuple[str, str, str], float]) -> None:
        """`bits`: bits of one value by (einsum, memory, tensor)."""
        self.bits = bits
        self.living: dict[object, Space] = {}
        self.peak: dict[str, float] = {}
        self.last: dict[str, float] = {}
        self.rows: list[OccupancyRow] = []

    def begin(self, key: object, space: Space) -> None:
        """A buffer comes to life."""
        self.living[key] = space

    def end(self, key: object) -> None:
        """Its space is freed."""
        self.living.pop(key, None)

    def look(self, step: int, running: str, aliases: Mapping[tuple[str, str], str]) -> None:
        """Add up what lives while `running` runs; `aliases` names tensors that are one buffer in a memory."""
        by_memory: dict[str, dict[str, list[tuple[Space, float]]]] = {}
        for space in self.living.values():
            name = aliases.get((space.memory, space.tensor))
            kind = f"alias {name}" if name else f"{id(space)}"
            user = running if (running, space.memory, space.tensor) in self.bits else space.users[0]
            wide = self.bits[user, space.memory, space.tensor] * space.factor
            by_memory.setdefault(space.memory, {}).setdefault(kind, []).append((space, wide))
        for memory in {*by_memory, *self.last}:
            bits = _fullest(by_memory.get(memory, {}).values())
            self.peak[memory] = max(self.peak.get(memory, 0.0), bits)
            if self.last.get(memory, 0.0) != bits:
                self.last[memory] = bits
                self.rows.append(OccupancyRow(step, memory, bits))


def _fullest(groups: Iterable[list[tuple[Space, float]]]) -> float:
    """Bits of the fullest instance; buffers whose instances are numbered otherwise count with their largest."""
    sums: dict[Instance, float] = {}
    everywhere = 0.0
    chosen = [max(group, key=lambda item: max(item[0].values.values(), default=0) * item[1]) for group in groups]
    width = max((len(i) for space, _ in chosen for i in space.values), default=0)
    for space, bits in chosen:
        if all(len(instance) == width for instance in space.values):
            for instance, values in space.values.items():
                sums[instance] = sums.get(instance, 0.0) + values * bits
        else:
            everywhere += max(space.values.values(), default=0) * bits
    return max(sums.values(), default=0.0) + everywhere
