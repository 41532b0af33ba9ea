"""Operators on shapes alone: they become projections, or a copy where no affine index says what they do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod

import numpy as np

from einmap.arrays import Floats
from einmap.errors import SpecError
from einmap.frontends.cascade.builder import check_shape
from einmap.frontends.cascade.recurrence import cumulated
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.uses import Spread
from einmap.frontends.cascade.values import MOST_KNOWN, Value, broadcast, broadcast_shape, known, reshape, transpose
from einmap.frontends.onnx.kinds import BOOL, INTEGERS, ends_of
from einmap.frontends.onnx.model import bits_of
from einmap.frontends.onnx.operators.call import MOST_INTEGERS, Call
from einmap.frontends.onnx.operators.resizing import resize


def same(call: Call) -> list[Value]:
    """Identity, and the like."""
    return [call.operand(0)]


def dropout(call: Call) -> list[Value]:
    """Dropout, which does nothing after training: its mask keeps all."""
    training, ratio = call.optional(2), call.optional(1)
    if training is not None and not (ratio is not None and _is_all_zero(ratio)) and not _is_all_zero(training):
        raise NotExpressible("it drops random values, as in training")
    value = call.operand(0)
    return [value, known(np.broadcast_to(np.True_, value.shape), 8)]


def _is_all_zero(value: Value) -> bool:
    return value.array is not None and not np.any(value.array)


def cast(call: Call) -> list[Value]:
    """Cast: fractions become integers towards 0, truth values 1 and 0; integers of other types keep their last bits,
    if these are fewer than 32; all else moves nothing.
    """
    value = call.operand(0)
    kind = call.integer("to", 1)
    bits = bits_of(kind)
    if value.array is not None and value.array.dtype.kind in "biuf" and value.array.size <= MOST_KNOWN:
        if kind not in INTEGERS:
            return [known(value.array.astype(bool if kind == BOOL else np.float64), bits)]
        low, high = ends_of(kind)
        if value.array.dtype.kind == "f" and not np.all(np.abs(value.array) < 2.0**63):
            raise NotExpressible("it makes integers of numbers that are beyond 64 bits, or none")
        whole = value.array.astype(np.int64)
        return [known(whole if bits == 64 else (whole - low) % (high + 1 - low) + low, bits)]
    if kind == BOOL:
        return [call.pointwise("1 - equal(a, 0)", value, bits=8)]
    if kind not in INTEGERS:
        return [value]
    if call.kinds[0] not in (*INTEGERS, BOOL):
        return [call.pointwise("select(less(a, 0), ceil(a), floor(a))", value, bits=bits)]
    (low, high), (least, most) = ends_of(kind), ends_of(call.kinds[0])
    if bits >= 32 or low <= least <= most <= high:
        return [value]
    n = high + 1 - low
    return [call.pointwise(f"a - {n} * floor((a - {low}) / {n})".replace("- -", "+ "), value, bits=bits)]


def transposed(call: Call) -> list[Value]:
    """Transpose."""
    value = call.operand(0)
    rank = len(value.shape)
    order = call.integers("perm") or [*reversed(range(rank))]
    if sorted(order) != [*range(rank)]:
        raise SpecError(f"perm {order} is not an order of {rank} axes", at=call.node.at)
    return [transpose(value, order)]


def reshaped(call: Call) -> list[Value]:
    """Reshape: 0 keeps a size, -1 is what is left."""
    value = call.operand(0)
    wanted = call.integers("shape")
    if wanted is None:
        wanted = call.known_integers(1, "the shape")
    if not call.integer("allowzero", 0):
        if any(size == 0 and i >= len(value.shape) for i, size in enumerate(wanted)):
            raise SpecError(f"the shape {wanted} keeps a size that {[*value.shape]} does not have", at=call.node.at)
        wanted = [value.shape[i] if size == 0 else size for i, size in enumerate(wanted)]
    return [_as_shape(call, value, wanted)]


def _as_shape(call: Call, value: Value, wanted: list[int]) -> Value:
    total = prod(value.shape)
    given = prod(size for size in wanted if size != -1)
    if wanted.count(-1) == 1 and given > 0 and total % given == 0:
        wanted = [total // given if size == -1 else size for size in wanted]
    if any(size < 0 for size in wanted) or prod(wanted) != total:
        raise SpecError(f"{[*value.shape]} has {total:,} values, which have no shape {wanted}", at=call.node.at)
    return call.reshape(value, wanted)


def tile(call: Call) -> list[Value]:
    """Tile: so many times along each axis."""
    value, times = call.operand(0), call.known_integers(1, "how often it is repeated")
    if len(times) != len(value.shape) or any(n < 0 for n in times):
        raise SpecError(f"repeats {times} do not fit the shape {[*value.shape]}", at=call.node.at)
    check_shape([n * size for n, size in zip(times, value.shape, strict=True)], "its result")
    return [call.tiled(value, times)]


def triangle(call: Call) -> list[Value]:
    """Trilu: the upper or lower triangle of the last two axes, and zeros."""
    value = call.operand(0)
    offset = call.known_integers(1, "the diagonal")[0] if call.optional(1) is not None else 0
    if len(value.shape) < 2 or prod(value.shape[-2:]) > MOST_KNOWN:
        raise NotExpressible(f"it takes a triangle of the shape {[*value.shape]}")
    ones = np.ones(value.shape[-2:])
    kept = np.triu(ones, offset) if call.integer("upper", 1) else np.tril(ones, offset)
    return [call.pointwise("select(b, a, 0)", value, known(kept, 8), bits=value.bits)]


def one_hot(call: Call) -> list[Value]:
    """OneHot: 1 of so many values is another one than the rest."""
    places, given = call.operand(0), call.known(1, "the depth").reshape(-1)[0]
    rank = len(places.shape)
    axis = call.axis(call.integer("axis", -1), rank + 1)
    if not 1 <= given <= MOST_KNOWN:
        raise NotExpressible(f"its depth is {given:,}")
    depth = int(given)
    wide = reshape(places, (*places.shape[:axis], 1, *places.shape[axis:]))
    numbers = known(np.arange(depth, dtype=np.float64).reshape([-1, *(1 for _ in range(rank - axis))]), places.bits)
    off, on = (reshape(call.take(call.operand(2), 0, i, 1, 1), ()) for i in (0, 1))
    text = f"select(max(equal(a, b), equal(a + {depth}, b)), c, d)"
    return [call.pointwise(text, wide, numbers, on, off, bits=call.operand(2).bits)]


def cumulated_along(call: Call) -> list[Value]:
    """CumSum and CumProd: a recurrence over the axis."""
    value = call.operand(0)
    axis = call.axis(call.known_integers(1, "the axis")[0], len(value.shape))
    function = "multiply" if call.node.operator == "CumProd" else "add"
    before, up_to = cumulated(call, value, axis, function, reverse=bool(call.integer("reverse", 0)))
    return [before if call.integer("exclusive", 0) else up_to]


def flatten(call: Call) -> list[Value]:
    """Flatten: a matrix, cut at an axis."""
    value = call.operand(0)
    rank = len(value.shape)
    axis = call.integer("axis", 1)
    axis = axis if axis == rank else call.axis(axis, rank)
    return [_as_shape(call, value, [prod(value.shape[:axis]), prod(value.shape[axis:])])]


def squeeze(call: Call) -> list[Value]:
    """Squeeze: axes of one index go."""
    value = call.operand(0)
    given = _axes(call)
    rank = len(value.shape)
    axes = (
        {i for i, size in enumerate(value.shape) if size == 1} if given is None else {call.axis(a, rank) for a in given}
    )
    if any(value.shape[axis] != 1 for axis in axes):
        raise SpecError(f"an axis of {[*value.shape]} that goes has more than one index", at=call.node.at)
    return [reshape(value, [size for i, size in enumerate(value.shape) if i not in axes])]


def unsqueeze(call: Call) -> list[Value]:
    """Unsqueeze: axes of one index come."""
    value = call.operand(0)
    given = _axes(call) or []
    rank = len(value.shape) + len(given)
    axes = {call.axis(axis, rank) for axis in given}
    if len(axes) != len(given):
        raise SpecError(f"axes {given} name one twice", at=call.node.at)
    sizes = iter(value.shape)
    return [reshape(value, [1 if axis in axes else next(sizes) for axis in range(rank)])]


def _axes(call: Call) -> list[int] | None:
    given = call.integers("axes")
    return call.known_integers(1, "the list of axes") if given is None and call.optional(1) is not None else given


def expand(call: Call) -> list[Value]:
    """Expand: broadcast to a shape, which may be smaller where the operand is larger."""
    value = call.operand(0)
    wanted = call.known_integers(1, "the shape")
    shape = broadcast_shape(value.shape, wanted)
    check_shape(shape, "its result")
    return [broadcast(call.builder.as_expression(value, call.name), shape)]


def slice_(call: Call) -> list[Value]:
    """Slice with constant starts, ends and steps."""
    value = call.operand(0)
    if call.opset < 10:
        starts, ends = call.integers("starts") or [], call.integers("ends") or []
        axes, steps = call.integers("axes") or [*range(len(starts))], [1] * len(starts)
    else:
        starts, ends = call.known_integers(1, "a start"), call.known_integers(2, "an end")
        axes = call.known_integers(3, "an axis") if call.optional(3) is not None else [*range(len(starts))]
        steps = call.known_integers(4, "a step") if call.optional(4) is not None else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise SpecError("starts, ends, axes and steps have different lengths", at=call.node.at)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        value = _cut(call, value, call.axis(axis, len(value.shape)), slice(start, end, step))
    return [value]


def _cut(call: Call, value: Value, axis: int, where: slice) -> Value:
    if where.step == 0:
        raise SpecError("a step is 0", at=call.node.at)
    size = value.shape[axis]
    # an end before the first index, for steps backwards, is None in Python
    end = None if where.step < 0 and where.stop < -size else where.stop
    indices = range(size)[where.start : end : where.step]
    if not indices:
        return _nothing(value, axis)
    return call.take(value, axis, indices[0], where.step, len(indices))


def _nothing(value: Value, axis: int) -> Value:
    """No index of an axis: numbers that are known, as there are none."""
    return known(np.zeros((*value.shape[:axis], 0, *value.shape[axis + 1 :])), value.bits)


def split(call: Call) -> list[Value]:
    """Split into parts of given or equal sizes."""
    value = call.operand(0)
    axis = call.axis(call.integer("axis", 0), len(value.shape))
    size, parts = value.shape[axis], max(1, len(call.node.outputs))
    sizes = call.integers("split")
    if sizes is None and call.optional(1) is not None:
        sizes = call.known_integers(1, "the sizes of the parts")
    if sizes is None:
        largest = -(-size // parts)
        sizes = [min(largest, size - i * largest) for i in range(parts)]
    if sum(sizes) != size or len(sizes) != parts or min(sizes) < 0:
        raise SpecError(f"an axis of {size} does not fall into parts of {sizes}", at=call.node.at)
    starts = [sum(sizes[:i]) for i in range(parts)]
    return [
        call.take(value, axis, start, 1, n) if n else _nothing(value, axis)
        for start, n in zip(starts, sizes, strict=True)
    ]


def depth_to_space(call: Call) -> list[Value]:
    """DepthToSpace: channels become rows and columns of blocks."""
    value, block, shape = _blocks(call)
    n, c, h, w = shape
    if c % block**2:
        raise SpecError(f"{c} channels do not make blocks of {block} x {block}", at=call.node.at)
    depth = c // block**2
    is_dcr = call.text("mode", "DCR") == "DCR"
    cut = (n, block, block, depth, h, w) if is_dcr else (n, depth, block, block, h, w)
    order = (0, 3, 4, 1, 5, 2) if is_dcr else (0, 1, 4, 2, 5, 3)
    parts = transpose(call.reshape(value, cut), order)
    return [call.reshape(parts, (n, depth, h * block, w * block))]


def space_to_depth(call: Call) -> list[Value]:
    """SpaceToDepth: blocks of rows and columns become channels."""
    value, block, shape = _blocks(call)
    n, c, h, w = shape
    if h % block or w % block:
        raise SpecError(f"{h} x {w} values do not make blocks of {block} x {block}", at=call.node.at)
    is_dcr = call.text("mode", "DCR") == "DCR"
    parts = call.reshape(value, (n, c, h // block, block, w // block, block))
    parts = transpose(parts, (0, 3, 5, 1, 2, 4) if is_dcr else (0, 1, 3, 5, 2, 4))
    return [call.reshape(parts, (n, c * block**2, h // block, w // block))]


def _blocks(call: Call) -> tuple[Value, int, tuple[int, ...]]:
    value, block = call.operand(0), call.integer("blocksize", 1)
    if len(value.shape) != 4 or block < 1:
        raise SpecError(f"blocks of {block} of the shape {[*value.shape]}", at=call.node.at)
    return value, block, value.shape


def gather(call: Call) -> list[Value]:
    """Gather: a projection at constant places that are evenly spaced, else rows that are looked up."""
    value, places = call.operand(0), call.operand(1)
    axis = call.axis(call.integer("axis", 0), len(value.shape))
    size = value.shape[axis]
    if places.array is not None:
        if places.array.size > MOST_INTEGERS:
            raise NotExpressible(f"it takes {places.array.size:,} places")
        where = [int(i) for i in places.array.reshape(-1)]
        if any(not -size <= i < size for i in where):
            raise SpecError(f"an index is outside of axis {axis} of {[*value.shape]}", at=call.node.at)
        where = [i % size for i in where]
        steps = {b - a for a, b in pairwise(where)} or {1}
        if len(steps) == 1 and steps != {0}:
            taken = call.take(value, axis, where[0], next(iter(steps)), len(where))
            return [reshape(taken, (*value.shape[:axis], *places.shape, *value.shape[axis + 1 :]))]
        places = known(np.array(where, np.float64).reshape(places.shape), places.bits)
    return [call.gathered(value, [(axis, places)])]


def gather_elements(call: Call) -> list[Value]:
    """GatherElements: each value is looked up by itself along an axis."""
    value, places = call.operand(0), call.operand(1)
    axis = call.axis(call.integer("axis", 0), len(value.shape))
    if len(places.shape) != len(value.shape):
        raise SpecError(f"indices of the shape {[*places.shape]} do not fit {[*value.shape]}", at=call.node.at)
    for other, size in enumerate(places.shape):
        if other != axis:
            if size > value.shape[other]:
                raise SpecError(f"indices of the shape {[*places.shape]} are beyond {[*value.shape]}", at=call.node.at)
            value = call.take(value, other, 0, 1, size)
    return [call.elements(value, axis, places)]


def gather_nd(call: Call) -> list[Value]:
    """GatherND without batches: each row of indices stands for a part of the first axes."""
    value, places = call.operand(0), call.operand(1)
    if call.integer("batch_dims", 0):
        raise NotExpressible("it has batches")
    n = places.shape[-1] if places.shape else 0
    if not 1 <= n <= len(value.shape):
        raise SpecError(f"indices of the shape {[*places.shape]} do not fit {[*value.shape]}", at=call.node.at)
    columns = [call.take(places, len(places.shape) - 1, i, 1, 1) for i in range(n)]
    rows = [reshape(column, places.shape[:-1]) for column in columns]
    if n > 1:  # an Einsum reads a tensor of indices in one way
        rows = [call.builder.copied(row, f"{call.name}_places") for row in rows]
    return [call.gathered(value, [*enumerate(rows)])]


def pad(call: Call) -> list[Value]:
    """Pad: a copy into a tensor with a border of zeros, or of values that are looked up; negative widths cut."""
    value, rank = call.operand(0), len(call.operand(0).shape)
    mode = call.text("mode", "constant")
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise NotExpressible(f"it pads by {mode[:20]}")
    widths = call.integers("pads")
    if widths is None:
        widths = call.known_integers(1, "the width of the padding")
    axes = call.known_integers(3, "an axis") if call.optional(3) is not None else [*range(rank)]
    if len(widths) != 2 * len(axes):
        raise SpecError(f"{len(widths)} widths do not fit {len(axes)} axes", at=call.node.at)
    borders: dict[int, tuple[int, int]] = {}
    for i, given in enumerate(axes):
        axis, low, high = call.axis(given, rank), widths[i], widths[len(axes) + i]
        left = value.shape[axis] + min(low, 0) + min(high, 0)
        if left < 1:
            raise SpecError(f"padding {low}, {high} leaves nothing of axis {axis} of {[*value.shape]}", at=call.node.at)
        value = call.take(value, axis, -min(low, 0), 1, left)
        if low > 0 or high > 0:
            borders[axis] = max(low, 0), max(high, 0)
    if mode != "constant":
        for axis, border in borders.items():
            value = _repeated_border(call, value, axis, border, mode)
        return [value]
    return [_constant_border(call, value, borders) if borders else value]


def _constant_border(call: Call, value: Value, borders: Mapping[int, tuple[int, int]]) -> Value:
    """The value with zeros around it, or with another number."""
    labels = [f"x{axis}" for axis in range(len(value.shape))]
    out: list[str | Spread] = list(labels)
    for axis, (low, high) in borders.items():
        out[axis] = Spread(((labels[axis], 1),), value.shape[axis] + low + high, low)
    filled = call.optional(2)
    if filled is None and call.number("value", 0.0):
        filled = known(np.asarray(call.number("value", 0.0)), value.bits)
    is_zero = filled is None or _is_all_zero(filled)
    name = call.name if is_zero else f"{call.name}_zeros"
    value = call.builder.as_expression(value, call.name)

    def bordered(one: Value) -> Value:
        return call.builder.einsum(name, [(one, labels)], out, expression_of("a", 1), one.bits)

    if is_zero and value.scaled is not None and value.scaled.zero is value.scaled.offset is None:
        return call.through(value, bordered)
    if is_zero or filled is None:
        return bordered(value)
    inside = known(_inside(value.shape, borders), 8)
    return call.pointwise("select(a, b, c)", inside, bordered(value), reshape(filled, ()), bits=value.bits)


def _inside(shape: Sequence[int], borders: Mapping[int, tuple[int, int]]) -> Floats:
    """1 where a value is that borders lie around, else 0. Axes without borders are 1 long."""
    n = prod(shape[axis] + low + high for axis, (low, high) in borders.items())
    if n > MOST_KNOWN:
        raise NotExpressible(f"its border lies in {n:,} places, at most {MOST_KNOWN:,} are told apart")
    inside = np.ones((1,) * len(shape))
    for axis, border in borders.items():
        along = [-1 if other == axis else 1 for other in range(len(shape))]
        inside = inside * np.pad(np.ones(shape[axis]), border).reshape(along)
    return inside


def _repeated_border(call: Call, value: Value, axis: int, border: tuple[int, int], mode: str) -> Value:
    """The value with values of its own around it along an axis, which are looked up."""
    size, (low, high) = value.shape[axis], border
    if size + low + high > MOST_INTEGERS:
        raise NotExpressible(f"it takes {size + low + high:,} places")
    if size == 1:
        shape = [n + low + high if other == axis else n for other, n in enumerate(value.shape)]
        return broadcast(call.builder.as_expression(value, call.name), shape)
    places = np.clip(np.arange(-low, size + high), 0, size - 1)
    if mode != "edge":
        places = np.pad(np.arange(size), border, mode="reflect" if mode == "reflect" else "wrap")
    return call.gathered(value, [(axis, known(places.astype(np.float64), 32))])


LAYOUT: dict[str, Callable[[Call], list[Value]]] = {
    "Identity": same, "Dropout": dropout, "Cast": cast, "Transpose": transposed, "Reshape": reshaped,
    "Flatten": flatten, "CumSum": cumulated_along, "CumProd": cumulated_along, "OneHot": one_hot, "Tile": tile,
    "Trilu": triangle,
    "Squeeze": squeeze, "Unsqueeze": unsqueeze, "Expand": expand, "Slice": slice_, "Split": split,
    "DepthToSpace": depth_to_space, "SpaceToDepth": space_to_depth, "Gather": gather, "GatherElements": gather_elements,
    "GatherND": gather_nd, "Resize": resize, "Upsample": resize, "Pad": pad,
}  # fmt: skip
"""By the name of the operator."""
