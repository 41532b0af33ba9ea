"""Layers cut into stages: all ways where they are few, else the one whose longest stage is shortest within memory; with
sub-meshes of different sizes, all ways by a lower bound.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from heapq import heapify, heappop, heappush
from itertools import combinations, pairwise
from typing import Any

import numba
import numpy as np

type Array = Any
MOST_CUTS = 100
"""Ways to cut layers into stages that are all tried."""


@dataclass(frozen=True, slots=True)
class Unit:
    """A layer to be cut into stages, for one micro-batch: `seconds` of all passes, `saved` bytes that wait for the
    backward pass, `fixed` bytes that are there all the time.
    """

    seconds: float
    saved: float
    fixed: float


def every_cut(units: int, stages: int) -> Iterator[tuple[int, ...]]:
    """All ways to cut so many layers into stages of one layer or more."""
    for ends in combinations(range(1, units), stages - 1):
        yield tuple(end - begin for begin, end in pairwise((0, *ends, units)))


def n_cuts(units: int, stages: int) -> int:
    """The number of them."""
    return math.comb(units - 1, stages - 1)


def best_cut(
    units: Sequence[Unit], in_flight: Sequence[float], memory: float, first: float = 0.0
) -> tuple[int, ...] | None:
    """Layers of each stage so that the longest stage is as short as can be; None where no cut keeps to the memory.

    `in_flight`: micro-batches that each stage holds; `memory`: bytes of a stage, `first`: bytes of the first one for
    other things. For a longest time, stages take from the last layer on as many as they may: more layers in a stage
    leave no other one with less room. The least such time is found among all sums of successive layers, by halving.
    """
    if len(units) < len(in_flight):
        return None
    total = sum(unit.seconds for unit in units)
    low, high = max(total / len(in_flight), *(unit.seconds for unit in units)), total
    best = _packed(units, in_flight, memory, first, high)
    if best is None:
        return None
    while True:
        tight = _packed(units, in_flight, memory, first, low * (1 + 1e-12))
        if tight is not None:
            return tight
        longest = _longest(units, best)
        middle = (low + longest) / 2
        if not low < middle < longest * (1 - 1e-9):
            return best
        packed = _packed(units, in_flight, memory, first, middle)
        if packed is None:
            low = middle
        else:
            best = packed


def _longest(units: Sequence[Unit], cut: Sequence[int]) -> float:
    begins = [0]
    for count in cut:
        begins.append(begins[-1] + count)
    return max(sum(unit.seconds for unit in units[begin:end]) for begin, end in pairwise(begins))


def _packed(
    units: Sequence[Unit], in_flight: Sequence[float], memory: float, first: float, longest: float
) -> tuple[int, ...] | None:
    """Stages of at most `longest` seconds, the last ones as full as they can be; each has one layer at least."""
    counts, end = [0] * len(in_flight), len(units)
    for stage in reversed(range(len(in_flight))):
        seconds, held = 0.0, first if stage == 0 else 0.0
        while end > stage:
            unit = units[end - 1]
            seconds += unit.seconds
            held += unit.fixed + unit.saved * in_flight[stage]
            if (seconds > longest or held > memory) and counts[stage]:
                break
            if seconds > longest or held > memory:
                return None
            counts[stage] += 1
            end -= 1
    return tuple(counts) if end == 0 else None


# sub-meshes of different sizes


@dataclass(frozen=True, eq=False)
class Width:
    """Devices that a stage may have. `mesh`: how they are divided, `devices`: how many; of a stage from layer b up to
    layer e `work[b, e]`: seconds of all micro-batches at least, `ahead[b, e]`: seconds of one at least before the next
    stage begins, or after that has ended; `fixed`, `saved`: float (layers + 1), bytes of the first layers that are
    there all the time, and that wait for a micro-batch; `least`: float (layers,), seconds of each layer at least, in
    whatever stage, of all its devices together; `first`: bytes of the first stage for other things.
    """

    mesh: tuple[int, int]
    devices: int
    work: Array
    ahead: Array
    fixed: Array
    saved: Array
    least: Array
    first: float = 0.0


@dataclass(frozen=True, slots=True)
class Divided:
    """Stages on sub-meshes: layers and width of each. `bound`: seconds that they take at least."""

    bound: float
    cut: tuple[int, ...]
    meshes: tuple[tuple[int, int], ...]


def divided(
    widths: Sequence[Width],
    devices: int,
    batches: int,
    memory: float,
    below: float,
    order: Sequence[int] | None = None,
    counts: Collection[int] | None = None,
) -> Iterator[Divided]:
    """Ways to cut layers into stages on sub-meshes with all devices together, those with the least bound first, as far
    as that is less than `below`.

    `memory`: bytes of a device, where the stage before the last k ones holds k + 1 micro-batches or all; `order`: the
    width of each stage, `counts`: how many stages there may be, None: any. The bound is the most of what stages before
    one take for a micro-batch and the work of that one. The least one of the last stages, by their first layer and
    their devices, is found once for each number of stages.
    """
    unit = reduce(math.gcd, (width.devices for width in widths), devices)
    sizes = np.array([width.devices // unit for width in widths])
    rows = [np.array([getattr(one, name) for one in widths]) for name in ("work", "ahead", "fixed", "saved", "first")]
    layers, whole = len(rows[2][0]) - 1, devices // unit
    ways = [range(len(widths))] * min(layers, whole) if order is None else [[width] for width in reversed(order)]
    # devices at least for the layers before one, and for those from it on
    area = (
        np.concatenate([[0.0], np.cumsum(np.min([width.least for width in widths], axis=0))])
        / (below * unit)
        * (1 - 1e-9)
    )
    room = np.array([area, area[-1] - area])
    least = [np.full((layers + 1, whole + 1), np.inf)]
    least[0][layers, 0] = 0.0
    for number, some in enumerate(ways, 1):
        least.append(np.full_like(least[0], np.inf))
        own = (sizes[np.array(some)], *(row[np.array(some)] for row in rows))
        _prepend(least[-2], own, (float(min(batches, number)), memory, below), room, least[-1])
    numbers = range(1, len(least)) if order is None else [len(order)]
    heap = [(float(least[number][0, whole]), number, _Begun(number, whole)) for number in numbers]
    heap = [one for one in heap if one[0] < below and (counts is None or one[1] in counts)]
    heapify(heap)
    pushed = len(least)
    while heap:
        bound, _, one = heappop(heap)
        if one.left == 0:
            cut = tuple(end - begin for begin, end in pairwise((0, *(end for _, end in one.path))))
            yield Divided(bound, cut, tuple(widths[width].mesh for width, _ in one.path))
            continue
        flight = min(batches, one.left)
        for width in ways[one.left - 1]:
            for then in one.extended(widths[width], width, int(sizes[width]), (flight, memory)):
                bound = max(then.worst, then.ahead + float(least[then.left][then.path[-1][1], then.free]))
                if bound < below:
                    pushed += 1
                    heappush(heap, (bound, pushed, then))


@dataclass(frozen=True, slots=True)
class _Begun:
    """Stages from the first one on. `left`: stages behind them, `free`: devices for those; `ahead`: seconds of a
    micro-batch, `worst`: seconds that the busiest of them takes at least; `path`: width and last layer of each.
    """

    left: int
    free: int
    ahead: float = 0.0
    worst: float = 0.0
    path: tuple[tuple[int, int], ...] = ()

    def extended(self, one: Width, number: int, size: int, limits: tuple[int, float]) -> Iterator[_Begun]:
        """With one more stage of this width; `limits`: micro-batches that it holds, and bytes."""
        begin = self.path[-1][1] if self.path else 0
        table = 0.0 if self.path else one.first
        for end in range(begin + 1, len(one.fixed) if size <= self.free else 0):
            held = one.fixed[end] - one.fixed[begin] + (one.saved[end] - one.saved[begin]) * limits[0]
            if held + table > limits[1]:
                break
            worst = max(self.worst, self.ahead + float(one.work[begin, end]))
            ahead = self.ahead + float(one.ahead[begin, end])
            yield _Begun(self.left - 1, self.free - size, ahead, worst, (*self.path, (number, end)))


@numba.njit(cache=True, nogil=True)
def _prepend(least: Array, rows: Any, limits: tuple[float, float, float], room: Array, made: Array) -> None:
    """Fill `made`, float (layers + 1, devices + 1): the least bound with one more stage in front of those of `least`.

    `rows`: sizes, and what `Width` has, for each width; `limits`: micro-batches that the stage holds, bytes, and the
    bound that is too much; `room`: float (2, layers + 1), devices at least for the layers before one and from it on.
    """
    sizes, work, ahead, fixed, saved, first = rows
    flight, memory, below = limits
    layers, devices = least.shape[0] - 1, least.shape[1] - 1
    for end in range(1, layers + 1):
        low, high = devices + 1, -1
        for used in range(devices + 1):
            if least[end, used] < below:
                low, high = min(low, used), used
        for width in range(len(sizes)) if high >= 0 else range(0):
            for begin in range(end - 1, -1, -1):
                table = first[width] if begin == 0 else 0.0
                held = fixed[width, end] - fixed[width, begin] + (saved[width, end] - saved[width, begin]) * flight
                own = work[width, begin, end]
                if held + table > memory:
                    break
                if own >= below:
                    continue
                # layers before have room, or there are none, and no device is left
                most = int(devices - room[0, begin]) - sizes[width]
                for behind in range(low if begin else max(low, most), min(high, most) + 1):
                    used = behind + sizes[width]
                    bound = max(own, ahead[width, begin, end] + least[end, behind])
                    if bound < below and used >= room[1, begin]:
                        made[begin, used] = min(made[begin, used], bound)
