#!/bin/bash
# ZigZag 3.9.1 (PyPI `zigzag-dse`) reads `kernel_shape`, `strides`, `dilations` and `pads` of an ONNX Conv as (width,
# height), where ONNX has (height, width), while the sizes of its input and output are read as ONNX has them. Where
# kernels or strides are not square, FX and FY are exchanged, and the input has the wrong number of values, without a
# word; operations stay right. ResNets, the usual example, have square kernels alone.
#
# Seen for an input of 4 channels, 10 rows and 8 columns, two filters of 3 rows and 1 column, an output of 8 x 8:
#   FX 3, FY 1; the input has 256 values (the convolution reads all 4 * 10 * 8 = 320); 1,536 operations
# Exit status 1 if that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "zigzag-dse==3.9.1" "six==1.17.0"
cd "$folder"
cat > mapping.yaml <<'END'
- name: default
  spatial_mapping: {D1: ["K, 2"]}
  memory_operand_links: {O: O, W: I2, I: I1}
END
venv/bin/python - <<'END'
from onnx import TensorProto, helper
from zigzag.parser.onnx.onnx_model_parser import ONNXModelParser

kernel = (3, 1)  # height, width
conv = helper.make_node("Conv", ["x", "w"], ["y"], name="conv", kernel_shape=kernel, strides=[1, 1], pads=[0] * 4)
graph = helper.make_graph(
    [conv],
    "graph",
    [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 4, 10, 8))],
    [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 2, 8, 8))],
    [helper.make_tensor("w", TensorProto.FLOAT, (2, 4, *kernel), [0.0] * 24)],
)
[layer] = ONNXModelParser(helper.make_model(graph), "mapping.yaml").run().topological_sort()
sizes = {str(dimension): size for dimension, size in layer.layer_dim_sizes.items()}
values = {str(operand): size for operand, size in layer.operand_size_elem.items()}
print(sizes, values, layer.total_mac_count)
seen = (sizes["FX"], sizes["FY"], values["I"], layer.total_mac_count)
raise SystemExit(0 if seen == (3, 1, 256, 1536) else 1)
END
