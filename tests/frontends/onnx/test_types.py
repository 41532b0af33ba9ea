"""Bits of tensors are those of their types in the model, whatever casts, views and names lie between."""

import numpy as np
import pytest
from onnx import TensorProto
from tests.onnx_models import model, node, numbers, saved, values_of

import einmap
from einmap.frontends.onnx.read import from_onnx

HALF, FLOAT, INT32, INT64 = TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.INT32, TensorProto.INT64
SQUARE = numbers(4, 4).astype(np.float16)


def bits_of(spec):
    workload = spec.workload
    return {name: workload.tensor_bits(name) / workload.tensor_size(name) for name in workload.tensors}


def imported(folder, nodes, inputs, weights=None, outputs=("y",), **options):
    return from_onnx(saved(folder, model(nodes, inputs, weights, outputs)), **options)


CASTS = {
    "half precision between casts": (
        [node("Cast", ["x"], ["h"], to=HALF), node("MatMul", ["h", "w"], ["c"]), node("Relu", ["c"], ["r"]),
         node("MatMul", ["r", "w"], ["d"]), node("Cast", ["d"], ["y"], to=FLOAT)],
        {"x": 32, "w": 16, "c": 16, "d_input": 16, "y": 32},
    ),
    "a cast that is read, and of which the operand is a result as well": (
        [node("Cast", ["x"], ["h"], to=HALF), node("MatMul", ["h", "w"], ["d"]), node("Cast", ["d"], ["y"], to=FLOAT)],
        {"x": 32, "w": 16, "d": 16, "d_out": 16, "y": 32},
    ),
    "a cast of an input alone": ([node("Cast", ["x"], ["y"], to=HALF)], {"x": 32, "y": 16}),
    "a cast to bytes, which are multiplied": (
        [node("Cast", ["x"], ["b"], to=TensorProto.UINT8), node("MatMulInteger", ["b", "k"], ["y"])],
        {"x": 32, "y_input": 8, "k": 8, "y": 32},
    ),
    "a window with zeros around one of several digits": (
        [node("Cast", ["x"], ["h"], to=HALF), node("Reshape", ["h", "image"], ["i"]),
         node("Conv", ["i", "f"], ["y"], pads=[1, 1])],
        {"x": 32, "x_rows": 16, "f": 16, "y": 16},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASTS)
def test_bits_change_where_the_model_casts_and_nowhere_else(tmp_path, case):
    nodes, expected = CASTS[case]
    weights = {
        "w": SQUARE, "k": np.ones((4, 3), np.int8), "image": np.array([1, 1, 16]), "f": numbers(1, 1, 3).astype(np.float16),
    }  # fmt: skip
    outputs = ("y", "d") if "result as well" in case else ("y",)
    used = {name: array for name, array in weights.items() if any(name in n.input for n in nodes)}
    found = imported(tmp_path, nodes, {"x": (4, 4)}, used, outputs)
    assert bits_of(found.spec) == expected
    assert found.outputs["y"].tensor.bits == expected["y"]


@pytest.mark.parametrize(
    ("kind", "bits"),
    [("BOOL", 8), ("INT4", 4), ("UINT4", 4), ("INT2", 2), ("BFLOAT16", 16), ("FLOAT8E4M3FN", 8), ("FLOAT8E8M0", 8),
     ("FLOAT6E2M3", 6), ("FLOAT6E3M2", 6), ("FLOAT4E2M1", 4), ("INT64", 64), ("DOUBLE", 64)],
)  # fmt: skip
def test_each_type_has_its_bits_on_either_side_of_a_cast(tmp_path, kind, bits):
    nodes = [node("Cast", ["x"], ["f"], to=FLOAT), node("MatMul", ["f", "w"], ["m"])]
    nodes += [node("Cast", ["m"], ["y"], to=getattr(TensorProto, kind))]
    built = model(nodes, {"x": (4, 4)}, {"w": numbers(4, 4)}, kind=getattr(TensorProto, kind), opset=28)
    found = bits_of(from_onnx(saved(tmp_path, built)).spec)
    assert {name: found[name] for name in ("x", "y", "w")} == {"x": bits, "y": bits, "w": 32}


NAMES = [
    "input", "weight", "output", "All", "Inputs", "Outputs", "Nothing", "Shared", "Other", "Total", "true", "False", "TRUE", "max",
    "len", "sum", "relu", "exp", "lambda", "m2", "M2", "e", "null", "no", "input.1", "MAC", "MainMemory",
]  # fmt: skip


@pytest.mark.parametrize("i", range(len(NAMES)))
def test_any_names_are_imported_written_read_and_mapped_with_their_bits(tmp_path, i):
    ids, w, flag = (NAMES + NAMES)[i : i + 3]
    nodes = [node("Gather", ["table", ids], ["rows"]), node("MatMul", ["rows", w], ["scores"])]
    nodes += [node("Greater", ["scores", "zero"], [flag])]
    weights = {"table": numbers(9, 2).astype(np.float16), w: numbers(2, 3).astype(np.float16), "zero": np.float16(0)}
    path = saved(tmp_path, model(nodes, {ids: np.zeros(2, np.int64)}, weights, (flag,)))
    found = from_onnx(path)
    stored = {tensor.source: tensor.name for tensor in found.inputs.values()}
    expected = {stored["table"]: 16, stored[w]: 16, stored[ids]: 64, found.outputs[flag].tensor.name: 8}
    expected |= dict.fromkeys(set(found.spec.workload.tensors) - expected.keys(), 16)
    text = tmp_path / "workload.yaml"
    text.write_text(einmap.dump(found.spec))
    assert bits_of(found.spec) == bits_of(einmap.load(text)) == expected
    spec = einmap.load("simple", text)
    assert einmap.map_workload(spec, max_fused_loops=0).optimal


WIDE = np.array([-70000, -300, -129, -128, -9, -8, -1, 0, 7, 8, 127, 128, 255, 256, 40000, 70000], np.int32)


@pytest.mark.parametrize("is_known", [False, True])
@pytest.mark.parametrize("of", ["INT32", "INT64", "UINT8", "INT8"])
@pytest.mark.parametrize("to", ["INT8", "UINT8", "INT16", "UINT16", "INT4", "UINT4"])
def test_integers_of_fewer_bits_are_the_last_bits_of_others(tmp_path, of, to, is_known):
    """As onnx's evaluator and ONNX Runtime 1.32 have it."""
    given = WIDE.astype(of.lower())
    nodes = [node("Cast", ["x"], ["i"], to=getattr(TensorProto, to)), node("Cast", ["i"], ["f"], to=FLOAT)]
    nodes.append(node("Add", ["f", "z"], ["y"]))
    inputs, weights = {"z": np.zeros(len(WIDE), np.float32)}, {}
    (weights if is_known else inputs)["x"] = given
    built = model(nodes, inputs, weights)
    values, expected = values_of(built, inputs, weights)
    np.testing.assert_array_equal(from_onnx(saved(tmp_path, built)).run(values)["y"], expected["y"])


def test_a_cast_to_a_type_that_holds_all_integers_moves_nothing(tmp_path):
    nodes = [node("Cast", ["x"], ["i"], to=TensorProto.INT16), node("Relu", ["i"], ["y"])]
    found = from_onnx(saved(tmp_path, model(nodes, {"x": WIDE.astype(np.uint8)})))
    assert "floor" not in str(found.workload)
