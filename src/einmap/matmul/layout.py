"""How the operands should lie in the main memory, so that transfers of blocks move full lines in long runs.

Below the main memory blocks are packed: each lies in consecutive lines, in the order in which it is used. The main
memory holds matrices that others wrote: by rows, by columns, or already in the blocks of the plan.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from einmap.matmul.algorithms import Choice, Stage, pieces
from einmap.matmul.machine.machine import DIMENSIONS_OF, TENSORS
from einmap.matmul.problem import Product
from einmap.matmul.traffic import LevelTraffic, Moves

type Order = Literal["row", "column", "blocked"]
ORDERS: tuple[Order, ...] = ("row", "column", "blocked")
"""In order of preference: where two cost the same, the usual one is taken."""


@dataclass(frozen=True, slots=True)
class LayoutCost:
    """One order of an operand: `run_bits` is the longest run of consecutive addresses in a block, `runs` are all runs
    of all transfers, `full` the useful part of the lines that they touch, `seconds` the time of the transfers, one
    after the other on one link.
    """

    order: Order
    run_bits: int
    runs: int
    full: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Layouts:
    """The orders of one operand, the best one first."""

    tensor: str
    costs: tuple[LayoutCost, ...]

    @property
    def best(self) -> LayoutCost:
        """The order of least time."""
        return self.costs[0]

    def to_dict(self) -> dict[str, Any]:
        """Plain dictionaries and lists."""
        fields = ("order", "run_bits", "runs", "full", "seconds")
        return {"tensor": self.tensor, "orders": [{f: getattr(cost, f) for f in fields} for cost in self.costs]}


@dataclass(frozen=True, slots=True)
class Matrix:
    """A matrix of lines: `rows` x `columns` values of `bits`, in blocks of `block_rows` x `block_columns`, by rows."""

    rows: int
    columns: int
    block_rows: int
    block_columns: int
    bits: int

    @property
    def transposed(self) -> Matrix:
        """This matrix seen by columns."""
        return Matrix(self.columns, self.rows, self.block_columns, self.block_rows, self.bits)


def layouts_of(stage: Stage, traffic: LevelTraffic, choice: Choice, product: Product) -> tuple[Layouts, ...]:
    """The orders of each operand that comes from main memory; `stage`, `traffic`, `choice` of the outermost level."""
    layouts = []
    for position, tensor in enumerate(TENSORS):
        if not stage.moved[position]:
            continue
        rows, columns = DIMENSIONS_OF[tensor]
        matrix = Matrix(
            product.size[rows],
            product.size[columns],
            choice.block[rows],
            choice.block[columns],
            product.bits[position],
        )
        costs = [_cost(stage, order, matrix, traffic.of(tensor)) for order in ORDERS]
        # rounded: equal costs may differ in the last digit, and the usual order is preferred then
        layouts.append(Layouts(tensor, tuple(sorted(costs, key=lambda cost: float(f"{cost.seconds:.9e}")))))
    return tuple(layouts)


def _cost(stage: Stage, order: Order, matrix: Matrix, moves: Moves) -> LayoutCost:
    level = stage.level
    runs, lines, longest = _sweep(order, matrix, level.line_bits)
    whole = matrix.rows * matrix.columns
    blocks = -(-matrix.rows // matrix.block_rows) * -(-matrix.columns // matrix.block_columns)
    seconds = 0.0
    for values, bandwidth in (
        (moves.loads, level.load_bandwidth),
        (moves.stores, level.store_bandwidth),
        (moves.accumulates, level.accumulate_bandwidth),
    ):
        once = lines * level.line_bits / bandwidth + blocks * level.startup + (runs - blocks) * level.run_startup
        seconds += values // whole * once
    full = whole * matrix.bits / (lines * level.line_bits)
    return LayoutCost(order, longest, runs * (moves.values // whole), full, seconds)


def _sweep(order: Order, matrix: Matrix, line: int) -> tuple[int, int, int]:
    """Runs, lines touched, and bits of the longest run when every block of the matrix is moved once."""
    match order:
        case "row":
            return _by_rows(matrix, line)
        case "column":
            return _by_rows(matrix.transposed, line)
        case "blocked":
            return _by_blocks(matrix, line)


def _by_blocks(matrix: Matrix, line: int) -> tuple[int, int, int]:
    runs = lines = longest = 0
    for rows, n_rows in pieces(matrix.rows, matrix.block_rows):
        for columns, n_columns in pieces(matrix.columns, matrix.block_columns):
            bits, count = rows * columns * matrix.bits, n_rows * n_columns
            runs, lines, longest = runs + count, lines + count * -(-bits // line), max(longest, bits)
    return runs, lines, longest


def _by_rows(matrix: Matrix, line: int) -> tuple[int, int, int]:
    """Each row of a block is a run, unless the block is as wide as the matrix: then all of it is one."""
    pitch, width = matrix.columns * matrix.bits, matrix.block_columns * matrix.bits
    if width >= pitch:
        whole, run = matrix.rows * pitch, matrix.block_rows * pitch
        lines = sum(count * _touched(start, length, line) for start, count, length in _starts(whole, run, line))
        return -(-matrix.rows // matrix.block_rows), lines, min(run, whole)
    lines = 0
    for start, count, length in _starts(pitch, width, line):
        lines += count * _lines_of_runs(start, pitch, matrix.rows, length, line)
    return matrix.rows * -(-matrix.columns // matrix.block_columns), lines, width


def _starts(pitch: int, width: int, line: int) -> Iterator[tuple[int, int, int]]:
    """(offset in a line, how many, length) of the runs of `pitch` bits cut by `width`; offsets repeat."""
    period = line // math.gcd(width, line)
    full, rest = divmod(pitch, width)
    for residue in range(min(period, full)):
        yield residue * width % line, (full - residue - 1) // period + 1, width
    if rest:
        yield full * width % line, 1, rest


def _lines_of_runs(start: int, pitch: int, count: int, length: int, line: int) -> int:
    """Lines touched by `count` runs of `length` bits whose starts are `pitch` bits apart; offsets repeat."""
    period = line // math.gcd(pitch, line)
    total = 0
    for residue in range(min(period, count)):
        offset = (start + residue * pitch) % line
        total += ((count - residue - 1) // period + 1) * _touched(offset, length, line)
    return total


def _touched(offset: int, length: int, line: int) -> int:
    """Lines of a run that begins `offset` bits into a line."""
    return (offset + length - 1) // line + 1
