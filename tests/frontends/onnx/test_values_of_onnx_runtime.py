"""Values of imported operators are those of ONNX Runtime, where onnx's reference evaluator has none or others.

Values: ONNX Runtime 1.32.0 (CPU, graph optimisations disabled) on the inputs written here.
"""

import numpy as np
import pytest
from tests.onnx_models import model, node, saved

from einmap.frontends.onnx.read import from_onnx

SEVEN = np.arange(7, dtype=np.float32).reshape(1, 7)
TINY = np.array([[[1e-6, -2e-6, 4e-6]]], np.float32)
SKIP = np.array([[[0, 1e-6, 0]]], np.float32)
EIGHT = np.arange(8, dtype=np.float32).reshape(2, 2, 2)
MICROSOFT = {"domain": "com.microsoft"}


def resize(scale, opset=21, **attributes):
    operands = ["x", "", "s"] if opset > 10 else ["x", "s"]
    nodes = [node("Resize", operands, ["r"], **attributes), node("Neg", ["r"], ["y"])]
    return nodes, {"x": SEVEN}, {"s": np.array([1, scale], np.float32)}, opset


def one(operator, inputs, weights=None, opset=22, **attributes):
    return [node(operator, [*inputs, *(weights or {})], ["y"], **attributes)], inputs, weights or {}, opset


CASES = {
    "a transposed convolution of the same size whose kernel is below its stride": (
        one("ConvTranspose", {"x": np.array([[[1, 2, 3]]], np.float32)}, {"w": np.ones((1, 1, 2), np.float32)},
            strides=[3], auto_pad="SAME_UPPER"),
        [1, 1, 0, 2, 2, 0, 3, 3],
    ),
    "corners aligned by a scale whose result is rounded down": (
        resize(0.7, mode="linear", coordinate_transformation_mode="align_corners"), [0, -2, -4, -6],
    ),
    "a place between two values, which 32 bits decide": (resize(0.7), [0, -2, -3, -4]),
    "half pixels of TensorFlow": (
        resize(0.6, coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor"), [0, -2, -4, -5],
    ),
    "a scale by which ten values become seven": (
        ([node("Resize", ["x", "", "s"], ["r"]), node("Neg", ["r"], ["y"])], {"x": np.arange(10, dtype=np.float32)},
         {"s": np.array([0.7], np.float32)}, 21),
        [0, -2, -3, -4, -6, -7, -9],
    ),
    "values left out before opset 11": (resize(0.6, opset=10), [0, -2, -4, -5]),
    "a scale that adds nothing": (
        ([node("Resize", ["x", "", "s"], ["r"], mode="linear"), node("Neg", ["r"], ["y"])],
         {"x": np.array([1, 3], np.float32)}, {"s": np.array([1.3], np.float32)}, 21),
        [-1, -3],
    ),
    "factors whose batches are transposed": (
        one("FusedMatMul", {"a": EIGHT, "b": EIGHT % 3}, transBatchA=1, transBatchB=1, transB=1, **MICROSOFT),
        [1, 2, 5, 14, 4, 3, 12, 7],
    ),
    "a normalised sum without epsilon": (
        one("SkipLayerNormalization", {"x": TINY, "s": SKIP}, {"g": np.ones(3, np.float32)}, **MICROSOFT),
        [-0.145865, -1.02105, 1.16692],
    ),
    "a simply normalised sum without epsilon": (
        one("SkipSimplifiedLayerNormalization", {"x": TINY, "s": SKIP}, {"g": np.ones(3, np.float32)}, **MICROSOFT),
        [0.377964, -0.377964, 1.51186],
    ),
    "softplus far out": (one("Softplus", {"x": np.array([1000, -1000, 0], np.float32)}), [1000, 0, 0.693147]),
    "mish far out": (one("Mish", {"x": np.array([1000, -1000, 1], np.float32)}), [1000, 0, 0.865098]),
    "asinh far out": (one("Asinh", {"x": np.array([-np.inf, -1e8, 0], np.float32)}), [-np.inf, -19.1138, 0]),
    "a mean of integers": (one("ReduceMean", {"x": np.array([-7, 2, 1], np.int32)}, keepdims=0), -1),
    "a norm of integers": (one("ReduceL2", {"x": np.array([-7, 2, 1], np.int32)}, keepdims=0), 7),
    "powers of integers": (
        one("Pow", {"a": np.array([2, 3, 5], np.int32), "b": np.array([0.5, 1.5, -1], np.float32)}), [1, 5, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_onnx_runtime(tmp_path, case):
    (nodes, inputs, weights, opset), expected = CASES[case]
    found = from_onnx(saved(tmp_path, model(nodes, inputs, weights, opset=opset)), strict=True).run(
        {**inputs, **weights}
    )
    np.testing.assert_allclose(found["y"].reshape(-1), np.reshape(expected, -1), rtol=1e-5)


LAYERS = [
    ("RNN", ["Relu"], {"direction": "reverse"}, [0.125, 1.25, 0.0]),
    ("RNN", ["Relu"], {"activation_alpha": [0.5], "activation_beta": [0.25]}, [0.75, 0.875, 0.0]),
    ("RNN", ["Tanh"], {"direction": "reverse"}, [0.276558, 0.932097, -0.848284]),
    ("RNN", ["Tanh"], {"activation_alpha": [0.5], "activation_beta": [0.25]}, [0.635149, 0.731723, -0.924022]),
    ("RNN", ["Sigmoid"], {"direction": "reverse"}, [0.591769, 0.757432, 0.2227]),
    ("RNN", ["Sigmoid"], {"activation_alpha": [0.5], "activation_beta": [0.25]}, [0.679179, 0.713084, 0.167069]),
    ("RNN", ["Softsign"], {"direction": "reverse"}, [0.309298, 0.604396, -0.555556]),
    ("RNN", ["Softsign"], {"activation_alpha": [0.5], "activation_beta": [0.25]}, [0.428571, 0.508772, -0.6007]),
    ("RNN", ["Softplus"], {"direction": "reverse"}, [0.717071, 1.40542, 0.251929]),
    ("RNN", ["Softplus"], {"activation_alpha": [0.5], "activation_beta": [0.25]}, [1.13687, 1.09091, 0.153624]),
    ("RNN", ["Affine"], {"direction": "reverse"}, [0.0, 0.0, 0.0]),
    ("RNN", ["Affine"], {"activation_alpha": [0.5], "activation_beta": [0.25]}, [0.625, 0.71875, -0.554688]),
    ("RNN", ["LeakyRelu"], {"direction": "reverse"}, [0.121875, 1.25625, -0.0125]),
    ("RNN", ["LeakyRelu"], {"activation_alpha": [0.5], "activation_beta": [0.25]}, [0.75, 0.875, -0.84375]),
    ("RNN", ["ThresholdedRelu"], {"direction": "reverse"}, [0.125, 1.25, 0.0]),
    ("RNN", ["ThresholdedRelu"], {"activation_alpha": [0.5], "activation_beta": [0.25]}, [0.75, 0.875, 0.0]),
    ("RNN", ["ScaledTanh"], {"direction": "reverse"}, [0.0, 0.0, 0.0]),
    ("RNN", ["ScaledTanh"], {"activation_alpha": [0.5], "activation_beta": [0.25]}, [0.0926666, 0.146076, -0.159602]),
    ("RNN", ["HardSigmoid"], {"direction": "reverse"}, [0.5775, 0.725, 0.25]),
    ("RNN", ["HardSigmoid"], {"activation_alpha": [0.5], "activation_beta": [0.25]}, [0.625, 0.71875, 0.0]),
    ("RNN", ["Elu"], {"direction": "reverse"}, [-0.0519744, 1.60675, -0.713495]),
    ("RNN", ["Elu"], {"activation_alpha": [0.5], "activation_beta": [0.25]}, [0.75, 0.875, -0.407509]),
    (
        "LSTM",
        ["HardSigmoid", "LeakyRelu", "ScaledTanh", "Sigmoid", "Elu", "Affine"],
        {
            "direction": "bidirectional",
            "activation_alpha": [0.3, 0.1, 2.0, 0.6, 0.7],
            "activation_beta": [0.4, 0.5, 0.2],
        },
        [0.147241, 0.0996885, 0.033156, 0.312017, 0.0874776, 0.101522],
    ),
    (
        "GRU",
        ["HardSigmoid", "Elu", "Sigmoid", "Tanh"],
        {"direction": "bidirectional", "activation_alpha": [0.3, 0.5], "activation_beta": [0.4]},
        [-0.145663, 0.258322, 0.237962, 0.0246762, 0.556516, -0.528022],
    ),
]
"""Layers with one hidden value: activations, attributes, all states."""


@pytest.mark.parametrize(
    ("kind", "activations", "attributes", "expected"), LAYERS, ids=[f"{r[0]} {r[1][0]} {[*r[2]]}" for r in LAYERS]
)
def test_activations_of_recurrent_layers_are_those_of_onnx_runtime(tmp_path, kind, activations, attributes, expected):
    x = np.array([[[-1, 0.5]], [[-0.25, -2]], [[1, 0.5]]], np.float32)
    gates, directions = {"RNN": 1, "GRU": 3, "LSTM": 4}[kind], len(expected) // 3
    w = (np.arange(directions * gates * 2) % 5 - 2).reshape(directions, gates, 2).astype(np.float32) / 2
    r = (np.arange(directions * gates) % 3 - 1).reshape(directions, gates, 1).astype(np.float32) / 2
    nodes = [node(kind, ["x", "w", "r"], ["y"], hidden_size=1, activations=activations, **attributes)]
    found = from_onnx(saved(tmp_path, model(nodes, {"x": x}, {"w": w, "r": r})), strict=True).run(
        {"x": x, "w": w, "r": r}
    )
    np.testing.assert_allclose(found["y"].reshape(-1), expected, rtol=1e-5, atol=1e-6)
