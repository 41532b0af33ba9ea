"""Boundary states: what earlier Einsums of a cascade leave to later ones.

An option of an Einsum fits behind a boundary state or not; if it fits, another boundary state lies behind the Einsum.
"""

# An unexpanded option keeps the keys of tensors that it uses: without them its two neighbours chose loops that nothing
# between them could have. It forgets those of tensors that pass by: kept keys of these made millions of states. What
# lies behind an Einsum is put together from parts that are made once, and told by their identities, so that stages that
# repeat are the same objects.

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from einmap.arrays import Bools
from einmap.mapper.fusion.fronts.nests.loops import Cut, Kind
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature, Key, SignatureClass

type Slot = int
"""Stands for a shared tensor: no other one that is in use at the same time has the same."""

OWN = "~"
"""Prefix of the rank of a cut that is not a rank of the tensor: no other Einsum cuts alike."""


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


class BoundaryState(NamedTuple):
    """State between two Einsums: tensors that are needed later, and the loops that stay open.

    `partial`: of tensors that are not kept as a whole only the keys are looked at, or the memories where the loops are
    not known; nothing else is.
    """

    live: tuple[Live, ...]
    loops: tuple[tuple[Kind, int], ...]
    partial: bool = False


NOTHING = BoundaryState((), ())
ANY_LOOPS: tuple[Cut, ...] = ((("", "any"), "", 0),)
"""In place of the loops of a key: they are not known."""
OTHER_LOOPS: tuple[Cut, ...] = ((("", "other"), "", 0),)
"""In place of the loops of a key: they are others than those of all listed options that come later."""


@dataclass(frozen=True, eq=False)
class Option:
    """One signature of an Einsum, or all chains of a signature class of which nothing is known.

    `bits`: for each shared tensor those of its tile in the memory that backs it. `absent`: the Einsum is a copy that is
    left out. `signature_class`: it stands for all chains of a signature class that are not listed; of the keys only the
    memories are known, unless no loop may stand above these.
    """

    signature: FusionSignature
    keys: Mapping[Slot, Key]
    held: Mapping[Slot, tuple[tuple[int, str], ...]]
    cuts: Mapping[Slot, tuple[Cut, ...]]
    bits: Mapping[Slot, float]
    absent: bool = False
    signature_class: SignatureClass | None = None

    @property
    def unexpanded(self) -> bool:
        """Whether it stands for chains that are not listed."""
        return self.signature_class is not None

    @property
    def loops(self) -> tuple[tuple[Kind, int], ...]:
        """Kind and iterations of the fused loops."""
        return self.signature.loops


@dataclass(frozen=True, eq=False)
class EinsumOptions:
    """One Einsum as other ones see it, or several that look the same.

    `needed`: slots in use behind it; `born`: of tensors that it is the first to use; `intermediates`: of those that
    another Einsum writes, or another one reads, but for states of a recurrence that are read early. `times`: how often
    it runs. `states`: of a recurrence, that it writes.
    """

    options: Sequence[Option]
    needed: frozenset[Slot]
    born: frozenset[Slot]
    intermediates: frozenset[Slot]
    times: float
    states: frozenset[Slot] = frozenset()

    @cached_property
    def slots(self) -> frozenset[Slot]:
        """Tensors that it uses, the same with all its options."""
        return frozenset().union(*(option.keys for option in self.options[:1]))

    @cached_property
    def structure(self) -> Hashable:
        """All but the options that says what lies behind the Einsum."""
        return self.slots, self.needed, self.intermediates, self.states

    @cached_property
    def unexpanded(self) -> Bools:
        """Whether each option stands for chains that are not listed."""
        return np.array([option.unexpanded for option in self.options], dtype=bool)

    @cached_property
    def listed_keys(self) -> Mapping[Slot, frozenset[Key]]:
        """For each tensor the keys below loops that listed options have."""
        listed = [option for option in self.options if not option.unexpanded]
        return {t: frozenset([o.keys[t] for o in listed if t in o.keys and o.keys[t].loops]) for t in self.slots}

    @cached_property
    def used_again(self) -> tuple[Slot, ...]:
        """The tensors that later Einsums use again."""
        return tuple(sorted(self.slots & self.needed))


class Passing(NamedTuple):
    """Facts that all options of a step share behind a boundary state.

    `used`: tensors that the step uses, of those that are needed, `waiting`: those that still are behind it, `born`:
    slots of new ones. `depth`: loops that waiting ones keep open.
    """

    used: tuple[Live, ...]
    waiting: tuple[Live, ...]
    born: tuple[Slot, ...]
    depth: int


@dataclass
class Transitions:
    """The boundary state behind an Einsum, one object for those that are equal.

    Tensors that are needed are one object each, too, so that boundary states are told by their identities.
    """

    _lives: dict[Live, Live] = field(default_factory=dict)
    _states: dict[Hashable, BoundaryState] = field(default_factory=dict)
    _passing: dict[tuple[int, EinsumOptions], Passing] = field(default_factory=dict)
    _later: dict[Hashable, Live] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nothing = self.interned(NOTHING)

    def of(self, boundary_state: BoundaryState, option: Option, step: EinsumOptions) -> BoundaryState | None:
        """The boundary state behind an Einsum, None if the option does not fit. `boundary_state`: one that was made
        here.
        """
        if boundary_state.partial or option.unexpanded:
            return self.relaxed_after(boundary_state, option, step)
        return self.after(boundary_state, option, step)

    def after(self, boundary_state: BoundaryState, option: Option, step: EinsumOptions) -> BoundaryState | None:
        """The boundary state behind an Einsum where all fronts are known; None if the option does not fit."""
        if option.absent:
            copied = [self.once(Live(t, key, 0, (), (), option.bits[t])) for t, key in option.keys.items()]
            return self.joined((*boundary_state.live, *copied), boundary_state.loops, boundary_state.partial)
        if option.loops[: len(boundary_state.loops)] != boundary_state.loops:
            return None
        passing = self._passing_by(boundary_state, step)
        for live in passing.used:
            key = option.keys[live.slot]
            inside = _inside(option, live.slot, live.shared)
            if inside != live.held or any(not memory for _, memory in inside):
                return None
            cuts = option.cuts.get(live.slot, ())[: len(live.written)]
            if not (_alike(key.loops, live.key.loops) and key == live.key and _alike(live.written, cuts)):
                return None
        after = self.depth_behind(boundary_state, option, step)
        lives = [self._needed_later(live, option, after, live.slot in step.states) for live in passing.waiting]
        lives += [self._born(option, t, after, t in step.intermediates) for t in passing.born]
        return self.joined(lives, option.loops[:after])

    def relaxed_after(self, boundary_state: BoundaryState, option: Option, step: EinsumOptions) -> BoundaryState | None:
        """The boundary state behind an Einsum where not all is known: an option fits unless it surely does not.

        Keys of the tensors that it uses stay, as far as they are known; those of tensors that pass by are forgotten.
        """
        lives = self._relaxed_lives(boundary_state, option, step)
        if lives is not None and (option.absent or not (lives or option.unexpanded)):
            return self.after(boundary_state if option.absent else self.nothing, option, step)
        return None if lives is None else self._all_relaxed(lives, option, step)

    def _all_relaxed(self, lives: dict[Slot, Live], option: Option, step: EinsumOptions) -> BoundaryState:
        """The boundary state with some tensors, and those that an option is the first to use."""
        for slot, key in option.keys.items():
            if slot not in lives and slot in step.needed:
                lives[slot] = by_key(slot, key, option.bits.get(slot, 0.0))
        cut = any(live.key.loops for live in lives.values())
        return self.joined([self.once(live) for live in lives.values()], (), cut)

    def _relaxed_lives(
        self, boundary_state: BoundaryState, option: Option, step: EinsumOptions
    ) -> dict[Slot, Live] | None:
        """Tensors of a boundary state still needed behind an Einsum; None if the option surely does not fit."""
        lives: dict[Slot, Live] = {}
        for live in boundary_state.live:
            option_key = option.keys.get(live.slot, live.key)
            if option_key.memory != live.key.memory:
                return None
            used, known = live.slot in option.keys, ANY_LOOPS not in (option_key.loops, live.key.loops)
            if used and known and not _alike(option_key.loops, live.key.loops):
                return None
            if live.slot in step.needed:
                key = option_key if live.key.loops == ANY_LOOPS else live.key
                bits = max(live.bits, option.bits.get(live.slot, 0.0))
                lives[live.slot] = (by_key if used else by_memory)(live.slot, key, bits)
        return lives

    def depth_behind(self, boundary_state: BoundaryState, option: Option, step: EinsumOptions) -> int:
        """How many loops stay open behind an Einsum where all fronts are known."""
        passing = self._passing_by(boundary_state, step)
        return max([passing.depth, *[len(option.keys[t].loops) for t in passing.born]])

    def passed_by(self, live: Live, after: int) -> Live:
        """A tensor that an Einsum does not use, behind it, where so many loops stay open."""
        return self._later_live(live, after, None, live.written)

    def relaxed_live(self, live: Live) -> Live:
        """A tensor that an Einsum does not use, behind it, where not all is known: its key is forgotten."""
        return self.once(by_memory(live.slot, live.key, max(live.bits, 0.0)))

    def _passing_by(self, boundary_state: BoundaryState, step: EinsumOptions) -> Passing:
        key = id(boundary_state), step
        if key not in self._passing:
            slots, live_slots = step.slots, [live.slot for live in boundary_state.live]
            waiting = [live for live in boundary_state.live if live.slot in step.needed]
            self._passing[key] = Passing(
                tuple([live for live in boundary_state.live if live.slot in slots]),
                tuple(waiting),
                tuple([slot for slot in step.used_again if slot not in live_slots]),
                max([len(live.key.loops) for live in waiting], default=0),
            )
        return self._passing[key]

    def _needed_later(self, live: Live, option: Option, after: int, writes: bool) -> Live:
        """A tensor that is needed later still, behind one more Einsum; `writes`: a state of a recurrence, this one."""
        inside = _inside(option, live.slot, after) if live.slot in option.keys else None
        return self._later_live(live, after, inside, option.cuts.get(live.slot, ()) if writes else live.written)

    def _later_live(
        self, live: Live, after: int, inside: tuple[tuple[int, str], ...] | None, cuts: tuple[Cut, ...]
    ) -> Live:
        """A tensor behind one more Einsum; `inside`: where that holds it, None where it does not use it."""
        key = id(live), after, inside, cuts
        if key not in self._later:
            written = cuts[: max(after - len(live.key.loops), 0)]
            shared = min(live.shared, after) if inside is None else after
            held = tuple([node for node in live.held if node[0] < shared]) if inside is None else inside
            self._later[key] = self.once(Live(live.slot, live.key, shared, held, written, live.bits))
        return self._later[key]

    def _born(self, option: Option, slot: Slot, after: int, intermediate: bool) -> Live:
        """A tensor that an Einsum is the first to use."""
        key = option, slot, after, intermediate
        if key not in self._later:
            backing = option.keys[slot]
            written = option.cuts.get(slot, ())[: max(after - len(backing.loops), 0)] if intermediate else ()
            inside = _inside(option, slot, after)
            self._later[key] = self.once(Live(slot, backing, after, inside, written, option.bits[slot]))
        return self._later[key]

    def interned(self, boundary_state: BoundaryState) -> BoundaryState:
        """The one object that stands for a boundary state: equal ones are interned."""
        return self.joined(
            [self.once(live) for live in boundary_state.live], boundary_state.loops, boundary_state.partial
        )

    def once(self, live: Live) -> Live:
        """The one object that stands for a tensor: equal ones are interned."""
        return self._lives.setdefault(live, live)

    def joined(
        self, lives: Sequence[Live], loops: tuple[tuple[Kind, int], ...], partial: bool = False
    ) -> BoundaryState:
        """The boundary state of some tensors, each one object."""
        live = tuple(sorted(lives, key=itemgetter(0)))
        key = tuple(map(id, live)), loops, partial
        state = self._states.get(key)
        if state is None:
            state = self._states[key] = BoundaryState(live, loops, partial)
        return state


def _inside(option: Option, slot: Slot, shared: int) -> tuple[tuple[int, str], ...]:
    """Nodes of a tensor, other than the backing one, that stand above some of the shared loops."""
    nodes = option.held.get(slot, ())
    return tuple([node for node in nodes if node[0] < shared]) if nodes else ()


def by_memory(slot: Slot, key: Key, bits: float) -> Live:
    """A tensor of whose key only the memory is looked at, unless it is kept as a whole."""
    return Live(slot, Key(key.memory, ANY_LOOPS), 0, (), (), 0.0) if key.loops else Live(slot, key, 0, (), (), bits)


def by_key(slot: Slot, key: Key, bits: float) -> Live:
    """A tensor of which nothing but the key is looked at, unless it is kept as a whole."""
    return Live(slot, key, 0, (), (), 0.0 if key.loops else bits)


def _alike(cuts: Sequence[Cut], others: Sequence[Cut]) -> bool:
    """Whether loops of two Einsums cut a tensor alike."""
    return cuts == others and not any(rank.startswith(OWN) for _, rank, _ in cuts)
