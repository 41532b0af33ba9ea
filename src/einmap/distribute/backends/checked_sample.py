"""Values of the outputs that are drawn to be checked, within bounds of time and memory.

What is drawn of an output is a product of coordinates, a few of each rank, the first and the last among them where
there are three, so that many values share what they need. Where that is still too much, fewer coordinates are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from einmap.einsum.einsum import TensorName
from einmap.einsum.numeric import rank_sizes
from einmap.einsum.slices import Coordinates, Needed, is_product, needed_for
from einmap.einsum.spaces.projection import Rank
from einmap.einsum.workload import Workload
from einmap.errors import SpecError
from einmap.units import format_bytes, format_si

VALUES = 1024
"""Values of each output that are drawn at most, where each rank has as many coordinates."""
SECONDS = 30.0
"""Time that the values of a sample may take, as far as it is known before, on one core."""
MAX_BYTES = 2 * 2**30
"""Bytes of what Einsums write that is held for a sample at most."""
PRODUCT_POINTS, OTHER_POINTS, PRODUCT_VALUES = 1e10, 3e7, 5e8
"""Per second: points of products of matrices, of other Einsums, and values of operands of products."""


def drawn_sample(workload: Workload, seed: int) -> Needed:
    """The inputs that the checked values need, the same for the same seed.

    Raises SpecError where even one value of each output takes too much time or memory.
    """
    sizes = rank_sizes(workload)
    outputs = [tensor for tensor in workload.producers if not workload.consumers[tensor]]
    counts = {
        (tensor, rank): _count(size, len(sizes[tensor])) for tensor in outputs for rank, size in sizes[tensor].items()
    }
    needed = _needed(workload, sizes, counts, seed)
    while not _fits(needed):
        fewer = {
            key: _needed(workload, sizes, counts | {key: count // 2}, seed)
            for key, count in counts.items()
            if count > 1
        }
        if not fewer:
            raise _too_much(needed)
        best = min(fewer, key=lambda key: (seconds_of(fewer[key]), bytes_of(fewer[key])))
        counts[best] //= 2
        needed = fewer[best]
    return needed


def _count(size: int, ranks: int) -> int:
    return min(size, math.ceil(math.pow(VALUES, 1 / ranks)))


def _needed(
    workload: Workload,
    sizes: Mapping[TensorName, Mapping[Rank, int]],
    counts: Mapping[tuple[TensorName, Rank], int],
    seed: int,
) -> Needed:
    rng = np.random.default_rng(seed)
    wanted: dict[TensorName, dict[Rank, Coordinates]] = {}
    for (tensor, rank), count in counts.items():
        wanted.setdefault(tensor, {})[rank] = _drawn(rng, sizes[tensor][rank], count)
    for tensor in workload.producers:
        # an output without ranks is one value
        if not workload.consumers[tensor]:
            wanted.setdefault(tensor, {})
    return needed_for(workload, wanted)


def _drawn(rng: np.random.Generator, size: int, count: int) -> Coordinates:
    """So many coordinates of a rank; both ends among them where there are at least three."""
    if count >= size:
        return np.arange(size, dtype=np.int64)
    if count < 3:
        return np.sort(rng.choice(size, count, replace=False)).astype(np.int64)
    inner = 1 + rng.choice(size - 2, count - 2, replace=False)
    return np.sort(np.concatenate(([0, size - 1], inner))).astype(np.int64)


def seconds_of(needed: Needed) -> float:
    """About how long the values that are needed take, on one core."""
    seconds = 0.0
    for einsum in needed.workload.einsums:
        points = needed.points(einsum.name)
        if points and is_product(einsum):
            read = sum(needed.values(access.tensor) for access in einsum.accesses if not access.output)
            seconds += points / PRODUCT_POINTS + read / PRODUCT_VALUES
        else:
            seconds += points / OTHER_POINTS
    return seconds


def bytes_of(needed: Needed) -> float:
    """Bytes of what Einsums write of it."""
    return 8.0 * sum(needed.values(tensor) for tensor in needed.workload.producers)


def _fits(needed: Needed) -> bool:
    return seconds_of(needed) <= SECONDS and bytes_of(needed) <= MAX_BYTES


def _too_much(needed: Needed) -> SpecError:
    return SpecError(
        f"one value of each output needs {format_bytes(bytes_of(needed))} of what comes before, and about "
        f"{format_si(seconds_of(needed), 's')}; a sample may take {format_bytes(MAX_BYTES)} and {SECONDS:g} s",
        hint="choose smaller rank sizes, or run it with --check none",
    )
