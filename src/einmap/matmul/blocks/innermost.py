"""The innermost level for many choices at once: what `algorithms.block_seconds` gives for each of them, in arrays.

The search spends most of its time here, hence the arrays; tests compare both.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.matmul.algorithms import Algorithm, Stage
from einmap.matmul.blocks.space import Options
from einmap.matmul.machine.machine import DIMENSIONS_OF, TENSORS, Sizes

type ComputeMany = Callable[[Ints], Floats]
"""Seconds of blocks, rows of m, k, n, whose operands are in the innermost memory."""


def innermost_seconds(stage: Stage, options: Options, size: Sizes, compute: ComputeMany) -> Floats:
    """Seconds of each choice for a block of `size` of the level above."""
    seconds = np.empty(len(options))
    for algorithm in Algorithm:
        here = options.algorithm == algorithm.value
        if here.any():
            group = _Group(stage, algorithm, options.block[here], options.share[here], options.parent, compute)
            seconds[here] = group.seconds(size)
    return seconds


@dataclass(frozen=True, slots=True)
class _Group:
    """Choices of one algorithm."""

    stage: Stage
    algorithm: Algorithm
    block: Ints
    share: Ints
    parent: Sizes
    compute: ComputeMany

    def seconds(self, size: Sizes) -> Floats:
        """Until the last worker is done: one with a full part of the innermost loop, or the one with what is left."""
        inner = self.algorithm.inner
        chunk = self.share * self.block[:, inner]
        full, rest = size[inner] // chunk, size[inner] % chunk
        longest = np.zeros(len(chunk))
        for length, there in ((np.minimum(chunk, size[inner]), full > 0), (rest, rest > 0)):
            if there.any():
                longest = np.where(there, np.maximum(longest, self._worker(size, np.maximum(length, 1))), longest)
        return longest

    def _worker(self, size: Sizes, chunk: Ints) -> Floats:
        first, second = self.algorithm.outer
        total = np.zeros(len(chunk))
        for rows, n_rows in _pieces(size[first], self.block[:, first]):
            for columns, n_columns in _pieces(size[second], self.block[:, second]):
                total += n_rows * n_columns * self._sweep(rows, columns, chunk)
        return total

    def _sweep(self, rows: Ints, columns: Ints, chunk: Ints) -> Floats:
        first, second = self.algorithm.outer
        inner = self.algorithm.inner
        block = np.empty((len(chunk), 3), np.int64)
        block[:, first], block[:, second] = rows, columns
        block[:, inner] = np.minimum(self.block[:, inner], chunk)
        stays = sum(self._transfers(self.algorithm.resident, block), np.zeros(len(chunk)))
        count = chunk // block[:, inner]
        step = self._step(block)
        block[:, inner] = chunk % block[:, inner]
        ragged = block[:, inner] > 0
        block[~ragged, inner] = 1
        last = self._step(block) if ragged.any() else step
        if self.stage.rules.double_buffer:
            return np.asarray(stays + _overlapped(step, last, count, ragged))
        return np.asarray(stays + count * sum(step) + np.where(ragged, sum(last), 0.0))

    def _step(self, block: Ints) -> tuple[Floats, Floats, Floats]:
        """Load, compute, store."""
        load, store = np.zeros(len(block)), np.zeros(len(block))
        for tensor in self.algorithm.streamed:
            down, up = self._transfers(tensor, block)
            load, store = load + down, store + up
        return load, self.compute(block), store

    def _transfers(self, tensor: str, block: Ints) -> tuple[Floats, Floats]:
        """Seconds to bring a block of the operand here, and back."""
        level, position = self.stage.level, TENSORS.index(tensor)
        nothing = np.zeros(len(block))
        if not self.stage.moved[position]:
            return nothing, nothing
        rows, columns = DIMENSIONS_OF[tensor]
        values = block[:, rows] * block[:, columns]
        lines = -(-self.stage.bits[position] * values // level.line_bits) * level.line_bits
        load = level.startup + lines / level.load_bandwidth
        if tensor != "C":
            return load, nothing
        shared = self._shared()
        zero = values * level.alpha(self.stage.bits[position])
        store = level.startup + lines / level.store_bandwidth
        accumulate = level.startup + lines / level.accumulate_bandwidth
        return np.where(shared, zero, load), np.where(shared, accumulate, store)

    def _shared(self) -> Bools:
        """For which choices blocks of C are zeroed here and accumulated above, as `Stage.shares_sums` says of one."""
        if self.stage.rules.accumulate == "atomic":
            return np.full(len(self.block), self.stage.level.workers > 1)
        several = self.share * self.block[:, self.algorithm.inner] < self.parent[self.algorithm.inner]
        return several & (self.algorithm is Algorithm.C_RESIDENT)


def _pieces(size: int, block: Ints) -> list[tuple[Ints, Ints]]:
    """(size, how many) of the full blocks, and of the last ones that are smaller; none is counted 0 times."""
    full, rest = size // block, size % block
    return [
        (np.minimum(block, size), full),
        *([(np.maximum(rest, 1), (rest > 0).astype(np.int64))] if rest.any() else []),
    ]


def _overlapped(
    step: tuple[Floats, Floats, Floats], last: tuple[Floats, Floats, Floats], count: Ints, ragged: Bools
) -> Floats:
    """Seconds of `count` >= 1 full steps, then perhaps a smaller one, overlapped as in `algorithms.overlapped`."""
    load, compute, store = step
    load_2, compute_2, store_2 = (np.where(ragged, seconds, 0.0) for seconds in last)
    ends = load + np.where(ragged, store_2 + np.maximum(compute_2, store), store)
    single = ends + np.maximum(compute, load_2)
    middle = np.maximum(count - 2, 0) * np.maximum(compute, load + store)
    several = ends + np.maximum(compute, load) + middle + np.maximum(compute, load_2 + store)
    return np.where(count > 1, several, single)
