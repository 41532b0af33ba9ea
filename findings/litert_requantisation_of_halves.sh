#!/bin/bash
# LiteRT (ai-edge-litert) 2.3.0: QUANTIZE from int8 to int8 of twice the scale rounds halves up, towards plus infinity,
# with its reference kernels and its optimised ones; QuantizeLinear of ONNX rounds halves to even.
#
#   integers of scale 0.1                 -5  -3  -1   1   3   5
#   QUANTIZE to scale 0.2, LiteRT         -2  -1   0   1   2   3
#   the same by ONNX (numpy.rint)         -2  -2   0   0   2   2
#
# So an int8 network that is rescaled by a power of two, where every other value is a half, differs from the same one
# in ONNX by a step in a quarter of its values, and always upwards. Exit status 1 if that changes.
set -euo pipefail
folder=$(mktemp -d); trap 'rm -rf "$folder"' EXIT
"${PYTHON:-python3.12}" -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q "ai-edge-litert==2.3.0" "numpy==2.4.6" "flatbuffers==25.12.19"
"$folder/venv/bin/python" - <<'END' 2>/dev/null
import sys

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as s
from ai_edge_litert.interpreter import Interpreter, OpResolverType


def tensor(name, scale):
    one = s.TensorT()
    one.name, one.shape, one.type, one.buffer, one.hasRank = name, [255], s.TensorType.INT8, 0, True
    one.quantization = s.QuantizationParametersT()
    one.quantization.scale, one.quantization.zeroPoint = np.array([scale], np.float32), np.array([0])
    return one


model, graph, code, operator = s.ModelT(), s.SubGraphT(), s.OperatorCodeT(), s.OperatorT()
code.builtinCode = code.deprecatedBuiltinCode = s.BuiltinOperator.QUANTIZE
code.version = 2
operator.opcodeIndex, operator.inputs, operator.outputs = 0, [0], [1]
graph.tensors, graph.inputs, graph.outputs, graph.operators = [tensor("x", 0.1), tensor("y", 0.2)], [0], [1], [operator]
model.version, model.buffers, model.operatorCodes, model.subgraphs = 3, [s.BufferT()], [code], [graph]
builder = flatbuffers.Builder(1024)
builder.Finish(model.Pack(builder), b"TFL3")
x = np.arange(-127, 128, dtype=np.int8)
found = []
for kind in (OpResolverType.BUILTIN_REF, OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES):
    run = Interpreter(model_content=bytes(builder.Output()), experimental_op_resolver_type=kind)
    run.allocate_tensors()
    run.set_tensor(0, x)
    run.invoke()
    found.append(run.get_tensor(1).astype(int))
some = np.isin(x, (-5, -3, -1, 1, 3, 5))
print(x[some], *[y[some] for y in found], np.rint(x / 2).astype(int)[some])
up = np.floor(x / 2 + 0.5).astype(int)
away = (np.sign(x) * np.floor(abs(x / 2) + 0.5)).astype(int)
print("up", [(y == up).all() for y in found], "away", [(y == away).all() for y in found], "even", [(y == np.rint(x / 2)).mean() for y in found])
sys.exit(0 if all((y == up).all() for y in found) else 1)
END
