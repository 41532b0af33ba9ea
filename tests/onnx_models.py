"""Small ONNX models for tests: built with onnx's helper, evaluated by its reference evaluator."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

node = helper.make_node
FLOATS = TensorProto.FLOAT


def numbers(*shape, seed=0):
    """Random 32-bit numbers between -1 and 1."""
    return np.random.default_rng(seed).uniform(-1, 1, shape).astype(np.float32)


def model(nodes, inputs, weights=None, outputs=("y",), opset=21, kind=FLOATS, shapes=None):
    """A model; `inputs`: arrays, or shapes with names of open dimensions; `weights`: arrays by name."""
    graph = helper.make_graph(
        nodes,
        "graph",
        [helper.make_tensor_value_info(name, *_type_of(given, kind)) for name, given in inputs.items()],
        [helper.make_tensor_value_info(name, FLOATS, (shapes or {}).get(name)) for name in outputs],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in (weights or {}).items()],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    )


def _type_of(given, kind):
    """Type and shape of an input, from an array or a shape."""
    if isinstance(given, np.ndarray):
        return helper.np_dtype_to_tensor_dtype(given.dtype), given.shape
    return kind, given


def saved(folder, built, name="model.onnx"):
    """The path of the model in a file."""
    path = folder / name
    onnx.save(built, path)
    return path


def values_of(built, inputs, weights):
    """Values for inputs and weights by name, and what onnx's reference evaluator gives for the outputs."""
    feeds = {
        name: values if isinstance(values, np.ndarray) else numbers(*values, seed=i)
        for i, (name, values) in enumerate(inputs.items())
    }
    outputs = [output.name for output in built.graph.output]
    expected = dict(zip(outputs, ReferenceEvaluator(built).run(outputs, feeds), strict=True))
    return {**feeds, **(weights or {})}, expected
