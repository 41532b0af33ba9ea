"""Models are read without their weights; what is wrong with them is said with its place, and nothing is opened or run."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.onnx_models import model, node, numbers, saved, values_of

import einmap
from einmap.errors import EinmapError, SpecError
from einmap.frontends.onnx.read import from_onnx
from einmap.frontends.onnx.wire import MOST_PAYLOAD, compact_model


def message(error):
    return str(error.value)


def large(folder):
    """A model whose weight is too large to be kept."""
    weight = numbers(3, 200, 300)
    assert weight.nbytes > MOST_PAYLOAD
    return saved(folder, model([node("MatMul", ["x", "w"], ["y"])], {"x": (3, 2, 200)}, {"w": weight}))


def test_numbers_of_large_tensors_are_left_out_and_shapes_stay(tmp_path):
    path = large(tmp_path)
    content = compact_model(path)
    assert len(content) < 1000 < MOST_PAYLOAD < path.stat().st_size
    weight = onnx.ModelProto.FromString(content).graph.initializer[0]
    assert (list(weight.dims), weight.raw_data) == ([3, 200, 300], b"")
    (einsum,) = from_onnx(path).spec.workload.einsums
    assert einsum.n_computes == 3 * 2 * 200 * 300


def test_small_models_are_kept_byte_by_byte(tmp_path):
    built = model([node("Relu", ["x"], ["y"])], {"x": (2, 3)})
    assert compact_model(saved(tmp_path, built)) == built.SerializeToString()


@pytest.mark.parametrize("kept", [0.0, 0.001, 0.5, 0.99])
def test_a_file_that_is_cut_short_is_refused_with_its_place(tmp_path, kept):
    path = large(tmp_path)
    content = path.read_bytes()
    path.write_bytes(content[: int(kept * len(content))])
    with pytest.raises(SpecError) as error:
        from_onnx(path)
    assert message(error).startswith(f"{path}")
    assert "empty" in message(error) if kept == 0 else "byte" in message(error)


@pytest.mark.parametrize("content", [b"\xff" * 100, b"workload: {}", b"\x00" * 50, b"\x08\x08"])
def test_other_files_are_not_models(tmp_path, content):
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(SpecError, match=r"ONNX model|no operators"):
        from_onnx(path)


def test_changed_bytes_give_errors_of_einmap_or_a_cascade(tmp_path):
    built = model(
        [
            node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
            node("Reshape", ["c", "s"], ["r"]),
            node("Softmax", ["r"], ["y"]),
        ],
        {"x": (1, 2, 5, 5)},
        {"w": numbers(2, 2, 3, 3), "s": np.array([1, -1])},
    )
    content = built.SerializeToString()
    path = tmp_path / "model.onnx"
    rng = np.random.default_rng(0)
    for _ in range(300):
        changed = bytearray(content)
        for place in rng.integers(0, len(changed), 3):
            changed[place] = rng.integers(0, 256)
        path.write_bytes(bytes(changed))
        try:
            from_onnx(path)
        except EinmapError as error:
            assert "model.onnx" in str(error) or "Einsum" in str(error)


def test_open_dimensions_are_told_with_the_option_that_sets_them(tmp_path):
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    path = saved(tmp_path, model(nodes, {"x": ("batch", "tokens", 4)}, {"w": numbers(4, 3)}))
    with pytest.raises(EinmapError) as error:
        from_onnx(path)
    assert "-D batch=N" in message(error)
    assert "--batch" in message(error)
    assert "-D tokens=N" in message(error)
    assert from_onnx(path, batch=2, dimensions={"tokens": 7}).n_multiply_accumulates == 2 * 7 * 4 * 3
    with pytest.raises(SpecError, match="tokens"):
        from_onnx(path, batch=2, dimensions={"token": 7, "tokens": 7})
    with pytest.raises(SpecError, match="an integer from 0 on"):
        from_onnx(path, batch=2, dimensions={"tokens": -7})


def test_the_batch_replaces_the_first_dimension(tmp_path):
    path = saved(tmp_path, model([node("MatMul", ["x", "w"], ["y"])], {"x": (1, 4)}, {"w": numbers(4, 3)}))
    assert from_onnx(path, batch=5).n_multiply_accumulates == 5 * 4 * 3


def barrier_model():
    nodes = [
        node("Relu", ["x"], ["a"]), node("NonZero", ["i"], ["ignored"]), node("Hardmax", ["a"], ["b"]),
        node("Hardmax", ["b"], ["c"]), node("MatMul", ["c", "w"], ["y"]),
    ]  # fmt: skip
    return model([nodes[0], *nodes[2:]], {"x": (3, 4)}, {"w": numbers(4, 2)}, shapes={"y": (3, 2)})


def test_operators_without_einsum_form_are_barriers_with_counts(tmp_path):
    built = barrier_model()
    path = saved(tmp_path, built)
    result = from_onnx(path)
    assert result.barrier_counts == {"Hardmax": 2}
    assert "2 x Hardmax" in str(result.notes[0])
    values, expected = values_of(built, {"x": (3, 4)}, {"w": numbers(4, 2)})
    relu = np.maximum(values["x"], 0)
    hard = np.eye(4)[relu.argmax(axis=1)]
    np.testing.assert_allclose(result.run({**values, "b": hard, "c": hard})["y"], expected["y"], rtol=1e-5)
    with pytest.raises(SpecError) as error:
        from_onnx(path, strict=True)
    assert "Hardmax (2)" in message(error)
    assert "node 1 (Hardmax)" in message(error)


@pytest.mark.parametrize(
    ("coordinates", "nearest", "factor"),
    [
        ("half_pixel", "floor", 2),
        ("pytorch_half_pixel", "ceil", 3),
        ("asymmetric", "ceil", 2),
        ("asymmetric", "round_prefer_floor", 3),
        ("align_corners", "floor", 2),
    ],
)
def test_a_resize_that_does_not_repeat_each_value_alike_has_the_values_of_the_reference(
    tmp_path, coordinates, nearest, factor
):
    modes = {"coordinate_transformation_mode": coordinates, "nearest_mode": nearest}
    nodes = [node("Resize", ["x", "", "f"], ["r"], mode="nearest", **modes), node("Neg", ["r"], ["y"])]
    weights = {"f": np.array([1, factor], np.float32)}
    built = model(nodes, {"x": (1, 3)}, weights)
    values, expected = values_of(built, {"x": (1, 3)}, weights)
    np.testing.assert_array_equal(from_onnx(saved(tmp_path, built), strict=True).run(values)["y"], expected["y"])


def test_a_resize_that_filters_what_it_leaves_out_is_a_barrier(tmp_path):
    nodes = [node("Resize", ["x", "", "f"], ["r"], mode="linear", antialias=1), node("Neg", ["r"], ["y"])]
    built = model(nodes, {"x": (1, 4)}, {"f": np.array([1, 0.5], np.float32)}, shapes={"r": (1, 2)})
    (barrier,) = from_onnx(saved(tmp_path, built)).barriers
    assert "it filters what it leaves out" in barrier.reason


def test_a_result_that_is_read_is_written_out_as_well(tmp_path):
    nodes = [node("Relu", ["x"], ["z"]), node("Exp", ["z"], ["y"])]
    workload = from_onnx(saved(tmp_path, model(nodes, {"x": (3, 4)}, outputs=("z", "y")))).spec.workload
    assert workload.einsum_names == ("z", "z_out", "y")
    assert workload.by_name["z_out"].is_copy


def external(location):
    tensor = TensorProto(name="w", dims=[4, 3], data_type=1, data_location=1)
    tensor.external_data.add(key="location", value=location)
    built = model([node("MatMul", ["x", "w"], ["y"])], {"x": (2, 4)})
    built.graph.initializer.append(tensor)
    return built


def test_external_data_are_not_opened(tmp_path):
    assert from_onnx(saved(tmp_path, external("weights.bin"))).n_multiply_accumulates == 2 * 4 * 3


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/../../b", "C:\\keys", "..\\x"])
def test_external_data_outside_of_the_folder_are_refused(tmp_path, location):
    with pytest.raises(SpecError, match=r"initializer 'w'.*outside"):
        from_onnx(saved(tmp_path, external(location)))


HOSTILE = {
    "a cycle": ([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], {}, "node 0 .Add.*which nothing before it gives\n.*node 1 .Relu.* gives it, further on"),
    "an unknown operand": (
        [node("Add", ["x", "w"], ["a"]), node("Relu", ["z"], ["y"])], {"w": numbers(2, 4)},
        "node 1 .Relu.*'z'.*\n.*no operator, input or initializer has that name; ",
    ),
    "parameters that were not saved": (
        [node("MatMul", ["x", "0.weight"], ["y"])], {},
        "node 0 .MatMul.*'0.weight'.*\n.*no operator or input has that name: .*keep_initializers_as_inputs=True",
    ),
    "unknown operators": (
        [node("Mine", ["x"], ["a"], domain="me"), node("Mine", ["a"], ["y"], domain="me"), node("Hardmax", ["x"], ["h"])],
        {},
        r"result 'a' is not known\n.*does not import: me.Mine \(2\), Hardmax \(1\)",
    ),
    "nothing but a barrier": ([node("Hardmax", ["i"], ["y"])], {}, "node 0 .Hardmax"),
    "a result twice": ([node("Relu", ["x"], ["y"]), node("Exp", ["x"], ["y"])], {}, "there already"),
    "a missing operand": ([node("Add", ["x"], ["y"])], {}, "operand 1 is missing"),
    "shapes that do not fit": ([node("MatMul", ["x", "w"], ["y"])], {"w": numbers(3, 2)}, "no matrix product"),
    "broadcast that does not fit": ([node("Add", ["x", "w"], ["y"])], {"w": numbers(3)}, "broadcast"),
    "a reshape that does not fit": ([node("Reshape", ["x", "s"], ["y"])], {"s": np.array([5, -1])}, "no shape"),
    "an axis that is not there": ([node("Softmax", ["x"], ["y"], axis=7)], {}, "no axis 7"),
    "an attribute of another kind": ([node("Softmax", ["x"], ["y"], axis="m")], {}, "axis must be an integer"),
    "a huge expansion": (
        [node("Expand", ["x", "s"], ["e"]), node("Relu", ["e"], ["y"])], {"s": np.array([2**30, 2**30, 2, 4])}, "2\\*\\*40",
    ),
    "a list of axes that is too long": (
        [node("ConstantOfShape", ["s"], ["c"], value=numpy_helper.from_array(np.ones(1, np.int64))),
         node("Unsqueeze", ["x", "c"], ["y"])],
        {"s": np.array([2**38])},
        "at most 65,536 integers",
    ),
    "parts that do not broadcast": (
        [node("Concat", ["x", "x"], ["c"], axis=1), node("Add", ["c", "w"], ["y"])], {"w": numbers(9)}, "do not broadcast",
    ),
    "channels that do not fit": (
        [node("BatchNormalization", ["i", "w", "w", "w", "w"], ["y"])], {"w": numbers(3)}, "do not fit a value",
    ),
    "an einsum that does not fit": (
        [node("Einsum", ["x", "w"], ["y"], equation="ij,jk->ik")], {"w": numbers(5, 2)}, "'j' has 4 and 5",
    ),
    "a kernel of another shape than its weight": (
        [node("Conv", ["i", "w"], ["y"], kernel_shape=[2, 2])], {"w": numbers(1, 1, 3, 3)}, "kernel_shape says .2, 2., the weight has .3, 3.",
    ),
    "a kernel of another shape, transposed": (
        [node("ConvTranspose", ["i", "w"], ["y"], kernel_shape=[3])], {"w": numbers(1, 1, 3, 3)}, "kernel_shape says .3., the weight has .3, 3.",
    ),
    "a layer of another size than its weights": (
        [node("Reshape", ["x", "s"], ["r"]), node("LSTM", ["r", "w", "u"], ["y"], hidden_size=5)],
        {"s": np.array([2, 1, 4]), "w": numbers(1, 12, 4), "u": numbers(1, 12, 3)},
        "node 1 .LSTM.*hidden_size says 5, the weights have 3",
    ),
    "a window that does not fit": ([node("Conv", ["i", "w"], ["y"])], {"w": numbers(1, 1, 9, 9)}, "does not fit"),
}  # fmt: skip


INFINITE = {
    "Resize": (["x", "", "s"], np.array([1, np.inf], np.float32), {}),
    "Range": (["s", "s", "s"], np.float32(np.inf), {}),
    "ConstantOfShape": (["s"], np.array([np.nan], np.float32), {}),
    "Tile": (["s", "s"], np.array([np.inf], np.float32), {}),
    "Trilu": (["w", "s"], np.float32(1e30), {}),
    "OneHot": (["w", "s", "w"], np.float32(np.nan), {}),
    "Cast": (["s"], np.float32(np.inf), {"to": 7}),
}


@pytest.mark.parametrize("operator", INFINITE)
def test_numbers_that_are_not_finite_are_refused_where_an_integer_has_to_be(tmp_path, operator):
    operands, number, attributes = INFINITE[operator]
    nodes = [node(operator, operands, ["y"], **attributes)]
    path = saved(tmp_path, model(nodes, {"x": (2, 4)}, {"s": np.asarray(number), "w": numbers(2, 2)}))
    with pytest.raises(SpecError, match=f"node 0 .{operator}"):
        from_onnx(path, strict=True)


@pytest.mark.parametrize("case", HOSTILE)
def test_models_that_are_not_sane_are_refused_with_their_place(tmp_path, case):
    nodes, weights, expected = HOSTILE[case]
    path = saved(tmp_path, model(nodes, {"x": (2, 4), "i": (1, 1, 4, 4)}, weights))
    with pytest.raises(SpecError, match=expected) as error:
        from_onnx(path)
    assert "model.onnx" in message(error)


def test_a_model_without_einsums_names_its_operators(tmp_path):
    path = saved(tmp_path, model([node("Hardmax", ["x"], ["y"])], {"x": (2, 4)}, shapes={"y": (2, 4)}))
    said = (
        r"model.onnx: .*leave nothing to compute: Hardmax \(1\); the first, node 0 \(Hardmax\): einmap does not import"
    )
    with pytest.raises(SpecError, match=said):
        from_onnx(path)


@pytest.mark.parametrize("shape", [(2, 6), (2, 5, 1), ("n", 4)])
def test_an_output_of_another_shape_than_the_model_says_is_refused(tmp_path, shape):
    nodes = [node("MatMul", ["x", "w"], ["y"])]
    path = saved(tmp_path, model(nodes, {"x": (2, 4)}, {"w": numbers(4, 5)}, shapes={"y": shape}))
    with pytest.raises(SpecError, match=r"output 'y': the model says the shape \[.*\], its operators give \[2, 5\]"):
        from_onnx(path)
    assert from_onnx(path, batch=3).n_multiply_accumulates == 3 * 4 * 5


def test_an_output_that_is_a_constant_is_given_as_well(tmp_path):
    nodes = [node("Relu", ["x"], ["y"]), node("Shape", ["x"], ["s"])]
    path = saved(tmp_path, model(nodes, {"x": (2, 4)}, outputs=("y", "s")))
    np.testing.assert_array_equal(from_onnx(path).run({"x": np.ones((2, 4))})["s"], [2, 4])


def test_an_output_may_leave_its_sizes_open(tmp_path):
    built = model([node("Relu", ["x"], ["y"])], {"x": (2, 4)}, shapes={"y": ("n", 4)})
    assert from_onnx(saved(tmp_path, built)).spec.workload.einsum_names == ("y",)


def test_numbers_that_are_cut_short_are_counted(tmp_path):
    built = model([node("MatMul", ["x", "w"], ["y"])], {"x": (2, 4)}, {"w": numbers(4, 3)})
    built.graph.initializer[0].raw_data = built.graph.initializer[0].raw_data[:-5]
    with pytest.raises(SpecError, match=r"initializer 'w': .* expected 48 bytes, found 43"):
        from_onnx(saved(tmp_path, built))


@pytest.mark.parametrize("dims", [[2**40, 2**40], [-1, 4], [2] * 40])
def test_initialisers_of_impossible_shapes_are_refused(tmp_path, dims):
    built = model([node("MatMul", ["x", "w"], ["y"])], {"x": (2, 4)})
    built.graph.initializer.append(TensorProto(name="w", dims=dims, data_type=1))
    with pytest.raises(SpecError, match="initializer 'w'"):
        from_onnx(saved(tmp_path, built))


def test_numbers_that_do_not_fit_their_shape_are_refused(tmp_path):
    built = model([node("MatMul", ["x", "w"], ["y"])], {"x": (2, 4)})
    built.graph.initializer.append(TensorProto(name="w", dims=[4, 5], data_type=1, raw_data=b"12345678"))
    with pytest.raises(SpecError, match="do not fit its shape"):
        from_onnx(saved(tmp_path, built))


@pytest.mark.parametrize("kind", ["", "Relu", "MatMul", "LSTM", "Attention", "Concat", "If", "Constant"])
@pytest.mark.parametrize("results", [[], ["", ""]])
def test_an_operator_without_results_adds_nothing(tmp_path, kind, results):
    nodes = [helper.make_node(kind, ["x"], results), node("Relu", ["x"], ["y"])]
    assert len(from_onnx(saved(tmp_path, model(nodes, {"x": (2, 4)}))).spec.workload.einsums) == 1


def test_names_of_the_model_become_names_of_einmap(tmp_path):
    nodes = [
        helper.make_node("Relu", ["x"], ["/layer1/conv.0/out"], name="/layer1/conv.0/Relu"),
        helper.make_node("Exp", ["/layer1/conv.0/out"], ["\x1b[31m"], name="\x1b[31mred"),
        helper.make_node("Neg", ["\x1b[31m"], ["All"]),
    ]
    built = model(nodes, {"x": (2, 3)}, outputs=("All", "/layer1/conv.0/out"))
    names = from_onnx(saved(tmp_path, built)).spec.workload.einsum_names
    assert names == ("layer1_conv_0_Relu", "layer1_conv_0_Relu_out", "All_2")


def test_a_model_is_a_workload_among_files(tmp_path):
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])]
    path = saved(tmp_path, model(nodes, {"x": ("tokens", 8)}, {"w": numbers(8, 16)}))
    spec = einmap.load("simple", path, define={"tokens": 4})
    result = einmap.map_workload(spec, metrics="energy")
    assert result.optimal
    assert result.cost.count_by("action")[("compute",)] == 4 * 8 * 16 + 4 * 16
    assert einmap.loads(einmap.dump(spec)) == spec


def test_bits_are_those_of_the_types_or_what_is_asked_for(tmp_path):
    built = model([node("MatMul", ["x", "w"], ["y"])], {"x": (2, 8)}, {"w": numbers(8, 4).astype(np.float16)}, kind=10)
    path = saved(tmp_path, built)
    assert {a.bits_per_value for a in from_onnx(path).spec.workload.einsums[0].accesses} == {16}
    assert {a.bits_per_value for a in from_onnx(path, bits=8).spec.workload.einsums[0].accesses} == {8}


def test_what_is_broadcast_far_takes_no_room(tmp_path):
    nodes = [
        node("Expand", ["w", "s"], ["e"]), node("Reshape", ["e", "f"], ["r"]), node("ReduceSum", ["r", "axes"], ["y"]),
        node("Expand", ["two", "s"], ["t"]), node("ReduceMax", ["t", "axes"], ["z"]),
    ]  # fmt: skip
    weights = {"w": numbers(3, 1), "two": np.array(2, np.float32), "axes": np.array([0])}
    shape = {"s": np.array([3, 2**36]), "f": np.array([-1])}
    result = from_onnx(saved(tmp_path, model(nodes, {}, {**weights, **shape}, outputs=("y", "z"))))
    assert result.spec.workload.einsum_names == ("y", "z")


@pytest.mark.parametrize("operator", ["MatMul", "Conv"])
def test_an_operand_that_is_missing_beside_a_concatenation_is_told(tmp_path, operator):
    nodes = [node("Concat", ["x", "x2"], ["c"], axis=1), node(operator, ["c"], ["y"])]
    content = model(nodes, {"x": (1, 2, 5, 5), "x2": (1, 2, 5, 5)}, {}).SerializeToString()
    path = tmp_path / "model.onnx"
    path.write_bytes(content)
    with pytest.raises(EinmapError) as caught:
        from_onnx(path)
    assert "operand 1 is missing" in message(caught)
