#!/bin/bash
# Resize with coordinate_transformation_mode=align_corners by `scales` whose result is rounded down: onnx's reference
# evaluator (onnx 1.23.2) divides by the length before it is rounded, less 1 (7 * 0.7 - 1 = 3.9), ONNX Runtime 1.32.0 by
# the length that the result has, less 1 (4 - 1 = 3), so that only there the last result is the last value.
#
# Seen for (0 1 2 3 4 5 6) by 0.7, linear:
#   ONNX Runtime         0 2 4 6
#   reference evaluator  0 1.538 3.077 4.615
# Exit status 1 if that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "onnxruntime==1.32.0" "onnx==1.23.2"
"$folder/venv/bin/python" - <<'END'
import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

x = np.arange(7, dtype=np.float32).reshape(1, 7)
graph = helper.make_graph(
    [helper.make_node("Resize", ["x", "", "s"], ["y"], mode="linear", coordinate_transformation_mode="align_corners")],
    "g",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 7))],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    [numpy_helper.from_array(np.array([1, 0.7], np.float32), "s")],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=9)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
runtime = session.run(None, {"x": x})[0].reshape(-1)
reference = ReferenceEvaluator(model).run(None, {"x": x})[0].reshape(-1)
print("ONNX Runtime", runtime)
print("reference evaluator", reference)
same = np.allclose(runtime, [0, 2, 4, 6]) and np.allclose(reference, np.arange(4) * 6 / 3.9, atol=1e-3)
raise SystemExit(0 if same else 1)
END
