"""Operators but for windows, matrix products and recurrent layers, as operators of ONNX."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np

from einmap.errors import SpecError
from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.tflite.graph import Step
from einmap.frontends.tflite.layers import LAYERS

_SAME: dict[str, str] = {
    "ADD": "Add", "SUB": "Sub", "MUL": "Mul", "DIV": "Div", "POW": "Pow", "MAXIMUM": "Max", "MINIMUM": "Min",
    "ADD_N": "Sum", "RELU": "Relu", "TANH": "Tanh", "LOGISTIC": "Sigmoid", "ELU": "Elu", "PRELU": "PRelu",
    "HARD_SWISH": "HardSwish", "EXP": "Exp", "LOG": "Log", "SQRT": "Sqrt", "ABS": "Abs", "NEG": "Neg", "SIN": "Sin",
    "COS": "Cos", "CEIL": "Ceil", "FLOOR": "Floor", "ROUND": "Round", "SIGN": "Sign", "EQUAL": "Equal",
    "LESS": "Less", "LESS_EQUAL": "LessOrEqual", "GREATER": "Greater", "GREATER_EQUAL": "GreaterOrEqual",
    "LOGICAL_AND": "And", "LOGICAL_OR": "Or", "LOGICAL_NOT": "Not", "SELECT_V2": "Where", "LOG_SOFTMAX": "LogSoftmax",
    "QUANTIZE": "Identity", "DEQUANTIZE": "Identity", "DENSIFY": "Identity",
}  # fmt: skip
"""Operators that ONNX has as well, of all operands, with an activation where one is fused."""
_REDUCED = {"MEAN": "ReduceMean", "SUM": "ReduceSum", "REDUCE_MAX": "ReduceMax", "REDUCE_MIN": "ReduceMin"}
_CLIPPED = {"RELU_N1_TO_1": 2, "RELU6": 3}


def same(step: Step) -> None:
    """An operator of `_SAME`."""
    names = [step.real(place) for place in range(len(step.operator.inputs))]
    y = step.node(_SAME[step.operator.name], *names)
    step.give(y, activation=step.operator.options.get("activation", 0))


def clipped(step: Step) -> None:
    """RELU6, RELU_N1_TO_1."""
    step.give(step.real(0), activation=_CLIPPED[step.operator.name])


def composed(step: Step) -> None:
    """Operators that are two of ONNX."""
    kind = step.operator.name
    names = [step.real(place) for place in range(len(step.operator.inputs))]
    match kind:
        case "SQUARE":
            y = step.node("Mul", names[0], names[0])
        case "RSQRT":
            y = step.node("Reciprocal", step.node("Sqrt", names[0]))
        case "SQUARED_DIFFERENCE":
            difference = step.node("Sub", *names)
            y = step.node("Mul", difference, difference)
        case "NOT_EQUAL":
            y = step.node("Not", step.node("Equal", *names))
        case _:  # RELU_0_TO_1
            y = step.node("Clip", names[0], step.constant(0.0, 1), step.constant(1.0, 1))
    step.give(y)


def parametric(step: Step) -> None:
    """LEAKY_RELU, GELU, CUMSUM, LOCAL_RESPONSE_NORMALIZATION, L2_NORMALIZATION, SOFTMAX: with a parameter."""
    options, x, rank = step.operator.options, step.real(0), len(step.tensor(0).shape)
    match step.operator.name:
        case "LEAKY_RELU":
            y = step.node("LeakyRelu", x, alpha=options["alpha"])
        case "GELU":
            y = step.node("Gelu", x, approximate="tanh" if options["approximate"] else "none")
        case "CUMSUM":
            flags = {key: int(options[key]) for key in ("exclusive", "reverse")}
            y = step.node("CumSum", x, step.constant(step.integers(1, "its axis")[0]), **flags)
        case "LOCAL_RESPONSE_NORMALIZATION":
            step.axes(step.tensor(0), 4)
            size = 2 * options["radius"] + 1
            factors = {"bias": options["bias"], "alpha": options["alpha"] * size, "beta": options["beta"]}
            y = step.last(step.node("LRN", step.first(x), size=size, **factors))
        case "L2_NORMALIZATION":
            y = step.node("LpNormalization", x, axis=rank - 1, p=2)
        case _:
            scaled = step.node("Mul", x, step.constant(options["beta"], 1)) if options["beta"] != 1 else x
            y = step.node("Softmax", scaled, axis=rank - 1)
    step.give(y, activation=options.get("activation", 0))


def reduction(step: Step) -> None:
    """MEAN, SUM, REDUCE_MAX, REDUCE_MIN."""
    axes = step.constant([step.axis(axis, len(step.tensor(0).shape)) for axis in step.integers(1, "its axes")])
    step.give(
        step.node(_REDUCED[step.operator.name], step.real(0), axes, keepdims=int(step.operator.options["keep_dims"]))
    )


def cast(step: Step) -> None:
    """CAST, which takes integers as they are."""
    step.moved(step.node("Cast", step.tensor(0).name, to=step.output().kind))


# layout: integers move as they are


def _moves(step: Step, change: Callable[[str], str], place: int = 0, result: int = 0) -> None:
    """A change of layout, of the integers where the result has the same scale."""
    tensor = step.tensor(place)
    if step.same_integers(tensor, step.output(result)):
        step.moved(change(tensor.name), result)
    else:
        step.give(change(step.real(place)), result)


def reshape(step: Step) -> None:
    """RESHAPE, SQUEEZE, EXPAND_DIMS: the shape of the result is that which the file says of it."""
    wanted, given = step.output().shape, step.tensor(0).shape
    if prod(wanted) != prod(given):
        raise SpecError(f"the shape {[*given]} does not become {[*wanted]}", at=step.operator.at)
    _moves(step, lambda name: step.reshaped(name, wanted))


def transpose(step: Step) -> None:
    """TRANSPOSE."""
    order = step.integers(1, "its order")
    _moves(step, lambda name: step.transposed(name, *order))


def pad(step: Step) -> None:
    """PAD, PADV2, MIRROR_PAD without the border: zeros, a number, or values that are mirrored."""
    pairs = step.integers(1, "its padding")
    sides = step.constant([*pairs[::2], *pairs[1::2]])
    if step.operator.name == "MIRROR_PAD":
        if step.operator.options["mode"]:
            raise NotExpressible("it repeats the border")
        return _moves(step, lambda name: step.node("Pad", name, sides, mode="reflect"))
    number = [step.real(2)] if step.operator.name == "PADV2" else []
    return step.give(step.node("Pad", step.real(0), sides, *number))


def concatenation(step: Step) -> None:
    """CONCATENATION."""
    options, inputs = step.operator.options, range(len(step.operator.inputs))
    axis = step.axis(options["axis"], len(step.output().shape))
    if not options["activation"] and all(step.same_integers(step.tensor(i), step.output()) for i in inputs):
        return step.moved(step.node("Concat", *(step.tensor(i).name for i in inputs), axis=axis))
    return step.give(step.node("Concat", *map(step.real, inputs), axis=axis), activation=options["activation"])


def pack(step: Step) -> None:
    """PACK: a concatenation along a new axis."""
    axis = step.axis(step.operator.options["axis"], len(step.output().shape))
    where = step.constant([axis])
    step.give(
        step.node(
            "Concat",
            *(step.node("Unsqueeze", step.real(i), where) for i in range(len(step.operator.inputs))),
            axis=axis,
        )
    )


def split(step: Step) -> None:
    """SPLIT, SPLIT_V, UNPACK: slices, without their axis where it is one index each."""
    kind, outputs = step.operator.name, len(step.operator.outputs)
    place = 1 if kind == "SPLIT" else 0
    shape = step.tensor(place).shape
    axis = (
        step.operator.options["axis"]
        if kind == "UNPACK"
        else step.integers({"SPLIT": 0, "SPLIT_V": 2}[kind], "its axis")[0]
    )
    axis = step.axis(axis, len(shape))
    sizes = (
        [1] * outputs
        if kind == "UNPACK"
        else [step.output(i).shape[axis] for i in range(outputs) if len(step.output(i).shape) == len(shape)]
    )
    if len(sizes) != outputs or sum(sizes) != shape[axis]:
        raise SpecError(f"{outputs} results do not fit the shape {[*shape]} along axis {axis}", at=step.operator.at)
    begin = 0
    for i, size in enumerate(sizes):
        ends = [step.constant([number]) for number in (begin, begin + size, axis)]

        def part(name: str, ends: list[str] = ends) -> str:
            cut = step.node("Slice", name, *ends)
            return step.node("Squeeze", cut, step.constant([axis])) if kind == "UNPACK" else cut

        _moves(step, part, place, i)
        begin += size


def piece(step: Step) -> None:
    """SLICE, STRIDED_SLICE without new axes: axes of one index may be left out."""
    shape, options = step.tensor(0).shape, step.operator.options
    begins, ends = step.integers(1, "where it begins"), step.integers(2, "where it ends")
    strides, dropped = [1] * len(begins), 0
    if step.operator.name == "SLICE":
        ends = [size if n == -1 else b + n for b, n, size in zip(begins, ends, shape, strict=False)]
    else:
        if options["ellipsis_mask"] or options["new_axis_mask"] or options["offset"]:
            raise NotExpressible("it has an ellipsis, a new axis, or ends that are sizes")
        strides, dropped = step.integers(3, "its strides"), options["shrink_axis_mask"]
    if not len(begins) == len(ends) == len(strides) <= len(shape) or 0 in strides:
        raise SpecError(f"begins, ends and strides do not fit the shape {[*shape]}", at=step.operator.at)
    for i, size in enumerate(shape[: len(begins)]):
        if dropped >> i & 1:
            begins[i], ends[i], strides[i] = begins[i] % max(1, size), begins[i] % max(1, size) + 1, 1
            continue
        far = 2**62
        if step.operator.name != "SLICE":
            begins[i] = (0 if strides[i] > 0 else far) if options["begin_mask"] >> i & 1 else begins[i]
            ends[i] = (far if strides[i] > 0 else -far) if options["end_mask"] >> i & 1 else ends[i]
    if step.graph.batch is not None and begins and ends[0] == shape[0]:
        ends[0] = 2**62
    operands = [step.constant(values) for values in (begins, ends, [*range(len(begins))], strides)]
    gone = [i for i in range(len(begins)) if dropped >> i & 1]

    def cut(name: str) -> str:
        found = step.node("Slice", name, *operands)
        return step.node("Squeeze", found, step.constant(gone)) if gone else found

    _moves(step, cut)


def repeated(step: Step) -> None:
    """TILE, BROADCAST_TO."""
    kind = {"TILE": "Tile", "BROADCAST_TO": "Expand"}[step.operator.name]
    times = step.constant(step.integers(1, "its shape"))
    _moves(step, lambda name: step.node(kind, name, times))


def rows(step: Step) -> None:
    """GATHER, EMBEDDING_LOOKUP: rows that are looked up."""
    is_table = step.operator.name == "GATHER"
    if is_table and step.operator.options["batch_dims"]:
        raise NotExpressible("it has batches")
    table, places = (0, 1) if is_table else (1, 0)
    axis = step.axis(step.operator.options["axis"] if is_table else 0, len(step.tensor(table).shape))
    _moves(step, lambda name: step.node("Gather", name, step.tensor(places).name, axis=axis), table)


def blocks(step: Step) -> None:
    """DEPTH_TO_SPACE, SPACE_TO_DEPTH: the block is outside of the channels on both sides."""
    kind = {"DEPTH_TO_SPACE": "DepthToSpace", "SPACE_TO_DEPTH": "SpaceToDepth"}[step.operator.name]
    step.axes(step.tensor(0), 4)
    size = step.operator.options["block_size"]
    _moves(step, lambda name: step.last(step.node(kind, step.first(name), blocksize=size)))


def resized(step: Step) -> None:
    """RESIZE_BILINEAR, RESIZE_NEAREST_NEIGHBOR."""
    options, shape = step.operator.options, step.axes(step.tensor(0), 4)
    rows_columns = step.integers(1, "its size")
    if len(rows_columns) != 2 or min(rows_columns) < 1:
        raise SpecError(f"its size must be two numbers from 1 on, found {rows_columns}", at=step.operator.at)
    places = (
        "align_corners" if options["align_corners"] else "half_pixel" if options["half_pixel_centers"] else "asymmetric"
    )
    factors = [1.0, 1.0, *(new / max(1, old) for new, old in zip(rows_columns, shape[1:3], strict=True))]
    by = {"coordinate_transformation_mode": places}
    if step.operator.name == "RESIZE_BILINEAR":
        by["mode"] = "linear"
    else:
        by["nearest_mode"] = "floor" if places == "asymmetric" else "round_prefer_ceil"

    def change(name: str) -> str:
        return step.last(step.node("Resize", step.first(name), "", step.constant(np.array(factors), 1), **by))

    _moves(step, change) if step.operator.name != "RESIZE_BILINEAR" else step.give(change(step.real(0)))


OPERATORS: dict[str, Callable[[Step], None]] = {
    **LAYERS,
    **dict.fromkeys(_SAME, same),
    **dict.fromkeys(_CLIPPED, clipped),
    **dict.fromkeys(("SQUARE", "RSQRT", "SQUARED_DIFFERENCE", "NOT_EQUAL", "RELU_0_TO_1"), composed),
    **dict.fromkeys(
        ("LEAKY_RELU", "GELU", "CUMSUM", "LOCAL_RESPONSE_NORMALIZATION", "L2_NORMALIZATION", "SOFTMAX"), parametric
    ),
    **dict.fromkeys(_REDUCED, reduction),
    "CAST": cast,
    **dict.fromkeys(("RESHAPE", "SQUEEZE", "EXPAND_DIMS"), reshape),
    "TRANSPOSE": transpose,
    **dict.fromkeys(("PAD", "PADV2", "MIRROR_PAD"), pad),
    "CONCATENATION": concatenation,
    "PACK": pack,
    **dict.fromkeys(("SPLIT", "SPLIT_V", "UNPACK"), split),
    **dict.fromkeys(("SLICE", "STRIDED_SLICE"), piece),
    **dict.fromkeys(("TILE", "BROADCAST_TO"), repeated),
    **dict.fromkeys(("GATHER", "EMBEDDING_LOOKUP"), rows),
    **dict.fromkeys(("DEPTH_TO_SPACE", "SPACE_TO_DEPTH"), blocks),
    **dict.fromkeys(("RESIZE_BILINEAR", "RESIZE_NEAREST_NEIGHBOR"), resized),
}
"""Functions that write the nodes of an operator, by its name."""
