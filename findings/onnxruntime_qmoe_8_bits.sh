#!/usr/bin/env bash
# onnxruntime 1.32.0 on CPUs: `QMoE` with experts of 8 bits and scales by blocks (`block_size`) rounds activations to
# bytes, too: each block of them by its largest size over 127. With scales by row, or with 4 bits in either form, it has
# the values of the dequantised weights. Differences seen, as parts of the largest result:
#
#   4 bits, by row 1.5e-07; 4 bits, blocks of 16 1.6e-07; 8 bits, by row 1.3e-07; 8 bits, blocks of 16 0.0056,
#   and 2e-07 where the activations are rounded by blocks of 16
#
# Exit status 1 if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q onnxruntime==1.32.0 onnx==1.23.2
"$folder/venv/bin/python" - <<'PY'
import sys

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(0)
HIDDEN, INNER, EXPERTS = 32, 48, 4


def relative(bits, block):
    zero, each = 2 ** (bits - 1), 8 // bits
    weights, plain = {}, []
    for name, n, k in (("w1", INNER, HIDDEN), ("w2", HIDDEN, INNER)):
        numbers = rng.integers(0, 2**bits, (EXPERTS, n, k))
        scales = rng.uniform(-0.02, 0.02, (EXPERTS, n, k // block) if block else (EXPERTS, n)).astype(np.float32)
        parts = numbers.reshape(EXPERTS, n, k // each, each) << np.arange(0, 8, bits)
        weights[name], weights[f"s{name}"] = parts.sum(-1).astype(np.uint8), scales
        wide = np.repeat(scales, block, axis=2) if block else scales[..., None]
        plain.append((numbers - zero) * wide)
    x = rng.uniform(-1, 1, (1, HIDDEN)).astype(np.float32)
    router = np.array([[3.0, -2.0, 2.5, -2.0]], np.float32)
    how = {"block_size": block} if block else {}
    call = helper.make_node(
        "QMoE", ["x", "r", "w1", "sw1", "", "w2", "sw2", ""], ["y"], domain="com.microsoft", k=2,
        activation_type="silu", expert_weight_bits=bits, normalize_routing_weights=1, **how,
    )
    inputs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, a.shape) for n, a in (("x", x), ("r", router))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, x.shape)]
    graph = helper.make_graph([call], "g", inputs, outputs, [numpy_helper.from_array(a, n) for n, a in weights.items()])
    sets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=sets, ir_version=10)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (found,) = session.run(None, {"x": x, "r": router})

    def rounded(values):
        blocks = values.reshape(-1, 16)
        sizes = np.abs(blocks).max(1, keepdims=True) / 127
        return (np.round(blocks / sizes) * sizes).reshape(values.shape)

    def away(change):
        expected = 0
        for gate, expert in zip(gates, (0, 2)):
            inner = change(x) @ plain[0][expert].T
            inner = inner / (1 + np.exp(-inner))
            expected = expected + gate * (change(inner) @ plain[1][expert].T)
        return float(np.abs(found - expected).max() / np.abs(expected).max())

    gates = np.exp([3.0, 2.5]) / np.exp([3.0, 2.5]).sum()
    return away(lambda values: values), away(rounded)


seen = {(bits, block): relative(bits, block) for bits in (4, 8) for block in (0, 16)}
for (bits, block), (plain, rounded) in seen.items():
    form = f"blocks of {block}" if block else "scales by row"
    print(f"{bits} bits, {form}: {plain:.2g} of the largest result; {rounded:.2g} with rounded activations")
exact = [plain for form, (plain, _) in seen.items() if form != (8, 16)]
sys.exit(0 if max(exact) < 1e-5 and seen[8, 16][0] > 1e-3 and seen[8, 16][1] < 1e-5 else 1)
PY
