"""Operators of ONNX Runtime on weights of a few bits, several of which are in a byte, with a scale for each block."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from einmap.einsum.operation import Number
from einmap.errors import SpecError
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.cascade.values import Value, transpose
from einmap.frontends.onnx.kinds import UINT8
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.contractions import matrix_product
from einmap.frontends.onnx.operators.quantised import fraction


def unpacked(call: Call, place: int, shape: Sequence[int], bits: int) -> Value:
    """Integers of so many bits in the bytes of an operand, as a graph input of this shape.

    Raises NotExpressible for bytes that are computed, and SpecError where there are not as many as the shape needs.
    """
    value = call.operand(place)
    if prod(value.shape) * (8 // bits) != prod(shape):
        text = f"operand {place} of the shape {[*value.shape]} does not hold {[*shape]} integers of {bits} bits"
        raise SpecError(text, at=call.node.at)
    tensor = value.leaves[0].tensor if value.is_view else None
    if tensor is None or tensor.source is None or prod(tensor.sizes) != prod(value.shape):
        raise NotExpressible("its weights are not constants")
    key = tensor.name, tuple(shape), bits
    if key not in call.builder.unpacked:
        if isinstance(tensor.source, str) and call.read.get(tensor.source) == 1:
            call.builder.program.names.discard(tensor.name)  # only the integers are read, so that they have the name
        found = call.builder.graph_input(tensor.name, shape, bits, tensor.source, weight=tensor.weight, packed=bits)
        call.builder.unpacked[key] = found
    return call.builder.unpacked[key]


def _bits(call: Call, default: int = 4) -> int:
    bits = call.integer("bits", default)
    if bits not in (1, 2, 4, 8):
        raise NotExpressible(f"numbers of {bits} bits lie across bytes")
    return bits


def matmul_n_bits(call: Call) -> list[Value]:
    """MatMulNBits: a matrix product with a weight of N rows of K integers, which have a scale for each block of K."""
    k, n, block, bits = call.integer("K", 0), call.integer("N", 0), call.integer("block_size", 0), _bits(call)
    if min(k, n, block) < 1:
        raise SpecError(f"K = {k}, N = {n} and block_size = {block} must be positive", at=call.node.at)
    if call.integer("weight_prepacked", 0):
        raise NotExpressible("its weight is packed for one kind of device")
    blocks = -(-k // block)
    order = call.optional(4)
    if order is not None and not (order.array is not None and (order.array == np.arange(k) // block).all()):
        raise NotExpressible("its columns are in another order than its blocks (g_idx)")
    integers = call.take(unpacked(call, 1, (n, blocks * block), bits), 1, 0, 1, k)
    scales = call.reshape(call.operand(2), (n, blocks))
    weight = fraction(call, integers, scales, _zero_points(call, 3, (n, blocks), bits), 1)
    return [matrix_product(call, call.operand(0), transpose(weight, (1, 0)), bias=call.optional(5))]


def _zero_points(call: Call, place: int, shape: tuple[int, ...], bits: int) -> Value:
    """Zero points by block: in bytes, row by row, or as fractions; without them the middle of what bits can say."""
    value = call.optional(place)
    if value is None:
        return Value((), bits, Number(float(2 ** (bits - 1))))
    if call.kinds[place] != UINT8 or bits == 8:
        return call.reshape(value, shape)
    *rows, blocks = shape
    whole = -(-blocks * bits // 8) * (8 // bits)
    return call.take(unpacked(call, place, (*rows, whole), bits), len(rows), 0, 1, blocks)


def gather_block_quantized(call: Call) -> list[Value]:
    """GatherBlockQuantized: rows of a table of integers, with a scale for each block."""
    data, places, scales = call.operand(0), call.operand(1), call.operand(2)
    rank = len(data.shape)
    axis = call.axis(call.integer("gather_axis", 0), rank)
    along = call.axis(call.integer("quantize_axis", 1), rank)
    zero = call.optional(3)
    if call.kinds[0] == UINT8:
        bits = _bits(call)
        data = unpacked(call, 0, (*data.shape[:-1], data.shape[-1] * (8 // bits)), bits)
        zero = _zero_points(call, 3, scales.shape, bits)
    block = call.integer("block_size", 128) or data.shape[along]
    attributes = {**call.node.attributes, "block_size": block}
    table = fraction(replace(call, node=replace(call.node, attributes=attributes)), data, scales, zero, along)
    return [call.gathered(table, [(axis, places)])]


EXPERT_WEIGHT = "einmap.ExpertWeight"
"""The operator of bodies that gives the matrices of experts: [experts, n, k], of integers in bytes along k."""


def expert_weight(call: Call) -> list[Value]:
    """Matrices of integers with a scale for each row, or each block of it."""
    bits = _bits(call)
    data, scales = call.operand(0), call.operand(1)
    if len(data.shape) != 3 or len(scales.shape) not in (2, 3):
        text = f"scales of the shape {[*scales.shape]} do not fit matrices of {[*data.shape]} bytes"
        raise SpecError(text, at=call.node.at)
    number, n, k = *data.shape[:-1], data.shape[-1] * (8 // bits)
    scales = call.reshape(scales, (number, n, scales.shape[2] if len(scales.shape) == 3 else 1))
    zero = _zero_points(call, 2, scales.shape, bits)
    return [fraction(call, unpacked(call, 0, (number, n, k), bits), scales, zero, 2)]


PACKED: dict[str, Callable[[Call], list[Value]]] = {
    "com.microsoft.MatMulNBits": matmul_n_bits,
    EXPERT_WEIGHT: expert_weight,
    "com.microsoft.GatherBlockQuantized": gather_block_quantized,
}
"""By the name of the operator, with its domain."""
