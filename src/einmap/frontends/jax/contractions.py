"""Products that are summed, reductions, and windows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from einmap.einsum.operation import Reduction
from einmap.frontends.cascade.slide import Slide
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.uses import Spread, Use, Window
from einmap.frontends.cascade.values import Value, reshape, transpose
from einmap.frontends.jax.equation import Equation
from einmap.frontends.jax.layout import widened

_BATCH, _LEFT, _SUMMED, _RIGHT = "bhgij", "mpqxy", "kcdef", "nstuv"
_OUT, _KERNEL = ("p", "q", "o"), ("r", "s", "t")


def dot_general(equation: Equation) -> list[Value]:
    """dot_general: any number of batch and summed axes."""
    a, b = equation.operands
    (left, right), (left_batch, right_batch) = equation.params["dimension_numbers"]
    first, second = [""] * len(a.shape), [""] * len(b.shape)
    for letters, pairs in (
        (_BATCH, zip(left_batch, right_batch, strict=True)),
        (_SUMMED, zip(left, right, strict=True)),
    ):
        for label, (i, j) in zip(_labels(letters), pairs, strict=False):
            first[i] = second[j] = label
    for letters, uses in ((_LEFT, first), (_RIGHT, second)):
        fresh = iter(_labels(letters))
        uses[:] = [label or next(fresh) for label in uses]
    batch = [first[i] for i in left_batch]
    out = [*batch, *(u for u in first if u not in second), *(u for u in second if u not in first)]
    weight = 0 if _is_argument(a) and not _is_argument(b) else 1
    text = expression_of("a * b", 2)
    y = equation.builder.einsum(equation.name, [(a, first), (b, second)], out, text, equation.bits, weight=weight)
    return [y]


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
    axes = [
        _Axis(x.shape[2 + i], w.shape[2 + i], equation.shape[numbers.out_spec[2 + i]], *map(int, steps), *map(int, pad))
        for i, (*steps, pad) in enumerate(
            zip(
                params["lhs_dilation"], params["window_strides"], params["rhs_dilation"], params["padding"], strict=True
            )
        )
    ]
    # negative padding is a copy, as are zeros between the inputs where no index passes over them; zeros around the
    # inputs belong to the windows
    cuts = [(0, 0, 0)] * 2 + [axis.cut for axis in axes]
    if any(any(cut) for cut in cuts):
        x = widened(equation, x, cuts)
    axes = [replace(axis, size=x.shape[2 + i], spread=1) if axis.form == "pr" else axis for i, axis in enumerate(axes)]
    y = _convolved(equation, x, w, axes)
    order = [0] * len(y.shape)
    for place, axis in enumerate(numbers.out_spec):
        order[axis] = place
    return [transpose(y, order)]


@dataclass(frozen=True, slots=True)
class _Axis:
    """A convolution along one axis: sizes of input, kernel and output; zeros between inputs (`spread` - 1 of them),
    strides, dilations, and zeros around the inputs.

    Output p is a sum of input i times kernel place r where `spread * i = stride * p + dilation * r - low`.
    """

    size: int
    kernel: int
    out: int
    spread: int
    stride: int
    dilation: int
    low: int
    high: int

    @property
    def form(self) -> str:
        """By which two of p, i and r the axis is indexed, so that no product has a zero from between the inputs in it.

        `pr`: windows over the input; `ir`: products written at sums; `pi`: windows over the kernel; the fewest.
        """
        products = {}
        if self.spread > 1 and self.stride == 1:
            products["ir"] = self.size * self.kernel
        if self.spread > 1 and self.dilation == 1:
            products["pi"] = self.out * self.size
        return min(products, key=products.__getitem__, default="pr")

    @property
    def cut(self) -> tuple[int, int, int]:
        """What is cut off the input or comes between its values before windows slide over it."""
        return (min(self.low, 0), min(self.high, 0), self.spread - 1) if self.form == "pr" else (0, 0, 0)

    @property
    def first(self) -> int:
        """The first of the results written at sums that is part of the output."""
        return self.dilation * (self.kernel - 1) - self.low

    def indexed(self, p: str, r: str) -> tuple[Use, Use, str | Spread, dict[str, int]]:
        """How input, kernel and output are indexed, and the extents of labels that windows use."""
        if self.form == "pi":
            taps = Window(((r, self.spread), (p, -self.stride)), self.low)
            return r, taps, p, {p: self.out, r: self.size}
        before = max(0, -self.first)
        reach = self.spread * (self.size - 1) + self.dilation * (self.kernel - 1) + 1
        size = max(reach, self.first + self.out) + before
        return p, r, Spread(((p, self.spread), (r, self.dilation)), size, before), {}


def _convolved(equation: Equation, x: Value, w: Value, axes: Sequence[_Axis]) -> Value:
    """A convolution of [n, c, ...] by [m, c, ...]."""
    params = equation.params
    groups, batch_groups = int(params["feature_group_count"]), int(params["batch_group_count"])
    n, channels, *sizes = x.shape
    m, per_group, *kernel = w.shape
    steps = [axis.stride for axis in axes], [axis.dilation for axis in axes]
    padding = [(max(axis.low, 0), max(axis.high, 0)) for axis in axes]
    slide = _slide(sizes, kernel, [axis.out for axis in axes], steps, padding)
    windows, taps, extents = slide.uses(_OUT, _KERNEL), [*_KERNEL[: len(axes)]], slide.extents(_OUT, _KERNEL)
    weights: list[Use] = [*taps]
    out: list[str | Spread] = [*_OUT[: len(axes)]]
    for i, axis in enumerate(axes):
        if axis.form != "pr":
            del extents[_OUT[i]], extents[_KERNEL[i]]
            windows[i], weights[i], out[i], labels = axis.indexed(_OUT[i], _KERNEL[i])
            extents |= labels
        if axis.form == "ir":  # the kernel from its last place on
            w = equation.take(w, 2 + i, axis.kernel - 1, -1, axis.kernel)
    if batch_groups > 1:
        left = equation.reshape(x, (batch_groups, n // batch_groups, channels, *sizes))
        right = equation.reshape(w, (batch_groups, m // batch_groups, per_group, *kernel))
        first: list[Use] = ["g", "n", "c", *windows]
    else:
        left = equation.reshape(x, (n, groups, channels // groups, *sizes))
        right = equation.reshape(w, (groups, m // groups, per_group, *kernel))
        first = ["n", "g", "c", *windows]
    y = equation.builder.einsum(
        equation.name,
        [(left, first), (right, ["g", "m", "c", *weights])],
        ["n", "g", "m", *out],
        expression_of("a * b", 2),
        equation.bits,
        extents=extents,
        weight=1,
    )
    for i, axis in enumerate(axes):
        if axis.form == "ir":
            y = equation.take(y, 3 + i, max(0, axis.first), 1, axis.out)
    return reshape(y, (n // batch_groups, m, *(axis.out for axis in axes)))


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


CONTRACTIONS: dict[str, Callable[[Equation], list[Value]]] = {
    "dot_general": dot_general,
    "conv_general_dilated": conv,
    **dict.fromkeys(("reduce_sum", "reduce_max", "reduce_min", "reduce_and", "reduce_or"), reduced),
    **dict.fromkeys(("reduce_window_sum", "reduce_window_max", "reduce_window_min"), pooled),
}
"""By the name of the primitive."""
