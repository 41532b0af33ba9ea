"""Operators on shapes alone, and those that look values up."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from einmap.frontends.torch.operators.call import Aten, Rule


def same(call: Aten) -> str:
    """Operators that move nothing, or only in memory."""
    return call.tensor("self" if call.has("self") else "input")


def reshaped(call: Aten) -> str:
    """view, flatten, squeeze, unsqueeze and the like: the shape of the result says all."""
    return call.reshape(same(call), call.result.shape)


def expanded(call: Aten) -> str:
    """expand and broadcast_to."""
    return call.expand(call.tensor("self"), call.result.shape)


def permuted(call: Aten) -> str:
    """permute, transpose, t and the like."""
    value = call.tensor("self")
    return call.transpose(value, permutation(call, value))


def permutation(call: Aten, value: str) -> list[int]:
    """The order of the axes of a value that permute, transpose, t and the like make."""
    rank = len(call.shape(value))
    order = [*range(rank)]
    if call.has("dims"):
        order = [call.axis_of(axis, value) for axis in call.integers("dims")]
    elif rank > 1:
        named = call.has("dim0")
        first, second = (call.axis("dim0", value), call.axis("dim1", value)) if named else (-2, -1)
        order[first], order[second] = order[second], order[first]
    return order


def moved(call: Aten) -> str:
    """movedim: axes go to other places, the rest stay in order."""
    value = call.tensor("self")
    source = [call.axis_of(axis, value) for axis in call.integers("source")]
    target = [call.axis_of(axis, value) for axis in call.integers("destination")]
    order: list[int | None] = [None] * len(call.shape(value))
    for old, new in zip(source, target, strict=True):
        order[new] = old
    rest = iter([axis for axis in range(len(order)) if axis not in source])
    return call.transpose(value, [next(rest) if axis is None else axis for axis in order])


def sliced(call: Aten) -> str:
    """slice: some indices of an axis."""
    value = call.tensor("self")
    axis = call.axis("dim", value, 0)
    start, end = call.plain("start", 0), call.plain("end", 2**62)
    return call.cut(value, axis, start, min(end, 2**62), call.integer("step", 1))


def narrowed(call: Aten) -> str:
    """narrow: indices of an axis from one on."""
    value = call.tensor("self")
    axis, start = call.axis("dim", value), call.integer("start")
    start %= call.shape(value)[axis]
    return call.cut(value, axis, start, start + call.integer("length"))


def selected(call: Aten) -> str:
    """select: one index of an axis, which goes."""
    value = call.tensor("self")
    axis, index = call.axis("dim", value), call.integer("index")
    return call.emit("Gather", value, call.constant(np.int64(index)), axis=axis)


def split(call: Aten) -> list[str]:
    """split, split_with_sizes, chunk, unbind: parts along an axis, as long as the results say."""
    value = call.tensor("self")
    axis = call.axis("dim", value, 0)
    is_unbound = call.name == "unbind"
    sizes: list[int] = []
    size = call.shape(value)[axis]
    for result in call.results:
        if result is not None:
            sizes.append(1 if is_unbound else result.shape[axis])
    n = len(call.results)
    if None in call.results or sum(sizes) != size:
        name = next((name for name in ("split_sizes", "split_size", "sections") if call.has(name)), None)
        given = call.integers(name) if name else [1] if is_unbound else [-(-size // max(1, call.integer("chunks", 1)))]
        sizes = given if len(given) > 1 else [min(given[0], size - i) for i in range(0, size, max(1, given[0]))]
        n = len(sizes)
    if not is_unbound:
        return call.emit_all("Split", [value, call.constant(np.array(sizes, np.int64))], n, {"axis": axis})
    return [call.emit("Gather", value, call.constant(np.int64(i)), axis=axis) for i in range(size)]


def concatenated(call: Aten) -> str:
    """cat and concat; of a part without axes, which older code writes for nothing, nothing."""
    values = [value for value in call.tensors("tensors") if call.shape(value) != (0,)]
    if not values:
        return call.tensors("tensors")[0]
    return call.emit("Concat", *values, axis=call.axis("dim", values[0], 0))


def stacked(call: Aten) -> str:
    """stack: along a new axis."""
    values = call.tensors("tensors")
    axis = call.axis("dim", values[0], 0, more=1)
    rows = []
    for value in values:
        shape = [*call.shape(value)]
        rows.append(call.reshape(value, [*shape[:axis], 1, *shape[axis:]]))
    return call.emit("Concat", *rows, axis=axis)


def repeated(call: Aten) -> str:
    """repeat and tile: so many times along each axis, with new axes in front."""
    value = call.tensor("self")
    times = call.integers("repeats" if call.has("repeats") else "dims")
    rank = max(len(times), len(call.shape(value)))
    value = call.reshape(value, [*[1] * (rank - len(call.shape(value))), *call.shape(value)])
    return call.emit("Tile", value, call.constant(np.array([*[1] * (rank - len(times)), *times], np.int64)))


def repeated_each(call: Aten) -> str:
    """repeat_interleave: each index of an axis so many times."""
    value, times = call.tensor("self"), call.integer("repeats")
    value = value if call.has("dim") else call.reshape(value, [call.size_of(call.shape(value))])
    axis = call.axis("dim", value, 0)
    shape = [*call.shape(value)]
    wide = call.reshape(value, [*shape[: axis + 1], 1, *shape[axis + 1 :]])
    wide = call.expand(wide, [*shape[: axis + 1], times, *shape[axis + 1 :]])
    return call.reshape(wide, [*shape[:axis], shape[axis] * times, *shape[axis + 1 :]])


def flipped(call: Aten) -> str:
    """flip: axes backwards."""
    value = call.tensor("self")
    for axis in call.integers("dims"):
        value = call.cut(value, call.axis_of(axis, value), -1, -(2**62), -1)
        call.say(value, call.result.shape, call.result.kind)
    return value


def rolled(call: Aten) -> str:
    """roll: indices move along axes, and come in again at the other end."""
    value, shifts = call.tensor("self"), call.integers("shifts")
    axes = call.integers("dims", [])
    if not axes:
        flat = call.reshape(value, [call.size_of(call.shape(value))])
        return call.reshape(_rolled(call, flat, 0, shifts[0]), call.result.shape)
    for axis, shift in zip(axes, shifts, strict=True):
        value = _rolled(call, value, call.axis_of(axis, value), shift)
    return value


def _rolled(call: Aten, value: str, axis: int, shift: int) -> str:
    size = call.shape(value)[axis]
    start = -shift % size
    if not start:
        return value
    parts = call.cut(value, axis, start, size), call.cut(value, axis, 0, start)
    return call.emit("Concat", *parts, axis=axis, shape=call.shape(value))


def padded(call: Aten) -> str:
    """constant_pad_nd, pad and pads by what is there: widths come in pairs from the last axis on."""
    value, name = call.tensor("self"), call.name
    widths = call.integers("pad" if call.has("pad") else "padding")
    mode = call.text("mode", "constant") if name == "pad" else name
    mode = next((found for found in ("reflect", "replicat", "circular") if mode.startswith(found)), "constant")
    rank = len(call.shape(value))
    low, high = [0] * rank, [0] * rank
    for i in range(min(rank, len(widths) // 2)):
        low[-1 - i], high[-1 - i] = widths[2 * i], widths[2 * i + 1]
    filled = [call.value("value", call.plain("value", 0.0))] if mode == "constant" else []
    onnx_mode = {"replicat": "edge", "reflect": "reflect", "circular": "wrap"}.get(mode, "constant")
    return call.emit("Pad", value, call.constant(np.array([*low, *high], np.int64)), *filled, mode=onnx_mode)


def triangle(call: Aten) -> str:
    """tril and triu."""
    is_upper = call.name.startswith("triu")
    diagonal = call.constant(np.int64(call.integer("diagonal", 0)))
    return call.emit("Trilu", call.tensor("self"), diagonal, upper=int(is_upper))


def shuffled(call: Aten) -> str:
    """pixel_shuffle and pixel_unshuffle: channels become rows and columns, or these channels."""
    value = call.tensor("self")
    n, c, h, w = (1, *call.shape(value))[-4:]
    *before, _, _, _ = call.shape(value)
    value = call.reshape(value, [call.size_of(before), c, h, w])
    del n
    if call.has("upscale_factor"):
        y = call.emit("DepthToSpace", value, blocksize=call.integer("upscale_factor"), mode="CRD")
    else:
        y = call.emit("SpaceToDepth", value, blocksize=call.integer("downscale_factor"), mode="CRD")
    return call.reshape(y, call.result.shape)


LAYOUT: Mapping[str, Rule] = {
    **dict.fromkeys(
        ("clone", "contiguous", "alias", "detach", "lift_fresh_copy", "lift", "dropout", "feature_dropout", "positive",
         "alpha_dropout", "conj", "resolve_conj", "resolve_neg", "view_as_real_copy", "real", "data"),
        same,
    ),
    **dict.fromkeys(
        ("view", "_unsafe_view", "reshape", "flatten", "squeeze", "unsqueeze", "unflatten", "view_as", "view_copy",
         "reshape_as", "ravel", "atleast_1d", "atleast_2d", "atleast_3d"),
        reshaped,
    ),
    **dict.fromkeys(("expand", "broadcast_to", "expand_as", "expand_copy"), expanded),
    **dict.fromkeys(("permute", "transpose", "t", "numpy_T", "mT", "adjoint", "swapaxes"), permuted),
    **dict.fromkeys(("split", "split_with_sizes", "chunk", "unbind", "unsafe_split", "unsafe_chunk"), split),
    **dict.fromkeys(("cat", "concat", "concatenate"), concatenated),
    **dict.fromkeys(("repeat", "tile"), repeated),
    **dict.fromkeys(
        ("constant_pad_nd", "pad", "reflection_pad1d", "reflection_pad2d", "reflection_pad3d", "replication_pad1d",
         "replication_pad2d", "replication_pad3d"),
        padded,
    ),
    **dict.fromkeys(("tril", "triu"), triangle),
    **dict.fromkeys(("pixel_shuffle", "pixel_unshuffle"), shuffled),
    "movedim": moved,
    "slice": sliced,
    "narrow": narrowed,
    "select": selected,
    "stack": stacked,
    "repeat_interleave": repeated_each,
    "flip": flipped,
    "roll": rolled,
}  # fmt: skip
"""By the name of the operator, without its overload."""
