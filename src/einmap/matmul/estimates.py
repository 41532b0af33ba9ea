"""Costs of many choices at once: what a level moves, exactly but for rounding to lines, and what can never be beaten below.

These steer and cut the search; what a plan costs is said by `algorithms.plan_seconds`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from einmap.matmul.algorithms import Algorithm, Stage
from einmap.matmul.machine import DIMENSIONS_OF, TENSORS, Sizes
from einmap.matmul.space import Bools, Floats, Ints, Options

SLACK = 1 - 1e-12
"""Bounds are computed in another order than costs; this keeps rounding from making them too large."""


@dataclass(frozen=True, slots=True)
class Rates:
    """Seconds to bring one value of A, B, C to a level and back, at least."""

    a: float
    b: float
    c: float
    """Load and store, or zero and accumulate: the quicker one."""

    @staticmethod
    def of(stage: Stage) -> Rates:
        """What the link of `stage` takes; nothing for operands that never cross it."""
        level, (a, b, c) = stage.level, stage.bits
        moved = stage.moved
        sums = min(level.rho(c) + level.sigma(c), level.alpha(c) + level.phi(c))
        return Rates(level.rho(a) * moved[0], level.rho(b) * moved[1], sums * moved[2])


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds on time for blocks of any size: all levels from one inwards."""

    stages: tuple[Stage, ...]
    flop_seconds: float
    """Seconds of a multiply-add on a compute unit at its peak."""

    def seconds(self, position: int, size: Ints) -> Floats:
        """At least so long takes a block whose operands are at the level above `stages[position]`; rows of m, k, n."""
        m, k, n = size.astype(float).T
        return m * k * n * self._per_multiply_add(position, m, k, n) * SLACK

    def _per_multiply_add(self, position: int, m: Floats, k: Floats, n: Floats) -> Floats:
        """Seconds for each multiply-add, at best.

        The formulas of the article with the largest blocks that the level above and the room leave: of two streamed
        terms x/i + y/j with i*j values of `space` bits in `room` the sum is at least 2 sqrt(x y space / room).
        """
        if position == len(self.stages):
            return np.full(m.shape, self.flop_seconds)
        stage = self.stages[position]
        rates, workers = Rates.of(stage), stage.level.workers
        inside = self._per_multiply_add(position + 1, m, k, n)
        room = max(stage.room, 1.0)
        best = np.full(m.shape, np.inf)
        for stays, over, (x, i), (y, j), space in (
            (rates.c, k, (rates.a, n), (rates.b, m), stage.space[2]),
            (rates.a, n, (rates.b, m), (rates.c, k), stage.space[0]),
            (rates.b, m, (rates.a, n), (rates.c, k), stage.space[1]),
        ):
            stream = np.maximum(x / i + y / j, 2 * np.sqrt(x * y * space / room))
            step = np.maximum(stream, inside) if stage.rules.double_buffer else stream + inside
            best = np.minimum(best, stays / over + step / workers)
        return best


def own_seconds(stage: Stage, options: Options, size: Sizes) -> tuple[Floats, Floats, Floats]:
    """For each choice and a block of `size` above: seconds of the resident and of the streamed blocks of the worker that
    has most, and the length of its part of the innermost dimension. Rounding to whole lines is left out.
    """
    stays, streams, lengths = (np.empty(len(options)) for _ in range(3))
    for algorithm in Algorithm:
        rows = options.algorithm == algorithm.value
        if rows.any():
            found = _own(stage, algorithm, options.block[rows], options.share[rows], size, options.parent)
            stays[rows], streams[rows], lengths[rows] = found
    return stays, streams, lengths


def _own(
    stage: Stage, algorithm: Algorithm, block: Ints, share: Ints, size: Sizes, parent: Sizes
) -> tuple[Floats, Floats, Floats]:
    inner = algorithm.inner
    length = np.minimum(share * block[:, inner], size[inner])
    extent = [np.full(len(block), s, float) for s in size]
    extent[inner] = length.astype(float)
    parts = [np.ceil(e / block[:, d]) for d, e in enumerate(extent)]
    one_worker = share * block[:, inner] >= parent[inner]
    times = []
    for tensor in (algorithm.resident, *algorithm.streamed):
        rows, columns = DIMENSIONS_OF[tensor]
        (other,) = {0, 1, 2} - {rows, columns}
        # the resident block is moved once for all steps of the innermost loop
        trips = np.ones(len(block)) if other == inner else parts[other]
        blocks = parts[rows] * parts[columns] * trips
        times.append(_moved(stage, algorithm, tensor, extent[rows] * extent[columns] * trips, blocks, one_worker))
    return times[0], times[1] + times[2], length.astype(float)


def _moved(
    stage: Stage, algorithm: Algorithm, tensor: str, values: Floats, blocks: Floats, one_worker: Bools
) -> Floats:
    """Seconds to move `values` in so many blocks, C forth and back."""
    position = TENSORS.index(tensor)
    if not stage.moved[position]:
        return np.zeros(len(values))
    level, bits = stage.level, stage.bits[position]
    load = values * level.rho(bits) + blocks * level.startup
    if tensor != "C":
        return load
    owned = load + values * level.sigma(bits) + blocks * level.startup
    shared = values * (level.alpha(bits) + level.phi(bits)) + blocks * level.startup
    if stage.rules.accumulate == "atomic":
        return shared if level.workers > 1 else owned
    return owned if algorithm is not Algorithm.C_RESIDENT else np.where(one_worker, owned, shared)


def least_seconds(stages: Sequence[Stage], bounds: Bounds, position: int, options: Options, size: Sizes) -> Floats:
    """For each choice: a block of `size` of the level above takes at least so long, whatever is chosen below."""
    stage = stages[position]
    stays, stream, length = own_seconds(stage, options, size)
    extent = np.tile(np.array(size, np.int64), (len(options), 1))
    rows = np.arange(len(options))
    inner = np.array([0, *(a.inner for a in Algorithm)])[options.algorithm]
    extent[rows, inner] = length.astype(np.int64)
    block = np.minimum(options.block, extent)
    # all blocks together, each at the pace of a full one
    volume = extent.astype(float).prod(axis=1)
    inside = bounds.seconds(position + 1, block) / block.astype(float).prod(axis=1) * volume
    step = np.maximum(stream, inside) if stage.rules.double_buffer else stream + inside
    return (stays + step) * SLACK
