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
from functools import cached_property
from itertools import accumulate

import numpy as np

from einmap.arrays import Ints
from einmap.mapper.fusion.paths import state_kernels
from einmap.mapper.fusion.paths.boundary_states import BoundaryStates, EinsumOptions, Slot, StateNumbers
from einmap.mapper.fusion.paths.kernel_records import Ahead, Fitting, Layout

type Keys = frozenset[int]

NONE: Keys = frozenset()
NO_EDGES = np.zeros((0, 3), dtype=np.int64)
EDGES_AT_A_TIME = 500_000
"""Edges that one call of the kernel makes, but for those of one boundary state: some hundredths of a second."""


@dataclass(frozen=True, eq=False)
class KeysAhead:
    """Numbers of keys below loops that listed options have, behind one Einsum.

    `of_next`: of the next one, for each tensor that it uses; `later`: of it or any later one. `stays`: the next one may
    be left out; what is before it is behind it, then. Where the next one has no listed option with a key only chains
    that are not listed can follow, and these look at little: most boundary states behind long lists are alike then.
    """

    of_next: Mapping[Slot, Keys]
    later: Mapping[Slot, Keys]
    stays: bool

    @cached_property
    def by_slot(self) -> Ahead:
        """The keys as kernels take them."""
        n = max(self.of_next, default=-1) + 1
        is_next = np.array([slot in self.of_next for slot in range(n)], dtype=bool)
        return Ahead(is_next, *_in_rows(self.of_next, n), *_in_rows(self.later, n), self.stays)


def _in_rows(keys: Mapping[Slot, Keys], n: int) -> tuple[Ints, Ints]:
    """Where the keys of each of `n` slots begin, and all of them, rising for each slot."""
    every = [sorted(keys.get(slot, NONE)) for slot in range(n)]
    begins = np.array([0, *accumulate(map(len, every))], dtype=np.int64)
    return begins, np.array([key for of in every for key in of], dtype=np.int64)


@dataclass
class KeysOfCascade:
    """The keys ahead of each Einsum, one object for those that are equal."""

    numbers: StateNumbers
    _once: dict[Keys, Keys] = field(default_factory=dict)
    _united: dict[tuple[int, int], Keys] = field(default_factory=dict)
    _ahead: dict[Hashable, KeysAhead] = field(default_factory=dict)

    def of(self, steps: Sequence[EinsumOptions]) -> list[KeysAhead]:
        """The keys ahead of each Einsum."""
        later: dict[Slot, Keys] = {}
        found = [self._known({}, later, stays=False)]
        for step in reversed(steps[1:]):
            # a tensor that the step is the first to use is not there before it, and may have the slot of another one
            listed = self.numbers.listed_keys(step)
            own = {t: self._interned(keys) for t, keys in listed.items() if t not in step.born}
            later = {t: self._union(own.get(t, NONE), later.get(t, NONE)) for t in step.needed - step.born} | {
                t: keys for t, keys in own.items() if t not in step.needed
            }
            stays = bool(later) and step.may_be_absent
            found.append(self._known(own, {t: later[t] for t in own}, stays=stays))
        return found[::-1]

    def _known(self, of_next: Mapping[Slot, Keys], later: Mapping[Slot, Keys], stays: bool) -> KeysAhead:
        key = (
            tuple(sorted((slot, id(keys)) for slot, keys in of_next.items())),
            tuple(sorted((slot, id(keys)) for slot, keys in later.items())),
            stays,
        )
        if key not in self._ahead:
            self._ahead[key] = KeysAhead(of_next, later, stays)
        return self._ahead[key]

    def _interned(self, keys: Keys) -> Keys:
        return self._once.setdefault(keys, keys)

    def _union(self, one: Keys, other: Keys) -> Keys:
        key = id(one), id(other)
        if key not in self._united:
            self._united[key] = self._interned(one | other)
        return self._united[key]


def edges_of(
    step: EinsumOptions, before: BoundaryStates, ahead: KeysAhead, go_on: Callable[[], None]
) -> tuple[BoundaryStates, Ints]:
    """The boundary states behind an Einsum, in the order in which they are found, and the edges: (n, 3) numbers of the
    boundary state before, the option, and the boundary state behind. `go_on` is called often.
    """
    numbers, slots = before.numbers, sorted(step.slots)
    others = [c for c, slot in enumerate(before.slots) if slot not in step.slots]
    behind = sorted([*slots, *(before.slots[c] for c in others)])
    facts = [(t in step.needed, t in step.intermediates, t in step.states) for t in slots]
    layout = Layout(
        np.array([before.slots.index(t) if t in before.slots else -1 for t in slots], dtype=np.int64),
        np.array([behind.index(t) for t in slots], dtype=np.int64),
        np.array(
            [(c, behind.index(before.slots[c]), before.slots[c] in step.needed) for c in others], dtype=np.int64
        ).reshape(len(others), 3),
        np.array(facts, dtype=np.int64).reshape(len(slots), 3),
    )
    options, of_slots = numbers.options(step), np.array(slots, dtype=np.int64)
    parts, keys = numbers.parts, ahead.by_slot
    go_on()
    fitting, numbers.lives = state_kernels.fitting_options(
        before.rows, options, of_slots, layout, numbers.lives, parts, keys
    )
    reached, edges = state_kernels.nothing_reached(len(behind) + 2), []
    for part in _parts(fitting):
        go_on()
        some, reached, numbers.lives = state_kernels.edges_behind(
            part, before.rows, layout, fitting, reached, numbers.lives, parts, keys
        )
        edges.append(some)
    rows = reached.told.rows[: reached.told.size[0]]
    there = [c for c in range(len(behind)) if rows[:, c].any()]
    states = BoundaryStates(numbers, tuple(behind[c] for c in there), np.ascontiguousarray(rows[:, [*there, -2, -1]]))
    return states, edges[0] if len(edges) == 1 else np.concatenate([NO_EDGES, *edges])


def _parts(fitting: Fitting) -> list[tuple[int, int]]:
    """From which boundary state on to before which edges are made at a time."""
    n = len(fitting.group)
    ends = np.cumsum(np.diff(fitting.first_pair)[fitting.group])
    if not n or ends[-1] <= EDGES_AT_A_TIME:
        return [(0, n)]
    parts, begin = [], 0
    while begin < n:
        done = ends[begin - 1] if begin else 0
        end = max(int(np.searchsorted(ends, done + EDGES_AT_A_TIME, side="right")), begin + 1)
        parts.append((begin, end))
        begin = end
    return parts
