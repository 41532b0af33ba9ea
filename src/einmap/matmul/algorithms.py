"""The three algorithms of a level: which loop is innermost, what a level costs, sequentially and with workers.

Follows Gunnels, Gustavson, Henry, van de Geijn: "A Family of High-Performance Matrix Multiplication Algorithms" (2004),
with each transfer and each last, smaller block counted as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import reduce

import numpy as np
from numpy.typing import NDArray

from einmap.matmul.machine.machine import DIMENSIONS, DIMENSIONS_OF, TENSORS, Level, Machine, Sizes
from einmap.matmul.problem import Product, Rules

type Pieces = tuple[tuple[int, int], ...]
"""(size, how many): the full blocks of a dimension, and the last one if it is smaller."""
type Time = float | NDArray[np.float64]
"""Seconds; or those of several plans that differ further in, at once."""
type Seconds = Callable[[Sizes], Time]


class Algorithm(Enum):
    """Named by number as in the article; the innermost loop is over the dimension that the resident matrix lacks."""

    C_RESIDENT = 1
    A_RESIDENT = 2
    B_RESIDENT = 3

    @property
    def resident(self) -> str:
        """The matrix whose block stays while the innermost loop runs."""
        return {1: "C", 2: "A", 3: "B"}[self.value]

    @property
    def inner(self) -> int:
        """The dimension of the innermost loop, as a position in m, k, n."""
        return {1: 1, 2: 2, 3: 0}[self.value]

    @property
    def outer(self) -> tuple[int, int]:
        """The dimensions of the two loops around it: those of the resident matrix."""
        return DIMENSIONS_OF[self.resident]

    @property
    def streamed(self) -> tuple[str, str]:
        """The two matrices of which every step of the innermost loop takes another block."""
        first, second = (tensor for tensor in TENSORS if tensor != self.resident)
        return first, second


@dataclass(frozen=True, slots=True)
class Choice:
    """Decisions of a plan at one level: blocks of `block` = (m, k, n), `share` of the innermost loop for each worker.

    `workers`: how many of the level's workers get any.
    """

    algorithm: Algorithm
    block: Sizes
    share: int
    workers: int

    @staticmethod
    def of(algorithm: Algorithm, block: Sizes, parent: Sizes, workers: int) -> Choice:
        """The blocks of the innermost loop over a block of size `parent` spread as evenly as blocks can be."""
        parts = -(-parent[algorithm.inner] // block[algorithm.inner])
        share = -(-parts // workers)
        return Choice(algorithm, block, share, -(-parts // share))

    @property
    def chunk(self) -> int:
        """How much of the innermost dimension one worker gets."""
        return self.share * self.block[self.algorithm.inner]


@dataclass(frozen=True, slots=True)
class Stage:
    """A level with the numbers of one product and the rules of the plan.

    `space`: bits that a value of A, B, C takes in a block here, 0 for operands that lie here whole or never come here.
    `room`: bits left by the former. `moved`: which operands cross the link above. `bits`: of a value.
    """

    level: Level
    space: Sizes
    room: float
    moved: tuple[bool, bool, bool]
    bits: Sizes
    rules: Rules

    def shares_sums(self, choice: Choice) -> bool:
        """Whether blocks of C are zeroed here and accumulated atomically above, rather than loaded and stored."""
        if self.rules.accumulate == "atomic":
            return self.level.workers > 1
        return choice.algorithm is Algorithm.C_RESIDENT and choice.workers > 1

    def block_bits(self, tensor: str, block: Sizes) -> int:
        """Bits that one block takes here."""
        rows, columns = DIMENSIONS_OF[tensor]
        return self.space[TENSORS.index(tensor)] * block[rows] * block[columns]

    def needed_bits(self, algorithm: Algorithm, block: Sizes) -> int:
        """Bits of the three blocks, streamed ones twice when buffered doubly."""
        copies = 2 if self.rules.double_buffer else 1
        streamed = sum(self.block_bits(tensor, block) for tensor in algorithm.streamed)
        return self.block_bits(algorithm.resident, block) + copies * streamed

    def transfer(self, tensor: str, size: Sizes, bandwidth: float) -> float:
        """Seconds to move one block, which lies in consecutive lines."""
        position = TENSORS.index(tensor)
        if not self.moved[position]:
            return 0.0
        rows, columns = DIMENSIONS_OF[tensor]
        lines = -(-self.bits[position] * size[rows] * size[columns] // self.level.line_bits)
        return self.level.startup + lines * self.level.line_bits / bandwidth

    def load(self, tensor: str, size: Sizes, shared: bool = False) -> float:
        """Seconds until a block is here: to load it, or to write zeros for a block of C that is accumulated later."""
        if tensor == "C" and shared:
            position = TENSORS.index(tensor)
            values = size[0] * size[2] if self.moved[position] else 0
            return values * self.level.alpha(self.bits[position])
        return self.transfer(tensor, size, self.level.load_bandwidth)

    def store(self, tensor: str, size: Sizes, shared: bool = False) -> float:
        """Seconds to bring a block back: only C is, by a store or by accumulation."""
        if tensor != "C":
            return 0.0
        return self.transfer(tensor, size, self.level.accumulate_bandwidth if shared else self.level.store_bandwidth)


def stages_of(machine: Machine, product: Product, rules: Rules) -> tuple[Stage, ...]:
    """All levels, outermost first."""
    homes = {tensor: machine.position(level) for tensor, level in rules.resident}
    stages = []
    for position, level in enumerate(machine.levels):
        # below its home an operand moves as usual, at its home and above it does not
        moved = tuple(position > homes.get(tensor, -1) for tensor in TENSORS)
        space = tuple(bits if crosses else 0 for bits, crosses in zip(product.bits, moved, strict=True))
        whole = sum(
            product.bits[TENSORS.index(t)] * product.size[DIMENSIONS_OF[t][0]] * product.size[DIMENSIONS_OF[t][1]]
            for t, home in homes.items()
            if home == position
        )
        a, b, c = moved
        stages.append(
            Stage(level, (space[0], space[1], space[2]), level.size_bits - whole, (a, b, c), product.bits, rules)
        )
    return tuple(stages)


def pieces(size: int, block: int) -> Pieces:
    """A dimension of `size` in blocks: `pieces(10, 4) == ((4, 2), (2, 1))`."""
    full, rest = divmod(size, block)
    full_pieces = ((block, full),) if full else ()
    return (*full_pieces, (rest, 1)) if rest else full_pieces


def block_seconds(stage: Stage, choice: Choice, size: Sizes, inside: Seconds) -> Time:
    """Seconds for a block of `size` of the level above, until the last worker is done.

    `inside`: seconds of a block at this level whose operands are here. Sequentially this is, for example for algorithm
    1 and without start-up costs, `m'n'(rho + sigma) + m'k'n' (rho/n + rho/m + 2 gamma)`.
    """
    chunks = pieces(size[choice.algorithm.inner], choice.chunk)
    return reduce(np.maximum, (_worker_seconds(stage, choice, size, chunk, inside) for chunk, _ in chunks))


def _worker_seconds(stage: Stage, choice: Choice, size: Sizes, chunk: int, inside: Seconds) -> Time:
    """Seconds of a worker that gets `chunk` of the innermost dimension."""
    algorithm, block = choice.algorithm, choice.block
    shared = stage.shares_sums(choice)
    first, second = algorithm.outer
    total: Time = 0.0
    for rows, n_rows in pieces(size[first], block[first]):
        for columns, n_columns in pieces(size[second], block[second]):
            outer = {first: rows, second: columns}
            steps = tuple((_sizes(outer, algorithm.inner, inner), count) for inner, count in _inner(choice, chunk))
            resident, full = algorithm.resident, steps[0][0]
            stays = stage.load(resident, full, shared) + stage.store(resident, full, shared)
            total = total + n_rows * n_columns * (stays + _sweep_seconds(stage, algorithm, shared, steps, inside))
    return total


def _inner(choice: Choice, chunk: int) -> Pieces:
    return pieces(chunk, choice.block[choice.algorithm.inner])


def _sizes(outer: dict[int, int], inner: int, size: int) -> Sizes:
    both = {**outer, inner: size}
    return both[0], both[1], both[2]


def _sweep_seconds(
    stage: Stage, algorithm: Algorithm, shared: bool, steps: tuple[tuple[Sizes, int], ...], inside: Seconds
) -> Time:
    """The innermost loop: load the streamed blocks, compute, store; one after the other or overlapped."""
    timed = []
    for size, count in steps:
        load = sum(stage.load(tensor, size, shared) for tensor in algorithm.streamed)
        store = sum(stage.store(tensor, size, shared) for tensor in algorithm.streamed)
        timed.append(((load, inside(size), store), count))
    if not stage.rules.double_buffer:
        return sum(count * (load + compute + store) for (load, compute, store), count in timed)
    return overlapped(timed)


def overlapped(steps: list[tuple[tuple[float, Time, float], int]]) -> Time:
    """Seconds of steps (load, compute, store) with two buffers: while one step computes, the next one loads and the one
    before stores, on the same link. Nothing hides the first load and the last store.

    >>> float(overlapped([((2.0, 3.0, 1.0), 4)]))
    15.0
    """
    # three full steps stand for any number: those between the first and the last have the same neighbours
    line = [step for step, count in steps for _ in range(min(count, 3))]
    total: Time = line[0][0] + line[-1][2]
    for position, (_, compute, _) in enumerate(line):
        before = line[position - 1][2] if position else 0.0
        after = line[position + 1][0] if position + 1 < len(line) else 0.0
        total = total + np.maximum(compute, before + after)
    return total + sum((count - 3) * np.maximum(step[1], step[0] + step[2]) for step, count in steps if count > 3)


def plan_seconds(
    stages: tuple[Stage, ...], choices: tuple[Choice, ...], size: Sizes, compute: Seconds
) -> tuple[float, tuple[float, ...]]:
    """Seconds of a whole plan, and how much of them each stage's transfers and, last, computing take.

    What overlaps is charged to computing, as far as that is the longer one.
    """
    parts_of: dict[tuple[int, Sizes], tuple[float, ...]] = {}

    def parts(position: int, block: Sizes) -> tuple[float, ...]:
        key = (position, block)
        if key not in parts_of:
            parts_of[key] = compute_parts(block) if position == len(stages) else split(position, block)
        return parts_of[key]

    def compute_parts(block: Sizes) -> tuple[float, ...]:
        return (*(0.0 for _ in stages), float(compute(block)))

    def split(position: int, block: Sizes) -> tuple[float, ...]:
        stage, choice = stages[position], choices[position]
        chunks = pieces(block[choice.algorithm.inner], choice.chunk)
        timed = [
            (float(_worker_seconds(stage, choice, block, chunk, lambda b: sum(parts(position + 1, b)))), chunk)
            for chunk, _ in chunks
        ]
        seconds, chunk = max(timed, key=lambda pair: pair[0])
        inner = [0.0] * (len(stages) + 1)
        for piece, count in _blocks(choice, block, chunk):
            for index, value in enumerate(parts(position + 1, piece)):
                inner[index] += count * value
        inner[position] = max(seconds - sum(inner), 0.0)
        return tuple(inner)

    whole = parts(0, size)
    return sum(whole), whole


def _blocks(choice: Choice, size: Sizes, chunk: int) -> list[tuple[Sizes, int]]:
    """All blocks of one worker by size."""
    cut = list(size)
    cut[choice.algorithm.inner] = chunk
    (m, k, n) = (pieces(cut[d], choice.block[d]) for d in range(len(DIMENSIONS)))
    return [((i, j, l), a * b * c) for i, a in m for j, b in k for l, c in n]  # noqa: E741
