#!/bin/bash
# ConvTranspose with auto_pad SAME_UPPER or SAME_LOWER and a kernel below the stride: ONNX's text says
# `output_shape[i] = input_shape[i] * strides[i]`, and onnx's reference evaluator (onnx 1.23.2) gives that, with zeros in
# front (upper) or behind (lower); ONNX Runtime 1.32.0 never adds to the output, so that its length is
# (n - 1) * stride + kernel. onnx's own shape inference says what ONNX Runtime gives, not what its evaluator does.
#
# Seen for (1 2 3), kernel (1), stride 2, SAME_UPPER:
#   ONNX Runtime         1 0 2 0 3
#   reference evaluator  0 1 0 2 0 3
#   shape inference      5
# Exit status 1 if that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "onnxruntime==1.32.0" "onnx==1.23.2"
"$folder/venv/bin/python" - <<'END'
import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

graph = helper.make_graph(
    [helper.make_node("ConvTranspose", ["x", "w"], ["y"], strides=[2], auto_pad="SAME_UPPER")],
    "g",
    [helper.make_tensor_value_info(name, TensorProto.FLOAT, (1, 1, size)) for name, size in (("x", 3), ("w", 1))],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
)
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)], ir_version=10)
given = {"x": np.array([[[1, 2, 3]]], np.float32), "w": np.ones((1, 1, 1), np.float32)}
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
runtime = session.run(None, given)[0].reshape(-1).tolist()
reference = ReferenceEvaluator(model).run(None, given)[0].reshape(-1).tolist()
inferred = onnx.shape_inference.infer_shapes(model).graph.output[0].type.tensor_type.shape.dim[2].dim_value
print("ONNX Runtime", runtime)
print("reference evaluator", reference)
print("shape inference", inferred)
same = (runtime, reference, inferred) == ([1, 0, 2, 0, 3], [0, 1, 0, 2, 0, 3], 5)
raise SystemExit(0 if same else 1)
END
