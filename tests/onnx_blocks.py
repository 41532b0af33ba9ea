"""Blocks of usual networks, a few values wide: what exporters of YOLO, PP-OCR, U-Nets and transformers write."""

import numpy as np
from tests.onnx_models import node, numbers

PAD = {"pads": [1, 1, 1, 1]}
HALVES = {"kernel_shape": [2, 2], "strides": [2, 2]}
DOUBLED = {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}


def op(kind, inputs, output, **attributes):
    """A node; operands in one text."""
    return node(kind, inputs.split(), output.split(), **attributes)


def ints(*values):
    """Integers as an operand."""
    return np.array(values, np.int64)


def weights(**shapes):
    """Random weights of these shapes."""
    return {name: numbers(*shape, seed=i) for i, (name, shape) in enumerate(shapes.items())}


def windows(source, result):
    """Nodes that cut [1, 8, 8, 4] into four windows of 16 places; the constants `cut` and `rows` are operands."""
    return [
        op("Reshape", f"{source} cut", f"{result}_6"),
        op("Transpose", f"{result}_6", f"{result}_t", perm=[0, 1, 3, 2, 4, 5]),
        op("Reshape", f"{result}_t rows", result),
    ]


def quarters(source):
    """Nodes that take every second place of two axes, four times, and join them as channels `c`."""
    slices = [op("Slice", f"{source} at{i} ends axes steps", f"{source}{i}") for i in range(4)]
    return [*slices, op("Concat", " ".join(f"{source}{i}" for i in range(4)), "c", axis=1)]


QUARTERS = {
    "at0": ints(0, 0), "at1": ints(1, 0), "at2": ints(0, 1), "at3": ints(1, 1), "ends": ints(8, 8), "axes": ints(2, 3),
    "steps": ints(2, 2),
}  # fmt: skip
WINDOWS = {
    "cut": ints(1, 2, 4, 2, 4, 4),
    "rows": ints(4, 16, 4),
    "back": ints(1, 2, 2, 4, 4, 4),
    "out": ints(1, 8, 8, 4),
}
SCALES = {"none": np.array([], np.float32), "twice": np.array([1, 1, 2, 2], np.float32)}

BLOCKS = {
    "residual, then pooling": (
        [op("Conv", "x w1", "a"), op("Conv", "a w2", "b"), op("Relu", "b", "r"), op("Conv", "r w3", "c", **PAD),
         op("Add", "a c", "s"), op("MaxPool", "s", "y", **HALVES)],
        (1, 4, 8, 8), weights(w1=(4, 4, 1, 1), w2=(4, 4, 1, 1), w3=(4, 4, 3, 3)),
    ),
    "split, convolved, joined (C2f)": (
        [op("Conv", "x w0", "t"), op("Sigmoid", "t", "u"), op("Mul", "t u", "a"), op("Split", "a two", "l r", axis=1),
         op("Conv", "r w1", "b", **PAD), op("Relu", "b", "b1"), op("Conv", "b1 w2", "c", **PAD), op("Add", "r c", "d"),
         op("Concat", "l r d", "e", axis=1), op("Conv", "e w3", "y")],
        (1, 4, 6, 6), {"two": ints(2, 2), **weights(w0=(4, 4, 1, 1), w1=(2, 2, 3, 3), w2=(2, 2, 3, 3), w3=(4, 6, 1, 1))},
    ),
    "pools in series (SPPF)": (
        [op("Conv", "x w0", "a"), op("Sigmoid", "a", "u"), op("Mul", "a u", "b"),
         *(op("MaxPool", i, o, kernel_shape=[5, 5], pads=[2] * 4) for i, o in ("bp", "pq", "qr")),
         op("Concat", "b p q r", "c", axis=1), op("Conv", "c w1", "y")],
        (1, 4, 4, 4), weights(w0=(2, 4, 1, 1), w1=(4, 8, 1, 1)),
    ),
    "squeezed and excited": (
        [op("Conv", "x w0", "a", group=4, **PAD), op("HardSwish", "a", "b"), op("GlobalAveragePool", "b", "g"),
         op("Conv", "g w1", "s"), op("Relu", "s", "r"), op("Conv", "r w2", "t"), op("HardSigmoid", "t", "h"),
         op("Mul", "b h", "m"), op("Conv", "m w3", "y")],
        (1, 4, 4, 4), weights(w0=(4, 1, 3, 3), w1=(2, 4, 1, 1), w2=(4, 2, 1, 1), w3=(6, 4, 1, 1)),
    ),
    "skip over pooling and transposed convolution": (
        [op("Conv", "x w0", "a", **PAD), op("Relu", "a", "r"), op("MaxPool", "r", "p", **HALVES),
         op("Conv", "p w1", "b", **PAD), op("ConvTranspose", "b w2", "u", strides=[2, 2]),
         op("Concat", "r u", "c", axis=1), op("Conv", "c w3", "y", **PAD)],
        (1, 2, 8, 8), weights(w0=(2, 2, 3, 3), w1=(4, 2, 3, 3), w2=(4, 2, 2, 2), w3=(2, 4, 3, 3)),
    ),
    "upsampled and joined": (
        [op("Conv", "x w0", "a", strides=[2, 2], **PAD), op("Conv", "a w1", "b", strides=[2, 2], **PAD),
         op("Resize", "b none twice", "u", **DOUBLED), op("Concat", "u a", "c", axis=1), op("Conv", "c w2", "y")],
        (1, 2, 8, 8), {**SCALES, **weights(w0=(2, 2, 3, 3), w1=(4, 2, 3, 3), w2=(4, 6, 1, 1))},
    ),
    "upsampled, convolved, pooled": (
        [op("Resize", "x none twice", "u", **DOUBLED), op("Conv", "u w0", "a", **PAD), op("Relu", "a", "r"),
         op("Conv", "r w1", "b", **PAD), op("Add", "r b", "s"), op("MaxPool", "s", "y", **HALVES)],
        (1, 2, 4, 4), {**SCALES, **weights(w0=(2, 2, 3, 3), w1=(2, 2, 3, 3))},
    ),
    "a pyramid of features": (
        [op("Conv", "x w0", "a", strides=[2, 2], **PAD), op("Relu", "a", "r"), op("Conv", "r w1", "b", strides=[2, 2], **PAD),
         op("Conv", "b w2", "p"), op("Conv", "r w3", "q"), op("Resize", "p none twice", "u", **DOUBLED),
         op("Add", "q u", "t"), op("Conv", "t w4", "o", **PAD), op("MaxPool", "o", "y", **HALVES)],
        (1, 2, 8, 8),
        {**SCALES, **weights(w0=(2, 2, 3, 3), w1=(2, 2, 3, 3), w2=(2, 2, 1, 1), w3=(2, 2, 1, 1), w4=(2, 2, 3, 3))},
    ),
    "dense": (
        [op("Conv", "x w0", "a", **PAD), op("Relu", "a", "r"), op("Concat", "x r", "c", axis=1),
         op("Conv", "c w1", "b", **PAD), op("Concat", "x r b", "d", axis=1), op("Conv", "d w2", "e"),
         op("AveragePool", "e", "y", **HALVES)],
        (1, 2, 6, 6), weights(w0=(2, 2, 3, 3), w1=(2, 4, 3, 3), w2=(2, 6, 1, 1)),
    ),
    "branches joined and pooled": (
        [op("Conv", "x w0", "a"), op("Conv", "x w1", "b", **PAD), op("MaxPool", "x", "d", kernel_shape=[3, 3], **PAD),
         op("Concat", "a b d", "e", axis=1), op("MaxPool", "e", "y", **HALVES)],
        (1, 2, 6, 6), weights(w0=(2, 2, 1, 1), w1=(2, 2, 3, 3)),
    ),
    "windows of attention": (
        [op("MatMul", "x w0", "a"), *windows("a", "d"), op("MatMul", "d wq", "q"),
         op("Transpose", "d", "k", perm=[0, 2, 1]), op("MatMul", "q k", "s"), op("Softmax", "s", "p"),
         op("MatMul", "p d", "o"), op("Reshape", "o back", "e"), op("Transpose", "e", "f", perm=[0, 1, 3, 2, 4, 5]),
         op("Reshape", "f out", "g"), op("Add", "a g", "y")],
        (1, 8, 8, 4), {**WINDOWS, **weights(w0=(4, 4), wq=(4, 4))},
    ),
    "shifted windows": (
        [op("MatMul", "x w0", "a"), op("Slice", "a two eight one", "h1"), op("Slice", "a nil two one", "h0"),
         op("Concat", "h1 h0", "h", axis=1), *windows("h", "d"), op("MatMul", "d wq", "y")],
        (1, 8, 8, 4), {**WINDOWS, "nil": ints(0), "one": ints(1), "two": ints(2), "eight": ints(8), **weights(w0=(4, 4), wq=(4, 4))},
    ),
    "every second place as channels (Focus)": (
        [*quarters("x"), op("Conv", "c w0", "y", **PAD)], (1, 3, 8, 8), {**QUARTERS, **weights(w0=(4, 12, 3, 3))},
    ),
    "every second place of a convolution": (
        [op("Conv", "x w0", "a", **PAD), *quarters("a"), op("Conv", "c w1", "y", **PAD)],
        (1, 3, 8, 8), {**QUARTERS, **weights(w0=(2, 3, 3, 3), w1=(4, 8, 3, 3))},
    ),
    "patches and a token": (
        [op("Conv", "x w0", "a", strides=[4, 4]), op("Reshape", "a shape", "b"), op("Transpose", "b", "c", perm=[0, 2, 1]),
         op("Concat", "token c", "d", axis=1), op("Add", "d places", "e"), op("ReduceSum", "e last", "f"),
         op("Sub", "e f", "g"), op("MatMul", "g w1", "y")],
        (1, 3, 8, 8),
        {"shape": ints(1, 8, 4), "last": ints(-1), **weights(w0=(8, 3, 4, 4), token=(1, 1, 8), places=(1, 5, 8), w1=(8, 8))},
    ),
    "shuffled channels": (
        [op("Split", "x two", "l r", axis=1), op("Conv", "r w0", "a"), op("Relu", "a", "b"),
         op("Conv", "b w1", "c", group=2, **PAD), op("Concat", "l c", "d", axis=1), op("Reshape", "d pairs", "e"),
         op("Transpose", "e", "f", perm=[0, 2, 1, 3, 4]), op("Reshape", "f shape", "g"), op("Split", "g two", "m n", axis=1),
         op("Conv", "n w2", "o"), op("Concat", "m o", "p", axis=1), op("Relu", "p", "y")],
        (1, 4, 6, 6),
        {"two": ints(2, 2), "pairs": ints(1, 2, 2, 6, 6), "shape": ints(1, 4, 6, 6),
         **weights(w0=(2, 2, 1, 1), w1=(2, 1, 3, 3), w2=(2, 2, 1, 1))},
    ),
    "pixels shuffled": (
        [op("Conv", "x w0", "a", **PAD), op("DepthToSpace", "a", "b", blocksize=2, mode="CRD"),
         op("Conv", "b w1", "c", **PAD), op("Add", "b c", "y")],
        (1, 2, 4, 4), weights(w0=(8, 2, 3, 3), w1=(2, 2, 3, 3)),
    ),
    "transposed convolution with a bias, convolved": (
        [op("Conv", "x w0", "a", **PAD), op("ConvTranspose", "a w1 b1", "b", strides=[2, 2], output_padding=[1, 1], **PAD),
         op("Relu", "b", "r"), op("Conv", "r w2", "y", **PAD)],
        (1, 2, 4, 4), weights(w0=(2, 2, 3, 3), w1=(2, 3, 3, 3), b1=(3,), w2=(2, 3, 3, 3)),
    ),
    "grouped heads": (
        [op("MatMul", "x wq", "q0"), op("Reshape", "q0 four", "q1"), op("Transpose", "q1", "q", perm=[0, 2, 1, 3]),
         op("MatMul", "x wk", "k0"), op("Reshape", "k0 pair", "k1"), op("Transpose", "k1", "k2", perm=[0, 2, 3, 1]),
         op("Unsqueeze", "k2 two", "k3"), op("Expand", "k3 wide", "k4"), op("Reshape", "k4 keys", "k"),
         op("MatMul", "q k", "s"), op("Softmax", "s", "p"), op("Transpose", "p", "t", perm=[0, 2, 1, 3]),
         op("Reshape", "t rows", "u"), op("MatMul", "u wo", "v"), op("Add", "x v", "y")],
        (1, 4, 8),
        {"four": ints(1, 4, 4, 2), "pair": ints(1, 4, 2, 2), "two": ints(2), "wide": ints(1, 2, 2, 2, 4),
         "keys": ints(1, 4, 2, 4), "rows": ints(1, 4, 16), **weights(wq=(8, 8), wk=(8, 4), wo=(16, 8))},
    ),
    "depthwise and pointwise": (
        [op("Conv", "x w0", "a", group=4, strides=[2, 2], **PAD), op("Clip", "a low high", "b"), op("Conv", "b w1", "d"),
         op("Conv", "d w2", "e", group=8, **PAD), op("Conv", "e w3", "f"), op("Add", "d f", "y")],
        (1, 4, 8, 8),
        {"low": np.float32(0), "high": np.float32(6), **weights(w0=(4, 1, 3, 3), w1=(8, 4, 1, 1), w2=(8, 1, 3, 3), w3=(8, 8, 1, 1))},
    ),
    "pools of two sizes, flat and joined": (
        [op("Conv", "x w0", "a", **PAD), op("AveragePool", "a", "p", **HALVES),
         op("AveragePool", "a", "q", kernel_shape=[4, 4], strides=[4, 4]), op("Flatten", "p", "f"), op("Flatten", "q", "g"),
         op("Concat", "f g", "h", axis=1), op("MatMul", "h w1", "y")],
        (1, 2, 8, 8), weights(w0=(2, 2, 3, 3), w1=(40, 5)),
    ),
    "a border that repeats values, then pooling": (
        [op("Conv", "x w0", "a", **PAD), op("Pad", "a border", "p", mode="reflect"), op("Conv", "p w1", "b"),
         op("Add", "a b", "c"), op("MaxPool", "c", "y", **HALVES)],
        (1, 2, 6, 6), {"border": ints(0, 0, 1, 1, 0, 0, 1, 1), **weights(w0=(2, 2, 3, 3), w1=(2, 2, 3, 3))},
    ),
}  # fmt: skip
"""Nodes, shape of the input x, and weights; the output is y."""
