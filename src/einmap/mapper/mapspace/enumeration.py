"""Lists of choices that may be too long to write down: all of them where that is possible, else a fair part.

Enumerations here take their alternatives from a `Walk`. `InOrder` walks them all in a fixed order. A `Shuffled` walk
is started anew for each draw and asked for its first result only, so that a part of the list is not all alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from itertools import combinations
from typing import Protocol

import numpy as np

from einmap.arch.constraint import Names
from einmap.numbers import coprime_near
from einmap.progress import Progress

LISTED = 200_000
"""Longest list that is written down; of a longer one a part is drawn."""
DRAWN = 20_000
"""How many are drawn at most."""
MISSES = 200
"""Draws in a row that bring nothing new before drawing ends."""


class Walk(Protocol):
    """The order in which alternatives are tried."""

    def items[T](self, alternatives: Sequence[T]) -> Sequence[T]:
        """All alternatives."""

    def bounds(self, smallest_first: Sequence[int]) -> Sequence[int]:
        """All numbers of lanes."""

    def subsets(self, ordered: Sequence[str]) -> Iterator[Names]:
        """All subsets."""


class InOrder:
    """Alternatives as they come, small subsets first."""

    def items[T](self, alternatives: Sequence[T]) -> Sequence[T]:
        """The alternatives in their own order."""
        return alternatives

    def bounds(self, smallest_first: Sequence[int]) -> Sequence[int]:
        """The bounds from the smallest on."""
        return smallest_first

    def subsets(self, ordered: Sequence[str]) -> Iterator[Names]:
        """All subsets, small ones first."""
        for size in range(len(ordered) + 1):
            for chosen in combinations(ordered, size):
                yield frozenset(chosen)


class Shuffled:
    """Alternatives in random order."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def items[T](self, alternatives: Sequence[T]) -> Sequence[T]:
        """In random order."""
        return [alternatives[i] for i in self.rng.permutation(len(alternatives))]

    def bounds(self, smallest_first: Sequence[int]) -> Sequence[int]:
        """Every other time the largest first: full fanouts are worth more than most others."""
        return self.items(smallest_first) if self.rng.random() < 0.5 else smallest_first[::-1]

    def subsets(self, ordered: Sequence[str]) -> Iterator[Names]:
        """The first one is any of them with the same probability."""
        if not ordered:
            yield frozenset()
            return
        for taken in self.items((frozenset(), frozenset(ordered[:1]))):
            for rest in self.subsets(ordered[1:]):
                yield taken | rest


def listed[T](walked: Callable[[Walk], Iterator[T]], rng: np.random.Generator, token: Progress) -> tuple[list[T], bool]:
    """Items that `walked` yields and whether these are all: in order where time and `LISTED` allow it, else drawn."""
    items: list[T] = []
    first_half = share_of(token, 0.5)
    for item in walked(InOrder()):
        if len(items) >= LISTED or (items and first_half.stopped):
            break
        items.append(item)
    else:
        return items, True
    drawn: dict[T, None] = {}
    misses = 0
    while len(drawn) < DRAWN and misses < MISSES and not (drawn and token.stopped):
        item = next(walked(Shuffled(rng)))
        misses = misses + 1 if item in drawn else 0
        drawn[item] = None
    return list(drawn), False


def share_of(token: Progress, fraction: float) -> Progress:
    """The token for a part of the time that is left; the same one where time is not limited."""
    if token.deadline is None:
        return token
    return token.within(max(token.deadline - time.monotonic(), 0.0) * fraction)


def scattered(size: int, rng: np.random.Generator) -> Iterator[int]:
    """The numbers 0 .. size - 1, each once, far from each other: multiples of a stride coprime to the size."""
    if not size:
        return
    stride, offset = coprime_near(size, 0.618), int(rng.integers(size))
    for step in range(size):
        yield (offset + step * stride) % size
