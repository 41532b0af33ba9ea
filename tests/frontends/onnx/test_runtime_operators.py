"""Operators of ONNX Runtime have the values of the operators of ONNX that they stand for, by the reference evaluator.

ONNX Runtime 1.32 gave the values of einmap, to the last integer or 1e-6, for models of each of these kinds.
"""

import ml_dtypes
import numpy as np
import pytest
from onnx import helper
from tests.onnx_models import model, node, numbers, saved, values_of

from einmap.errors import SpecError
from einmap.frontends.onnx.read import from_onnx

RNG = np.random.default_rng(1)
K, N, BLOCK = 96, 4, 32
Q4 = RNG.integers(0, 16, (N, K)).astype(np.uint8)
Z4 = RNG.integers(0, 16, (N, 3)).astype(np.uint8)
SCALES = numbers(N, 3, seed=5)
TABLE = RNG.integers(0, 16, (5, 32)).astype(np.uint8)


def packed(rows, bits=4):
    """Integers in bytes along the last axis, the first in the lowest bits."""
    each = 8 // bits
    rows = np.pad(rows, [*[(0, 0)] * (rows.ndim - 1), (0, -rows.shape[-1] % each)])
    parts = rows.reshape(*rows.shape[:-1], -1, each).astype(np.int64) << np.arange(0, 8, bits)
    return parts.sum(axis=-1).astype(np.uint8)


def runtime(operator, inputs, output="y", **attributes):
    return node(operator, inputs, [output], domain="com.microsoft", **attributes)


def dequantised(names, to, **attributes):
    return node("DequantizeLinear", names, [to], **attributes)


def bytes_of(*shape):
    return RNG.integers(0, 256, shape).astype(np.uint8)


PARAMETERS = {
    "s": np.float32(0.013), "z": np.uint8(117), "t": np.float32(0.021), "u": np.uint8(90), "r": np.float32(0.0437),
    "o": np.uint8(110), "w": RNG.integers(-127, 128, (5, 8)).astype(np.int8),
    "sw": RNG.uniform(0.001, 0.01, 5).astype(np.float32), "zw": np.zeros(5, np.int8),
    "c": RNG.integers(-900, 900, 5).astype(np.int32), "f": numbers(5),
}  # fmt: skip
PARAMETERS["sc"] = (PARAMETERS["s"] * PARAMETERS["sw"]).astype(np.float32)
PRODUCT = [
    dequantised(["x", "s", "z"], "xd"), dequantised(["w", "sw", "zw"], "wd", axis=0),
    dequantised(["c", "sc"], "cd", axis=0), node("Gemm", ["xd", "wd", "cd"], ["g"], transB=1),
]  # fmt: skip
BLOCKS = {"q": Q4.astype(ml_dtypes.uint4), "zq": Z4.astype(ml_dtypes.uint4), "sq": SCALES}
KERNELS = {"k": numbers(4, 3, 3, 3), "b": numbers(4)}
CASES = {
    "weights of 4 bits, zero points of an odd number of blocks": (
        [runtime("MatMulNBits", ["x", "b", "sq", "zb"], K=K, N=N, block_size=BLOCK, bits=4)],
        {"b": packed(Q4).reshape(N, 3, 16), "zb": packed(Z4).reshape(-1), "sq": SCALES},
        [dequantised(["q", "sq", "zq"], "qd", axis=1, block_size=BLOCK), node("Transpose", ["qd"], ["qt"]),
         node("MatMul", ["x", "qt"], ["y"])],
        BLOCKS,
        {"x": numbers(2, 3, K)},
        ({"x": 32, "b": 4, "zb": 4, "sq": 32, "y": 32}, 6 * K * N),
    ),
    "weights of 4 bits around 8, columns in order, a bias": (
        [runtime("MatMulNBits", ["x", "b", "sq", "", "order", "f"], K=K, N=N, block_size=BLOCK, bits=4)],
        {"b": packed(Q4).reshape(N, 3, 16), "sq": SCALES.reshape(-1), "order": np.arange(K, dtype=np.int32) // BLOCK,
         "f": numbers(N)},
        [dequantised(["q", "sq", "zq"], "qd", axis=1, block_size=BLOCK), node("Transpose", ["qd"], ["qt"]),
         node("MatMul", ["x", "qt"], ["m"]), node("Add", ["m", "f"], ["y"])],
        BLOCKS | {"zq": np.full((N, 3), 8, ml_dtypes.uint4), "f": numbers(N)},
        {"x": numbers(3, K)},
        ({"x": 32, "b": 4, "sq": 32, "y": 32, "f": 32, "y_2": 32}, 3 * K * N),
    ),
    "weights of 2 bits": (
        [runtime("MatMulNBits", ["x", "b", "sq"], K=K, N=N, block_size=BLOCK, bits=2)],
        {"b": packed(Q4 % 4, 2).reshape(N, 3, 8), "sq": SCALES},
        [dequantised(["q", "sq", "zq"], "qd", axis=1, block_size=BLOCK), node("Transpose", ["qd"], ["qt"]),
         node("MatMul", ["x", "qt"], ["y"])],
        BLOCKS | {"q": (Q4 % 4).astype(ml_dtypes.uint4), "zq": np.full((N, 3), 2, ml_dtypes.uint4)},
        {"x": numbers(3, K)},
        ({"x": 32, "b": 2, "sq": 32, "y": 32}, 3 * K * N),
    ),
    "rows of a table of 4 bits": (
        [runtime("GatherBlockQuantized", ["tb", "x", "st"], gather_axis=0, quantize_axis=1, block_size=16, bits=4)],
        {"tb": packed(TABLE), "st": numbers(5, 2)},
        [dequantised(["tq", "st", "zt"], "td", axis=1, block_size=16), node("Gather", ["td", "x"], ["y"])],
        {"tq": TABLE.astype(ml_dtypes.uint4), "st": numbers(5, 2), "zt": np.full((5, 2), 8, ml_dtypes.uint4)},
        {"x": np.array([[1, 4], [0, 2]])},
        ({"tb": 4, "x": 64, "st": 32, "y": 32}, 0),
    ),
    "a convolution, what is added, and an activation": (
        [runtime("FusedConv", ["x", "k", "b", "x2"], activation="LeakyRelu", activation_params=[0.2], pads=[1] * 4)],
        KERNELS,
        [node("Conv", ["x", "k", "b"], ["c"], pads=[1] * 4), node("Add", ["c", "x2"], ["a"]),
         node("LeakyRelu", ["a"], ["y"], alpha=0.2)],
        KERNELS,
        {"x": numbers(1, 3, 5, 5), "x2": numbers(1, 4, 5, 5)},
        ({"x": 32, "k": 32, "y_sum": 32, "b": 32, "x2": 32, "y": 32}, 4 * 3 * 9 * 25),
    ),
    "a product and an activation": (
        [runtime("FusedGemm", ["x", "v"], activation="HardSigmoid", activation_alpha=0.3, activation_beta=0.4)],
        {"v": numbers(8, 4)},
        [node("MatMul", ["x", "v"], ["m"]), node("HardSigmoid", ["m"], ["y"], alpha=0.3, beta=0.4)],
        {"v": numbers(8, 4)},
        {"x": numbers(3, 8)},
        ({"x": 32, "v": 32, "y_2": 32, "y": 32}, 96),
    ),
    "a sum of integers": (
        [runtime("QLinearAdd", ["x", "s", "z", "x2", "t", "u", "r", "o"])],
        PARAMETERS,
        [dequantised(["x", "s", "z"], "a"), dequantised(["x2", "t", "u"], "b"), node("Add", ["a", "b"], ["c"]),
         node("QuantizeLinear", ["c", "r", "o"], ["y"])],
        PARAMETERS,
        {"x": bytes_of(2, 3, 4), "x2": bytes_of(3, 4)},
        ({"x": 8, "x2": 8, "y": 8}, 0),
    ),
    "a mean of integers": (
        [runtime("QLinearGlobalAveragePool", ["x", "s", "z", "t", "u"])],
        PARAMETERS,
        [dequantised(["x", "s", "z"], "a"), node("GlobalAveragePool", ["a"], ["b"]),
         node("QuantizeLinear", ["b", "t", "u"], ["y"])],
        PARAMETERS,
        {"x": bytes_of(1, 3, 4, 4)},
        ({"x": 8, "y_sum": 32, "y": 8}, 0),
    ),
    "a product of integers": (
        [runtime("QGemm", ["x", "s", "z", "w", "sw", "zw", "c", "t", "u"], transB=1)],
        PARAMETERS,
        [*PRODUCT, node("QuantizeLinear", ["g", "t", "u"], ["y"])],
        PARAMETERS,
        {"x": bytes_of(3, 8)},
        ({"x": 8, "w": 8, "y_sum": 32, "c": 32, "sw": 32, "y": 8}, 120),
    ),
    "a product of integers to fractions": (
        [node("Transpose", ["w"], ["v"]),
         runtime("MatMulIntegerToFloat", ["x", "v", "s", "sw", "z", "zw", "f"])],
        PARAMETERS,
        [*PRODUCT[:2], node("Gemm", ["xd", "wd", "f"], ["y"], transB=1)],
        PARAMETERS,
        {"x": bytes_of(3, 8)},
        ({"x": 8, "w": 8, "y_sum": 32, "sw": 32, "f": 32, "y": 32}, 120),
    ),
    "a product of what is rounded as it comes": (
        [node("Transpose", ["w"], ["v"]), runtime("DynamicQuantizeMatMul", ["x", "v", "sw", "zw", "f"])],
        PARAMETERS,
        [node("DynamicQuantizeLinear", ["x"], ["xq", "xs", "xz"]), dequantised(["xq", "xs", "xz"], "xd"), PRODUCT[1],
         node("Gemm", ["xd", "wd", "f"], ["y"], transB=1)],
        PARAMETERS,
        {"x": numbers(3, 8)},
        ({"x": 32, "y_min": 32, "y_max": 32, "y_scale": 32, "y_zero": 8, "y_sum_input": 8, "w": 8, "y_sum": 32,
          "y_part_2": 32, "sw": 32, "f": 32, "y": 32}, 120),
    ),
    "bytes side by side": (
        [runtime("QLinearConcat", ["r", "o", "x", "s", "z", "x2", "t", "u"], axis=1)],
        PARAMETERS,
        [dequantised(["x", "s", "z"], "a"), dequantised(["x2", "t", "u"], "b"),
         node("Concat", ["a", "b"], ["c"], axis=1), node("QuantizeLinear", ["c", "r", "o"], ["y"])],
        PARAMETERS,
        {"x": bytes_of(2, 3, 4), "x2": bytes_of(2, 2, 4)},
        ({"x": 8, "y_part": 8, "x2": 8, "y_part_2": 8, "y": 8}, 0),
    ),
}  # fmt: skip


def built(nodes, inputs, weights):
    used = {name: array for name, array in weights.items() if any(name in n.input for n in nodes)}
    made = model(nodes, inputs, used)
    made.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    return made, used


@pytest.mark.parametrize("case", CASES)
def test_values_bits_and_products_are_those_of_the_operators_that_it_stands_for(tmp_path, case):
    nodes, weights, equal, their_weights, inputs, (bits, products) = CASES[case]
    made, used = built(nodes, inputs, weights)
    found = from_onnx(saved(tmp_path, made))
    _, expected = values_of(*(built(equal, inputs, their_weights)[0], inputs, {}))
    np.testing.assert_allclose(found.run(inputs | used)["y"], expected["y"], rtol=1e-5, atol=1e-6)
    workload = found.spec.workload
    assert {name: workload.tensor_bits(name) / workload.tensor_size(name) for name in workload.tensors} == bits
    assert found.n_multiply_accumulates == products
    assert not found.barriers


def test_bytes_that_two_operators_read_are_one_tensor(tmp_path):
    nodes = [
        runtime("GatherBlockQuantized", ["t", "x", "s"], "e", gather_axis=0, quantize_axis=1, block_size=16, bits=4),
        node("Reshape", ["t", "shape"], ["head"]),
        runtime("MatMulNBits", ["e", "head", "s"], K=32, N=5, block_size=16, bits=4),
    ]
    weights = {"t": packed(TABLE), "s": numbers(5, 2), "shape": np.array([5, 2, 8])}
    made, _ = built(nodes, {"x": np.array([1, 3])}, weights)
    workload = from_onnx(saved(tmp_path, made)).spec.workload
    assert sum(workload.tensor_bits(name) for name in workload.tensors if workload.tensor_size(name) == 160) == 640


@pytest.mark.parametrize(
    ("attributes", "text"),
    [({"K": 0}, "must be positive"), ({"N": 5}, "does not hold"), ({"bits": 3}, "lie across bytes"),
     ({"weight_prepacked": 1}, "packed for one kind of device")],
)  # fmt: skip
def test_weights_that_do_not_fit_are_told(tmp_path, attributes, text):
    given = {"K": K, "N": N, "block_size": BLOCK, "bits": 4} | attributes
    weights = {"b": packed(Q4).reshape(N, 3, 16), "s": SCALES}
    made, _ = built([runtime("MatMulNBits", ["x", "b", "s"], **given)], {"x": (3, K)}, weights)
    with pytest.raises(SpecError, match=text):
        from_onnx(saved(tmp_path, made))
