"""Lower bounds of the time below a level: the planner's problem relaxed, without smaller last blocks and idle workers.

In the relaxation a block of m' x k' x n' takes m'k'n' times a pace, which depends on the block's sizes through formulas
of the article alone; a larger block is never slower. The pace is tabulated on a grid of sizes, from the innermost level
outwards. Between two grid points a block takes the room of the least size and has the pace of the greatest.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.matmul.algorithms import Stage
from einmap.matmul.blocks.space import even_sizes
from einmap.matmul.machine.machine import Sizes

SLACK = 1 - 1e-12
"""Bounds are computed in another order than costs; this keeps rounding from making them too large."""
FINE = 24
"""Up to so many grains every size is on the grid."""
STEPS = 36
"""Sizes above these, of every magnitude."""


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """Seconds of a multiply-add at least, for blocks of the sizes of a grid whose operands are at a level: `tables`,
    outermost main memory first, then each level.
    """

    grid: tuple[Ints, Ints, Ints]
    tables: tuple[Floats, ...]

    @staticmethod
    def of(stages: tuple[Stage, ...], size: Sizes, compute: Callable[[Ints], Floats]) -> LowerBounds:
        """The tables; `compute`: seconds of blocks, rows of m, k, n, in the innermost memory."""
        m, k, n = (grid_sizes(s, g) for s, g in zip(size, stages[0].rules.grain, strict=True))
        grid = (m, k, n)
        tables = [_compute_pace(grid, compute)]
        for stage in reversed(stages):
            tables.append(_pace(stage, grid, tables[-1]))
        return LowerBounds(grid, tuple(reversed(tables)))

    def pace(self, position: int, size: Ints) -> Floats:
        """Seconds of a multiply-add of blocks, rows of m, k, n, whose operands are above `stages[position]`."""
        m, k, n = (np.searchsorted(axis, size[:, d]) for d, axis in enumerate(self.grid))
        paces: Floats = self.tables[position][m, k, n]
        return paces


def grid_sizes(size: int, grain: int) -> Ints:
    """Sizes of a dimension, smallest first: all small ones, the candidates of the whole dimension, others between."""
    units = -(-size // grain)
    fine = range(1, min(units, FINE) + 1)
    spread = (round(units ** (i / STEPS)) for i in range(STEPS + 1))
    sizes = {min(u * grain, size) for u in (*fine, *spread)} | set(even_sizes(size, grain, FINE))
    return np.array(sorted(sizes), np.int64)


def _compute_pace(grid: tuple[Ints, Ints, Ints], compute: Callable[[Ints], Floats]) -> Floats:
    """The pace of computing alone: no block up to a size has a better one."""
    sizes = np.stack([axis.ravel() for axis in np.meshgrid(*grid, indexing="ij")], axis=1)
    paces = compute(sizes) / sizes.astype(float).prod(axis=1)
    return least_up_to(paces.reshape([len(axis) for axis in grid]))


def least_up_to(values: Floats) -> Floats:
    """At each point of a grid the least value of all points that are nowhere greater."""
    for axis in range(values.ndim):
        values = np.minimum.accumulate(values, axis=axis)
    return values


def _pace(stage: Stage, grid: tuple[Ints, Ints, Ints], inside: Floats) -> Floats:
    """The pace of blocks whose operands are above `stage`, from that of its own blocks."""
    m, k, n = (axis.astype(float).reshape([-1 if d == i else 1 for i in range(3)]) for d, axis in enumerate(grid))
    least = [np.concatenate([[0.0], axis[:-1]]) + 1 for axis in grid]
    grain = stage.rules.grain
    room_m, room_k, room_n = (
        np.minimum(np.maximum(low, g), axis).reshape([-1 if d == i else 1 for i in range(3)])
        for d, (low, g, axis) in enumerate(zip(least, grain, grid, strict=True))
    )
    level, (bits_a, bits_b, bits_c) = stage.level, stage.bits
    a, b = level.rho(bits_a) * stage.moved[0], level.rho(bits_b) * stage.moved[1]
    # load and store, or zero and accumulate: the quicker one
    c = min(level.rho(bits_c) + level.sigma(bits_c), level.alpha(bits_c) + level.phi(bits_c)) * stage.moved[2]
    copies = 2 if stage.rules.double_buffer else 1
    room_a, room_b, room_c = (
        stage.space[0] * room_m * room_k, stage.space[1] * room_k * room_n, stage.space[2] * room_m * room_n
    )  # fmt: skip
    all_three = room_a + room_b + room_c
    best = np.full(inside.shape, np.inf)
    for stays, streams, resident in (
        (c / k, a / n + b / m, room_c),
        (a / n, b / m + c / k, room_a),
        (b / m, a / n + c / k, room_b),
    ):
        step = np.maximum(streams, inside) if stage.rules.double_buffer else streams + inside
        needed = copies * all_three - (copies - 1) * resident
        fitting = np.where(needed <= stage.room, step / level.workers, np.inf)
        best = np.minimum(best, stays + least_up_to(fitting))
    return best
