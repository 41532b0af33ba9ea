"""The edges of a stage: which options fit behind which boundary states, and where they lead.

A boundary state falls into two parts: the tensors that the Einsum uses, and the others, which pass by. Which options
fit, and what they leave of the first part, is found once for all boundary states that are alike in it. What becomes of
the second part depends only on how deep the loops are that stay open.
"""

# Without the two parts each option was tried behind each boundary state, and with many tensors in use at a time, as in
# the cell of a recurrent network, that took most of the time of a search.

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from einmap.arrays import Ints
from einmap.mapper.fusion.fronts.nests.loops import Kind
from einmap.mapper.fusion.paths.boundary_states import BoundaryState, EinsumOptions, Live, Option, Transitions

UNCHANGED, RELAXED = -1, -2
"""State of tensors that pass by, where it is not that only so many loops stay open."""


class Target(NamedTuple):
    """Result of some options: tensors that the Einsum uses, and what becomes of the others.

    `passing`: UNCHANGED, RELAXED, or the number of loops that stay open. `cut`: whether loops stand above some tensor.
    """

    own: tuple[Live, ...]
    passing: int
    loops: tuple[tuple[Kind, int], ...]
    cut: bool


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
    """

    step: EinsumOptions
    behind: Transitions
    matching: Callable[[BoundaryState], Sequence[int]]
    known: dict[Hashable, dict[Option, Target | None]]
    reached: list[BoundaryState] = field(default_factory=list)
    """The boundary states behind the Einsum, in the order in which they are found."""
    _numbers: dict[int, int] = field(default_factory=dict)
    _fitting: dict[tuple[object, ...], Fitting] = field(default_factory=dict)
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
        if id(after) not in self._numbers:
            self._numbers[id(after)] = len(self.reached)
            self.reached.append(after)
        return self._numbers[id(after)]

    def _pass(self, passing: int, others: Sequence[Live]) -> tuple[tuple[Live, ...], bool]:
        """State of tensors that pass by, and whether loops stand above some where these are not looked at."""
        if passing == UNCHANGED:
            return tuple(others), False
        waiting = [live for live in others if live.slot in self.step.needed]
        if passing == RELAXED:
            relaxed = tuple([self.behind.relaxed_live(live) for live in waiting])
            return relaxed, any(live.key.loops for live in relaxed)
        return tuple([self.behind.passed_by(live, passing) for live in waiting]), False
