"""Messages from single PEs to single PEs: the links that they take, and what these carry."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from einmap.distribute.plans.collectives import Pairs, Topology

type _Loads = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class AxisLoad:
    """Of one round along one axis, in buffers of a PE: what the busiest link carries, in the direction with most, and
    what all PEs of the group send, those that they pass on too.
    """

    busiest: float
    passed: float


@dataclass(frozen=True, eq=False)
class Routes:
    """Messages of one buffer each between the PEs of a group with `sizes` PEs along its axes, the last the fastest.

    `rounds`: senders and receivers, places in the group; `filled`: which part of the buffer at each place is not
    padding, empty: all of every one. A message takes the axes in order, and along each of them the shortest way: in a
    ring or torus from neighbour to neighbour, half of it each way round where both are as long.
    """

    sizes: tuple[int, ...]
    rounds: tuple[Pairs, ...]
    filled: tuple[float, ...] = ()

    def loads(self, axis: int, topology: Topology, shared: tuple[int, ...] = ()) -> tuple[AxisLoad, ...]:
        """Along one axis, round by round. `shared`: axes of the group whose PEs share one link of this axis."""
        key = axis, topology, shared
        if key not in self._known:
            self._known[key] = tuple(self._load(steps, axis, topology, shared) for steps in self._steps)
        return self._known[key]

    @cached_property
    def crossed(self) -> tuple[tuple[tuple[int, ...], ...], ...]:
        """For each round the sets of axes that messages take."""
        made = []
        for before, after, _ in self._steps:
            rows = np.unique((before != after).T, axis=0)
            made.append(tuple(tuple(np.nonzero(row)[0].tolist()) for row in rows))
        return tuple(made)

    @cached_property
    def _known(self) -> dict[object, tuple[AxisLoad, ...]]:
        return {}

    @cached_property
    def _steps(self) -> tuple[tuple[NDArray[np.intp], NDArray[np.intp], _Loads], ...]:
        """For each round the coordinates of senders and receivers, (axes, messages), and the filled parts."""
        filled = np.array(self.filled) if self.filled else np.ones(math.prod(self.sizes))
        made = []
        for pairs in self.rounds:
            senders, receivers = np.array(pairs, dtype=np.intp).reshape(-1, 2).T
            before, after = (np.array(np.unravel_index(some, self.sizes)) for some in (senders, receivers))
            made.append((before, after, filled[senders]))
        return tuple(made)

    def _load(
        self,
        steps: tuple[NDArray[np.intp], NDArray[np.intp], _Loads],
        axis: int,
        topology: Topology,
        shared: tuple[int, ...],
    ) -> AxisLoad:
        before, after, filled = steps
        start, end = before[axis], after[axis]
        moving = start != end
        if not moving.any():
            return AxisLoad(0.0, 0.0)
        # along the axes before this one the message has come to its end, along those after it it has not begun
        here = [*after[:axis], start, *before[axis + 1 :]]
        line, count = np.zeros(len(start), dtype=np.intp), 1
        for other, size in enumerate(self.sizes):
            if other != axis and other not in shared:
                line, count = line * size + here[other], count * size
        line = line[moving]
        start, end, filled = start[moving], end[moving], filled[moving]
        parts = self.sizes[axis]
        distance = (end - start) % parts
        if topology in ("ring", "torus"):
            hops = np.minimum(distance, parts - distance)
            links = _around(line, count, start, distance, parts)
            most = (links[0] + links[1]).max() if topology == "ring" else links.max()
            # a PE sends one message at its full rate, whichever way
            return AxisLoad(max(1.0, float(most)), float((hops * filled).sum()))
        cuts = _subtrees(parts) if topology == "tree" else [(place, place + 1) for place in range(parts)]
        return AxisLoad(_over_cuts(line, count, start, end, cuts), float(filled.sum()))


def _around(
    line: NDArray[np.intp], lines: int, start: NDArray[np.intp], distance: NDArray[np.intp], parts: int
) -> _Loads:
    """Load of each link of rings forward and back: (2, lines, links), link i between PEs i and i + 1."""
    links = np.zeros((2, lines, parts))
    back = parts - distance
    forward_part = np.where(distance < back, 1.0, np.where(distance == back, 0.5, 0.0))
    for step in range(int(np.minimum(distance, back).max())):
        ahead = (distance > step) & (forward_part > 0)
        np.add.at(links[0], (line[ahead], (start[ahead] + step) % parts), forward_part[ahead])
        behind = (back > step) & (forward_part < 1)
        np.add.at(links[1], (line[behind], (start[behind] - step - 1) % parts), 1 - forward_part[behind])
    return links


def _over_cuts(
    line: NDArray[np.intp],
    lines: int,
    start: NDArray[np.intp],
    end: NDArray[np.intp],
    cuts: Sequence[tuple[int, int]],
) -> float:
    """Messages that leave or enter the busiest of these ranges of PEs, each of which has one link."""
    most = 0
    for begin, stop in cuts:
        starts, ends = ((begin <= some) & (some < stop) for some in (start, end))
        for crossing in (starts & ~ends, ends & ~starts):
            most = max(most, int(np.bincount(line[crossing], minlength=lines).max()))
    return float(most)


def _subtrees(parts: int) -> list[tuple[int, int]]:
    """The PEs below each link of a balanced binary tree with the PEs as its leaves."""
    made: list[tuple[int, int]] = []
    waiting = [(0, parts)]
    while waiting:
        begin, stop = waiting.pop()
        if stop - begin > 1:
            middle = (begin + stop + 1) // 2
            halves = [(begin, middle), (middle, stop)]
            made += halves
            waiting += halves
    return made
