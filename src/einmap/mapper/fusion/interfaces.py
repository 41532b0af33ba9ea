"""Which chains of successive Einsums fit, and what a whole cascade costs at least for each choice of outlines.

An interface is what lies between two Einsums: the shared tensors that are still needed, how each is backed, and the
loops that stay open. Interfaces and outlines make a graph from the first Einsum to the last; paths through it are the
ways to fuse the cascade. Its edges cost at least what the cost-to-go tables say, so that sums along paths bound the
whole, space that Einsums share aside.

Shared tensors go by slots, not by names, so that structure that repeats, such as layers of a network, has the same
stages again: each is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from einmap.mapper.fusion import compiled
from einmap.mapper.fusion.heads import Cut, Family, Key, Kind, Outline

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]
type Slot = int
"""Stands for a shared tensor: no other one that is in use at the same time has the same."""

OWN = "~"
"""What the rank of a cut begins with that is none of a tensor's ranks: no other Einsum cuts alike."""


class Live(NamedTuple):
    """A shared tensor that is still needed.

    `shared`: loops that its last user so far and the next Einsum share. `held`: nodes in which the last user holds it
    inside above such loops, as (loops above, memory): the next user has to have the same ones, with a memory's name.
    `written`: how loops below its backing node that its producer and the next Einsum share cut it: a reader must cut it
    alike, or it would read what is not written yet. `bits`: of its tile in the memory that backs it.
    """

    slot: Slot
    key: Key
    shared: int
    held: tuple[tuple[int, str], ...]
    written: tuple[Cut, ...]
    bits: float


class Interface(NamedTuple):
    """What lies between two Einsums: tensors that are needed later, and the loops that stay open.

    `partial`: of tensors that are not kept as a whole only the memories are looked at, and nothing else is known.
    """

    live: tuple[Live, ...]
    loops: tuple[tuple[Kind, int], ...]
    partial: bool = False


NOTHING = Interface((), ())
ANY_LOOPS: tuple[Cut, ...] = ((("", "any"), "", 0),)
"""In place of the loops of a key: they are not known."""


@dataclass(frozen=True, eq=False)
class Option:
    """One outline of an Einsum, or all chains of a family of which nothing is known.

    `bits`: for each shared tensor those of its tile in the memory that backs it. `absent`: the Einsum is a copy that is
    left out. `family`: it stands for all chains of a family that are not listed; of the keys only the memories are
    known, unless no loop may stand above these.
    """

    outline: Outline
    keys: Mapping[Slot, Key]
    held: Mapping[Slot, tuple[tuple[int, str], ...]]
    cuts: Mapping[Slot, tuple[Cut, ...]]
    bits: Mapping[Slot, float]
    absent: bool = False
    family: Family | None = None

    @property
    def wild(self) -> bool:
        """Whether it stands for chains that are not listed."""
        return self.family is not None

    @property
    def loops(self) -> tuple[tuple[Kind, int], ...]:
        """Kind and iterations of the fused loops."""
        return self.outline.loops


@dataclass(frozen=True, eq=False)
class Step:
    """One Einsum as other ones see it, or several that look the same.

    `needed`: slots in use behind it; `born`: of tensors that it is the first to use; `intermediates`: of those that
    another Einsum writes, or another one reads. `times`: how often it runs.
    """

    options: Sequence[Option]
    needed: frozenset[Slot]
    born: frozenset[Slot]
    intermediates: frozenset[Slot]
    times: float


class Edge(NamedTuple):
    """An outline of an Einsum between two interfaces, all by number."""

    before: int
    option: int
    after: int


@dataclass(frozen=True, eq=False)
class Stage:
    """A step between interfaces. Several Einsums share it where structure repeats. `edges`: rows as of Edge."""

    step: Step
    before: tuple[Interface, ...]
    interfaces: tuple[Interface, ...]
    edges: Ints

    def leading_to(self, after: frozenset[int]) -> Stage:
        """The same with the edges alone that lead to some of the interfaces."""
        if len(after) == len(self.interfaces):
            return self
        wanted = np.zeros(len(self.interfaces), dtype=bool)
        wanted[list(after)] = True
        return Stage(self.step, self.before, self.interfaces, self.edges[wanted[self.edges[:, 2]]])

    @cached_property
    def options(self) -> tuple[int, ...]:
        """The options that an edge has."""
        return tuple(dict.fromkeys(self.edges[:, 1].tolist()))

    @cached_property
    def origins(self) -> frozenset[int]:
        """The interfaces before that an edge has."""
        return frozenset(self.edges[:, 0].tolist())


@dataclass
class Matching:
    """The options of a step by what they must have in common with an interface: keys, and the first loops.

    `met`: slots of tensors that the step uses and an interface before it may have.
    """

    options: Sequence[Option]
    met: Sequence[Slot]
    _by_loops: dict[int, dict[Hashable, list[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._by_memories: dict[Hashable, list[int]] = {}
        self._wild: dict[Hashable, list[int]] = {}
        self._absent: list[int] = []
        self._keys = [tuple(option.keys[t] for t in self.met) for option in self.options]
        for o, option in enumerate(self.options):
            by = self._wild if option.wild else self._by_memories
            by.setdefault(tuple(key.memory for key in self._keys[o]), []).append(o)
            if option.absent:
                self._absent.append(o)

    def of(self, interface: Interface) -> Iterator[int]:
        """Numbers of the options that may fit behind an interface."""
        keys = {live.slot: live.key for live in interface.live}
        own = tuple(keys[t] for t in self.met if t in keys)
        memories = tuple(key.memory for key in own)
        yield from self._wild.get(memories, ())
        if interface.partial:
            yield from self._by_memories.get(memories, ())
            return
        yield from self._with_loops(len(interface.loops)).get((own, interface.loops), ())
        yield from self._absent

    def _with_loops(self, n: int) -> dict[Hashable, list[int]]:
        """Listed options by keys and the first n loops."""
        if n not in self._by_loops:
            found = self._by_loops[n] = {}
            for o, option in enumerate(self.options):
                if not (option.wild or option.absent):
                    found.setdefault((self._keys[o], option.loops[:n]), []).append(o)
        return self._by_loops[n]


@dataclass
class Graph:
    """All ways to fuse a cascade, made again and again with other options. What stays the same is not made anew."""

    names: Sequence[str]
    stages: Sequence[Stage] = ()
    _forward: dict[tuple[Step, tuple[int, ...]], Stage] = field(default_factory=dict)
    _leading: dict[tuple[Stage, frozenset[int]], Stage] = field(default_factory=dict)
    _after: dict[tuple[int, Option], Interface | None] = field(default_factory=dict)
    _one: dict[Interface, Interface] = field(default_factory=dict)

    def build(self, steps: Sequence[Step], go_on: Callable[[str, int], None] = lambda _name, _position: None) -> None:
        """Follow all options from the first Einsum on; what leads nowhere is left out.

        `steps`: one for each Einsum; those that look the same are one object. `go_on` hears where the work is, often;
        what it raises ends it.
        """
        forward: list[Stage] = []
        before: tuple[Interface, ...] = (self._one.setdefault(NOTHING, NOTHING),)
        for position, step in enumerate(steps):
            key = step, tuple(map(id, before))
            if key not in self._forward:
                self._forward[key] = self._stage(step, before, partial(go_on, self.names[position], position))
            forward.append(self._forward[key])
            before = forward[-1].interfaces
        stages: list[Stage] = []
        used = frozenset(range(min(len(before), 1)))
        for stage in reversed(forward):
            where = stage, used
            if where not in self._leading:
                self._leading[where] = stage.leading_to(used)
            stages.append(self._leading[where])
            used = stages[-1].origins
        self.stages = stages[::-1]

    def _stage(self, step: Step, before: tuple[Interface, ...], go_on: Callable[[], None]) -> Stage:
        """What leads on behind some interfaces, and where to."""
        edges: list[tuple[int, int, int]] = []
        found: dict[int, int] = {}
        reached: list[Interface] = []
        known = {live.slot for interface in before for live in interface.live}
        met = sorted(known.intersection(*(option.keys for option in step.options[:1])))
        matching = Matching(step.options, met)
        for i, interface in enumerate(before):
            go_on()
            for o in matching.of(interface):
                after = self._behind(interface, step.options[o], step)
                if after is not None:
                    if id(after) not in found:
                        found[id(after)] = len(reached)
                        reached.append(after)
                    edges.append((i, o, found[id(after)]))
        return Stage(step, before, tuple(reached), np.array(edges, dtype=np.int64).reshape(-1, 3))

    def _behind(self, interface: Interface, option: Option, step: Step) -> Interface | None:
        """The interface behind an Einsum, one object for those that are equal; None if the option does not fit."""
        key = id(interface), option
        if key not in self._after:
            relaxed = interface.partial or option.wild
            after = (self.relaxed_after if relaxed else self.after)(interface, option, step)
            self._after[key] = None if after is None else self._one.setdefault(after, after)
        return self._after[key]

    def after(self, interface: Interface, option: Option, step: Step) -> Interface | None:
        """The interface behind an Einsum, None if the option does not fit."""
        if option.absent:
            copied = [Live(t, key, 0, (), (), option.bits[t]) for t, key in option.keys.items()]
            return Interface(tuple(sorted((*interface.live, *copied))), interface.loops, interface.partial)
        n = len(interface.loops)
        if option.loops[:n] != interface.loops:
            return None
        waiting: list[Live] = []
        for live in interface.live:
            key = option.keys.get(live.slot)
            if key is not None:
                inside = self._inside(option, live.slot, live.shared)
                if inside != live.held or any(not memory for _, memory in inside):
                    return None
                cuts = option.cuts.get(live.slot, ())[: len(live.written)]
                if not (_alike(key.loops, live.key.loops) and key == live.key and _alike(live.written, cuts)):
                    return None
            if live.slot in step.needed:
                waiting.append(live)
        known = {live.slot for live in interface.live}
        born = [t for t in option.keys if t not in known and t in step.needed]
        keys = {**{live.slot: live.key for live in waiting}, **{t: option.keys[t] for t in born}}
        after = max((len(key.loops) for key in keys.values()), default=0)
        lives = [self._later(live, option, after) for live in waiting]
        for t in born:
            written = option.cuts.get(t, ())[: max(after - len(option.keys[t].loops), 0)]
            within = self._inside(option, t, after)
            seen = written if t in step.intermediates else ()
            lives.append(Live(t, option.keys[t], after, within, seen, option.bits[t]))
        return Interface(tuple(sorted(lives)), option.loops[:after])

    def relaxed_after(self, interface: Interface, option: Option, step: Step) -> Interface | None:
        """The same where not everything is known: it fits unless it surely does not.

        Keys are forgotten here: with those of all tensors that pass by there would be far too many interfaces, and what
        they would say of chains that are not listed is little.
        """
        lives: dict[Slot, Live] = {}
        for live in interface.live:
            own = option.keys.get(live.slot, live.key)
            if own.memory != live.key.memory or (own != live.key and ANY_LOOPS not in (own.loops, live.key.loops)):
                return None
            if live.slot in step.needed:
                key = own if live.key.loops else live.key
                lives[live.slot] = _of_memory(live.slot, key, max(live.bits, option.bits.get(live.slot, 0.0)))
        if option.absent:
            return self.after(interface, option, step)
        if not lives and not option.wild:
            return self.after(NOTHING, option, step)
        for slot, key in option.keys.items():
            if slot not in lives and slot in step.needed:
                lives[slot] = _of_memory(slot, key, option.bits.get(slot, 0.0))
        return Interface(tuple(sorted(lives.values())), (), any(live.key.loops for live in lives.values()))

    def _inside(self, option: Option, slot: Slot, shared: int) -> tuple[tuple[int, str], ...]:
        """Nodes of a tensor, other than the backing one, that stand above some of the shared loops."""
        return tuple(node for node in option.held.get(slot, ()) if node[0] < shared)

    def _later(self, live: Live, option: Option, after: int) -> Live:
        """A tensor that is needed later still, behind one more Einsum."""
        written = live.written[: max(after - len(live.key.loops), 0)]
        if live.slot in option.keys:
            inside = self._inside(option, live.slot, after)
            return Live(live.slot, live.key, after, inside, written, live.bits)
        shared = min(live.shared, after)
        held = tuple(n for n in live.held if n[0] < shared)
        return Live(live.slot, live.key, shared, held, written, live.bits)

    @property
    def exists(self) -> bool:
        """Whether there is any way at all."""
        return bool(self.stages) and all(len(stage.edges) for stage in self.stages)


def _of_memory(slot: Slot, key: Key, bits: float) -> Live:
    """A tensor of whose key only the memory is looked at, unless it is kept as a whole."""
    return Live(slot, Key(key.memory, ANY_LOOPS), 0, (), (), 0.0) if key.loops else Live(slot, key, 0, (), (), bits)


def _alike(these: Sequence[Cut], those: Sequence[Cut]) -> bool:
    """Whether loops of two Einsums cut a tensor alike."""
    return these == those and not any(rank.startswith(OWN) for _, rank, _ in these)


def corners(weights: Floats, least: Floats) -> list[Floats]:
    """For each row of `least` the lower left corners of all points x with weights @ x >= least (one or two costs).

    Whatever lies in this region has a product, with anything added, that is no less than that of some corner.
    """
    points, counts = lower_corners(weights, *lines_of(weights, least))
    return [own[:count].copy() for own, count in zip(points, counts, strict=True)]


def lines_of(weights: Floats, least: Floats) -> tuple[Floats, Floats]:
    """For each row of `least` the offsets of the lines that bound the first cost over the second, and the least second.

    Of one cost: its least, and nothing.
    """
    if weights.shape[1] != 2:
        return least[:, :1].copy(), least[:, :0]
    # the unit weights stand first
    lines = weights[2:]
    return np.concatenate([least[:, :1], least[:, 2:] / lines[:, 0]], axis=1), least[:, 1:2].copy()


def lower_corners(weights: Floats, offsets: Floats, second: Floats) -> tuple[Floats, Ints]:
    """Corners, see above, for lines: an array (rows, most corners, costs), and how many of its points each row has."""
    if not second.shape[1]:
        return offsets[:, None, :], np.ones(len(offsets), dtype=np.int64)
    # the boundary as x over y: the largest of the lines s - slope * y and of the least x; from the least y on
    lines = weights[2:]
    slopes = np.concatenate([[0.0], lines[:, 1] / lines[:, 0]])
    points, counts = compiled.lower_corners(slopes, offsets, second[:, 0])
    return points, counts
