"""A plan carried out on one core: packed blocks, the loops of the plan's levels, tiles of C in registers.

One kernel for all plans and sizes, compiled once for each data type and kept on disk: what a plan says reaches it as a
table of numbers. The scheme is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication"
(2008), with the loops of the plan in place of theirs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from einmap.errors import NotSupportedError, SpecError
from einmap.matmul.machine.machine import DIMENSIONS, Sizes
from einmap.matmul.measured.registers import TILE, add_tile, square_sums
from einmap.matmul.result import MatmulPlan
from einmap.progress import Progress

type Matrix = NDArray[Any]
type Numbers = NDArray[np.int64]

DTYPES: dict[str, np.dtype[Any]] = {"fp32": np.dtype(np.float32), "fp64": np.dtype(np.float64)}
"""The data types of the kernel, by the planner's names."""
ROWS, ROW_BYTES = TILE.rows, TILE.vectors * TILE.vector_bits // 8
"""Of a tile of C."""
LINE = 64


def grain_of(dtype: str, k: int = 64) -> Sizes:
    """Least block for which tiles are full; `k` keeps blocks from being so flat that tiles are mostly moved."""
    return TILE.rows, k, TILE.columns(8 * DTYPES[dtype].itemsize)


@njit(cache=True, nogil=True)
def pack_a(a: Matrix, box: Numbers, packed: Matrix) -> None:
    """A block of A in panels of as many rows as a tile has, each column by column; zeros below the last row."""
    at = 0
    for top in range(box[0], box[3], ROWS):
        rows = min(ROWS, box[3] - top)
        for column in range(box[1], box[4]):
            for row in range(rows):
                packed[at + row] = a[top + row, column]
            for row in range(rows, ROWS):
                packed[at + row] = 0
            at += ROWS


@njit(cache=True, nogil=True)
def pack_b(b: Matrix, box: Numbers, packed: Matrix) -> None:
    """A block of B in panels of as many columns as a tile has, each row by row; zeros right of the last column."""
    width = ROW_BYTES // b.itemsize
    depth = box[4] - box[1]
    for row in range(depth):
        for left in range(box[2], box[5], width):
            at = (left - box[2]) * depth + row * width
            columns = min(width, box[5] - left)
            for column in range(columns):
                packed[at + column] = b[box[1] + row, left + column]
            for column in range(columns, width):
                packed[at + column] = 0


@njit(cache=True, nogil=True)
def add_sums(sums: Matrix, box: Numbers, c: Matrix) -> None:
    """Add the tiles of a block of C, packed one column of tiles after the other, to C itself."""
    width = ROW_BYTES // c.itemsize
    below = -(-(box[3] - box[0]) // ROWS)
    for top in range(box[0], box[3], ROWS):
        for row in range(top, min(top + ROWS, box[3])):
            for left in range(box[2], box[5], width):
                tile = (left - box[2]) // width * below + (top - box[0]) // ROWS
                at = (tile * ROWS + row - top) * width
                for column in range(min(width, box[5] - left)):
                    c[row, left + column] += sums[at + column]


@njit(cache=True, nogil=True)
def _tiles(box: Numbers, whole: Numbers, a: Matrix, b: Matrix, c: Matrix) -> None:
    """All tiles of an innermost block; those at the edge of C compute zeros that are packed beside it."""
    width = ROW_BYTES // a.itemsize
    depth, steps = whole[4] - whole[1], box[4] - box[1]
    below = -(-(whole[3] - whole[0]) // ROWS)
    for left in range(box[2], box[5], width):
        b_at = (left - whole[2]) * depth + (box[1] - whole[1]) * width
        column = (left - whole[2]) // width * below
        for top in range(box[0], box[3], ROWS):
            a_at = (top - whole[0]) * depth + (box[1] - whole[1]) * ROWS
            tile = column + (top - whole[0]) // ROWS
            add_tile(a, a_at, b, b_at, c, tile * ROWS * width, width, steps)


@njit(cache=True, nogil=True)
def walk(level: int, loops: Numbers, boxes: Numbers, a: Matrix, b: Matrix, c: Matrix) -> None:
    """The loops of `level` and of those below over the block `boxes[level]`: first m, k, n, and the ends of m, k, n.

    `loops[level]`: the three dimensions from the outermost loop in, then the block sizes of m, k, n. `a`, `b` and `c`
    are the packed operands of `boxes[0]`.
    """
    if level == len(loops):
        _tiles(boxes[level], boxes[0], a, b, c)
        return
    outer, middle, inner = loops[level, 0], loops[level, 1], loops[level, 2]
    parent, box = boxes[level], boxes[level + 1]
    for x in range(parent[outer], parent[3 + outer], loops[level, 3 + outer]):
        box[outer], box[3 + outer] = x, min(x + loops[level, 3 + outer], parent[3 + outer])
        for y in range(parent[middle], parent[3 + middle], loops[level, 3 + middle]):
            box[middle], box[3 + middle] = y, min(y + loops[level, 3 + middle], parent[3 + middle])
            for z in range(parent[inner], parent[3 + inner], loops[level, 3 + inner]):
                box[inner], box[3 + inner] = z, min(z + loops[level, 3 + inner], parent[3 + inner])
                walk(level + 1, loops, boxes, a, b, c)


def multiply(
    plan: MatmulPlan, a: Matrix, b: Matrix, c: Matrix | None = None, progress: Progress | None = None
) -> Matrix:
    """`C <- A B + C` by the loops of the plan, on one core: A: m x k, B: k x n, C: m x n; without `c` from zeros.

    The outermost level's blocks are packed, those of A and B when they change, that of C from zeros and then added to
    C. `c` must lie row by row, and is changed. Blocks
    that the plan gives to several workers are done one after the other. Where `progress` is stopped between two
    outermost blocks, the sums so far are returned. Raises SpecError for other sizes and data types than the plan's, and
    for a plan whose inner blocks are not whole tiles.
    """
    dtype = operand_dtype(plan)
    m, k, n = plan.product.size
    c = np.zeros((m, n), dtype) if c is None else c
    for name, matrix, shape in (("A", a, (m, k)), ("B", b, (k, n)), ("C", c, (m, n))):
        if matrix.shape != shape or matrix.dtype != dtype:
            actual = f"{' x '.join(map(str, matrix.shape))} of {matrix.dtype}"
            raise SpecError(f"the plan's {name} is {shape[0]} x {shape[1]} of {dtype}, found {actual}")
    if not c.flags.c_contiguous or not c.flags.writeable:
        raise SpecError("C must be writeable and lie row by row", hint="np.ascontiguousarray(c)")
    buffers = Buffers.of(plan.choices[0].block, dtype)
    loops = _loops(plan)
    boxes = np.zeros((len(loops) + 1, 6), np.int64)
    a, b = np.ascontiguousarray(a), np.ascontiguousarray(b)
    blocks = list(_outermost(plan))
    for done, box in enumerate(blocks):
        if progress is not None:
            if progress.stopped:
                break
            progress.report("multiplying by the plan", done, len(blocks))
        buffers.take(a, b, c, box)
        boxes[0] = box
        walk(0, loops, boxes, buffers.a, buffers.b, buffers.c)
    buffers.give(c)
    return c


@dataclass(slots=True)
class Buffers:
    """The packed blocks of the outermost level: operands, and sums that are not yet in C. `box`: where they lie."""

    a: Matrix
    b: Matrix
    c: Matrix
    box: Numbers | None = None

    @staticmethod
    def of(block: Sizes, dtype: np.dtype[Any]) -> Buffers:
        """Room for blocks of that size, in whole tiles."""
        rows, columns = _up(block[0], ROWS), _up(block[2], TILE.columns(8 * dtype.itemsize))
        sizes = rows * block[1], block[1] * columns, rows * columns
        return Buffers(*(_aligned(size, dtype) for size in sizes))

    def take(self, a: Matrix, b: Matrix, c: Matrix, box: Numbers) -> None:
        """Go on to another block: pack what changes, and bring sums to C when its block changes."""
        if self._moves(box, 0, 1):
            pack_a(a, box, self.a)
        if self._moves(box, 1, 2):
            pack_b(b, box, self.b)
        if self._moves(box, 0, 2):
            self.give(c)
            self.c.fill(0)
        self.box = box

    def give(self, c: Matrix) -> None:
        """Add the sums to C."""
        if self.box is not None:
            add_sums(self.c, self.box, c)

    def _moves(self, box: Numbers, rows: int, columns: int) -> bool:
        return self.box is None or any(box[d] != self.box[d] for d in (rows, columns))


def operand_dtype(plan: MatmulPlan) -> np.dtype[Any]:
    """NumPy's data type for the plan's A, B and C. Raises NotSupportedError for what the kernel cannot multiply."""
    names = [data_type.name for data_type in plan.product.types]
    if len(set(names)) > 1 or names[0] not in DTYPES:
        text = f"the kernel multiplies fp32 or fp64, sums of the same type; the plan is for {names[0]}, sums {names[2]}"
        raise NotSupportedError(text, hint=f"--dtype {' or '.join(DTYPES)}")
    return DTYPES[names[0]]


def _loops(plan: MatmulPlan) -> Numbers:
    """The table that `walk` reads: all levels but the outermost, whose blocks are packed."""
    tile = dict(zip(DIMENSIONS, (ROWS, 1, TILE.columns(8 * operand_dtype(plan).itemsize)), strict=True))
    for above, choice in pairwise(plan.choices):
        for dimension, outer, size in zip(DIMENSIONS, above.block, choice.block, strict=True):
            if size < outer and size % tile[dimension]:
                inner = f"a block of {dimension} {size} in one of {outer}"
                text = f"{inner} is not a whole number of tiles of {tile[dimension]}"
                raise SpecError(text, hint=f"--grain {','.join(str(size) for size in tile.values())}")
    rows = [(*choice.algorithm.outer, choice.algorithm.inner, *choice.block) for choice in plan.choices[1:]]
    return np.array(rows, np.int64).reshape(-1, 6)


def _outermost(plan: MatmulPlan) -> Iterator[Numbers]:
    """The blocks of the outermost level in the plan's order: first m, k, n, and the ends of m, k, n."""
    choice, size = plan.choices[0], plan.product.size
    dimensions = (*choice.algorithm.outer, choice.algorithm.inner)
    for corner in product(*(range(0, size[d], choice.block[d]) for d in dimensions)):
        start = [corner[dimensions.index(d)] for d in range(3)]
        ends = (min(s + b, whole) for s, b, whole in zip(start, choice.block, size, strict=True))
        yield np.array([*start, *ends], np.int64)


def _up(size: int, step: int) -> int:
    return -(-size // step) * step


def _aligned(count: int, dtype: np.dtype[Any]) -> Matrix:
    """Room for so many values that begins with a line of the caches, so that no vector lies in two of them."""
    room = np.empty(count * dtype.itemsize + LINE, np.uint8)
    start = -room.ctypes.data % LINE
    return room[start : start + count * dtype.itemsize].view(dtype)


@njit(cache=True, nogil=True)
def multiply_adds(values: Matrix, steps: int) -> None:
    """2 x rows x columns of a tile x `steps` operations without memory, into one vector: they measure the peak."""
    square_sums(values, steps)
