"""The edges of a stage: which options fit behind which boundary states, and where they lead.

A boundary state falls into two parts: the tensors that the Einsum uses, and the others, which pass by. Which options
fit, and what they leave of the first part, is found once for all boundary states that are alike in it. What becomes of
the second part depends only on how deep the loops are that stay open. Boundary states that differ in keys that no later
Einsum tells apart are one.
"""

# Without the two parts each option was tried behind each boundary state, and with many tensors in use at a time, as in
# the cell of a recurrent network, that took most of the time of a search.

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from einmap.arrays import Ints
from einmap.mapper.fusion.fronts.nests.loops import Kind
from einmap.mapper.fusion.fronts.nests.signatures import Key
from einmap.mapper.fusion.paths.boundary_states import (
    ANY_LOOPS,
    OTHER_LOOPS,
    BoundaryState,
    EinsumOptions,
    Live,
    Option,
    Slot,
    Transitions,
    by_key,
    by_memory,
)

type Keys = frozenset[Key]

NONE: Keys = frozenset()


@dataclass(frozen=True, eq=False)
class KeysAhead:
    """Keys below loops that listed options have, behind one Einsum. `of_next`: of the next one, for each tensor that it
    uses; `later`: of it or any later one. `stays`: the next one may be left out; what is before it is behind it, then.

    Where the next one has no listed option with a key only chains that are not listed can follow, and these look at
    little: most boundary states behind long lists are alike then.
    """

    of_next: Mapping[Slot, Keys]
    later: Mapping[Slot, Keys]
    stays: bool

    def told(self, state: BoundaryState, behind: Transitions) -> BoundaryState:
        """The boundary state with only what later Einsums tell apart."""
        if self.stays or not (state.partial or self.ends(state.live)):
            return state
        lives = [behind.once(self.told_live(live)) for live in state.live]
        return behind.joined(lives, (), any(live.key.loops for live in lives))

    def ends(self, lives: Sequence[Live]) -> bool:
        """Whether no listed option of the next Einsum can follow behind some tensors."""
        return any(
            live.key.loops and live.slot in self.of_next and live.key not in self.of_next[live.slot] for live in lives
        )

    def told_live(self, live: Live) -> Live:
        """A tensor where not all is known, with only what later Einsums tell apart."""
        if live.slot not in self.of_next:
            return by_memory(live.slot, live.key, live.bits)
        if live.key.loops in ((), ANY_LOOPS) or live.key in self.later.get(live.slot, NONE):
            return by_key(live.slot, live.key, live.bits)
        return by_key(live.slot, Key(live.key.memory, OTHER_LOOPS), live.bits)


@dataclass
class KeysOfCascade:
    """The keys ahead of each Einsum, one object for those that are equal."""

    _once: dict[Keys, Keys] = field(default_factory=dict)
    _united: dict[tuple[int, int], Keys] = field(default_factory=dict)
    _ahead: dict[Hashable, KeysAhead] = field(default_factory=dict)

    def of(self, steps: Sequence[EinsumOptions]) -> list[KeysAhead]:
        """The keys ahead of each Einsum."""
        later: dict[Slot, Keys] = {}
        found = [self._known({}, later, stays=False)]
        for step in reversed(steps[1:]):
            # a tensor that the step is the first to use is not there before it, and may have the slot of another one
            own = {t: self._interned(keys) for t, keys in step.listed_keys.items() if t not in step.born}
            later = {t: self._union(own.get(t, NONE), later.get(t, NONE)) for t in step.needed - step.born} | {
                t: keys for t, keys in own.items() if t not in step.needed
            }
            stays = bool(later) and any(option.absent for option in step.options)
            found.append(self._known(own, {t: later[t] for t in own}, stays=stays))
        return found[::-1]

    def _known(self, of_next: Mapping[Slot, Keys], later: Mapping[Slot, Keys], stays: bool) -> KeysAhead:
        key = (
            tuple(sorted((slot, id(keys)) for slot, keys in of_next.items())),
            tuple(sorted((slot, id(keys)) for slot, keys in later.items())),
            stays,
        )
        return self._ahead.setdefault(key, KeysAhead(of_next, later, stays))

    def _interned(self, keys: Keys) -> Keys:
        return self._once.setdefault(keys, keys)

    def _union(self, one: Keys, other: Keys) -> Keys:
        key = id(one), id(other)
        if key not in self._united:
            self._united[key] = self._interned(one | other)
        return self._united[key]


UNCHANGED, RELAXED, TOLD = -1, -2, -3
"""State of tensors that pass by, where it is not that only so many loops stay open."""


class Target(NamedTuple):
    """Result of some options: tensors that the Einsum uses, and what becomes of the others.

    `passing`: UNCHANGED, RELAXED, TOLD, or the number of loops that stay open. `cut`: whether loops stand above some
    tensor. `told`: it has nothing that later Einsums do not tell apart.
    """

    own: tuple[Live, ...]
    passing: int
    loops: tuple[tuple[Kind, int], ...]
    cut: bool
    told: bool = False


UNKNOWN = Target((), UNCHANGED, (), False)
"""In place of a target that is to be found."""


class Fitting(NamedTuple):
    """The options that fit behind boundary states that are alike in what the Einsum uses, and their targets."""

    options: Ints
    target: Ints
    targets: tuple[Target, ...]


@dataclass
class StageEdges:
    """The edges of one stage. `matching`: numbers of the options that may fit behind a boundary state.

    `known`: of stages before, what options lead to behind boundary states that are alike in what the Einsum uses.
    `ahead`: what later Einsums tell apart.
    """

    step: EinsumOptions
    behind: Transitions
    matching: Callable[[BoundaryState], Sequence[int]]
    known: dict[Hashable, dict[Option, Target | None]]
    ahead: KeysAhead
    reached: list[BoundaryState] = field(default_factory=list)
    """The boundary states behind the Einsum, in the order in which they are found."""
    _numbers: dict[int, int] = field(default_factory=dict)
    _fitting: dict[tuple[object, ...], Fitting] = field(default_factory=dict)
    _told_targets: dict[Target, Target] = field(default_factory=dict)
    _passed: dict[tuple[int, tuple[int, ...]], tuple[tuple[Live, ...], bool]] = field(default_factory=dict)

    def of(self, before: BoundaryState) -> tuple[Ints, Ints]:
        """The options that fit behind a boundary state, and the numbers of those that they lead to."""
        slots = self.step.slots
        used = [live for live in before.live if live.slot in slots]
        others = [live for live in before.live if live.slot not in slots]
        depth = max([len(live.key.loops) for live in others if live.slot in self.step.needed], default=0)
        alike = tuple(map(id, used)), before.loops, before.partial, bool(others), depth
        fitting = self._fitting.get(alike)
        if fitting is None:
            known = self.known.setdefault((self.step.structure, alike), {})
            fitting = self._fitting[alike] = self._fit(before, known)
        key = tuple(map(id, others))
        numbers = [self._number(target, others, key) for target in fitting.targets]
        return fitting.options, np.array(numbers, dtype=np.int64)[fitting.target]

    def _fit(self, before: BoundaryState, known: dict[Option, Target | None]) -> Fitting:
        """Try each option behind a boundary state."""
        options, numbers, targets = list[int](), list[int](), dict[Target, int]()
        for o in self.matching(before):
            option = self.step.options[o]
            target = known.get(option, UNKNOWN)
            if target is UNKNOWN:
                target = known[option] = self._target(before, option)
            if target is not None:
                target = self._told_targets.get(target) or self._told_target(target)
                options.append(o)
                numbers.append(targets.setdefault(target, len(targets)))
        return Fitting(np.array(options, dtype=np.int64), np.array(numbers, dtype=np.int64), tuple(targets))

    def _target(self, before: BoundaryState, option: Option) -> Target | None:
        """Result of an option behind a boundary state; None if it does not fit."""
        after = self.behind.of(before, option, self.step)
        if after is None:
            return None
        own = tuple([live for live in after.live if live.slot in self.step.slots])
        if option.absent:
            passing, cut = UNCHANGED, before.partial
        elif (before.partial or option.unexpanded) and (option.unexpanded or self._keeps(before)):
            passing, cut = RELAXED, any(live.key.loops for live in own)
        else:
            passing, cut = self.behind.depth_behind(before, option, self.step), False
        return Target(own, passing, after.loops, cut)

    def _told_target(self, target: Target) -> Target:
        """A target with only what later Einsums tell apart, where that is known whatever passes by."""
        told = target
        if not self.ahead.stays and (target.cut or self.ahead.ends(target.own)):
            own = tuple([self.behind.once(self.ahead.told_live(live)) for live in target.own])
            told = Target(own, RELAXED if target.passing == RELAXED else TOLD, (), cut=True, told=True)
        self._told_targets[target] = told
        return told

    def _keeps(self, before: BoundaryState) -> bool:
        """Whether something of a boundary state is still needed behind the Einsum."""
        return any(live.slot in self.step.needed for live in before.live)

    def _number(self, target: Target, others: Sequence[Live], key: tuple[int, ...]) -> int:
        """The number of the boundary state that a target makes with the tensors that pass by."""
        passing = target.passing, key
        if passing not in self._passed:
            self._passed[passing] = self._pass(target.passing, others)
        lives, cut = self._passed[passing]
        after = self.behind.joined((*target.own, *lives), target.loops, target.cut or cut)
        number = self._numbers.get(id(after))
        if number is None:
            told = after if target.told else self.ahead.told(after, self.behind)
            number = self._numbers[id(after)] = self._numbers.setdefault(id(told), len(self.reached))
            if number == len(self.reached):
                self.reached.append(told)
        return number

    def _pass(self, passing: int, others: Sequence[Live]) -> tuple[tuple[Live, ...], bool]:
        """State of tensors that pass by, and whether loops stand above some where these are not looked at."""
        if passing == UNCHANGED:
            return tuple(others), False
        waiting = [live for live in others if live.slot in self.step.needed]
        if passing in (RELAXED, TOLD):
            of_live = self.behind.relaxed_live if passing == RELAXED else self.ahead.told_live
            relaxed = tuple([self.behind.once(of_live(live)) for live in waiting])
            return relaxed, any(live.key.loops for live in relaxed)
        return tuple([self.behind.passed_by(live, passing) for live in waiting]), False
