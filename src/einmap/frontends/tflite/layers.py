"""Operators over windows, matrix products, recurrent layers: channels are last, weights (out, rows, columns, in)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from einmap.errors import SpecError
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.onnx.model import Tensor as Stored
from einmap.frontends.onnx.model import bits_of
from einmap.frontends.onnx.recurrent.layers import Gates
from einmap.frontends.tflite.graph import Step
from einmap.frontends.tflite.model import Tensor

_PADDING = {0: "SAME_UPPER", 1: "VALID"}


def _window(step: Step) -> dict[str, object]:
    """Strides, dilations and padding, of which an odd row is below and an odd column right."""
    options = step.operator.options
    if options["padding"] not in _PADDING:
        raise NotExpressible(f"its padding is number {options['padding']}")
    window = {
        "strides": [options["stride_h"], options["stride_w"]],
        "dilations": [options.get("dilation_h", 1), options.get("dilation_w", 1)],
    }
    if min(*window["strides"], *window["dilations"]) < 1:
        raise SpecError("strides and dilations must be positive", at=step.operator.at)
    return {**window, "auto_pad": _PADDING[options["padding"]]}


def _bias(step: Step, place: int) -> list[str]:
    return [step.real(place)] if step.has(place) else []


def convolution(step: Step) -> None:
    """CONV_2D, of groups where the weights have fewer channels than the input; DEPTHWISE_CONV_2D."""
    x, w = step.axes(step.tensor(0), 4), step.axes(step.tensor(1), 4)
    if step.operator.name == "DEPTHWISE_CONV_2D":
        groups, weights = x[3], step.transposed(step.real(1), 3, 0, 1, 2)
    else:
        groups, weights = max(1, x[3] // max(1, w[3])), step.first(step.real(1))
    image = step.first(step.real(0))
    y = step.node("Conv", image, weights, *_bias(step, 2), group=groups, **_window(step))
    step.give(step.last(y), activation=step.operator.options["activation"])


def transposed_convolution(step: Step) -> None:
    """TRANSPOSE_CONV: the convolution whose gradient it is goes from its result to its input, with that padding."""
    x, w = step.axes(step.tensor(2), 4), step.axes(step.tensor(1), 4)
    sizes = step.integers(0, "its result's shape") if step.tensor(0).array is not None else [*step.output().shape]
    window = _window(step)
    if len(sizes) != 4:
        raise SpecError(f"its result's shape must have 4 sizes, found {len(sizes)}", at=step.operator.at)
    before, after = [], []
    for axis, stride in enumerate((step.operator.options["stride_h"], step.operator.options["stride_w"])):
        reach = stride * (x[1 + axis] - 1) + w[1 + axis]
        total = max(0, reach - sizes[1 + axis]) if window["auto_pad"] == "SAME_UPPER" else 0
        before.append(total // 2)
        after.append(reach - before[-1] - sizes[1 + axis])
    extra = [max(0, -more) for more in after]  # below 0 where the result has rows that no window reaches
    pads = [*before, *(max(0, more) for more in after)]
    image, weights = step.first(step.real(2)), step.transposed(step.real(1), 3, 0, 1, 2)
    y = step.node(
        "ConvTranspose", image, weights, *_bias(step, 3), pads=pads, output_padding=extra, strides=window["strides"]
    )
    step.give(step.last(y), activation=step.operator.options["activation"])


def fully_connected(step: Step) -> None:
    """FULLY_CONNECTED: rows times the transposed weights; all but the last axis are rows."""
    options, (_, features) = step.operator.options, step.axes(step.tensor(1), 2, "weights")
    if options["weights_format"]:
        raise NotExpressible("its weights are shuffled")
    x, shape = step.real(0), step.tensor(0).shape
    if len(shape) != 2 and not (options["keep_num_dims"] and shape and shape[-1] == features):
        x = step.node("Reshape", x, step.constant([-1, features]))
        shape = (-1, features)
    if len(shape) == 2:
        y = step.node("Gemm", x, step.real(1), *_bias(step, 2), transB=1)
    else:
        y = step.node("MatMul", x, step.transposed(step.real(1), 1, 0))
        y = step.node("Add", y, step.real(2)) if step.has(2) else y
    step.give(y, activation=options["activation"])


def matrix_product(step: Step) -> None:
    """BATCH_MATMUL."""
    names = []
    for place, key in enumerate(("adj_x", "adj_y")):
        name, rank = step.real(place), len(step.tensor(place).shape)
        turned = step.operator.options[key] and rank > 1
        names.append(step.transposed(name, *range(rank - 2), rank - 1, rank - 2) if turned else name)
    step.give(step.node("MatMul", *names))


def pool(step: Step) -> None:
    """AVERAGE_POOL_2D, whose padding takes no part, and MAX_POOL_2D."""
    options, kind = step.operator.options, {"MAX_POOL_2D": "MaxPool"}.get(step.operator.name, "AveragePool")
    step.axes(step.tensor(0), 4)
    kernel = [options["filter_h"], options["filter_w"]]
    y = step.node(kind, step.first(step.real(0)), kernel_shape=kernel, **_window(step))
    step.give(step.last(y), activation=options["activation"])


def _stacked(step: Step, places: Sequence[int], label: str) -> str:
    """Weights of several gates, all constants, as one tensor in this order, the fractions that they stand for."""
    tensors = [step.tensor(place) for place in places]
    first = tensors[0]
    for tensor in tensors:
        if not tensor.constant:
            raise NotExpressible("its weights are computed")
        if tensor.shape != first.shape or tensor.kind != first.kind:
            text = f"weights of its gates differ: {[*first.shape]} and {[*tensor.shape]}"
            raise SpecError(text, at=step.operator.at)
        if tensor.scales is not None and len(tensor.scales.scale) > 1:
            raise NotExpressible("weights of a gate have several scales")
    arrays = [tensor.array for tensor in tensors]
    array = np.concatenate([a for a in arrays if a is not None]) if all(a is not None for a in arrays) else None
    rows = first.shape[0]
    shape = (1, len(tensors) * rows, *first.shape[1:])
    name = f"{step.output().name}_{label}"
    given = None if array is None else array.reshape(shape)
    step.initialiser(Stored(name, shape, bits_of(first.kind), first.kind, given))
    if first.scales is None:
        return name
    scale = np.concatenate([np.repeat(_scale(tensor), rows) for tensor in tensors])
    return step.node("DequantizeLinear", name, step.numbers(scale), axis=1)


def _scale(tensor: Tensor) -> np.ndarray:
    return np.ones(1) if tensor.scales is None else tensor.scales.scale


def _recurrent_bias(step: Step, places: Sequence[int], hidden: int) -> str:
    """Biases of the gates, and as many zeros, since ONNX has one for the state's products as well."""
    tensors = [step.tensor(place) for place in places]
    parts = [t.array * (_scale(t) if t.scales is not None else 1) for t in tensors if t.array is not None]
    if len(parts) != len(places):
        raise NotExpressible("its biases are not constants of at most 64 KiB")
    array = np.concatenate([*parts, np.zeros(len(places) * hidden)]).astype(float)[None]
    return step.initialiser(Stored(f"{step.output().name}_B", array.shape, 32, 1, array))


def lstm(step: Step) -> None:
    """UNIDIRECTIONAL_SEQUENCE_LSTM that begins with zeros: gates i, f, c, o there, i, o, f, c in ONNX."""
    options, at = step.operator.options, step.operator.at
    if options["activation"] != 4 or options["diagonal"] or options["cell_clip"] or options["proj_clip"]:
        raise NotExpressible("it has clipping, or another activation than tanh")
    if any(step.has(place) for place in (16, 17, 20, 21, 22, 23)):
        raise NotExpressible("it has a projection or normalisation")
    hidden = step.axes(step.tensor(2), 2, "weights")[0]
    x, order = step.axes(step.tensor(0), 3), (0, 1, 2) if options["time_major"] else (1, 0, 2)
    if 0 in x or not hidden:
        raise SpecError("an operand has no values", at=at)
    # with coupled gates that of the input is 1 minus that of what is kept, and has no weights
    is_coupled = not step.has(1)
    places = [(4, 2, 3), (8, 6, 7), (15, 13, 14)] if is_coupled else [(1, 4, 2, 3), (5, 8, 6, 7), (12, 15, 13, 14)]
    weights = _stacked(step, places[0], "W"), _stacked(step, places[1], "R")
    operands = [step.transposed(step.real(0), *order), *weights, _recurrent_bias(step, places[2], hidden)]
    if any(step.has(place) for place in (9, 10, 11)):
        if step.tensor(10).scales is not None:
            raise NotExpressible("its peepholes are integers")
        operands += ["", "", "", _stacked(step, (10 if is_coupled else 9, 11, 10), "P")]
    gates = {"gates": Gates((-1, 0, 1, 2))} if is_coupled else {}
    y = step.node("LSTM", *operands, hidden_size=hidden, **gates)
    step.give(step.transposed(step.node("Squeeze", y, step.constant([1])), *order))


def state_filter(step: Step) -> None:
    """SVDF: features enter a memory of the last ones, of which each unit sums products with weights by age."""
    options, (filters, features) = step.operator.options, step.axes(step.tensor(1), 2, "weights")
    _, memory = step.axes(step.tensor(2), 2, "weights")
    rank = options["rank"]
    if rank < 1 or filters % rank:
        raise SpecError(f"{filters} filters are not {rank} for each unit", at=step.operator.at)
    x = step.node("Reshape", step.real(0), step.constant([-1, features]))
    new = step.node("MatMul", x, step.transposed(step.real(1), 1, 0))
    new = step.node("Reshape", new, step.constant([-1, filters, 1]))
    weights = step.node("Reshape", step.real(2), step.constant([filters // rank, rank, memory]))
    state = step.tensor(4)
    if memory > 1:
        old = step.node("Reshape", step.fractions(state), step.constant([-1, filters, memory]))
        ends = (step.constant([number]) for number in (1, memory, 2))
        new = step.node("Concat", step.node("Slice", old, *ends), new, axis=2)
    new = step.node("Reshape", new, step.constant([-1, filters // rank, rank, memory]))
    y = step.node("Einsum", new, weights, equation="burm,urm->bu")
    if step.has(3):
        y = step.node("Add", y, step.real(3))
    step.give(y, activation=options["activation"])


LAYERS: dict[str, Callable[[Step], None]] = {
    "CONV_2D": convolution,
    "DEPTHWISE_CONV_2D": convolution,
    "TRANSPOSE_CONV": transposed_convolution,
    "FULLY_CONNECTED": fully_connected,
    "BATCH_MATMUL": matrix_product,
    "AVERAGE_POOL_2D": pool,
    "MAX_POOL_2D": pool,
    "UNIDIRECTIONAL_SEQUENCE_LSTM": lstm,
    "SVDF": state_filter,
}
"""By the name of the operator."""
