"""Seconds of a level's transfers for many choices at once, exact but for rounding to lines.

The search is guided and cut off by these; the cost of a plan comes from `algorithms.plan_seconds`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.matmul.algorithms import Algorithm, Stage
from einmap.matmul.blocks.lower_bounds import SLACK, LowerBounds
from einmap.matmul.blocks.space import Options
from einmap.matmul.machine.machine import DIMENSIONS_OF, TENSORS, Sizes


@dataclass(frozen=True, slots=True)
class Transfers:
    """For each choice, of the worker that has most: seconds of resident blocks, of streamed blocks, and of those of the
    latter that nothing can hide (first loads, last stores); `length`, its part of the innermost dimension.
    """

    stays: Floats
    streams: Floats
    exposed: Floats
    length: Ints


def transfer_seconds(stage: Stage, options: Options, size: Sizes) -> Transfers:
    """Seconds of the transfers of each choice for a block of `size` of the level above."""
    stays, streams, exposed = (np.empty(len(options)) for _ in range(3))
    transfers = Transfers(stays, streams, exposed, np.empty(len(options), np.int64))
    for algorithm in Algorithm:
        rows = options.algorithm == algorithm.value
        if rows.any():
            part = _of_algorithm(stage, algorithm, options.block[rows], options.share[rows], size, options.parent)
            transfers.stays[rows], transfers.streams[rows] = part.stays, part.streams
            transfers.exposed[rows], transfers.length[rows] = part.exposed, part.length
    return transfers


def _of_algorithm(
    stage: Stage, algorithm: Algorithm, block: Ints, share: Ints, size: Sizes, parent: Sizes
) -> Transfers:
    inner = algorithm.inner
    length = np.minimum(share * block[:, inner], size[inner])
    extent = [np.full(len(block), s, float) for s in size]
    extent[inner] = length.astype(float)
    parts = [np.ceil(e / block[:, d]) for d, e in enumerate(extent)]
    one_worker = share * block[:, inner] >= parent[inner]
    times = []
    exposed = np.zeros(len(block))
    for tensor in (algorithm.resident, *algorithm.streamed):
        rows, columns = DIMENSIONS_OF[tensor]
        (other,) = {0, 1, 2} - {rows, columns}
        # the resident block is moved once for all steps of the innermost loop
        trips = np.ones(len(block)) if other == inner else parts[other]
        blocks = parts[rows] * parts[columns] * trips
        load, store = _moved(stage, algorithm, tensor, extent[rows] * extent[columns] * trips, blocks, one_worker)
        times.append(load + store)
        if tensor != algorithm.resident:
            steps = parts[inner]
            last = extent[inner] - (steps - 1) * block[:, inner]
            first = np.minimum(block[:, inner], extent[inner])
            # at least: of start-ups the first of unequal steps has less than its part of the values
            exposed += load * np.minimum(first / extent[inner], 1 / steps)
            exposed += store * np.minimum(last / extent[inner], 1 / steps)
    return Transfers(times[0], times[1] + times[2], exposed, length)


def _moved(
    stage: Stage, algorithm: Algorithm, tensor: str, values: Floats, blocks: Floats, one_worker: Bools
) -> tuple[Floats, Floats]:
    """Seconds to bring `values` in so many blocks here, and C back."""
    position = TENSORS.index(tensor)
    nothing = np.zeros(len(values))
    if not stage.moved[position]:
        return nothing, nothing
    level, bits = stage.level, stage.bits[position]
    load = values * level.rho(bits) + blocks * level.startup
    if tensor != "C":
        return load, nothing
    store = values * level.sigma(bits) + blocks * level.startup
    zero, accumulate = values * level.alpha(bits), values * level.phi(bits) + blocks * level.startup
    if stage.rules.accumulate == "atomic":
        return (zero, accumulate) if level.workers > 1 else (load, store)
    if algorithm is not Algorithm.C_RESIDENT:
        return load, store
    return np.where(one_worker, load, zero), np.where(one_worker, store, accumulate)


@dataclass(frozen=True, slots=True)
class Estimate:
    """For each choice, seconds of a block of the level above: at `least`, whatever is chosen below; and what of them
    the parts' times are added to (`alone`).
    """

    least: Floats
    alone: Floats


def estimate(stages: tuple[Stage, ...], bounds: LowerBounds, position: int, options: Options, size: Sizes) -> Estimate:
    """The estimate of a block of `size`."""
    transfers = transfer_seconds(stages[position], options, size)
    extent = np.tile(np.array(size, np.int64), (len(options), 1))
    inner = np.array([0, *(a.inner for a in Algorithm)])[options.algorithm]
    extent[np.arange(len(options)), inner] = transfers.length
    # all blocks together, each at the pace of a full one
    pace = bounds.pace(position + 1, np.minimum(options.block, extent))
    inside = pace * extent.astype(float).prod(axis=1)
    if stages[position].rules.double_buffer:
        alone = transfers.stays + transfers.exposed
        least = alone + np.maximum(transfers.streams - transfers.exposed, inside)
    else:
        alone = transfers.stays + transfers.streams
        least = alone + inside
    return Estimate(least * SLACK, alone * SLACK)
