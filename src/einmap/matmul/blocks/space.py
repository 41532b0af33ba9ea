"""The choices of one level: block sizes that are tried, and the blocks that fit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from einmap.arrays import Bools, Ints
from einmap.errors import SpecError
from einmap.matmul.algorithms import Algorithm, Choice, Stage
from einmap.matmul.machine.machine import DIMENSIONS, DIMENSIONS_OF, TENSORS, Sizes
from einmap.numbers import divisors
from einmap.units import format_bits

MOST = 16
"""Block sizes of one dimension that are tried, unless a plan asks for more: 16^3 blocks at each level."""
ALL = 2000
"""Most block sizes that are tried when all are asked for; dimensions of more than a million grains have more."""


def even_sizes(size: int, grain: int, most: int | None = MOST) -> tuple[int, ...]:
    """Block sizes of a dimension, largest first: for each number of parts the most even split into grains.

    Where there are more than `most`, first those stay that divide the dimension, then others of every magnitude. The
    whole dimension and the grain are always among them.

    >>> even_sizes(10, 1), even_sizes(100, 32)
    ((10, 5, 4, 3, 2, 1), (100, 64, 32))
    """
    units = -(-size // grain)
    exact = {units // d for d in divisors(units)}
    sizes = sorted(exact | _quotients(units), reverse=True)
    return tuple(min(u * grain, size) for u in _thinned(sizes, exact, ALL if most is None else most))


def _quotients(units: int) -> set[int]:
    """ceil(units / parts) for every number of parts; for very many units for parts of every magnitude."""
    root = math.isqrt(units)
    if root <= ALL // 2:
        return {-(-units // parts) for parts in range(1, root + 2)} | set(range(1, root + 1))
    return {-(-units // round(units ** (i / (ALL - 1)))) for i in range(ALL)}


def _thinned(sizes: list[int], exact: set[int], most: int) -> list[int]:
    """At most `most` of `sizes`: the first and the last one, then exact ones, then others, evenly by rank."""
    if len(sizes) <= most:
        return sizes
    kept = {sizes[0], sizes[-1]}
    for group in ([s for s in sizes if s in exact], [s for s in sizes if s not in exact]):
        kept |= set(_evenly([s for s in group if s not in kept], most - len(kept)))
    return [s for s in sizes if s in kept]


def _evenly(values: Sequence[int], count: int) -> list[int]:
    if len(values) <= count:
        return list(values)
    return [values[i * len(values) // count] for i in range(count)] if count > 0 else []


@dataclass(frozen=True, slots=True)
class Options:
    """All choices of a level for one block of the level above that fit, as columns: algorithm, block, share."""

    parent: Sizes
    workers: int
    algorithm: Ints
    block: Ints
    """One row for each choice: m, k, n."""
    share: Ints

    def __len__(self) -> int:
        return len(self.algorithm)

    def take(self, rows: Bools) -> Options:
        """The choices that `rows` select."""
        return Options(self.parent, self.workers, self.algorithm[rows], self.block[rows], self.share[rows])

    def choice(self, row: int) -> Choice:
        """The choice in one row."""
        m, k, n = (int(size) for size in self.block[row])
        return Choice.of(Algorithm(int(self.algorithm[row])), (m, k, n), self.parent, self.workers)


def options_of(stage: Stage, parent: Sizes) -> Options:
    """The choices whose three blocks fit. Raises SpecError when not even the smallest do."""
    rules = stage.rules
    most = MOST if rules.candidates is None else rules.candidates
    sizes = [np.array(even_sizes(s, g, most), np.int64) for s, g in zip(parent, rules.grain, strict=True)]
    blocks = np.stack([axis.ravel() for axis in np.meshgrid(*sizes, indexing="ij")], axis=1)
    fitting = [_of_algorithm(stage, algorithm, blocks, parent) for algorithm in Algorithm]
    numbers = [np.full(len(kept), a.value, np.int64) for a, (kept, _) in zip(Algorithm, fitting, strict=True)]
    block = np.concatenate([kept for kept, _ in fitting])
    if not len(block):
        raise too_small(stage)
    share = np.concatenate([share for _, share in fitting])
    return Options(parent, stage.level.workers, np.concatenate(numbers), block, share)


def _of_algorithm(stage: Stage, algorithm: Algorithm, blocks: Ints, parent: Sizes) -> tuple[Ints, Ints]:
    """The blocks that fit and the shares of the workers."""
    copies = 2 if stage.rules.double_buffer else 1
    needed = np.zeros(len(blocks))
    for position, tensor in enumerate(TENSORS):
        rows, columns = DIMENSIONS_OF[tensor]
        times = 1 if tensor == algorithm.resident else copies
        needed += float(times * stage.space[position]) * blocks[:, rows] * blocks[:, columns]
    kept = blocks[needed <= stage.room]
    parts = -(-parent[algorithm.inner] // kept[:, algorithm.inner])
    return kept, -(-parts // stage.level.workers)


def check_smallest(stages: Sequence[Stage], product: Sizes) -> None:
    """Raise SpecError for a level that cannot hold the smallest blocks, or the operands that are said to lie there."""
    for stage in stages:
        smallest = _smallest(stage, product)
        resident_only = stage.rules.fit == "resident"
        if stage.room < 0 or (not resident_only and _least_bits(stage, smallest) > stage.room):
            raise too_small(stage, smallest)
        if resident_only and min(stage.block_bits(t, smallest) for t in TENSORS) > stage.room:
            raise too_small(stage, smallest)


def _least_bits(stage: Stage, smallest: Sizes) -> int:
    return min(stage.needed_bits(algorithm, smallest) for algorithm in Algorithm)


def _smallest(stage: Stage, product: Sizes) -> Sizes:
    m, k, n = (min(g, s) for g, s in zip(stage.rules.grain, product, strict=True))
    return m, k, n


def too_small(stage: Stage, smallest: Sizes | None = None) -> SpecError:
    """The error for a level into which no block fits."""
    level, block = stage.level, smallest or stage.rules.grain
    whole = level.size_bits - stage.room
    if stage.room < 0:
        text = f"level {level.name!r} holds {_bytes(level.size_bits)}, the operands that lie there need {_bytes(whole)}"
        return SpecError(text, hint="name a larger level")
    shape = " x ".join(f"{d} {size}" for d, size in zip(DIMENSIONS, block, strict=True))
    buffers = ", streamed ones twice" if stage.rules.double_buffer else ""
    beside = f" beside {_bytes(whole)} of operands that lie there" if whole else ""
    return SpecError(
        f"level {level.name!r} holds {_bytes(level.size_bits)}, the smallest blocks ({shape}{buffers}) need "
        f"{_bytes(_least_bits(stage, block))}{beside}",
        hint="choose a smaller grain, a narrower data type, or a larger level",
    )


def _bytes(bits: float) -> str:
    return f"{math.ceil(bits / 8):,} bytes" if bits < 8 * 2**40 else format_bits(bits)
