"""A tile of C in the vector registers: what the kernel of a plan does at every step, and what measures the peak.

Written in LLVM's own terms, since a loop of Numba over a small array would keep it in memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import types
from numba.extending import intrinsic


@dataclass(frozen=True, slots=True)
class Tile:
    """The part of C that stays in registers: `rows` x (`vectors` of `vector_bits`)."""

    rows: int
    vectors: int
    vector_bits: int

    def columns(self, value_bits: int) -> int:
        """Columns in values."""
        return self.vectors * self.vector_bits // value_bits


@cache
def tile_of_host() -> Tile:
    """The tile for this processor: sums, one row of B and one value of A fit into its vector registers.

    There are 32 registers with AVX-512 and NEON, 16 otherwise; 8 sums at least hide the latency of a multiply-add.
    """
    features = dict(llvmlite.binding.get_host_cpu_features())
    if features.get("avx512f"):
        return Tile(8, 2, 512)
    if features.get("avx"):
        return Tile(6, 2, 256)
    if features.get("neon"):
        return Tile(8, 2, 128)
    return Tile(4, 2, 128)


TILE = tile_of_host()


def _vector_of(context: Any, array: Any) -> ir.VectorType:
    return ir.VectorType(context.get_value_type(array.dtype), TILE.vector_bits // array.dtype.bitwidth)


def _spread(builder: Any, value: Any, vector: ir.VectorType) -> Any:
    """A vector with `value` in every lane."""
    nothing = ir.Constant(vector, ir.Undefined)
    first = ir.Constant(ir.IntType(32), 0)
    lanes = ir.Constant(ir.VectorType(ir.IntType(32), vector.count), [0] * vector.count)
    return builder.shuffle_vector(builder.insert_element(nothing, value, first), nothing, lanes)


def _multiply_add(builder: Any, left: Any, right: Any, total: Any) -> Any:
    # contract: one fused instruction where the processor has it, two where it does not
    flags = ("contract",)
    return builder.fadd(builder.fmul(left, right, flags=flags), total, flags=flags)


class _Loop:
    """A loop of `steps` >= 1 steps around sums that stay in registers; the body is built between both methods."""

    def __init__(self, builder: Any, steps: Any, starts: list[ir.Constant]) -> None:
        self.builder, self.steps, self.before, self.starts = builder, steps, builder.block, starts
        self.body, self.after = builder.append_basic_block("body"), builder.append_basic_block("after")
        builder.branch(self.body)
        builder.position_at_end(self.body)
        self.step = builder.phi(steps.type)
        self.sums = [builder.phi(start.type) for start in starts]

    def end(self, results: list[Any]) -> None:
        """Take the sums of one step on to the next one, and go on behind the loop."""
        following = self.builder.add(self.step, ir.Constant(self.steps.type, 1))
        self.builder.cbranch(self.builder.icmp_signed("<", following, self.steps), self.body, self.after)
        self.step.add_incoming(ir.Constant(self.steps.type, 0), self.before)
        self.step.add_incoming(following, self.body)
        for total, start, result in zip(self.sums, self.starts, results, strict=True):
            total.add_incoming(start, self.before)
            total.add_incoming(result, self.body)
        self.builder.position_at_end(self.after)


@intrinsic
def add_tile(_typing: Any, a: Any, a_at: Any, b: Any, b_at: Any, c: Any, c_at: Any, c_row: Any, depth: Any) -> Any:
    """Add the product of `depth` >= 1 columns of a panel of A and rows of a panel of B to one tile of C.

    `a`, `b`, `c` are flat arrays of one data type, `*_at` where to begin in values, `c_row` values from one row of C to
    the next. Nothing is checked.
    """
    signature = types.void(a, a_at, b, b_at, c, c_at, c_row, depth)

    def generate(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
        vector = _vector_of(context, called.args[0])
        align = called.args[0].dtype.bitwidth // 8
        a_data, b_data, c_data = (
            context.make_array(called.args[i])(context, builder, arguments[i]).data for i in (0, 2, 4)
        )
        a_from, b_from, c_from, row_step, steps = (arguments[i] for i in (1, 3, 5, 6, 7))

        def number(value: int) -> ir.Constant:
            return ir.Constant(steps.type, value)

        def vector_at(data: Any, at: Any) -> Any:
            return builder.bitcast(builder.gep(data, [at]), vector.as_pointer())

        zero = ir.Constant(vector, [0.0] * vector.count)
        loop = _Loop(builder, steps, [zero] * (TILE.rows * TILE.vectors))
        b_step = builder.add(b_from, builder.mul(loop.step, number(TILE.vectors * vector.count)))
        a_step = builder.add(a_from, builder.mul(loop.step, number(TILE.rows)))
        b_row = [
            builder.load(vector_at(b_data, builder.add(b_step, number(v * vector.count))), align=align)
            for v in range(TILE.vectors)
        ]
        sums = []
        for row in range(TILE.rows):
            value = builder.load(builder.gep(a_data, [builder.add(a_step, number(row))]), align=align)
            spread = _spread(builder, value, vector)
            for v in range(TILE.vectors):
                sums.append(_multiply_add(builder, spread, b_row[v], loop.sums[row * TILE.vectors + v]))
        loop.end(sums)
        for row in range(TILE.rows):
            start = builder.add(c_from, builder.mul(row_step, number(row)))
            for v in range(TILE.vectors):
                at = vector_at(c_data, builder.add(start, number(v * vector.count)))
                total = builder.fadd(builder.load(at, align=align), sums[row * TILE.vectors + v])
                builder.store(total, at, align=align)
        return context.get_dummy_value()

    return signature, generate


@intrinsic
def square_sums(_typing: Any, values: Any, steps: Any) -> Any:
    """`steps` multiply-adds of every sum of a tile with one vector of `values`, which gets the total of all."""
    signature = types.void(values, steps)

    def generate(context: Any, builder: Any, called: Any, arguments: Any) -> Any:
        vector = _vector_of(context, called.args[0])
        align = called.args[0].dtype.bitwidth // 8
        data = context.make_array(called.args[0])(context, builder, arguments[0]).data
        at = builder.bitcast(data, vector.as_pointer())
        factor = builder.load(at, align=align)
        # different starts, or the compiler sees that all sums are one
        starts = [ir.Constant(vector, [float(i)] * vector.count) for i in range(TILE.rows * TILE.vectors)]
        loop = _Loop(builder, arguments[1], starts)
        sums = [_multiply_add(builder, total, factor, factor) for total in loop.sums]
        loop.end(sums)
        total = sums[0]
        for other in sums[1:]:
            total = builder.fadd(total, other)
        builder.store(total, at, align=align)
        return context.get_dummy_value()

    return signature, generate
