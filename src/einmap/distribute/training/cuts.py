"""Layers cut into stages: all ways where they are few, else the one whose longest stage is shortest within memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

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
