"""Windows that slide over spatial axes: where they stand, and pooling."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from einmap.errors import SpecError
from einmap.frontends.cascade.scaled import contracted
from einmap.frontends.cascade.slide import Slide
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.uses import Use
from einmap.frontends.cascade.values import Value, known, reshape
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.constants import MOST_FOLDED

_OUT, _KERNEL = ("p", "q", "o"), ("r", "s", "t")


def slide_of(call: Call, sizes: Sequence[int], kernel: Sequence[int], *, ceil: bool = False) -> Slide:
    """The windows that the attributes of an operator describe. Raises SpecError for those that do not fit."""
    dims = len(sizes)
    strides = call.integers("strides") or [1] * dims
    dilations = call.integers("dilations") or [1] * dims
    pads = call.integers("pads") or [0] * 2 * dims
    if not len(strides) == len(dilations) == len(kernel) == dims or len(pads) != 2 * dims:
        raise SpecError(f"strides, dilations and pads do not fit {dims} spatial dimensions", at=call.node.at)
    if min(*strides, *dilations, *kernel) < 1 or min(pads) < 0:
        raise SpecError("strides, dilations, kernel and pads must be positive", at=call.node.at)
    reach = [dilations[i] * (kernel[i] - 1) + 1 for i in range(dims)]
    kind = call.text("auto_pad", "NOTSET")
    if kind in ("SAME_UPPER", "SAME_LOWER"):
        out = [-(-sizes[i] // strides[i]) for i in range(dims)]
        total = [max(0, strides[i] * (out[i] - 1) + reach[i] - sizes[i]) for i in range(dims)]
        before = [t // 2 if kind == "SAME_UPPER" else t - t // 2 for t in total]
        after = [t - b for t, b in zip(total, before, strict=True)]
        return Slide(*map(tuple, (sizes, kernel, out, strides, dilations, before, after)))
    if kind == "VALID":
        pads = [0] * 2 * dims
    elif kind != "NOTSET":
        raise SpecError(f"auto_pad {kind[:40]!r} is not known", at=call.node.at)
    out = []
    for i in range(dims):
        room = sizes[i] + pads[i] + pads[dims + i] - reach[i]
        if room < 0:
            text = f"a window of {reach[i]} does not fit an axis of {sizes[i]} with padding {pads[i]}, {pads[dims + i]}"
            raise SpecError(text, at=call.node.at)
        places = room // strides[i] + 1
        if ceil and room % strides[i] and places * strides[i] < sizes[i] + pads[i]:
            places += 1  # a last window that begins inside
        out.append(places)
    before, after = pads[:dims], pads[dims:]
    return Slide(*map(tuple, (sizes, kernel, out, strides, dilations, before, after)))


def _pooled(call: Call) -> tuple[Value, Slide]:
    x = call.operand(0)
    if not 1 <= len(x.shape) - 2 <= len(_OUT):
        raise NotExpressible(f"it has {len(x.shape) - 2} spatial dimensions")
    kernel = call.integers("kernel_shape")
    if kernel is None:
        raise SpecError("the attribute kernel_shape is missing", at=call.node.at)
    return x, slide_of(call, x.shape[2:], kernel, ceil=bool(call.integer("ceil_mode", 0)))


def max_pool(call: Call) -> list[Value]:
    """MaxPool. Where numbers may be negative, padding takes no part: those points are cut off the iteration space."""
    if call.is_used(1):
        raise NotExpressible("it gives the places of the maxima, too")
    x, slide = _pooled(call)
    out = ["n", "c", *_OUT[: len(slide.out)]]
    extents = slide.extents(_OUT, _KERNEL)

    def pooled(value: Value) -> Value:
        cut = slide.has_padding and not value.nonnegative
        uses: list[Use] = ["n", "c", *slide.uses(_OUT, _KERNEL, cut=cut)]
        return call.builder.einsum(
            call.name, [(value, uses)], out, expression_of("a", 1), value.bits, reduction="max", extents=extents
        )

    return [_of_integers(call, x, pooled)]


def _of_integers(call: Call, x: Value, largest: Callable[[Value], Value]) -> Value:
    """Maxima of the integers that a value stands for, where a larger one does not stand for a smaller number."""
    is_in_order = x.scaled is None or x.scaled.scale is None or x.scaled.scale.nonnegative
    return call.through(x, largest) if is_in_order else largest(x)


def average_pool(call: Call) -> list[Value]:
    """AveragePool: a sum, and the quotient by how many values take part."""
    x, slide = _pooled(call)
    if slide.has_padding and prod(slide.out) > MOST_FOLDED:
        raise NotExpressible(f"it counts the values of {prod(slide.out):,} windows")
    uses: list[Use] = ["n", "c", *slide.uses(_OUT, _KERNEL)]
    out = ["n", "c", *_OUT[: len(slide.out)]]
    extents = slide.extents(_OUT, _KERNEL)
    total = contracted(call, f"{call.name}_sum", [(x, uses)], out, x.bits, extents=extents).value(call)
    include = bool(call.integer("count_include_pad", 0))
    if not slide.has_padding:
        return [call.pointwise(f"a / {prod(slide.kernel)}", total)]
    counts = np.ones(())
    for i in range(len(slide.sizes)):
        counts = np.multiply.outer(counts, _counted(slide, i, include))
    if (counts == prod(slide.kernel)).all():
        return [call.pointwise(f"a / {prod(slide.kernel)}", total)]
    return [call.pointwise("a / b", total, known(counts, x.bits), bits=x.bits)]


def _counted(slide: Slide, axis: int, include_padding: bool) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """How many indices of each window of an axis count."""
    first = slide.strides[axis] * np.arange(slide.out[axis]) - slide.before[axis]
    low, high = 0, slide.sizes[axis]
    if include_padding:
        low, high = -slide.before[axis], high + slide.after[axis]
    below = [np.clip(-((first - end) // slide.dilations[axis]), 0, slide.kernel[axis]) for end in (low, high)]
    counts: np.ndarray[tuple[int], np.dtype[np.float64]] = (below[1] - below[0]).astype(float)
    return counts


def global_pool(call: Call) -> list[Value]:
    """GlobalAveragePool, GlobalMaxPool: all spatial axes at once."""
    x = call.operand(0)
    labels = [f"x{axis}" for axis in range(len(x.shape))]
    shape = (*x.shape[:2], *(1 for _ in x.shape[2:]))

    def pooled(value: Value) -> Value:
        y = call.builder.einsum(
            call.name, [(value, labels)], labels[:2], expression_of("a", 1), value.bits, reduction="max"
        )
        return reshape(y, shape)

    if call.node.operator == "GlobalMaxPool":
        return [_of_integers(call, x, pooled)]
    total = contracted(call, f"{call.name}_sum", [(x, labels)], labels[:2], x.bits).value(call)
    return [call.pointwise(f"a / {prod(x.shape[2:])}", reshape(total, shape))]


WINDOWS: dict[str, Callable[[Call], list[Value]]] = {
    "MaxPool": max_pool,
    "AveragePool": average_pool,
    "GlobalAveragePool": global_pool,
    "GlobalMaxPool": global_pool,
}
"""By the name of the operator."""
