"""Quantised models: contractions read the integers, and all values are those of onnx's reference evaluator."""

import ml_dtypes
import numpy as np
import pytest
from tests.onnx_models import model, node, numbers, saved, values_of

from einmap.frontends.onnx.read import from_onnx

RNG = np.random.default_rng(0)


def integers(low, high, kind, *shape):
    return RNG.integers(low, high, shape).astype(kind)


def signed(*shape):
    return integers(-127, 128, np.int8, *shape)


def bits_of(spec):
    workload = spec.workload
    return {name: workload.tensor_bits(name) / workload.tensor_size(name) for name in workload.tensors}


def pair(x, y, scale="s", zero="z"):
    """What stands between two layers of a quantised model."""
    return [
        node("QuantizeLinear", [x, scale, zero], [f"{y}_q"]),
        node("DequantizeLinear", [f"{y}_q", scale, zero], [y]),
    ]


def weight(axis=None, names=("w", "sw"), to="wd", **attributes):
    return node("DequantizeLinear", [*names], [to], **({} if axis is None else {"axis": axis}), **attributes)


def dequantised_bias():
    return weight(0, ("b", "sb"), "bd")


ACTIVATIONS = {
    "s": np.float32(0.013), "z": np.uint8(117), "s2": np.float32(0.021), "z2": np.uint8(130),
    "neg": np.float32(-0.5), "sw": np.float32(0.0043),
}  # fmt: skip
BY_CHANNEL = RNG.uniform(0.001, 0.01, 4).astype(np.float32)
IMAGE = {"x": (1, 4, 6, 6)}
KERNEL = signed(4, 4, 3, 3)
PADS = {"pads": [1, 1, 1, 1]}
CASES = {
    "conv with padding, scales by channel, an integer bias": (
        [*pair("x", "xd"), weight(0), dequantised_bias(),
         node("Conv", ["xd", "wd", "bd"], ["c"], **PADS), node("Relu", ["c"], ["r"]), *pair("r", "y", "s2", "z2")],
        IMAGE,
        {"w": KERNEL, "sw": BY_CHANNEL, "b": integers(-900, 900, np.int32, 4),
         "sb": (ACTIVATIONS["s"] * BY_CHANNEL).astype(np.float32)},
        {"x": 32, "c_sum_input": 8, "w": 8, "c_sum": 32, "b": 32, "sw": 32, "y": 32},
    ),
    "a bias of another scale than the sums": (
        [*pair("x", "xd"), weight(), node("DequantizeLinear", ["b", "sb"], ["bd"]), node("Gemm", ["xd", "wd", "bd"], ["y"])],
        {"x": (3, 4)},
        {"w": signed(4, 5), "b": integers(-900, 900, np.int32, 5), "sb": np.float32(0.01)},
        {"x": 32, "y_sum_input": 8, "w": 8, "y_sum": 32, "b": 32, "y": 32},
    ),
    "depthwise conv": (
        [*pair("x", "xd"), weight(0), node("Conv", ["xd", "wd"], ["c"], group=4, **PADS), *pair("c", "y", "s2", "z2")],
        IMAGE,
        {"w": signed(4, 1, 3, 3), "sw": BY_CHANNEL},
        {"x": 32, "c_sum_input": 8, "w": 8, "c_sum": 32, "sw": 32, "y": 32},
    ),
    "zero points of weights": (
        [*pair("x", "xd"), weight(0, ("w", "sw", "zw")), node("Conv", ["xd", "wd"], ["y"], group=2, **PADS)],
        IMAGE,
        {"w": signed(4, 2, 3, 3), "sw": BY_CHANNEL, "zw": signed(4)},
        {"x": 32, "y_sum_input": 8, "w": 8, "zw": 8, "y_sum": 32, "sw": 32, "y": 32},
    ),
    "a transposed conv": (
        [*pair("x", "xd"), weight(1), node("ConvTranspose", ["xd", "wd"], ["y"], strides=[2, 2])],
        IMAGE,
        {"w": signed(4, 4, 2, 2), "sw": BY_CHANNEL},
        {"x": 32, "y_sum_input": 8, "w": 8, "y_sum": 32, "sw": 32, "y": 32},
    ),
    "a residual": (
        [*pair("x", "xd"), weight(), node("Conv", ["xd", "wd"], ["c"], **PADS), *pair("c", "cd", "s2", "z2"),
         node("Add", ["cd", "xd"], ["a"]), node("Relu", ["a"], ["r"]), *pair("r", "y", "s2", "z2")],
        IMAGE,
        {"w": KERNEL},
        {"x": 32, "xd": 8, "w": 8, "c_sum": 32, "y": 32},
    ),
    "a residual of two convolutions, which are written before they are added": (
        [*pair("x", "xd"), weight(0), dequantised_bias(), node("Conv", ["xd", "wd", "bd"], ["c"], **PADS),
         node("Conv", ["xd", "wd", "bd"], ["d"], **PADS), *pair("c", "cd", "s2", "z2"), *pair("d", "dd", "s2", "z2"),
         node("Add", ["cd", "dd"], ["a"]), node("Relu", ["a"], ["r"]), *pair("r", "y", "s2", "z2")],
        IMAGE,
        {"w": KERNEL, "sw": BY_CHANNEL, "b": integers(-900, 900, np.int32, 4),
         "sb": (ACTIVATIONS["s"] * BY_CHANNEL).astype(np.float32)},
        {"x": 32, "xd": 8, "w": 8, "c_sum": 32, "d_sum": 32, "b": 32, "sw": 32, "a_part": 8, "a_part_2": 8, "y": 32},
    ),
    "a pair for each reader": (
        [node("QuantizeLinear", ["x", "s", "z"], ["q"]), node("DequantizeLinear", ["q", "s", "z"], ["a"]),
         node("DequantizeLinear", ["q", "s", "z"], ["b"]), weight(), node("Conv", ["a", "wd"], ["c"], **PADS),
         node("Add", ["c", "b"], ["y"])],
        IMAGE,
        {"w": KERNEL},
        {"x": 32, "q": 8, "w": 8, "c_sum": 32, "y": 32},
    ),
    "maxima that are not rounded again": (
        [*pair("x", "xd"), node("MaxPool", ["xd"], ["p"], kernel_shape=[3, 3], **PADS), *pair("p", "pd"), weight(),
         node("Conv", ["pd", "wd"], ["y"])],
        IMAGE,
        {"w": KERNEL},
        {"x": 32, "p_input": 8, "p": 8, "w": 8, "y_sum": 32, "y": 32},
    ),
    "maxima where a scale turns the order": (
        [node("DequantizeLinear", ["x", "neg"], ["xd"]), node("MaxPool", ["xd"], ["y"], kernel_shape=[2, 2])],
        {"x": signed(1, 2, 4, 4)},
        {},
        {"x": 8, "y_input": 32, "y": 32},
    ),
    "means": (
        [*pair("x", "xd"), node("AveragePool", ["xd"], ["p"], kernel_shape=[3, 3], **PADS), *pair("p", "pd"),
         node("GlobalAveragePool", ["pd"], ["g"]), *pair("g", "y")],
        IMAGE,
        {},
        {"x": 32, "p_sum_input": 8, "p_sum": 32, "p_constant": 32, "g_sum": 32, "y": 32},
    ),
    "changes of layout": (
        [*pair("x", "xd"), node("Transpose", ["xd"], ["t"], perm=[0, 2, 1]), node("Reshape", ["t", "shape"], ["r"]),
         *pair("r", "rd"), weight(), node("MatMul", ["rd", "wd"], ["y"])],
        {"x": (2, 4, 6)},
        {"shape": np.array([2, 8, 3]), "w": signed(3, 5)},
        {"x": 32, "r_digits": 8, "r_layout": 8, "w": 8, "y_sum": 32, "y": 32},
    ),
    "a border of zeros": (
        [*pair("x", "xd"), node("Pad", ["xd", "border"], ["p"]), *pair("p", "pd"), weight(),
         node("Conv", ["pd", "wd"], ["y"])],
        IMAGE,
        {"border": np.array([0, 0, 1, 1, 0, 0, 1, 1]), "w": KERNEL},
        {"x": 32, "p": 8, "w": 8, "y_sum": 32, "y": 32},
    ),
    "concatenated channels": (
        [*pair("x", "xd"), *pair("v", "vd"), node("Concat", ["xd", "vd"], ["c"], axis=1), *pair("c", "cd"), weight(0),
         node("Conv", ["cd", "wd"], ["y"], **PADS)],
        {"x": (1, 2, 5, 5), "v": (1, 2, 5, 5)},
        {"w": KERNEL, "sw": BY_CHANNEL},
        {"x": 32, "y_sum_1_sum_input": 8, "w": 8, "y_sum_1_sum": 32, "v": 32, "y_sum_2_sum_input": 8, "y_sum_2_sum": 32,
         "sw": 32, "y": 32},
    ),
    "rows of a table of bytes": (
        [weight(names=("w", "sw")), node("Gather", ["wd", "x"], ["e"]), node("MatMul", ["e", "v"], ["y"])],
        {"x": np.array([[1, 3], [0, 2]])},
        {"w": signed(5, 8), "v": numbers(8, 3)},
        {"w": 8, "x": 64, "e_2": 8, "v": 32, "y_sum": 32, "y": 32},
    ),
    "bytes that come in, a product without padding": (
        [node("DequantizeLinear", ["x", "s", "z"], ["xd"]), weight(1, ("w", "sw", "zw")),
         node("MatMul", ["xd", "wd"], ["y"])],
        {"x": integers(0, 256, np.uint8, 3, 6)},
        {"w": signed(6, 4), "sw": BY_CHANNEL, "zw": signed(4)},
        {"x": 8, "w": 8, "zw": 8, "y_sum": 32, "sw": 32, "y": 32},
    ),
    "weights alone, by blocks of what is summed": (
        [weight(0, block_size=4), node("MatMul", ["x", "wd"], ["y"])],
        {"x": (3, 16)},
        {"w": integers(-8, 8, ml_dtypes.int4, 16, 6), "sw": numbers(4, 6)},
        {"x": 32, "w": 4, "sw": 32, "y": 32},
    ),
    "blocks with zero points of a transposed weight, of integers": (
        [*pair("x", "xd"), weight(1, ("w", "sw", "zw"), block_size=4), node("Transpose", ["wd"], ["wt"]),
         node("MatMul", ["xd", "wt"], ["y"])],
        {"x": (3, 16)},
        {"w": integers(0, 16, ml_dtypes.uint4, 6, 16), "sw": numbers(6, 4),
         "zw": integers(0, 16, ml_dtypes.uint4, 6, 4)},
        {"x": 32, "y_sum_input": 8, "w": 4, "zw": 4, "sw": 32, "y_sum": 32, "y": 32},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_contractions_read_integers_and_values_are_those_of_the_reference(tmp_path, case):
    nodes, inputs, weights, bits = CASES[case]
    used = {name: a for name, a in (ACTIVATIONS | weights).items() if any(name in n.input for n in nodes)}
    built = model(nodes, inputs, used)
    found = from_onnx(saved(tmp_path, built))
    values, expected = values_of(built, inputs, used)
    np.testing.assert_allclose(found.run(values)["y"], expected["y"], rtol=1e-5, atol=1e-6)
    assert bits_of(found.spec) == bits
    assert not found.barriers
