"""The state graph of a cascade: which options of successive Einsums fit.

Boundary states and signatures make a graph from the first Einsum to the last; paths through it are the ways to fuse the
cascade. Its edges cost at least what the cost-to-go tables say, so that sums along paths bound the whole, space that
Einsums share aside.

Shared tensors go by slots, not by names, so that structure that repeats, such as layers of a network, has the same
stages again: each is made once.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import NamedTuple

import numpy as np

from einmap.arrays import Ints
from einmap.mapper.fusion.fronts.nests.signatures import Key
from einmap.mapper.fusion.paths.boundary_states import (
    ANY_LOOPS,
    BoundaryState,
    EinsumOptions,
    Option,
    Slot,
    Transitions,
)
from einmap.mapper.fusion.paths.stage_edges import KeysAhead, KeysOfCascade, StageEdges, Target

NOTHING = np.zeros(0, dtype=np.int64)


class Edge(NamedTuple):
    """A signature of an Einsum between two boundary states, all by number."""

    before: int
    option: int
    after: int


@dataclass(frozen=True, eq=False)
class Stage:
    """A step between boundary states. Several Einsums share it where structure repeats. `edges`: rows as of Edge."""

    step: EinsumOptions
    before: tuple[BoundaryState, ...]
    boundary_states: tuple[BoundaryState, ...]
    edges: Ints

    def leading_to(self, after: frozenset[int]) -> Stage:
        """This stage with only the edges that lead to some of its boundary states."""
        if len(after) == len(self.boundary_states):
            return self
        leads = np.zeros(len(self.boundary_states), dtype=bool)
        leads[list(after)] = True
        return Stage(self.step, self.before, self.boundary_states, self.edges[leads[self.edges[:, 2]]])

    @cached_property
    def options(self) -> tuple[int, ...]:
        """The options that an edge has."""
        return tuple(dict.fromkeys(self.edges[:, 1].tolist()))

    @cached_property
    def origins(self) -> frozenset[int]:
        """The boundary states before that an edge has."""
        return frozenset(self.edges[:, 0].tolist())


@dataclass
class OptionIndex:
    """The options of a step by what they must have in common with a boundary state: keys, and the first loops.

    `met`: slots of tensors that the step uses and a boundary state before it may have.
    """

    options: Sequence[Option]
    met: Sequence[Slot]
    _by_loops: dict[int, dict[Hashable, list[int]]] = field(default_factory=dict)
    _by_known: dict[tuple[bool, ...], dict[Hashable, list[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._unexpanded: dict[Hashable, list[int]] = {}
        self._absent: list[int] = []
        self._keys = [tuple(option.keys[t] for t in self.met) for option in self.options]
        for o, option in enumerate(self.options):
            if option.unexpanded:
                self._unexpanded.setdefault(tuple(key.memory for key in self._keys[o]), []).append(o)
            if option.absent:
                self._absent.append(o)

    def of(self, boundary_state: BoundaryState) -> Iterator[int]:
        """Numbers of the options that may fit behind a boundary state."""
        keys = {live.slot: live.key for live in boundary_state.live}
        live_keys = tuple(keys[t] for t in self.met if t in keys)
        memories = tuple(key.memory for key in live_keys)
        yield from self._unexpanded.get(memories, ())
        if boundary_state.partial:
            known = tuple([key.loops != ANY_LOOPS for key in live_keys])
            yield from self._with_known(known).get(_told(live_keys, known), ())
            return
        yield from self._with_loops(len(boundary_state.loops)).get((live_keys, boundary_state.loops), ())
        yield from self._absent

    def _with_known(self, known: tuple[bool, ...]) -> dict[Hashable, list[int]]:
        """Listed options by those keys that are known, and by the memories of the other tensors."""
        if known not in self._by_known:
            options = self._by_known[known] = {}
            for o, option in enumerate(self.options):
                if not option.unexpanded:
                    options.setdefault(_told(self._keys[o], known), []).append(o)
        return self._by_known[known]

    def _with_loops(self, n: int) -> dict[Hashable, list[int]]:
        """Listed options by keys and the first n loops."""
        if n not in self._by_loops:
            options = self._by_loops[n] = {}
            for o, option in enumerate(self.options):
                if not (option.unexpanded or option.absent):
                    options.setdefault((self._keys[o], option.loops[:n]), []).append(o)
        return self._by_loops[n]


def _told(keys: Sequence[Key], known: Sequence[bool]) -> Hashable:
    """Keys as far as they are known: all, or the memories alone."""
    return tuple([key if all_known else key.memory for key, all_known in zip(keys, known, strict=True)])


@dataclass
class StateGraph:
    """All ways to fuse a cascade, made again and again with other options. What stays the same is not made anew."""

    names: Sequence[str]
    stages: Sequence[Stage] = ()
    _forward: dict[tuple[EinsumOptions, tuple[int, ...], KeysAhead], Stage] = field(default_factory=dict)
    _leading: dict[tuple[Stage, frozenset[int]], Stage] = field(default_factory=dict)
    behind: Transitions = field(default_factory=Transitions)
    _keys: KeysOfCascade = field(default_factory=KeysOfCascade)
    _targets: dict[Hashable, dict[Option, Target | None]] = field(default_factory=dict)

    def build(
        self, steps: Sequence[EinsumOptions], go_on: Callable[[str, int], None] = lambda _name, _position: None
    ) -> None:
        """Follow all options from the first Einsum on; what leads nowhere is left out.

        `steps`: one for each Einsum; those that look the same are one object. `go_on` hears where the work is, often;
        what it raises ends it.
        """
        forward: list[Stage] = []
        before: tuple[BoundaryState, ...] = (self.behind.nothing,)
        for position, (step, ahead) in enumerate(zip(steps, self._keys.of(steps), strict=True)):
            key = step, tuple(map(id, before)), ahead
            if key not in self._forward:
                self._forward[key] = self._stage(step, before, ahead, partial(go_on, self.names[position], position))
            forward.append(self._forward[key])
            before = forward[-1].boundary_states
        stages: list[Stage] = []
        used = frozenset(range(min(len(before), 1)))
        for stage in reversed(forward):
            where = stage, used
            if where not in self._leading:
                self._leading[where] = stage.leading_to(used)
            stages.append(self._leading[where])
            used = stages[-1].origins
        self.stages = stages[::-1]

    def _stage(
        self, step: EinsumOptions, before: tuple[BoundaryState, ...], ahead: KeysAhead, go_on: Callable[[], None]
    ) -> Stage:
        """Edges that lead on behind some boundary states, and where to."""
        slots = {live.slot for boundary_state in before for live in boundary_state.live}
        met = sorted(slots.intersection(*(option.keys for option in step.options[:1])))
        matching = OptionIndex(step.options, met)
        leading = StageEdges(step, self.behind, lambda state: list(matching.of(state)), self._targets, ahead)
        options, after = [NOTHING], [NOTHING]
        for boundary_state in before:
            go_on()
            of_state, leads_to = leading.of(boundary_state)
            options.append(of_state)
            after.append(leads_to)
        origins = np.repeat(np.arange(len(before)), [len(of_state) for of_state in options[1:]])
        edges = np.stack([origins, np.concatenate(options), np.concatenate(after)], axis=1)
        return Stage(step, before, tuple(leading.reached), edges)

    @property
    def exists(self) -> bool:
        """Whether there is any way at all."""
        return bool(self.stages) and all(len(stage.edges) for stage in self.stages)
