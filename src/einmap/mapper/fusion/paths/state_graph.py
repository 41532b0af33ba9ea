"""The state graph of a cascade: which options of successive Einsums fit.

Boundary states and signatures make a graph from the first Einsum to the last; paths through it are the ways to fuse the
cascade. Its edges cost at least what the cost-to-go tables say, so that sums along paths bound the whole, space that
Einsums share aside.

Shared tensors go by slots, not by names, so that structure that repeats, such as layers of a network, has the same
stages again: each is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from hashlib import blake2b
from typing import NamedTuple
from weakref import WeakValueDictionary

import numpy as np

from einmap.arrays import Bools, Ints
from einmap.mapper.fusion.paths.boundary_states import BoundaryStates, EinsumOptions, Slot, StateNumbers
from einmap.mapper.fusion.paths.stage_edges import KeysAhead, KeysOfCascade, edges_of

KEPT = 8
"""Graphs after which stages that none of them had are forgotten: lists that have grown since do not come again."""


class Edge(NamedTuple):
    """A signature of an Einsum between two boundary states, all by number."""

    before: int
    option: int
    after: int


@dataclass(frozen=True, eq=False)
class Stage:
    """A step between boundary states. Several Einsums share it where structure repeats. `edges`: rows as of Edge."""

    step: EinsumOptions
    before: BoundaryStates
    boundary_states: BoundaryStates
    edges: Ints

    def leading_to(self, after: Bools) -> Stage:
        """This stage with only the edges that lead to some of its boundary states: for each whether it is one."""
        if after.all():
            return self
        return Stage(self.step, self.before, self.boundary_states, self.edges[after[self.edges[:, 2]]])

    @cached_property
    def options(self) -> tuple[int, ...]:
        """The options that an edge has, in rising order."""
        return tuple(np.flatnonzero(np.bincount(self.edges[:, 1])).tolist())

    @cached_property
    def origins(self) -> Bools:
        """For each boundary state before whether an edge has it."""
        found = np.zeros(len(self.before), dtype=bool)
        found[self.edges[:, 0]] = True
        return found


@dataclass
class StateGraph:
    """All ways to fuse a cascade, made again and again with other options. What stays the same is not made anew.

    `numbers`: those that options and boundary states are made of; other graphs of the same options may have them, too.
    """

    names: Sequence[str]
    numbers: StateNumbers = field(default_factory=StateNumbers)
    stages: Sequence[Stage] = ()
    _forward: dict[tuple[EinsumOptions, BoundaryStates, KeysAhead], Stage] = field(default_factory=dict)
    _leading: dict[tuple[Stage, bytes], Stage] = field(default_factory=dict)
    _states: WeakValueDictionary[tuple[tuple[Slot, ...], int, bytes], BoundaryStates] = field(
        default_factory=WeakValueDictionary
    )
    _built: int = 0
    _last_used: dict[Stage, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._keys = KeysOfCascade(self.numbers)
        self._first = self._once(BoundaryStates(self.numbers, (), np.zeros((1, 2), dtype=np.int64)))

    def build(
        self, steps: Sequence[EinsumOptions], go_on: Callable[[str, int], None] = lambda _name, _position: None
    ) -> None:
        """Follow all options from the first Einsum on; what leads nowhere is left out.

        `steps`: one for each Einsum; those that look the same are one object. `go_on` hears where the work is, often;
        what it raises ends it.
        """
        forward: list[Stage] = []
        before = self._first
        for position, (step, ahead) in enumerate(zip(steps, self._keys.of(steps), strict=True)):
            key = step, before, ahead
            if key not in self._forward:
                after, edges = edges_of(step, before, ahead, partial(go_on, self.names[position], position))
                self._forward[key] = Stage(step, before, self._once(after), edges)
            forward.append(self._forward[key])
            before = forward[-1].boundary_states
        stages: list[Stage] = []
        used = np.arange(len(before)) < 1
        for stage in reversed(forward):
            where = stage, used.tobytes()
            if where not in self._leading:
                self._leading[where] = stage.leading_to(used)
            stages.append(self._leading[where])
            used = stages[-1].origins
        self.stages = stages[::-1]
        self._forget([*forward, *stages])

    def _forget(self, used: Sequence[Stage]) -> None:
        """Forget stages that were not used for long. `used`: those of the graph of now."""
        self._built += 1
        self._last_used |= dict.fromkeys(used, self._built)
        old = {stage for stage, built in self._last_used.items() if built <= self._built - KEPT}
        if old:
            self._forward = {key: stage for key, stage in self._forward.items() if stage not in old}
            self._leading = {key: stage for key, stage in self._leading.items() if not old & {key[0], stage}}
            self._last_used = {stage: built for stage, built in self._last_used.items() if stage not in old}

    def _once(self, states: BoundaryStates) -> BoundaryStates:
        """The one object that stands for some boundary states."""
        key = states.slots, len(states), blake2b(states.rows.tobytes(), digest_size=32).digest()
        return self._states.setdefault(key, states)

    @property
    def exists(self) -> bool:
        """Whether there is any way at all."""
        return bool(self.stages) and all(len(stage.edges) for stage in self.stages)
