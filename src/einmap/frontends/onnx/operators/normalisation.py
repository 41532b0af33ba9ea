"""Reductions, softmax and normalisations: sums and maxima over axes, and what is done with them point by point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from einmap.einsum.operation import Reduction
from einmap.errors import SpecError
from einmap.frontends.cascade.scaled import contracted
from einmap.frontends.cascade.step import NotExpressible, expression_of
from einmap.frontends.cascade.uses import Use, Window
from einmap.frontends.cascade.values import Value, reshape
from einmap.frontends.onnx.operators.call import Call
from einmap.frontends.onnx.operators.elementwise import TOWARDS_ZERO, short_decimal

REDUCTIONS: dict[str, tuple[str, Reduction, str]] = {
    "ReduceSum": ("a", "sum", "a"),
    "ReduceMean": ("a", "sum", "a / {count}"),
    "ReduceMax": ("a", "max", "a"),
    "ReduceMin": ("a", "min", "a"),
    "ReduceSumSquare": ("a * a", "sum", "a"),
    "ReduceL1": ("abs(a)", "sum", "a"),
    "ReduceL2": ("a * a", "sum", "sqrt(a)"),
    "ReduceLogSum": ("a", "sum", "log(a)"),
}
"""Map before a reduction, the reduction, and the map after it."""


def reduced(
    call: Call, value: Value, axes: Sequence[int], text: str = "a", reduction: Reduction = "sum", name: str = ""
) -> Value:
    """`text` of the value reduced over axes, which stay with one index."""
    labels = [f"x{axis}" for axis in range(len(value.shape))]
    kept = [label for axis, label in enumerate(labels) if axis not in axes]
    if text == "a" and reduction == "sum":
        y = contracted(call, name or call.name, [(value, labels)], kept, value.bits).value(call)
    else:
        y = call.builder.einsum(
            name or call.name, [(value, labels)], kept, expression_of(text, 1), value.bits, reduction=reduction
        )
    return reshape(y, tuple(1 if axis in axes else size for axis, size in enumerate(value.shape)))


def reduced_axes(call: Call, rank: int) -> list[int] | None:
    """Axes of a reduction; None for none of them, where each value is still mapped."""
    given = call.integers("axes")
    if given is None and call.optional(1) is not None:
        given = call.known_integers(1, "the list of axes")
    if not given:
        return None if call.integer("noop_with_empty_axes", 0) else [*range(rank)]
    return sorted({call.axis(axis, rank) for axis in given})


def reduce(call: Call) -> list[Value]:
    """The operators of REDUCTIONS; axes are an attribute in older models, an operand in newer ones."""
    value = call.operand(0)
    axes = reduced_axes(call, len(value.shape))
    inner, reduction, after = REDUCTIONS[call.node.operator]
    if axes is None:
        for text in (inner, after.format(count=1)):
            value = value if text == "a" else call.pointwise(text, value)
        return [value]
    name = call.name if after == "a" else f"{call.name}_reduced"
    y = reduced(call, value, axes, inner, reduction, name)
    if after != "a":
        after = TOWARDS_ZERO.format(after) if call.is_of_integers else after
        y = call.pointwise(after.format(count=prod(value.shape[axis] for axis in axes)), y)
    if call.integer("keepdims", 1):
        return [y]
    return [reshape(y, tuple(size for axis, size in enumerate(value.shape) if axis not in axes))]


def softmax(call: Call) -> list[Value]:
    """Softmax and LogSoftmax, by the maximum of the axis, so that exponentials stay small."""
    value = call.operand(0)
    rank = len(value.shape)
    axis = call.axis(call.integer("axis", 1 if call.opset < 13 else -1), rank)
    axes = [axis] if call.opset >= 13 else [*range(axis, rank)]
    value = call.builder.written(value, f"{call.name}_input")
    largest = reduced(call, value, axes, reduction="max", name=f"{call.name}_max")
    if call.node.operator == "LogSoftmax":
        total = _exponentials(call, value, largest, axes)
        return [call.pointwise("a - b - log(c)", value, largest, total)]
    powers = call.builder.written(call.pointwise("exp(a - b)", value, largest), f"{call.name}_exp")
    total = reduced(call, powers, axes, name=f"{call.name}_sum")
    return [call.pointwise("a / b", powers, total)]


def _exponentials(call: Call, value: Value, largest: Value, axes: Sequence[int]) -> Value:
    return reduced(call, call.pointwise("exp(a - b)", value, largest), axes, name=f"{call.name}_sum")


def log_sum_exp(call: Call) -> list[Value]:
    """ReduceLogSumExp, by the maximum as well."""
    value = call.operand(0)
    axes = reduced_axes(call, len(value.shape))
    if axes is None:  # the logarithm of the exponential of each value
        return [value]
    value = call.builder.written(value, f"{call.name}_input")
    largest = reduced(call, value, axes, reduction="max", name=f"{call.name}_max")
    text = TOWARDS_ZERO.format("a + log(b)") if call.is_of_integers else "a + log(b)"
    y = call.pointwise(text, largest, _exponentials(call, value, largest, axes))
    if call.integer("keepdims", 1):
        return [y]
    return [reshape(y, tuple(size for axis, size in enumerate(value.shape) if axis not in axes))]


def batch_normalisation(call: Call) -> list[Value]:
    """BatchNormalization with the mean and the variance that the model has."""
    is_training = call.integer("training_mode", 0) if call.opset >= 14 else any(call.node.outputs[1:])
    if is_training:
        raise NotExpressible("it computes its statistics, as in training")
    value = call.operand(0)
    ones = (1,) * max(0, len(value.shape) - 2)
    per_channel = [_along(call, call.operand(i), ones) for i in range(1, 5)]
    epsilon = short_decimal(call.number("epsilon", 1e-5))
    scale, shift, mean, variance = per_channel
    y = call.onto(f"(a - b) / sqrt(c + {epsilon})", value, mean, variance)
    return [_scaled(call, y, scale, shift)]


def _along(call: Call, value: Value, ones: tuple[int, ...]) -> Value:
    """A value for each channel, with axes of one index behind."""
    return call.reshape(value, (*value.shape, *ones))


def layer_normalisation(call: Call, epsilon: float = 1e-5) -> list[Value]:
    """LayerNormalization: mean and variance over the last axes (Ba et al., arXiv 1607.06450).

    `epsilon`: what is taken without the attribute.
    """
    value = call.operand(0)
    axes = [*range(call.axis(call.integer("axis", -1), len(value.shape)), len(value.shape))]
    centred, total, squares = _centred(call, value, axes)
    count, added = prod(value.shape[axis] for axis in axes), short_decimal(call.number("epsilon", epsilon))
    y = call.pointwise(f"a / sqrt(b / {count} + {added})", centred, squares)
    mean = call.pointwise(f"a / {count}", total)
    inverse_deviation = call.pointwise(f"1 / sqrt(a / {count} + {added})", squares)
    return [_scaled(call, y, call.operand(1), call.optional(2)), mean, inverse_deviation]


def _centred(call: Call, value: Value, axes: Sequence[int]) -> tuple[Value, Value, Value]:
    """The value without its mean over axes, its sum over them, and the sum of squares of what is left."""
    count = prod(value.shape[axis] for axis in axes)
    value = call.builder.written(value, f"{call.name}_input")
    total = reduced(call, value, axes, name=f"{call.name}_sum")
    centred = call.builder.written(call.pointwise(f"a - b / {count}", value, total), f"{call.name}_centred")
    return centred, total, reduced(call, centred, axes, "a * a", name=f"{call.name}_squares")


def _scaled(call: Call, value: Value, scale: Value, shift: Value | None) -> Value:
    y = call.onto("a * b", value, scale)
    return y if shift is None else call.onto("a + b", y, shift)


def lp_normalisation(call: Call) -> list[Value]:
    """LpNormalization: division by the sum of sizes, or the root of the sum of squares, along an axis."""
    value = call.builder.written(call.operand(0), f"{call.name}_input")
    p, axis = call.integer("p", 2), call.axis(call.integer("axis", -1), len(value.shape))
    if p not in (1, 2):
        raise SpecError(f"p must be 1 or 2, found {p}", at=call.node.at)
    total = reduced(call, value, [axis], "abs(a)" if p == 1 else "a * a", name=f"{call.name}_sum")
    size = "b" if p == 1 else "sqrt(b)"
    return [call.pointwise(f"select(equal(b, 0), 0, a / {size})", value, total)]


def rms_normalisation(call: Call, epsilon: float = 1e-5) -> list[Value]:
    """RMSNormalization (Zhang and Sennrich, arXiv 1910.07467), and the inverse of the root of the mean square.

    `epsilon`: what is taken without the attribute.
    """
    value = call.operand(0)
    axes = [*range(call.axis(call.integer("axis", -1), len(value.shape)), len(value.shape))]
    count = prod(value.shape[axis] for axis in axes)
    value = call.builder.written(value, f"{call.name}_input")
    squares = reduced(call, value, axes, "a * a", name=f"{call.name}_squares")
    added = short_decimal(call.number("epsilon", epsilon))
    y = call.pointwise(f"a / sqrt(b / {count} + {added})", value, squares)
    return [_scaled(call, y, call.operand(1), None), call.pointwise(f"1 / sqrt(a / {count} + {added})", squares)]


def group_normalisation(call: Call) -> list[Value]:
    """GroupNormalization and InstanceNormalization, which has a group for each channel."""
    value = call.operand(0)
    if len(value.shape) < 3:
        raise SpecError(f"the shape {[*value.shape]} has no spatial axes", at=call.node.at)
    n, channels, *sizes = value.shape
    groups = channels
    if call.node.operator == "GroupNormalization":
        groups = call.integer("num_groups", 1)
    if groups < 1 or channels % groups:
        raise SpecError(f"{channels} channels do not fall into {groups} groups", at=call.node.at)
    grouped = call.reshape(value, (n, groups, channels // groups, *sizes))
    axes = [*range(2, len(grouped.shape))]
    centred, _, squares = _centred(call, grouped, axes)
    count, epsilon = prod(grouped.shape[axis] for axis in axes), short_decimal(call.number("epsilon", 1e-5))
    y = call.pointwise(f"a / sqrt(b / {count} + {epsilon})", centred, squares)
    back = call.reshape(y, value.shape)
    scale, shift = call.operand(1), call.operand(2)
    ones = (1,) * len(sizes)
    if scale.shape == (groups,) and groups != channels:  # opset 18: one for each group
        per_group = (1, groups, *(1 for _ in range(len(sizes) + 1)))
        y = _scaled(call, y, *(call.reshape(v, per_group) for v in (scale, shift)))
        return [call.reshape(y, value.shape)]
    return [_scaled(call, back, _along(call, scale, ones), _along(call, shift, ones))]


def local_response(call: Call) -> list[Value]:
    """LRN: division by squares summed over neighbouring channels (Krizhevsky et al., 2012, section 3.3)."""
    value = call.builder.written(call.operand(0), f"{call.name}_input")
    size = call.integer("size", 1)
    if size < 1 or len(value.shape) < 2:
        raise SpecError(f"a window of {size} channels over the shape {[*value.shape]}", at=call.node.at)
    labels = ["n", "c", *(f"x{axis}" for axis in range(2, len(value.shape)))]
    # the expression squares what is read, so that zero padding adds nothing
    uses: list[Use] = ["n", Window((("c", 1), ("j", 1)), -((size - 1) // 2)), *labels[2:]]
    extents = {"c": value.shape[1], "j": size}
    squares = call.builder.einsum(
        f"{call.name}_squares", [(value, uses)], labels, expression_of("a * a", 1), value.bits, extents=extents
    )
    alpha, beta, bias = call.number("alpha", 1e-4), call.number("beta", 0.75), call.number("bias", 1.0)
    text = f"a / power({short_decimal(bias)} + {short_decimal(alpha / size)} * b, {short_decimal(beta)})"
    return [call.pointwise(text, value, squares)]


NORMALISATIONS: dict[str, Callable[[Call], list[Value]]] = {
    **dict.fromkeys(REDUCTIONS, reduce),
    "ReduceLogSumExp": log_sum_exp,
    "Softmax": softmax,
    "LogSoftmax": softmax,
    "BatchNormalization": batch_normalisation,
    "LayerNormalization": layer_normalisation,
    "RMSNormalization": rms_normalisation,
    "InstanceNormalization": group_normalisation,
    "GroupNormalization": group_normalisation,
    "LRN": local_response,
    "LpNormalization": lp_normalisation,
}
"""By the name of the operator."""
