"""Values of imported operators equal those of onnx's reference evaluator, on random inputs."""

import numpy as np
import pytest
from tests.onnx_models import model, node, numbers, saved, values_of

from einmap.frontends.onnx.read import from_onnx

W = numbers(4, 3, 3, 3, seed=10)
CASES = {
    "conv": ([node("Conv", ["x", "w", "b"], ["y"])], {"x": (2, 3, 6, 5)}, {"w": W, "b": numbers(4)}),
    "conv, padding and stride": (
        [node("Conv", ["x", "w"], ["y"], pads=[1, 0, 2, 1], strides=[2, 1], dilations=[1, 2])],
        {"x": (1, 3, 7, 8)},
        {"w": W},
    ),
    "conv, same padding": (
        [node("Conv", ["x", "w"], ["y"], auto_pad="SAME_LOWER", strides=[2, 2])], {"x": (1, 3, 6, 7)}, {"w": W},
    ),
    "conv of one dimension": (
        [node("Conv", ["x", "w"], ["y"], pads=[1, 1])], {"x": (2, 3, 9)}, {"w": numbers(4, 3, 3)},
    ),
    "conv of three dimensions": (
        [node("Conv", ["x", "w"], ["y"])], {"x": (1, 2, 4, 5, 3)}, {"w": numbers(3, 2, 2, 2, 2)},
    ),
    "grouped conv": (
        [node("Conv", ["x", "w"], ["y"], group=2, pads=[1, 1, 1, 1])], {"x": (1, 4, 5, 5)}, {"w": numbers(6, 2, 3, 3)},
    ),
    "depthwise conv": (
        [node("Conv", ["x", "w"], ["y"], group=4, pads=[1, 1, 1, 1])], {"x": (1, 4, 5, 5)}, {"w": numbers(4, 1, 3, 3)},
    ),
    "conv on one pixel": (
        [node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])], {"x": (1, 3, 1, 4)}, {"w": W},
    ),
    "padded intermediates of a residual": (
        [
            node("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]),
            node("Relu", ["a"], ["r"]),
            node("Conv", ["r", "v"], ["c"], pads=[1, 1, 1, 1]),
            node("Add", ["c", "r"], ["y"]),
        ],
        {"x": (1, 3, 5, 5)},
        {"w": W, "v": numbers(4, 4, 3, 3, seed=3)},
    ),
    "transposed conv": (
        [node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[2, 2], pads=[1, 1, 0, 1], output_padding=[1, 0])],
        {"x": (1, 3, 4, 5)},
        {"w": numbers(3, 2, 3, 3), "b": numbers(2)},
    ),
    "transposed conv whose stride divides the kernel": (
        [node("ConvTranspose", ["x", "w"], ["z"], strides=[2, 2], pads=[1, 1, 1, 0]),
         node("ConvTranspose", ["z", "v"], ["u"], strides=[2, 3]),
         node("Conv", ["u", "k"], ["y"], pads=[1, 1, 1, 1])],
        {"x": (1, 3, 4, 5)},
        {"w": numbers(3, 2, 4, 2), "v": numbers(2, 3, 2, 3), "k": numbers(1, 3, 3, 3)},
    ),
    "transposed conv, one axis of either kind": (
        [node("ConvTranspose", ["x", "w"], ["y"], strides=[2, 2], pads=[1, 0, 0, 2], output_padding=[1, 1])],
        {"x": (1, 4, 4, 5)},
        {"w": numbers(4, 1, 4, 3)},
    ),
    "matmul with batches": ([node("MatMul", ["a", "b"], ["y"])], {"a": (2, 1, 3, 4), "b": (5, 4, 6)}, {}),
    "matmul with a vector": ([node("MatMul", ["a", "b"], ["y"])], {"a": (2, 3, 4), "b": (4,)}, {}),
    "vector with matmul": ([node("MatMul", ["a", "b"], ["y"])], {"a": (4,), "b": (2, 4, 3)}, {}),
    "gemm": (
        [node("Gemm", ["a", "b", "c"], ["y"], transA=1, transB=1, alpha=0.5, beta=2.0)],
        {"a": (4, 3)},
        {"b": numbers(5, 4), "c": numbers(5)},
    ),
    "einsum": ([node("Einsum", ["a", "b"], ["y"], equation="bij,bjK->bKi")], {"a": (2, 3, 4), "b": (2, 4, 5)}, {}),
    "einsum that sums": ([node("Einsum", ["a"], ["y"], equation="ij->j")], {"a": (3, 4)}, {}),
    "max pool": (
        [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])], {"x": (1, 2, 6, 5)}, {},
    ),
    "max pool of what is not negative": (
        [node("Relu", ["x"], ["r"]), node("MaxPool", ["r"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])],
        {"x": (1, 2, 6, 5)},
        {},
    ),
    "max pool that rounds up": (
        [node("MaxPool", ["x"], ["y"], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)], {"x": (1, 1, 6, 6)}, {},
    ),
    "average pool": (
        [node("AveragePool", ["x"], ["y"], kernel_shape=[3, 3], pads=[1, 1, 1, 1])], {"x": (1, 2, 5, 6)}, {},
    ),
    "average pool with its padding": (
        [node("AveragePool", ["x"], ["y"], kernel_shape=[2, 2], pads=[1, 1, 0, 0], count_include_pad=1)],
        {"x": (1, 2, 5, 6)},
        {},
    ),
    "global pools": (
        [node("GlobalAveragePool", ["x"], ["a"]), node("GlobalMaxPool", ["x"], ["b"]), node("Add", ["a", "b"], ["y"])],
        {"x": (2, 3, 4, 5)},
        {},
    ),
    "softmax": ([node("Softmax", ["x"], ["y"], axis=1)], {"x": (2, 5, 3)}, {}),
    "log softmax": ([node("LogSoftmax", ["x"], ["y"])], {"x": (2, 5)}, {}),
    "layer normalisation": (
        [node("LayerNormalization", ["x", "s", "b"], ["y"])], {"x": (2, 3, 8)}, {"s": numbers(8), "b": numbers(8, seed=1)},
    ),
    "batch normalisation": (
        [node("BatchNormalization", ["x", "s", "b", "m", "v"], ["y"])],
        {"x": (2, 3, 4, 4)},
        {"s": numbers(3), "b": numbers(3, seed=1), "m": numbers(3, seed=2), "v": np.abs(numbers(3, seed=3)) + 0.1},
    ),
    "instance normalisation": (
        [node("InstanceNormalization", ["x", "s", "b"], ["y"])], {"x": (2, 3, 4, 4)}, {"s": numbers(3), "b": numbers(3)},
    ),
    # the reference evaluator of onnx 1.23 normalises as many channels as there are batches
    "local response": ([node("LRN", ["x"], ["y"], size=3, alpha=0.5)], {"x": (5, 5, 3, 3)}, {}),
    "means": ([node("ReduceMean", ["x", "axes"], ["y"])], {"x": (2, 3, 4)}, {"axes": np.array([-1])}),
    "norm without axes": ([node("ReduceL2", ["x"], ["y"], keepdims=0)], {"x": (2, 3)}, {}),
    "log sum exp": ([node("ReduceLogSumExp", ["x", "axes"], ["y"])], {"x": (2, 3)}, {"axes": np.array([1])}),
    "sum over a broadcast": (
        [node("Expand", ["x", "s"], ["e"]), node("ReduceSum", ["e", "axes"], ["y"])],
        {"x": (2, 1)},
        {"s": np.array([2, 7]), "axes": np.array([1])},
    ),
    "reshape that cuts and joins": (
        [node("Reshape", ["x", "s"], ["r"]), node("Transpose", ["r"], ["t"], perm=[1, 2, 0]), node("Relu", ["t"], ["y"])],
        {"x": (4, 6)},
        {"s": np.array([2, 4, -1])},
    ),
    "reshape that no index says": (
        [node("Reshape", ["x", "s"], ["r"]), node("Tanh", ["r"], ["t"]), node("Relu", ["t"], ["y"])],
        {"x": (4, 6)},
        {"s": np.array([6, 4])},
    ),
    "transposed, then joined": (
        [node("Transpose", ["x"], ["t"]), node("Reshape", ["t", "s"], ["r"]), node("MatMul", ["r", "w"], ["y"])],
        {"x": (4, 6)},
        {"s": np.array([2, 12]), "w": numbers(12, 3)},
    ),
    "slices": (
        [node("Slice", ["x", "a", "b", "axes", "steps"], ["s"]), node("Add", ["s", "s"], ["y"])],
        {"x": (6, 9)},
        {"a": np.array([4, 1]), "b": np.array([-100, 8]), "axes": np.array([0, 1]), "steps": np.array([-2, 3])},
    ),
    "a slice across heads": (
        [
            node("Reshape", ["x", "s"], ["r"]),
            node("Transpose", ["r"], ["t"], perm=[0, 2, 1]),
            node("Reshape", ["t", "f"], ["j"]),
            node("Slice", ["j", "a", "b", "axes"], ["k"]),
            node("Exp", ["k"], ["y"]),
        ],
        {"x": (2, 12)},
        {"s": np.array([2, 3, 4]), "f": np.array([2, 12]), "a": np.array([2]), "b": np.array([9]), "axes": np.array([1])},
    ),
    "split": (
        [node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2), node("Mul", ["a", "b"], ["y"])], {"x": (3, 8)}, {},
    ),
    "space and depth": (
        [node("SpaceToDepth", ["x"], ["s"], blocksize=2), node("Relu", ["s"], ["r"]),
         node("DepthToSpace", ["r"], ["y"], blocksize=2, mode="CRD")],
        {"x": (1, 4, 4, 6)},
        {},
    ),
    "upsampled, then convolved": (
        [node("Resize", ["x", "", "f"], ["u"], mode="nearest"), node("Conv", ["u", "w"], ["y"], pads=[1, 1, 1, 1])],
        {"x": (1, 3, 3, 4)},
        {"f": np.array([1, 1, 2, 2], np.float32), "w": W},
    ),
    "upsampled by coordinates that repeat each value": (
        [node("Resize", ["x", "", "f"], ["u"], mode="nearest", coordinate_transformation_mode="pytorch_half_pixel",
              nearest_mode="ceil"),
         node("Resize", ["u", "", "f"], ["v"], mode="nearest", coordinate_transformation_mode="asymmetric"),
         node("Resize", ["v", "", "g"], ["r"], mode="nearest", nearest_mode="round_prefer_ceil"), node("Neg", ["r"], ["y"])],
        {"x": (3, 1)},
        {"f": np.array([1, 2], np.float32), "g": np.array([3, 2], np.float32)},
    ),
    "nothing is reduced, and the rest is done": (
        [node("Abs", ["x"], ["p"]),
         *(node(f"Reduce{kind}", ["p"], [kind], noop_with_empty_axes=1, keepdims=0)
           for kind in ("L2", "SumSquare", "LogSum", "LogSumExp", "Sum", "Mean", "Max")),
         node("ReduceL1", ["x", "none"], ["L1"], noop_with_empty_axes=1), node("ReduceL1", ["x"], ["every"]),
         node("Concat", ["L1", "L2", "SumSquare", "LogSum", "LogSumExp", "Sum", "Mean", "Max"], ["all"], axis=0),
         node("Add", ["all", "every"], ["y"])],
        {"x": (3, 4)},
        {"none": np.array([], np.int64)},
    ),
    "shapes that are computed": (
        [
            node("Shape", ["x"], ["s"]),
            node("Gather", ["s", "zero"], ["n"]),
            node("Unsqueeze", ["n", "axis"], ["n1"]),
            node("Concat", ["n1", "rest"], ["t"], axis=0),
            node("Reshape", ["x", "t"], ["r"]),
            node("Sigmoid", ["r"], ["y"]),
        ],
        {"x": (2, 3, 4)},
        {"zero": np.array(0), "axis": np.array([0]), "rest": np.array([-1])},
    ),
    "one row": (
        [node("Gather", ["x", "i"], ["g"], axis=1), node("Neg", ["g"], ["y"])], {"x": (2, 3, 4)}, {"i": np.array(-1)},
    ),
    "embedding": (
        [node("Gather", ["table", "ids"], ["e"]), node("MatMul", ["e", "w"], ["y"])],
        {"ids": np.array([[2, 0, 4]])},
        {"table": numbers(5, 4), "w": numbers(4, 3)},
    ),
    "rows of what is computed, at computed places": (
        [node("MatMul", ["x", "w"], ["t"]), node("Floor", ["f"], ["p"]), node("Cast", ["p"], ["i"], to=7),
         node("Gather", ["t", "i"], ["g"], axis=1), node("Exp", ["g"], ["y"])],
        {"x": (2, 5, 3), "f": np.array([[0.5, -1.5], [4.1, 3.9]], np.float32)},
        {"w": numbers(3, 4)},
    ),
    "uneven constant places": (
        [node("Relu", ["x"], ["r"]), node("Gather", ["r", "i"], ["y"], axis=1)], {"x": (2, 6)}, {"i": np.array([4, 0, -1, 0])},
    ),
    "elements": (
        [node("GatherElements", ["x", "i"], ["g"], axis=1), node("Neg", ["g"], ["y"])],
        {"x": (2, 5), "i": np.array([[0, 4, -2, 1], [1, 1, 1, 1]])},
        {},
    ),
    "parts of several axes": (
        [node("GatherND", ["x", "i"], ["g"]), node("MatMul", ["g", "w"], ["y"])],
        {"x": (3, 4, 5), "i": np.array([[[0, 1], [2, -1]], [[1, 1], [-3, 0]]])},
        {"w": numbers(5, 2)},
    ),
    "indices that are numbers as well": (
        [node("Gather", ["small", "ids"], ["a"]), node("Gather", ["large", "ids"], ["b"]), node("Cast", ["ids"], ["n"], to=1),
         node("Unsqueeze", ["n", "last"], ["m"]), node("Mul", ["a", "b"], ["c"]), node("Add", ["c", "m"], ["y"])],
        {"ids": np.array([[2, -1, 0]])},
        {"small": numbers(4, 3), "large": numbers(6, 3), "last": np.array([2])},
    ),
    "activations": (
        [node("LeakyRelu", ["x"], ["a"], alpha=0.2), node("Elu", ["a"], ["b"]), node("HardSwish", ["b"], ["c"]),
         node("Softplus", ["c"], ["d"]), node("Clip", ["d", "low"], ["e"]), node("Pow", ["e", "two"], ["y"])],
        {"x": (3, 5)},
        {"low": np.array(0.7, np.float32), "two": np.array(2, np.float32)},
    ),
    "functions": (
        [node("Erf", ["x"], ["a"]), node("Sin", ["a"], ["b"]), node("Cos", ["b"], ["c"]), node("Mul", ["c", "three"], ["d"]),
         node("Round", ["d"], ["e"]), node("Floor", ["d"], ["f"]), node("Ceil", ["x"], ["g"]), node("Sign", ["x"], ["h"]),
         node("Sum", ["d", "e", "f", "g", "h"], ["y"])],
        {"x": (3, 5)},
        {"three": np.array(3, np.float32)},
    ),
    "gelu as exporters write it": (
        [node("Div", ["x", "root"], ["a"]), node("Erf", ["a"], ["b"]), node("Add", ["b", "one"], ["c"]),
         node("Mul", ["x", "c"], ["d"]), node("Mul", ["d", "half"], ["y"])],
        {"x": (3, 5)},
        {"root": np.array(2**0.5, np.float32), "one": np.array(1, np.float32), "half": np.array(0.5, np.float32)},
    ),
    "choices": (
        [node("Less", ["x", "z"], ["l"]), node("GreaterOrEqual", ["x", "half"], ["g"]), node("Or", ["l", "g"], ["o"]),
         node("Not", ["o"], ["n"]), node("Where", ["n", "x", "w"], ["a"]), node("Cast", ["l"], ["c"], to=1),
         node("Add", ["a", "c"], ["y"])],
        {"x": (3, 5), "z": (5,)},
        {"half": np.array(0.5, np.float32), "w": numbers(3, 1)},
    ),
    "a mask that is minus infinity": (
        [node("Where", ["m", "x", "inf"], ["a"]), node("Softmax", ["a"], ["y"])],
        {"x": (4, 4)},
        {"m": np.tril(np.ones((4, 4), bool)), "inf": np.array(-np.inf, np.float32)},
    ),
    "cast to integers": (
        [node("Mul", ["x", "ten"], ["a"]), node("Cast", ["a"], ["b"], to=6), node("Cast", ["b"], ["y"], to=1)],
        {"x": (3, 5)},
        {"ten": np.array(10, np.float32)},
    ),
    "quantised and back": (
        [node("QuantizeLinear", ["x", "s", "z"], ["q"], axis=0), node("DequantizeLinear", ["q", "s", "z"], ["y"], axis=0)],
        {"x": (3, 5)},
        {"s": np.array([0.01, 0.02, 0.003], np.float32), "z": np.array([3, -4, 0], np.int8)},
    ),
    "matmul of integers": (
        [node("MatMulInteger", ["a", "b", "za", "zb"], ["i"]), node("Cast", ["i"], ["y"], to=1)],
        {"a": np.arange(12, dtype=np.uint8).reshape(3, 4)},
        {"b": np.arange(-10, 10, dtype=np.int8).reshape(4, 5), "za": np.array(7, np.uint8), "zb": np.array(2, np.int8)},
    ),
    "conv of integers": (
        [node("ConvInteger", ["x", "w", "zx"], ["i"], pads=[1, 1, 1, 1]), node("Cast", ["i"], ["y"], to=1)],
        {"x": np.arange(25, dtype=np.uint8).reshape(1, 1, 5, 5)},
        {"w": np.arange(18, dtype=np.uint8).reshape(2, 1, 3, 3), "zx": np.array(4, np.uint8)},
    ),
    "quantised matmul": (
        [node("QLinearMatMul", ["a", "sa", "za", "b", "sb", "zb", "sy", "zy"], ["q"]), node("Cast", ["q"], ["y"], to=1)],
        {"a": np.arange(12, dtype=np.uint8).reshape(3, 4)},
        {"b": np.arange(20, dtype=np.uint8).reshape(4, 5), "za": np.array(7, np.uint8), "zb": np.array(2, np.uint8),
         "zy": np.array(100, np.uint8), "sa": np.array(0.02, np.float32), "sb": np.array(0.03, np.float32),
         "sy": np.array(0.0101, np.float32)},
    ),
    "quantised conv": (
        [node("QLinearConv", ["x", "sx", "zx", "w", "sw", "zw", "sy", "zy", "b"], ["q"], pads=[1, 1, 1, 1]),
         node("Cast", ["q"], ["y"], to=1)],
        {"x": np.arange(50, dtype=np.uint8).reshape(1, 2, 5, 5)},
        {"w": np.arange(54, dtype=np.uint8).reshape(3, 2, 3, 3), "zx": np.array(20, np.uint8), "zw": np.array(25, np.uint8),
         "zy": np.array(100, np.uint8), "sx": np.array(0.02, np.float32),
         "sw": np.array(0.03, np.float32), "sy": np.array(0.0503, np.float32),
         "b": np.array([100, -50, 7], np.int32)},
    ),
    "padded by itself": (
        [node("Pad", ["x", "p", "", "axes"], ["a"]), node("Conv", ["a", "w"], ["y"], strides=[2, 2])],
        {"x": (1, 3, 5, 6)},
        {"p": np.array([1, 2, 0, 1]), "axes": np.array([2, -1]), "w": W},
    ),
    "sums of what is known": (
        [node("Expand", ["two", "s"], ["e"]), node("ReduceSum", ["e", "axes"], ["r"], keepdims=0), node("Exp", ["r"], ["x1"]),
         node("Sub", ["one", "two"], ["m"]), node("Mul", ["x", "m"], ["x2"]), node("Add", ["x1", "x2"], ["y"])],
        {"x": (3,)},
        {"two": np.array(2, np.float32), "one": np.array(1, np.float32), "s": np.array([3, 4]), "axes": np.array([1])},
    ),
    "padded, as an output": ([node("Pad", ["x", "p"], ["y"])], {"x": (2, 3)}, {"p": np.array([0, 1, 2, 2])}),
    "concatenated channels, convolved": (
        [node("Relu", ["a"], ["r"]), node("Concat", ["r", "b"], ["c"], axis=1), node("MaxPool", ["c"], ["p"], kernel_shape=[2, 2]),
         node("Conv", ["p", "w", "v"], ["y"], pads=[1, 1, 1, 1])],
        {"a": (1, 2, 6, 5), "b": (1, 3, 6, 5)},
        {"w": numbers(4, 5, 3, 3), "v": numbers(4)},
    ),
    "concatenated, normalised by channel": (
        [node("Concat", ["a", "b"], ["c"], axis=1), node("BatchNormalization", ["c", "s", "t", "m", "v"], ["n"]),
         node("GlobalAveragePool", ["n"], ["g"]), node("Flatten", ["g"], ["f"]), node("MatMul", ["f", "w"], ["y"])],
        {"a": (2, 2, 3, 4), "b": (2, 1, 3, 4)},
        {"s": numbers(3), "t": numbers(3, seed=1), "m": numbers(3, seed=2), "v": np.abs(numbers(3)) + 0.1,
         "w": numbers(3, 5)},
    ),
    "concatenated, as an output": ([node("Concat", ["a", "b", "a"], ["y"], axis=-1)], {"a": (2, 2), "b": (2, 3)}, {}),
    "concatenated, then reshaped": (
        [node("Concat", ["a", "b"], ["c"], axis=0), node("Reshape", ["c", "s"], ["r"]), node("Exp", ["r"], ["y"])],
        {"a": (2, 6), "b": (1, 6)},
        {"s": np.array([6, 3])},
    ),
    "concatenated, in a grouped conv": (
        [node("Concat", ["a", "b"], ["c"], axis=1), node("Conv", ["c", "w"], ["y"], group=2)],
        {"a": (1, 1, 4, 4), "b": (1, 3, 4, 4)},
        {"w": numbers(2, 2, 3, 3)},
    ),
    "keys and values of a cache": (
        [node("Concat", ["k0", "k"], ["ks"], axis=1), node("Concat", ["v0", "v"], ["vs"], axis=1),
         node("Transpose", ["ks"], ["kt"], perm=[0, 2, 1]), node("MatMul", ["q", "kt"], ["s"]),
         node("Add", ["s", "mask"], ["m"]), node("Softmax", ["m"], ["p"], axis=-1), node("MatMul", ["p", "vs"], ["y"])],
        {"q": (2, 1, 4), "k0": (2, 3, 4), "k": (2, 1, 4), "v0": (2, 3, 5), "v": (2, 1, 5), "mask": (1, 1, 4)},
        {},
    ),
    "concatenated twice": (
        [node("Concat", ["a", "b"], ["c"], axis=1), node("Concat", ["c", "a"], ["d"], axis=1),
         node("ReduceMax", ["d", "axes"], ["e"]), node("Sub", ["d", "e"], ["y"])],
        {"a": (2, 2), "b": (2, 3)},
        {"axes": np.array([0])},
    ),
    "rotary embedding": (
        [node("Slice", ["x", "h", "e", "axis"], ["x2"]), node("Slice", ["x", "o", "h", "axis"], ["x1"]),
         node("Neg", ["x2"], ["n"]), node("Concat", ["n", "x1"], ["r"], axis=-1), node("Mul", ["x", "cos"], ["a"]),
         node("Mul", ["r", "sin"], ["b"]), node("Add", ["a", "b"], ["y"])],
        {"x": (2, 3, 8)},
        {"h": np.array([4]), "e": np.array([8]), "o": np.array([0]), "axis": np.array([2]), "cos": numbers(3, 8),
         "sin": numbers(3, 8, seed=1)},
    ),
    "several operands": (
        [node("Max", ["a", "b", "c"], ["m"]), node("Mean", ["m", "a"], ["n"]), node("PRelu", ["n", "s"], ["y"])],
        {"a": (2, 3), "b": (3,), "c": (2, 1)},
        {"s": numbers(3)},
    ),
    "mask": (
        [node("Trilu", ["ones"], ["m"], upper=0), node("Sub", ["m", "one"], ["n"]), node("Mul", ["n", "big"], ["b"]),
         node("Add", ["x", "b"], ["y"])],
        {"x": (4, 4)},
        {"ones": np.ones((4, 4), np.float32), "one": np.array(1, np.float32), "big": np.array(1e4, np.float32)},
    ),
    "an output that is also read": (
        [node("Relu", ["x"], ["z"]), node("Transpose", ["z"], ["t"]), node("MatMul", ["z", "t"], ["y"])], {"x": (3, 4)}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values_equal_those_of_the_reference_evaluator(tmp_path, case):
    nodes, inputs, weights = CASES[case]
    built = model(nodes, inputs, weights)
    values, expected = values_of(built, inputs, weights)
    result = from_onnx(saved(tmp_path, built))
    found = result.run(values)
    assert result.barriers == ()
    assert found["y"].shape == expected["y"].shape
    np.testing.assert_allclose(found["y"], expected["y"], rtol=2e-5, atol=2e-5)


def attention(heads=2, size=8, tokens=6):
    """Self-attention with one product for queries, keys and values, as exporters write it."""
    shape = [1, tokens, 3, heads, size // heads]
    weights = {
        "w": numbers(size, 3 * size), "b": numbers(3 * size, seed=1), "shape": np.array(shape), "first": np.array([0]),
        "root": np.array(2, np.float32), "back": np.array([0, 0, -1]), "o": numbers(size, size, seed=2),
        "scale": numbers(size, seed=3), "shift": numbers(size, seed=4),
        "mask": np.where(np.tril(np.ones((tokens, tokens))), 0, -1e9).astype(np.float32)[None, None],
    }  # fmt: skip
    nodes = [
        node("MatMul", ["x", "w"], ["m"]), node("Add", ["m", "b"], ["p"]), node("Reshape", ["p", "shape"], ["r"]),
        node("Transpose", ["r"], ["t"], perm=[2, 0, 3, 1, 4]),
        node("Split", ["t"], ["q0", "k0", "v0"], axis=0, num_outputs=3),
        *(node("Squeeze", [f"{n}0", "first"], [n]) for n in "qkv"),
        node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]), node("MatMul", ["q", "kt"], ["s0"]),
        node("Div", ["s0", "root"], ["s1"]), node("Add", ["s1", "mask"], ["s2"]), node("Softmax", ["s2"], ["a"], axis=-1),
        node("MatMul", ["a", "v"], ["av"]), node("Transpose", ["av"], ["avt"], perm=[0, 2, 1, 3]),
        node("Reshape", ["avt", "back"], ["c"]), node("MatMul", ["c", "o"], ["z"]), node("Add", ["z", "x"], ["zx"]),
        node("LayerNormalization", ["zx", "scale", "shift"], ["y"]),
    ]  # fmt: skip
    return nodes, {"x": (1, tokens, size)}, weights


def test_an_attention_layer_has_the_values_and_the_products_of_the_model(tmp_path):
    nodes, inputs, weights = attention()
    built = model(nodes, inputs, weights)
    values, expected = values_of(built, inputs, weights)
    result = from_onnx(saved(tmp_path, built))
    np.testing.assert_allclose(result.run(values)["y"], expected["y"], rtol=1e-5, atol=1e-5)
    # projections 6 x 8 x 24 and 6 x 8 x 8; scores and their use, for two heads, 6 x 6 x 4 each
    assert result.n_multiply_accumulates == 6 * 8 * 24 + 6 * 8 * 8 + 2 * 2 * 6 * 6 * 4


def gram():
    return model([node("Transpose", ["x"], ["t"], perm=[1, 0]), node("MatMul", ["x", "t"], ["y"])], {"x": (5, 7)}, {})


def square():
    return model([node("MatMul", ["x", "x"], ["y"])], {"x": (5, 5)}, {})


def squares():
    return model([node("Einsum", ["x", "x"], ["y"], equation="ij,ij->i")], {"x": (5, 7)}, {})


def scores_of_one_product():
    nodes = [
        node("MatMul", ["x", "w"], ["p"]),
        node("Split", ["p", "parts"], ["q", "k"], axis=1),
        node("Transpose", ["k"], ["t"], perm=[1, 0]),
        node("MatMul", ["q", "t"], ["y"]),
    ]
    return model(nodes, {"x": (6, 3)}, {"w": numbers(3, 8), "parts": np.array([4, 4])})


@pytest.mark.parametrize(
    ("built", "expected", "products"),
    [
        (gram, lambda x: x @ x.T, 5 * 5 * 7),
        (square, lambda x: x @ x, 5 * 5 * 5),
        (squares, lambda x: (x * x).sum(1), 5 * 7),
        (scores_of_one_product, None, 6 * 3 * 8 + 6 * 6 * 4),
    ],
)
def test_a_contraction_of_a_tensor_with_itself_reads_a_copy_as_weight(tmp_path, built, expected, products):
    result = from_onnx(saved(tmp_path, built()))
    assert result.n_multiply_accumulates == products
    contraction = result.workload["einsums"][-1]["renames"]
    assert contraction["weight"] == f"{contraction['input']}_copy"
    if expected is not None:
        x = numbers(5, 5 if built is square else 7)
        np.testing.assert_allclose(result.run({"x": x})["y"], expected(x), rtol=1e-5)


def test_a_rotation_of_halves_is_one_view_and_no_movement(tmp_path):
    nodes, inputs, weights = CASES["rotary embedding"]
    workload = from_onnx(saved(tmp_path, model(nodes, inputs, weights))).spec.workload
    assert workload.producers.keys() == {"y_part", "y"}
    assert sum(einsum.n_computes for einsum in workload.einsums) == 2 * (2 * 3 * 8)


def test_a_convolution_over_concatenated_channels_has_the_products_of_the_whole(tmp_path):
    nodes, inputs, weights = CASES["concatenated channels, convolved"]
    result = from_onnx(saved(tmp_path, model(nodes, inputs, weights)))
    assert result.n_multiply_accumulates == 4 * 5 * 3 * 3 * 5 * 4


def test_heads_are_ranks_of_their_own_in_all_that_is_projected(tmp_path):
    nodes, inputs, weights = attention()
    workload = from_onnx(saved(tmp_path, model(nodes, inputs, weights))).spec.workload
    assert {len(index.terms) for e in workload.einsums for a in e.accesses for _, index in a.projection} <= {0, 1}
    sizes = {tensor: tuple(workload.tensor_shape(tensor).values()) for tensor in ("w", "m", "o")}
    assert sizes == {"w": (8, 3, 2, 4), "m": (6, 3, 2, 4), "o": (2, 4, 8)}
