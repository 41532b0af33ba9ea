"""Products that are summed, reductions, and windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from einmap.einsum.operation import Reduction
from einmap.frontends.cascade.phases import Apart, convolved_apart
from einmap.frontends.cascade.slide import Slide
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.uses import Spread
from einmap.frontends.cascade.values import Value, known, reshape, transpose
from einmap.frontends.jax.equation import Equation
from einmap.frontends.jax.layout import widened

_BATCH, _LEFT, _SUMMED, _RIGHT = "bhgij", "mpqxy", "kcdef", "nstuv"
_OUT, _KERNEL = ("p", "q", "o"), ("r", "s", "t")


def dot_general(equation: Equation) -> list[Value]:
    """dot_general: any number of batch and summed axes."""
    a, b = equation.operands
    first, second, out = labels_of_product(equation.params["dimension_numbers"], len(a.shape), len(b.shape))
    weight = 0 if _is_argument(a) and not _is_argument(b) else 1
    text = expression_of("a * b", 2)
    y = equation.builder.einsum(equation.name, [(a, first), (b, second)], out, text, equation.bits, weight=weight)
    return [y]


def labels_of_product(pairs: Any, n_first: int, n_second: int) -> tuple[list[str], list[str], list[str]]:
    """Labels of the axes of two factors, and of their product; `pairs`: axes that are summed, and those of batches."""
    (left, right), (left_batch, right_batch) = pairs
    first, second = [""] * n_first, [""] * n_second
    for letters, both in (
        (_BATCH, zip(left_batch, right_batch, strict=True)),
        (_SUMMED, zip(left, right, strict=True)),
    ):
        for label, (i, j) in zip(_labels(letters), both, strict=False):
            first[i] = second[j] = label
    for letters, uses in ((_LEFT, first), (_RIGHT, second)):
        fresh = iter(_labels(letters))
        uses[:] = [label or next(fresh) for label in uses]
    batch = [first[i] for i in left_batch]
    return first, second, [*batch, *(u for u in first if u not in second), *(u for u in second if u not in first)]


def _labels(letters: str) -> list[str]:
    """Letters for axes; more than there are letters get numbers, as `m_a`."""
    return [*letters, *(f"{letters[0]}_{suffix}" for suffix in "abcdefghijklmnop")]


def _is_argument(value: Value) -> bool:
    return value.is_view and value.leaves[0].tensor.source is not None


def conv(equation: Equation) -> list[Value]:
    """conv_general_dilated, also as the gradients of convolutions have it."""
    x, w = equation.operands
    params = equation.params
    numbers = params["dimension_numbers"]
    dims = len(x.shape) - 2
    if dims > len(_OUT):
        raise NotExpressible(f"it has {dims} spatial dimensions")
    x, w = transpose(x, numbers.lhs_spec), transpose(w, numbers.rhs_spec)
    if all(spread == 1 for spread in params["lhs_dilation"]):
        y = _slid(equation, x, w)
    else:
        axes = [
            Apart(
                x.shape[2 + i],
                w.shape[2 + i],
                equation.shape[numbers.out_spec[2 + i]],
                spread=int(spread),
                stride=int(params["window_strides"][i]),
                dilation=int(params["rhs_dilation"][i]),
                low=int(params["padding"][i][0]),
            )
            for i, spread in enumerate(params["lhs_dilation"])
        ]
        y = convolved_apart(equation, *_grouped(equation, x, w), axes, equation.bits).total
    y = reshape(y, (y.shape[0], y.shape[1] * y.shape[2], *y.shape[3:]))
    order = [0] * len(y.shape)
    for place, axis in enumerate(numbers.out_spec):
        order[axis] = place
    return [transpose(y, order)]


def _grouped(equation: Equation, x: Value, w: Value) -> tuple[tuple[Value, str], tuple[Value, str]]:
    """A convolution's [n, c, ...] and [m, c, ...] with groups as an axis, and labels of the first axes of both."""
    groups, batch_groups = int(equation.params["feature_group_count"]), int(equation.params["batch_group_count"])
    (n, channels, *sizes), (m, per_group, *kernel) = x.shape, w.shape
    right = equation.reshape(w, (max(groups, batch_groups), m // max(groups, batch_groups), per_group, *kernel))
    if batch_groups > 1:
        return (equation.reshape(x, (batch_groups, n // batch_groups, channels, *sizes)), "gnc"), (right, "gmc")
    return (equation.reshape(x, (n, groups, channels // groups, *sizes)), "ngc"), (right, "gmc")


def _slid(equation: Equation, x: Value, w: Value) -> Value:
    """A convolution of [n, c, ...] by [m, c, ...] as [n, g, m, ...]."""
    params = equation.params
    padding = [(int(low), int(high)) for low, high in params["padding"]]
    # negative padding is a copy; zeros around the inputs belong to the windows
    cuts = [(0, 0, 0)] * 2 + [(min(low, 0), min(high, 0), 0) for low, high in padding]
    if any(any(cut) for cut in cuts):
        x = widened(equation, x, cuts)
    padding = [(max(low, 0), max(high, 0)) for low, high in padding]
    sizes, kernel, out = x.shape[2:], w.shape[2:], []
    for i, size in enumerate(sizes):
        reach = params["rhs_dilation"][i] * (kernel[i] - 1) + 1
        out.append((size + sum(padding[i]) - reach) // params["window_strides"][i] + 1)
    steps = params["window_strides"], params["rhs_dilation"]
    slide = _slide(sizes, kernel, out, steps, padding)
    (left, first), (right, second) = _grouped(equation, x, w)
    dims = len(sizes)
    return equation.builder.einsum(
        equation.name,
        [(left, [*first, *slide.uses(_OUT, _KERNEL)]), (right, [*second, *_KERNEL[:dims]])],
        ["n", "g", "m", *_OUT[:dims]],
        expression_of("a * b", 2),
        equation.bits,
        extents=slide.extents(_OUT, _KERNEL),
        weight=1,
    )


def _slide(
    sizes: Sequence[int],
    kernel: Sequence[int],
    out: Sequence[int],
    steps: tuple[Sequence[int], Sequence[int]],
    padding: Sequence[tuple[int, int]],
) -> Slide:
    """Windows; `steps`: strides, and dilations."""
    strides, dilations = steps
    ends = tuple(int(low) for low, _ in padding), tuple(int(high) for _, high in padding)
    return Slide(tuple(sizes), tuple(kernel), tuple(out), tuple(strides), tuple(dilations), *ends)


def reduced(equation: Equation) -> list[Value]:
    """reduce_sum, reduce_max, reduce_min, and reduce_and, reduce_or of truth values."""
    kinds: dict[str, Reduction] = {
        "reduce_sum": "sum", "reduce_max": "max", "reduce_min": "min", "reduce_and": "min", "reduce_or": "max",
    }  # fmt: skip
    if equation.primitive in ("reduce_and", "reduce_or") and equation.kind.kind != "b":
        raise NotExpressible(f"{equation.primitive} of {equation.kind} works bit by bit")
    (value,) = equation.operands
    axes = set(equation.params["axes"])
    labels = [f"x{axis}" for axis in range(len(value.shape))]
    kept = [label for axis, label in enumerate(labels) if axis not in axes]
    kind = kinds[equation.primitive]
    text = expression_of("a", 1)
    return [equation.builder.einsum(equation.name, [(value, labels)], kept, text, equation.bits, reduction=kind)]


def pooled(equation: Equation) -> list[Value]:
    """reduce_window_sum, reduce_window_max and reduce_window_min."""
    (value,) = equation.operands
    params: Any = equation.params
    kind: Reduction = {"sum": "sum", "max": "max", "min": "min"}[equation.primitive.rpartition("_")[2]]  # type: ignore[assignment]
    if any(d != 1 for d in params["base_dilation"]):
        raise NotExpressible("it has zeros between its inputs")
    rank = len(value.shape)
    steps = params["window_strides"], params["window_dilation"]
    slide = _slide(value.shape, params["window_dimensions"], equation.shape, steps, params["padding"])
    out, kernel = [f"x{axis}" for axis in range(rank)], [f"r_{letter}" for letter in "abcdefghijklmnop"[:rank]]
    cut = kind != "sum" and slide.has_padding and not (kind == "max" and value.nonnegative)
    uses = slide.uses(out, kernel, cut=cut)
    text = expression_of("a", 1)
    y = equation.builder.einsum(
        equation.name, [(value, uses)], out, text, equation.bits, reduction=kind, extents=slide.extents(out, kernel)
    )
    return [y]


@dataclass(frozen=True, slots=True)
class _Picked:
    """The place in each window of the first of its extremes. `out`, `kernel`: labels; `uses`: those of what windows
    slide over; `first`: the place, a number of `places`.
    """

    slide: Slide
    out: list[str]
    kernel: list[str]
    extents: dict[str, int]
    uses: list[Any]
    first: Value
    places: Value


def _picked(equation: Equation, value: Value, out_shape: Sequence[int]) -> _Picked:
    """Places of the extremes of windows, for select_and_scatter_add and select_and_gather_add."""
    params: Any = equation.params
    kinds: dict[str, Reduction] = {"ge": "max", "le": "min"}
    kind = kinds.get(str(params["select_prim"]))
    rank, builder = len(value.shape), equation.builder
    ones = (1,) * rank
    if kind is None:
        raise NotExpressible(f"it selects by {params['select_prim']}")
    if any(d != 1 for d in params.get("base_dilation", ones)):
        raise NotExpressible("it has zeros between its inputs")
    steps = params["window_strides"], params.get("window_dilation", ones)
    slide = _slide(value.shape, params["window_dimensions"], out_shape, steps, params["padding"])
    out, kernel = [f"x{axis}" for axis in range(rank)], [f"r_{letter}" for letter in "abcdefghijklmnop"[:rank]]
    extents, uses = slide.extents(out, kernel), slide.uses(out, kernel, cut=slide.has_padding)
    value = builder.written(value, f"{equation.name}_values")
    best = builder.einsum(
        f"{equation.name}_best", [(value, uses)], out, expression_of("a", 1), value.bits, reduction=kind,
        extents=extents,
    )  # fmt: skip
    n = prod(slide.kernel)
    places = known(np.arange(n, dtype=np.float64).reshape(slide.kernel), 32)
    text = expression_of(f"select(equal(a, b), c, {n})", 3)
    operands: list[tuple[Value, Any]] = [(value, uses), (best, out), (places, kernel)]
    first = builder.einsum(f"{equation.name}_place", operands, out, text, 32, reduction="min", extents=extents)
    return _Picked(slide, out, kernel, extents, uses, first, places)


def selected(equation: Equation) -> list[Value]:
    """select_and_scatter_add, the gradient of pooling: each window adds its number to the first of its extremes."""
    source, value = equation.operands
    found = _picked(equation, value, source.shape)
    slide, out, kernel = found.slide, found.out, found.kernel
    wide = [n + low + high for n, low, high in zip(slide.sizes, slide.before, slide.after, strict=True)]
    spread = [
        Spread(((label, stride), (place, 1)), size, 0)
        for label, stride, place, size in zip(out, slide.strides, kernel, wide, strict=True)
    ]
    total = equation.builder.einsum(
        equation.name,
        [(source, out), (found.first, out), (found.places, kernel)],
        spread,
        expression_of("a * equal(b, c)", 3),
        equation.bits,
        extents=found.extents,
    )
    for axis, size in enumerate(slide.sizes):
        total = equation.take(total, axis, slide.before[axis], 1, size)
    return [total]


def gathered(equation: Equation) -> list[Value]:
    """select_and_gather_add, the derivative of pooling along a direction: that of the first extreme of each window."""
    direction, value = equation.operands
    found = _picked(equation, value, equation.shape)
    y = equation.builder.einsum(
        equation.name,
        [(direction, found.uses), (found.first, found.out), (found.places, found.kernel)],
        found.out,
        expression_of("a * equal(b, c)", 3),
        equation.bits,
        extents=found.extents,
    )
    return [y]


CONTRACTIONS: dict[str, Callable[[Equation], list[Value]]] = {
    "dot_general": dot_general,
    "conv_general_dilated": conv,
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min", "reduce_and", "reduce_or"), reduced),
    **dict.fromkeys(("reduce_window_sum", "reduce_window_max", "reduce_window_min"), pooled),
    "select_and_gather_add": gathered,
    "select_and_scatter_add": selected,
}
"""By the name of the primitive."""
