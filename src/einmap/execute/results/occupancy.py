"""Which buffers live while a mapping runs, and how full memories are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from einmap.execute.results.result import LifeRow, Moment, OccupancyRow
from einmap.mapping.nodes import Address
from einmap.schedule.routes import Instance


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


@dataclass(frozen=True, slots=True)
class Held:
    """A buffer that lives: its key, what stands for the same space, and bits of one value."""

    key: object
    kind: object
    space: LiveBuffer
    wide: float
    life: Life

    @property
    def bits(self) -> float:
        """Bits of the largest instance."""
        return _largest(self.space, self.wide)


@dataclass
class Together:
    """Buffers that live in one turn of a Pipeline.

    `outside`: keys of what is there when the turn begins, of no single stage; `stage`: the one that runs.
    """

    outside: frozenset[object]
    stage: int = 0
    running: str = ""
    common: dict[str, dict[object, Held]] = field(default_factory=dict)
    seen: dict[int, dict[str, list[Held]]] = field(default_factory=dict)

    def see(self, running: str, held: Mapping[str, list[Held]]) -> None:
        """Add the buffers that live at a moment of the stage that runs: its fullest moment counts, memory by memory."""
        self.running = running
        seen = self.seen.setdefault(self.stage, {})
        for memory, buffers in held.items():
            common = self.common.setdefault(memory, {})
            for buffer in buffers:
                if buffer.key in self.outside:
                    common[buffer.key] = max(common.get(buffer.key, buffer), buffer, key=lambda h: h.wide)
            own = [buffer for buffer in buffers if buffer.key not in self.outside]
            if _sum(own) >= _sum(seen.get(memory, [])):
                seen[memory] = own

    def held(self, stages: Mapping[int, frozenset[str]], is_private: Callable[[str], bool]) -> dict[str, list[Held]]:
        """Buffers in each memory: of all stages together, or of the fullest one where each has instances of its own."""
        found = {}
        for memory, common in self.common.items():
            own = {number: seen.get(memory, []) for number, seen in self.seen.items()}
            if not is_private(memory):
                found[memory] = [*common.values(), *(held for buffers in own.values() for held in buffers)]
                continue
            alone = [
                [*(held for held in common.values() if stages[number] & {*held.space.users}), *own.get(number, [])]
                for number in stages
            ]
            found[memory] = max(alone, key=_sum)
        return found


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
        self.together: Together | None = None

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
        held: dict[str, list[Held]] = {}
        for key, space in self.living.items():
            life = self.lives[key]
            life.einsums[running] = None
            name = aliases.get((space.memory, space.tensor))
            kind = ("alias", name) if name else ("buffer", key)
            user = running if (running, space.memory, space.tensor) in self.bits else space.users[0]
            wide = self.bits[user, space.memory, space.tensor] * space.factor
            life.bits = max(life.bits, _largest(space, wide))
            held.setdefault(space.memory, []).append(Held(key, kind, space, wide, life))
        if self.together is None:
            self.note(step, running, held)
        else:
            self.together.see(running, held)

    def note(self, step: int, running: str, by_memory: Mapping[str, list[Held]]) -> None:
        """Note the buffers that live at one time, by memory, while `running` runs."""
        for memory in {*by_memory, *self.last}:
            held = by_memory.get(memory, [])
            bits = _sum(held)
            self.peak[memory] = max(self.peak.get(memory, 0.0), bits)
            if bits > self.fullest.get((running, memory), 0.0):
                self.fullest[running, memory] = bits
                self.moments[running, memory] = tuple((h.life.tensor, h.life.address, h.bits) for h in held)
            if self.last.get(memory, 0.0) != bits:
                self.last[memory] = bits
                self.rows.append(OccupancyRow(step, memory, bits))


def _largest(space: LiveBuffer, bits: float) -> float:
    """Bits of a buffer's largest instance."""
    return max(space.values.values(), default=0) * bits


def _sum(held: list[Held]) -> float:
    """Bits of the fullest instance."""
    groups: dict[object, list[tuple[LiveBuffer, float]]] = {}
    for buffer in held:
        groups.setdefault(buffer.kind, []).append((buffer.space, buffer.wide))
    return _fullest(groups.values())


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
