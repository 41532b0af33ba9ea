"""Counts, steps and occupancy while a mapping runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from einmap.execute.network_routing import Wires
from einmap.execute.result import (
    ChildKey,
    CountKey,
    Event,
    ExchangeKey,
    ExchangeRow,
    LifeRow,
    Moment,
    OccupancyRow,
    VisitRow,
)
from einmap.execute.timeline import Timeline
from einmap.execute.visits import Visit
from einmap.mapping.nodes import Address
from einmap.schedule.boxes import Box
from einmap.schedule.routes import Instance

type Values = Mapping[str, Mapping[Instance, Mapping[str, tuple[int, int]]]]
"""By Einsum and instance: first value and number of values of each rank variable."""


@dataclass
class Recorder:
    """Adds up what happens. `values` counts tensor elements (or operations) for each instance.

    `timeline`: where it is noted in the order of time, None where nobody wants to know.
    """

    traced: frozenset[str]
    values: dict[CountKey, dict[Instance, int]] = field(default_factory=dict)
    wires: Wires = field(default_factory=Wires)
    step: int = 0
    events: list[Event] = field(default_factory=list)
    visits: list[VisitRow] = field(default_factory=list)
    exchanges: dict[ExchangeKey, ExchangeRow] = field(default_factory=dict)
    by_child: dict[ChildKey, dict[Instance, int]] = field(default_factory=dict)
    """The values of exchanges once more, by the component of the child."""
    transfers: dict[ChildKey, dict[Instance, int]] = field(default_factory=dict)
    """In how many fills and write-backs of a memory's tiles they come."""
    timeline: Timeline | None = None

    first: dict[ChildKey, dict[Instance, int]] = field(default_factory=dict)
    """The values of the first fill and of the first write-back of each node."""
    first_transfers: dict[ChildKey, dict[Instance, int]] = field(default_factory=dict)
    """In how many transfers they come."""
    seen: set[object] = field(default_factory=set)
    """Einsum, tensor and address of nodes that have been filled (`in`) or have written back (`out`) once."""

    def transfer(self, key: ChildKey, instance: Instance) -> None:
        """A tile goes into a node or out."""
        counts = self.transfers.setdefault(key, {})
        counts[instance] = counts.get(instance, 0) + 1

    def first_time(self, key: ChildKey, instance: Instance, amount: int) -> None:
        """A tile of a node's first fill or first write-back."""
        for counts, more in ((self.first, amount), (self.first_transfers, 1)):
            of_key = counts.setdefault(key, {})
            of_key[instance] = of_key.get(instance, 0) + more

    def begin_visit(self) -> None:
        """The innermost loops of an Einsum are about to run once."""
        if self.timeline is not None:
            self.timeline.carried(self.hops())
            self.timeline.visit(self.step)

    def hops(self) -> Iterator[tuple[CountKey, dict[Instance, int]]]:
        """Steps on networks, as counts of values."""
        for key, counts in self.wires.hops.items():
            if counts:
                yield (*key, "hop"), counts

    def exchange(self, key: ExchangeKey, down: int, up: int, skipped: int) -> None:
        """Values that pass a station between a child and its parent."""
        before = self.exchanges.get(key, ExchangeRow())
        self.exchanges[key] = ExchangeRow(before.down + down, before.up + up, before.skipped + skipped)

    def visit(self, address: Address, tensor: str, visit: Visit, values: Values) -> None:
        """A storage node is visited; `values`: what each Einsum uses of its rank variables, by instance."""
        parts = {einsum: _inclusive(boxes) for einsum, boxes in visit.boxes.items()}
        self.visits.append(VisitRow(self.step, address, tensor, parts, values, _inclusive(visit.kept)))

    def count(
        self, key: CountKey, instance: Instance, amount: int, box: Box | None = None, child: str | None = None
    ) -> None:
        """`amount` values of one action at one instance; `box` is the tile that they belong to.

        `child`: the component that is filled or writes back; None for operations and copies.
        """
        if not amount:
            return
        if child is not None:
            of_child = self.by_child.setdefault((*key, child), {})
            of_child[instance] = of_child.get(instance, 0) + amount
        counts = self.values.setdefault(key, {})
        counts[instance] = counts.get(instance, 0) + amount
        if self.timeline is not None:
            self.timeline.count(key, instance, amount, box)
        if key[1] in self.traced:
            tile = () if box is None else tuple((low, high - 1) for low, high in box)
            self.events.append(Event(self.step, key[1], instance, key[2] or "", key[3], amount, tile))


def _inclusive(boxes: Mapping[Instance, Box]) -> dict[Instance, Box]:
    """First and last index of each rank."""
    return {lane: tuple((low, high - 1) for low, high in box) for lane, box in boxes.items()}


@dataclass(frozen=True, slots=True)
class LiveBuffer:
    """A buffer that lives now: values for each instance of its memory, and who it is for."""

    memory: str
    tensor: str
    values: Mapping[Instance, int]
    users: tuple[str, ...]
    factor: int = 1


@dataclass
class Life:
    """The node of a buffer, where its life begins and ends, and what has been seen of it."""

    address: Address
    tensor: str
    begins: Address
    ends: Address
    times: int = 0
    einsums: dict[str, None] = field(default_factory=dict)
    bits: float = 0.0

    def row(self) -> LifeRow:
        """The row that the result keeps of this life."""
        return LifeRow(self.address, self.tensor, self.begins, self.ends, self.times, tuple(self.einsums), self.bits)


class Occupancy:
    """Which buffers live, and how full the fullest instance of each memory is."""

    def __init__(self, bits: Mapping[tuple[str, str, str], float]) -> None:
        """`bits`: bits of one value by (einsum, memory, tensor)."""
        self.bits = bits
        self.living: dict[object, LiveBuffer] = {}
        self.peak: dict[str, float] = {}
        self.last: dict[str, float] = {}
        self.rows: list[OccupancyRow] = []
        self.lives: dict[object, Life] = {}
        self.fullest: dict[tuple[str, str], float] = {}
        self.moments: dict[tuple[str, str], Moment] = {}

    def begin(self, key: object, space: LiveBuffer, life: Life) -> None:
        """A buffer comes to life; `life` describes it when it is the first time."""
        life = self.lives.setdefault(key, life)
        if key not in self.living and space.values:
            life.times += 1
        self.living[key] = space

    def end(self, key: object) -> None:
        """End the life of a buffer: its space is freed."""
        self.living.pop(key, None)

    def look(self, step: int, running: str, aliases: Mapping[tuple[str, str], str]) -> None:
        """Add up what lives while `running` runs; `aliases` names tensors that are one buffer in a memory."""
        by_memory: dict[str, dict[object, list[tuple[LiveBuffer, float]]]] = {}
        held: dict[str, list[tuple[str, Address, float]]] = {}
        for key, space in self.living.items():
            life = self.lives[key]
            life.einsums[running] = None
            name = aliases.get((space.memory, space.tensor))
            kind = ("alias", name) if name else ("buffer", key)
            user = running if (running, space.memory, space.tensor) in self.bits else space.users[0]
            wide = self.bits[user, space.memory, space.tensor] * space.factor
            life.bits = max(life.bits, _largest(space, wide))
            by_memory.setdefault(space.memory, {}).setdefault(kind, []).append((space, wide))
            held.setdefault(space.memory, []).append((life.tensor, life.address, _largest(space, wide)))
        for memory in {*by_memory, *self.last}:
            bits = _fullest(by_memory.get(memory, {}).values())
            self.peak[memory] = max(self.peak.get(memory, 0.0), bits)
            if bits > self.fullest.get((running, memory), 0.0):
                self.fullest[running, memory] = bits
                self.moments[running, memory] = tuple(held[memory])
            if self.last.get(memory, 0.0) != bits:
                self.last[memory] = bits
                self.rows.append(OccupancyRow(step, memory, bits))


def _largest(space: LiveBuffer, bits: float) -> float:
    """Bits of a buffer's largest instance."""
    return max(space.values.values(), default=0) * bits


def _fullest(groups: Iterable[list[tuple[LiveBuffer, float]]]) -> float:
    """Bits of the fullest instance; buffers whose instances are numbered otherwise count with their largest."""
    sums: dict[Instance, float] = {}
    everywhere = 0.0
    chosen = [max(group, key=lambda item: _largest(*item)) for group in groups]
    width = max((len(i) for space, _ in chosen for i in space.values), default=0)
    for space, bits in chosen:
        if all(len(instance) == width for instance in space.values):
            for instance, values in space.values.items():
                sums[instance] = sums.get(instance, 0.0) + values * bits
        else:
            everywhere += _largest(space, bits)
    return max(sums.values(), default=0.0) + everywhere
