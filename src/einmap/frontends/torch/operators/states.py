"""States that a program changes: values written into a part of a tensor."""

from __future__ import annotations

from collections.abc import Mapping

from einmap.frontends.onnx.model import Tensor
from einmap.frontends.torch.operators.call import MOST_KNOWN, Aten, Rule
from einmap.frontends.torch.operators.layout import permutation
from einmap.frontends.torch.program import BOOL


def written_slice(call: Aten) -> str:
    """slice_scatter and select_scatter: a tensor with some indices of an axis replaced."""
    value, source = call.tensor("self"), call.tensor("src")
    axis = call.axis("dim", value, 0)
    size = call.shape(value)[axis]
    if call.has("index"):
        start = call.integer("index") % size
        shape = [*call.shape(value)]
        return _replaced(call, value, call.reshape(source, [*shape[:axis], 1, *shape[axis + 1 :]]), axis, start)
    start, end, step = slice(call.plain("start"), call.plain("end"), call.integer("step", 1)).indices(size)
    if step != 1:
        raise call.refuse("it writes every so many indices")
    wanted = [*call.shape(value)]
    wanted[axis] = max(0, end - start)
    return _replaced(call, value, call.expand(source, wanted), axis, start)


def _replaced(call: Aten, value: str, source: str, axis: int, start: int) -> str:
    """The value with `source` from an index of an axis on."""
    size, length = call.shape(value)[axis], call.shape(source)[axis]
    if not length:
        return value
    if length == size:
        return source
    parts = [source]
    if start:
        parts.insert(0, call.cut(value, axis, 0, start))
    if start + length < size:
        parts.append(call.cut(value, axis, start + length, size))
    return call.emit("Concat", *parts, axis=axis)


def copied(call: Aten) -> str:
    """copy: all of a tensor replaced, as numbers of its type."""
    target, source = call.tensor("self"), call.tensor("src")
    return call.expand(call.cast(source, call.kind(target)), call.shape(target))


def filled(call: Aten) -> str:
    """fill: all of a tensor is one number."""
    value = call.cast(call.tensor("value"), call.kind(call.tensor("self")))
    return call.expand(value, call.result.shape)


def written_places(call: Aten) -> str:
    """index_put and index_copy: rows replaced at places along one axis.

    One row at a place that is known only when it runs is a choice for each row, single numbers are compared with all
    places; several rows are not expressible.
    """
    value = call.tensor("self")
    name = "values" if call.has("values") else "source"
    if call.has("dim"):
        axis = call.axis("dim", value)
        places = call.tensor("index")
    else:
        given = call.tensors("indices")
        axes = [axis for axis, place in enumerate(given) if place]
        if len(axes) != 1:
            raise call.refuse("it writes at places along several axes")
        axis, places = axes[0], given[axes[0]]
    if call.plain("accumulate", False):
        raise call.refuse("it adds into rows at places that are known when it runs")
    if call.kind(places) == BOOL:
        raise call.refuse("how many values a mask chooses is known only when it runs")
    shape = [*call.shape(value)]
    n = call.size_of(call.shape(places))
    source = call.expand(call.tensor(name), [*shape[:axis], *call.shape(places), *shape[axis + 1 :]])
    source = call.reshape(source, [*shape[:axis], n, *shape[axis + 1 :]])
    known: Tensor | None = call.written.constants.get(places)
    if known is not None and known.array is not None:
        where = [int(i) % shape[axis] for i in known.array.reshape(-1)]
        if where == [*range(where[0], where[0] + n)]:
            return _replaced(call, value, source, axis, where[0])
    if len(shape) == 1 and n * shape[0] <= MOST_KNOWN:
        is_here = call.emit("Equal", call.constant(call.count(shape[0])[:, None]), call.reshape(places, [1, n]))
        nothing = call.constant(0, call.kind(value))
        chosen = call.emit("Where", is_here, call.reshape(source, [1, n]), nothing)
        total = call.emit("ReduceSum", chosen, axes=[1], keepdims=0)
        return call.emit("Where", call.emit("ReduceMax", is_here, axes=[1], keepdims=0), total, value)
    if n != 1:
        raise call.refuse(f"it writes {n:,} rows at places that are known only when it runs")
    ones = [-1 if other == axis else 1 for other in range(len(shape))]
    rows = call.constant(call.count(shape[axis]).reshape(ones))
    is_there = call.emit("Equal", rows, call.reshape(places, [1] * len(shape)))
    return call.emit("Where", is_there, source, value)


def put_back(call: Aten, place: int, base: str, part: str) -> str:
    """A tensor of which a part was replaced; `call`: what gave the part, the result at `place`."""
    shape = call.shape(base)
    if call.name in ("slice", "select", "narrow"):
        axis, size = call.axis("dim", base, 0), 0
        size = shape[axis]
        step = call.integer("step", 1) if call.name == "slice" else 1
        if step != 1:
            raise call.refuse("it writes every so many indices")
        start = call.integer({"select": "index"}.get(call.name, "start"), 0)
        start = slice(start, None).indices(size)[0]
        rows = [*shape[:axis], 1, *shape[axis + 1 :]]
        return _replaced(call, base, call.reshape(part, rows) if call.name == "select" else part, axis, start)
    if call.name in ("split", "split_with_sizes", "chunk") and None not in call.results:
        axis = call.axis("dim", base, 0)
        start = sum(result.shape[axis] for result in call.results[:place] if result is not None)
        return _replaced(call, base, part, axis, start)
    if call.name in ("transpose", "permute", "t", "mT", "numpy_T"):
        order = permutation(call, base)
        return call.transpose(part, [order.index(axis) for axis in range(len(order))])
    if call.size_of(call.shape(part)) == call.size_of(shape):
        return call.reshape(part, shape)
    raise call.refuse("it writes into a part that is not one of indices of an axis")


STATES: Mapping[str, Rule] = {
    **dict.fromkeys(("slice_scatter", "select_scatter"), written_slice),
    **dict.fromkeys(("index_put", "_unsafe_index_put", "index_copy"), written_places),
    "copy": copied,
    "fill": filled,
    "zero": lambda call: call.expand(call.constant(0.0, call.result.kind), call.result.shape),
}
"""By the name of the operator, without its overload."""
