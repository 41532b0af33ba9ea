"""What is given or found when a model is imported: values of inputs, sizes by the model's names, external data."""

import numpy as np
import pytest
from onnx import TensorProto, helper
from onnx.external_data_helper import set_external_data
from tests.onnx_models import model, node, numbers, saved, values_of

from einmap import SpecError
from einmap.frontends.onnx.read import from_onnx


def branches():
    """One product where the flag is set, two where it is not."""

    def graph(nodes, result):
        return helper.make_graph(nodes, result, [], [helper.make_tensor_value_info(result, TensorProto.FLOAT, None)])

    once = graph([node("MatMul", ["x", "w"], ["a"])], "a")
    twice = graph([node("MatMul", ["x", "w"], ["t"]), node("MatMul", ["t", "w"], ["b"])], "b")
    nodes = [node("If", ["flag"], ["o"], then_branch=once, else_branch=twice), node("Relu", ["o"], ["y"])]
    return model(nodes, {"x": (2, 4), "flag": np.array([True])}, {"w": numbers(4, 4)})


@pytest.mark.parametrize(("flag", "products"), [(1, 32), (False, 64), ([True], 32)])
def test_a_branch_is_taken_by_the_value_of_an_input(tmp_path, flag, products):
    inputs = {"x": numbers(2, 4), "flag": np.ravel(flag).astype(bool)}
    values, expected = values_of(branches(), inputs, {"w": numbers(4, 4)})
    found = from_onnx(saved(tmp_path, branches()), strict=True, values={"flag": flag})
    assert found.n_multiply_accumulates == products
    assert "flag" not in found.inputs
    np.testing.assert_allclose(found.run(values)["y"], expected["y"], atol=1e-6)


def test_a_branch_that_is_not_known_names_the_input_and_says_that_it_hides_all_products(run, tmp_path):
    built = branches()
    built.graph.value_info.append(helper.make_tensor_value_info("o", TensorProto.FLOAT, (2, 4)))
    path = saved(tmp_path, built)
    done = run("import", path)
    assert f"note: {path}: about all of the model's products" in done.err
    assert "--value flag=VALUE" in done.err
    done = run("import", path, "--value", "flag=1")
    assert (done.status, "note" in done.err) == (0, False)
    for option, text in (
        ("flog=1", "did you mean 'flag'?"),
        ("flag=[1, 0]", "of the shape [1]"),
        ("flag=x", "numbers of the shape"),
    ):
        done = run("import", path, "--value", option)
        assert (done.status, text in done.err) == (2, True)
    done = run("import", path, "-D", "flag=1")
    assert (done.status, "give its value with --value" in done.err) == (2, True)


def test_other_commands_take_values_of_inputs_as_they_take_sizes(run, tmp_path):
    path = saved(tmp_path, branches())
    assert "-D flag=VALUE" in run("map", "simple", path, "--no-fuse").err
    assert run("map", "simple", path, "-D", "flag=[true]", "--no-fuse").status == 0
    assert "of the shape [1]" in run("map", "simple", path, "-D", "flag=yes, please").err


NAMED = {"x": ("batch.0", "past", 4), "m": ("batch.0", "past + 1"), "z": ("2*past - 1",)}


def test_sizes_have_the_names_of_the_model_and_sums_follow(run, tmp_path):
    nodes = [node("Relu", ["x"], ["a"]), node("Relu", ["m"], ["b"]), node("Relu", ["z"], ["c"])]
    path = saved(tmp_path, model(nodes, NAMED, outputs=("a", "b", "c")))
    found = from_onnx(path, dimensions={"batch.0": 2, "past": 3})
    assert [found.inputs[name].sizes for name in "xmz"] == [(2, 3, 4), (2, 4), (5,)]
    assert run("import", path, "-D", "batch.0=2", "-D", "past=3").status == 0
    assert run("import", path, "-D", "batch_0=2", "-D", "past=3", "-D", "past + 1=9").status == 0
    assert run("import", path, "-D", "batch.0=2", "-D", "past=3", "-D", "post=9").status == 2
    done = run("import", path, "-D", "past=3")
    assert "-D 'batch.0=N', or --batch N" in done.err
    assert "-D past=N" in run("import", path, "--batch", "2").err
    assert "must be an integer from 0 on, found -1" in run("import", path, "-D", "batch.0=2", "-D", "past=0").err


def with_shape_beside(folder, location="numbers.data"):
    """A reshape whose shape is 16 bytes in another file."""
    nodes = [node("Neg", ["x"], ["n"]), node("Reshape", ["n", "s"], ["r"]), node("Exp", ["r"], ["y"])]
    built = model(nodes, {"x": (2, 6)}, {"s": np.array([3, 4])})
    set_external_data(built.graph.initializer[0], location, offset=0, length=16)
    built.graph.initializer[0].ClearField("raw_data")
    path = folder / "model.onnx"
    path.write_bytes(built.SerializeToString())
    return path


def test_a_shape_in_external_data_is_read(tmp_path):
    path = with_shape_beside(tmp_path)
    with pytest.raises(SpecError, match=r"numbers are not there \(external data"):
        from_onnx(path)
    (tmp_path / "numbers.data").write_bytes(np.array([3, 4]).tobytes())
    x = numbers(2, 6)
    np.testing.assert_allclose(from_onnx(path).run({"x": x})["y"], np.exp(-x).reshape(3, 4), atol=1e-6)


def test_external_data_outside_of_the_folder_are_not_read(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    (tmp_path / "numbers.data").write_bytes(np.array([3, 4]).tobytes())
    with pytest.raises(SpecError, match="outside of the folder"):
        from_onnx(with_shape_beside(inner, "../numbers.data"))
    (inner / "link.data").symlink_to(tmp_path / "numbers.data")
    with pytest.raises(SpecError, match="numbers are not there"):
        from_onnx(with_shape_beside(inner, "link.data"))


def test_outputs_may_be_inputs_weights_or_without_values(tmp_path):
    weights = {"w": numbers(3, 4), "zero": np.array([0, 0, 4]), "axes": np.array([1, 3])}
    nodes = [
        node("MatMul", ["x", "w"], ["y"]), node("Identity", ["cache"], ["present"]), node("Identity", ["w"], ["same"]),
        node("Transpose", ["cache"], ["turned"]), node("Slice", ["cache", "one", "two"], ["row"]),
        node("Reshape", ["cache", "axes"], ["flat"]), node("Reshape", ["empty", "zero"], ["none"], allowzero=1),
    ]  # fmt: skip
    weights |= {"one": np.array([1]), "two": np.array([2]), "axes": np.array([1, -1])}
    outputs = ("y", "present", "same", "turned", "row", "flat", "none")
    inputs = {"x": (2, 3), "cache": (2, 3), "empty": np.zeros((0, 8, 2), np.float32)}
    built = model(nodes, inputs, weights, outputs=outputs)
    values, expected = values_of(built, inputs, weights)
    result = from_onnx(saved(tmp_path, built), strict=True)
    found = result.run(values)
    for name in outputs:
        assert found[name].shape == expected[name].shape
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)
    assert {einsum.name for einsum in result.spec.workload.einsums} == {"y", "turned", "row"}


def test_an_output_that_is_an_input_of_which_only_a_part_is_read(tmp_path):
    nodes = [node("Slice", ["x", "one", "two"], ["s"]), node("Exp", ["s"], ["y"]), node("Identity", ["x"], ["z"])]
    weights = {"one": np.array([0]), "two": np.array([2])}
    built = model(nodes, {"x": (5,)}, weights, outputs=("y", "z"))
    values, expected = values_of(built, {"x": (5,)}, weights)
    found = from_onnx(saved(tmp_path, built)).run(values)
    np.testing.assert_allclose(found["z"], expected["z"])


def test_a_model_that_moves_values_alone_is_a_copy(tmp_path):
    weights = {"sizes": np.array([1, 1, 4, 6]), "none": np.zeros(0, np.float32)}
    modes = {"coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"}
    built = model([node("Resize", ["x", "none", "none", "sizes"], ["y"], **modes)], {"x": (1, 1, 2, 2)}, weights)
    values, expected = values_of(built, {"x": (1, 1, 2, 2)}, weights)
    np.testing.assert_allclose(from_onnx(saved(tmp_path, built), strict=True).run(values)["y"], expected["y"])


def test_a_model_that_computes_nothing_gives_its_values_and_has_no_workload(run, tmp_path):
    nodes = [
        node("Identity", ["x"], ["same"]), node("Shape", ["x"], ["sizes"]),
        node("Reshape", ["empty", "zero"], ["none"], allowzero=1),
    ]  # fmt: skip
    inputs = {"x": (2, 3), "empty": np.zeros((0, 8, 2), np.float32)}
    built = model(nodes, inputs, {"zero": np.array([0, 0, 4])}, outputs=("same", "sizes", "none"))
    path = saved(tmp_path, built)
    values, expected = values_of(built, inputs, {"zero": np.array([0, 0, 4])})
    result = from_onnx(path, strict=True)
    assert (result.workload, result.n_multiply_accumulates) == ({}, 0)
    found = result.run(values)
    for name, value in expected.items():
        assert found[name].shape == value.shape
        np.testing.assert_array_equal(found[name], value)
    done = run("import", path, "-o", tmp_path / "nothing.yaml")
    assert (done.status, "its outputs are its inputs, or constants" in done.err) == (0, True)
    done = run("map", "simple", path)
    assert (done.status, "its outputs are its inputs, or constants" in done.err) == (2, True)
