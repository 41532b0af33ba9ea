"""Latencies of caches and main memory: a chain of loads, each of which waits for the one before."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from einmap.matmul.measured.measure import best_of
from einmap.matmul.measured.this_cpu import Processor
from einmap.progress import Progress

STEPS = 200_000
"""Loads of one run."""
MOST_BYTES = 2**27
"""Of the chain that measures main memory."""
ROUNDS = 3


@njit(cache=True, nogil=True)
def chased(following: NDArray[np.int64], steps: int) -> int:
    """The place after so many steps of a chain: `following[i]` comes after `i`; int64."""
    place = 0
    for _ in range(steps):
        place = following[place]
    return place


def chain(size_bytes: int, line_bytes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """A cycle through the first value of every line of an array, in random order: int64, one per 8 bytes."""
    width = line_bytes // 8
    lines = max(2, size_bytes // line_bytes)
    order = rng.permutation(lines) * width
    following = np.zeros(lines * width, np.int64)
    following[order] = np.roll(order, -1)
    return following


def measured_latencies(processor: Processor, progress: Progress) -> tuple[float, ...]:
    """Seconds of a load that finds its line in each cache, level 1 first, and in main memory."""
    rng = np.random.default_rng(0)
    sizes = [cache.size_bytes for cache in processor.caches]
    # half of the cache: all of it lies there; of main memory more than the last cache holds, or as much as is bearable
    spans = [size // 2 for size in sizes] + [min(4 * sizes[-1], MOST_BYTES)]
    found: list[float] = []
    for span in spans:
        progress.report("measuring latencies", len(found), len(spans))
        following: Any = chain(span, processor.caches[0].line_bytes, rng)
        chased(following, STEPS)
        found.append(best_of(lambda values=following: chased(values, STEPS), ROUNDS) / STEPS)  # type: ignore[misc]
    return tuple(found)
