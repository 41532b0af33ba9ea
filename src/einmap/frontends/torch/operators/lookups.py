"""Operators that look values up, put them in order, or compare neighbours."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from einmap.frontends.torch.operators.call import Aten, Rule
from einmap.frontends.torch.program import BOOL


def embedded(call: Aten) -> str:
    """embedding: rows of a table."""
    return call.emit("Gather", call.tensor("weight"), call.tensor("indices"), axis=0)


def index_selected(call: Aten) -> str:
    """index_select: indices of an axis by a tensor."""
    value = call.tensor("self")
    return call.emit("Gather", value, call.tensor("index"), axis=call.axis("dim", value))


def gathered(call: Aten) -> str:
    """gather: each value by itself along an axis."""
    value = call.tensor("self")
    name = "index" if call.has("index") else "indices"
    return call.emit("GatherElements", value, call.tensor(name), axis=call.axis("dim", value))


def largest(call: Aten) -> list[str]:
    """topk: the largest or smallest values of an axis, and their places."""
    value, n = call.tensor("self"), call.constant(np.array([call.integer("k")], np.int64))
    how = {"axis": call.axis("dim", value, -1), "largest": int(bool(call.plain("largest", True)))}
    return call.emit_all("TopK", [value, n], 2, how)


def sorted_values(call: Aten) -> list[str]:
    """sort: all values of an axis in order, and their places."""
    value = call.tensor("self")
    axis = call.axis("dim", value, -1)
    how = {"axis": axis, "largest": int(bool(call.plain("descending", False)))}
    return call.emit_all("TopK", [value, call.constant(np.array([call.shape(value)[axis]], np.int64))], 2, how)


def differences(call: Aten) -> str:
    """diff: each value of an axis less the one before it."""
    value = call.tensor("self")
    axis = call.axis("dim", value, -1)
    if call.integer("n", 1) != 1:
        raise call.refuse("it takes differences of differences")
    parts = [call.tensor(name) for name in ("prepend", "self", "append") if call.has(name)]
    shape = [*call.shape(value)]
    shape[axis] = sum(call.shape(part)[axis] for part in parts)
    whole = call.emit("Concat", *parts, axis=axis, shape=shape, kind=call.kind(value)) if len(parts) > 1 else value
    return call.emit("Sub", call.cut(whole, axis, 1, shape[axis]), call.cut(whole, axis, 0, shape[axis] - 1))


def counted(call: Aten) -> str:
    """histc: how many values lie in each of so many equal parts of a range."""
    low, high, bins = call.number("min", 0), call.number("max", 0), call.integer("bins", 100)
    if low >= high:
        raise call.refuse("its range is that of its values")
    value = call.as_fractions(call.tensor("self"))
    row = call.reshape(value, [1, call.size_of(call.shape(value))])
    moved = call.emit("Sub", row, call.constant(float(low)))
    part = call.emit("Floor", call.emit("Mul", moved, call.constant(bins / (high - low))))
    part = call.emit("Where", call.emit("Equal", row, call.constant(float(high))), call.constant(bins - 1.0), part)
    is_there = call.emit("Equal", call.constant(call.count(bins)[:, None]), part)
    return call.emit("ReduceSum", call.emit("Cast", is_there, to=call.result.kind), axes=[1], keepdims=0)


def indexed(call: Aten) -> str:
    """index: axes that tensors of indices name, which broadcast with one another."""
    value, places = call.tensor("self"), call.tensors("indices")
    axes = [axis for axis, place in enumerate(places) if place]
    if any(call.kind(places[axis]) == BOOL for axis in axes):
        raise call.refuse("how many values a mask chooses is known only when it runs")
    if len(axes) == 1:
        return call.emit("Gather", value, places[axes[0]], axis=axes[0])
    shape = np.broadcast_shapes(*(call.shape(places[axis]) for axis in axes))
    columns = [call.reshape(call.expand(places[axis], shape), [*shape, 1]) for axis in axes]
    rest = [axis for axis in range(len(call.shape(value))) if axis not in axes]
    front = call.transpose(value, [*axes, *rest])
    rows = call.emit("GatherND", front, call.emit("Concat", *columns, axis=-1))
    is_together = axes == [*range(axes[0], axes[0] + len(axes))]
    if not is_together or axes[0] == 0:
        return rows
    kept = [call.shape(value)[axis] for axis in rest]
    call.say(rows, [*shape, *kept], call.kind(value))
    n, before = len(shape), axes[0]
    return call.transpose(rows, [*range(n, n + before), *range(n), *range(n + before, n + len(rest))])


LOOKUPS: Mapping[str, Rule] = {
    **dict.fromkeys(("gather", "take_along_dim"), gathered),
    **dict.fromkeys(("index", "_unsafe_index"), indexed),
    "topk": largest,
    "sort": sorted_values,
    "diff": differences,
    "histc": counted,
    "embedding": embedded,
    "index_select": index_selected,
}
"""By the name of the operator, without its overload."""
