"""Operators as older exporters wrote them, integers, and results that nothing reads."""

import numpy as np
import pytest
from onnx import AttributeProto, helper, numpy_helper
from tests.onnx_models import model, node, numbers, saved, values_of

from einmap.einsum.functions import erf
from einmap.errors import SpecError
from einmap.frontends.onnx.read import from_onnx

I32 = np.array([[-7, 7, 5], [-1, 9, -9]], np.int32)
BY = np.array([2, -2, 4], np.int32)
CASES = {
    "integers are divided towards 0": ([node("Div", ["x", "w"], ["y"])], {"x": I32}, {"w": BY}),
    "integers that a cast gives are divided towards 0": (
        [node("Cast", ["x"], ["i"], to=6), node("Div", ["i", "w"], ["y"])],
        {"x": 9 * numbers(2, 3)},
        {"w": BY},
    ),
    "fractions that a cast gives are divided": (
        [node("Cast", ["x"], ["f"], to=1), node("Div", ["f", "w"], ["y"])], {"x": I32}, {"w": BY.astype(np.float32)},
    ),
    "what is left, with the sign of the divisor": ([node("Mod", ["x", "w"], ["y"])], {"x": I32}, {"w": BY}),
    "what is left, with the sign of the divided": (
        [node("Mod", ["x", "w"], ["y"], fmod=1)], {"x": 9 * numbers(2, 3)}, {"w": BY.astype(np.float32)},
    ),
    "a lower limit above the upper one": (
        [node("Clip", ["x", "low", "high"], ["y"])],
        {"x": (2, 3)},
        {"low": np.float32(0.5), "high": np.float32(-0.5)},
    ),
    "blocks of rows and columns that become channels, depth first": (
        [node("Neg", ["x"], ["n"]), node("SpaceToDepth", ["n"], ["y"], blocksize=2, mode="CRD")], {"x": (1, 2, 4, 6)}, {},
    ),
    "layer normalisation with its mean and deviation": (
        [node("LayerNormalization", ["x", "w"], ["n", "mean", "d"]), node("Add", ["n", "mean"], ["s"]),
         node("Mul", ["s", "d"], ["y"])],
        {"x": (2, 3, 4)},
        {"w": numbers(4)},
    ),
    "numbers are rounded to the type of a zero point that is computed": (
        [node("Cast", ["z"], ["zero"], to=3), node("QuantizeLinear", ["x", "scale", "zero"], ["q"]),
         node("DequantizeLinear", ["q", "scale", "zero"], ["y"])],
        {"x": (2, 3), "z": (), "scale": np.full((), 0.1, np.float32)},
        {},
    ),
    "a cache of no steps, and shapes that are computed": (
        [node("Concat", ["cache", "x"], ["c"], axis=0), node("Shape", ["c"], ["s"]),
         node("ReduceProd", ["s"], ["n"]), node("Mod", ["n", "four"], ["rest"]), node("Max", ["n", "rest"], ["m"]),
         node("Reshape", ["c", "m"], ["r"]), node("Slice", ["r", "m", "m"], ["nothing"]),
         node("Concat", ["r", "nothing"], ["all"], axis=0), node("Exp", ["all"], ["y"])],
        {"cache": np.zeros((0, 3), np.float32), "x": (2, 3)},
        {"four": np.array([4])},
    ),
    "operators that ONNX defines by others": (
        [node("MeanVarianceNormalization", ["x"], ["n"]), node("Attention", ["n", "k", "k", "mask"], ["y"], scale=0.3)],
        {"x": (1, 2, 3, 4), "k": (1, 2, 5, 4)},
        {"mask": np.array([[True, True, False, True, True]] * 3)},
    ),
    "borders of other numbers than 0": (
        [node("Exp", ["x"], ["e"]), node("Pad", ["e", "w", "v"], ["p"]), node("Pad", ["p", "w"], ["y"], mode="reflect")],
        {"x": (2, 3)},
        {"w": np.array([1, 1, 0, 2]), "v": np.float32(-np.inf)},
    ),
    "borders that repeat what is at the edge, or at the other end": (
        [node("Exp", ["x"], ["e"]), node("Pad", ["e", "w"], ["p"], mode="edge"), node("Pad", ["p", "w"], ["y"], mode="wrap")],
        {"x": (1, 3)},
        {"w": np.array([1, 2, 0, 1])},
    ),
    "rows that are looked up of what is read with zeros around it": (
        [node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]), node("Gather", ["x", "i"], ["g"], axis=2),
         node("Gather", ["x", "i"], ["h"], axis=3), node("Gather", ["h", "i"], ["k"], axis=2),
         node("MatMul", ["g", "c"], ["m"]), node("Add", ["m", "k"], ["y"])],
        {"x": (1, 3, 4, 4)},
        {"w": numbers(3, 3, 3, 3), "i": np.array([0, 2, 1, 1])},
    ),
    "an ellipsis, a diagonal and three operands": (
        [node("Einsum", ["x", "w", "v"], ["e"], equation="...ij,jk,kK->...iK"),
         node("Einsum", ["e"], ["d"], equation="b...ii->...ib"), node("Einsum", ["d", "u"], ["y"], equation="a...,a->...")],
        {"x": (2, 3, 4, 5)},
        {"w": numbers(5, 6), "v": numbers(6, 4), "u": numbers(3)},
    ),
    "a transposed conv of which the output is said": (
        [node("ConvTranspose", ["x", "w"], ["a"], strides=[2, 2], output_shape=[7, 7], auto_pad="SAME_UPPER"),
         node("ConvTranspose", ["x", "w"], ["b"], strides=[2, 2], auto_pad="SAME_LOWER"),
         node("Pad", ["a", "p"], ["c"]), node("Add", ["b", "c"], ["y"])],
        {"x": (1, 1, 4, 4)},
        {"w": numbers(1, 1, 3, 2), "p": np.array([0, 0, 0, 0, 0, 0, 1, 1])},
    ),
    "sums along an axis": (
        [node("CumSum", ["x", "0"], ["a"]), node("CumSum", ["a", "1"], ["b"], reverse=1),
         node("CumSum", ["x", "1"], ["c"], exclusive=1), node("Add", ["b", "c"], ["y"])],
        {"x": (3, 4)},
        {"0": np.array(0), "1": np.array(-1)},
    ),
    "tiles, triangles and norms": (
        [node("Tile", ["x", "n"], ["t"]), node("Trilu", ["t", "k"], ["u"]),
         node("LpNormalization", ["u"], ["a"], axis=0), node("Abs", ["x"], ["s"]), node("LpNormalization", ["s"], ["b"], p=1),
         node("Tile", ["b", "n"], ["c"]), node("Add", ["a", "c"], ["y"])],
        {"x": (2, 3)},
        {"n": np.array([2, 3]), "k": np.array(0)},
    ),
    "one of so many": (
        [node("OneHot", ["x", "n", "v"], ["h"], axis=0), node("Mul", ["h", "w"], ["y"])],
        {"x": np.array([[0, 2], [-1, 1]])},
        {"n": np.array(4), "v": np.array([-1, 2], np.float32), "w": numbers(4, 1, 1)},
    ),
    "hyperbolic functions, and what shrinks": (
        [node("Sinh", ["x"], ["a"]), node("Cosh", ["a"], ["b"]), node("Acosh", ["b"], ["c"]), node("Tan", ["c"], ["d"]),
         node("Asinh", ["d"], ["e"]), node("Atanh", ["x"], ["f"]), node("Add", ["e", "f"], ["g"]),
         node("Shrink", ["g"], ["h"], lambd=0.3, bias=0.1), node("IsNaN", ["h"], ["i"]), node("Where", ["i", "x", "h"], ["y"])],
        {"x": (2, 3)},
        {},
    ),
    "concatenated values that are rounded": (
        [node("Concat", ["x", "z"], ["c"], axis=1), node("QuantizeLinear", ["c", "s"], ["q"]),
         node("DequantizeLinear", ["q", "s"], ["y"])],
        {"x": (2, 3), "z": (2, 2)},
        {"s": np.float32(0.1)},
    ),
    "concatenated values that go through a recurrent layer": (
        [node("Concat", ["x", "z"], ["c"], axis=2), node("RNN", ["c", "w", "r"], ["", "y"], hidden_size=2)],
        {"x": (3, 1, 2), "z": (3, 1, 1)},
        {"w": numbers(1, 2, 3), "r": numbers(1, 2, 2)},
    ),
    "values that are interpolated": (
        [node("Resize", ["x", "", "s"], ["a"], mode="linear", coordinate_transformation_mode="align_corners"),
         node("Resize", ["a", "", "", "n"], ["b"], mode="cubic"), node("Neg", ["b"], ["y"])],
        {"x": (1, 2, 3, 4)},
        {"s": np.array([1, 1, 2, 0.75], np.float32), "n": np.array([1, 2, 5, 7])},
    ),
    "the nearest values at places of any kind": (
        [node("Resize", ["x", "", "s"], ["a"], coordinate_transformation_mode="half_pixel", nearest_mode="ceil"),
         node("Resize", ["a", "", "n"], ["b"], axes=[3], nearest_mode="floor"), node("Neg", ["b"], ["y"])],
        {"x": (1, 2, 4, 5)},
        {"s": np.array([1, 1, 1.6, 0.5], np.float32), "n": np.array([3], np.float32)},
    ),
    "the mask of a dropout": (
        [node("Relu", ["x"], ["r"]), node("Dropout", ["r"], ["d", "mask"]), node("Where", ["mask", "d", "x"], ["y"])],
        {"x": (2, 3)},
        {},
    ),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "inputs", "weights"), CASES.values(), ids=CASES)
def test_values_are_those_of_the_reference_evaluator(tmp_path, nodes, inputs, weights):
    built = model(nodes, inputs, weights, opset=26 if nodes[-1].op_type in ("SpaceToDepth", "Attention") else 21)
    values, expected = values_of(built, inputs, weights)
    result = from_onnx(saved(tmp_path, built))
    assert result.barriers == ()
    np.testing.assert_allclose(result.run(values)["y"], expected["y"], rtol=1e-5, atol=1e-6)


def test_results_that_nothing_reads_do_not_make_a_barrier(tmp_path):
    nodes = [
        node("Relu", ["x"], ["r"]),
        node("Dropout", ["r"], ["d", "unread_mask"]),
        node("MaxPool", ["d"], ["y", "unread_places"], kernel_shape=[2]),
        node("TopK", ["r", "k"], ["unread_values", "unread_indices"]),
    ]
    result = from_onnx(saved(tmp_path, model(nodes, {"x": (1, 2, 5)}, {"k": np.array([2])}, opset=9)), strict=True)
    np.testing.assert_array_equal(result.run({"x": np.ones((1, 2, 5))})["y"], np.ones((1, 2, 4)))


def test_an_operator_without_results_is_passed_over_and_an_attribute_without_a_value_is_told(tmp_path):
    built = model([node("Relu", ["x"], []), node("Exp", ["x"], ["y"])], {"x": (2, 3)})
    assert from_onnx(saved(tmp_path, built)).spec.workload.einsum_names == ("y",)
    built = model([node("Constant", [], ["c"]), node("Add", ["x", "c"], ["y"])], {"x": (2, 3)})
    built.graph.node[0].attribute.append(AttributeProto(name="value"))
    with pytest.raises(SpecError, match=r"node 0 \(Constant\): the attribute 'value' has no value"):
        from_onnx(saved(tmp_path, built))


def test_a_barrier_gives_the_results_that_are_read(tmp_path):
    nodes = [node("Relu", ["x"], ["r"]), node("TopK", ["r", "k"], ["v", "unread"]), node("Exp", ["v"], ["y"])]
    result = from_onnx(saved(tmp_path, model(nodes, {"x": (2, 5000)}, {"k": np.array([2])})))
    assert [barrier.results for barrier in result.barriers] == [("v",)]


def test_a_slope_for_each_channel_without_axes_behind_it_is_that_of_older_models(tmp_path):
    built = model([node("PRelu", ["x", "w"], ["y"])], {"x": (2, 3, 4, 5)}, {"w": numbers(3)}, opset=6)
    x, w = numbers(2, 3, 4, 5, seed=1), numbers(3)
    y = from_onnx(saved(tmp_path, built)).run({"x": x, "w": w})["y"]
    np.testing.assert_allclose(y, np.where(x < 0, w[:, None, None] * x, x))


def test_the_branch_of_a_condition_that_is_known_is_imported(tmp_path):
    def graph(name, nodes, output):
        weight = numpy_helper.from_array(numbers(3, 2), f"{name}_w")
        return helper.make_graph(nodes, name, [], [helper.make_tensor_value_info(output, 1, None)], [weight])

    branches = {
        "then_branch": graph("t", [node("Exp", ["r"], ["e"]), node("MatMul", ["e", "t_w"], ["tb"])], "tb"),
        "else_branch": graph("e", [node("MatMul", ["r", "e_w"], ["eb"])], "eb"),
    }
    nodes = [
        node("Shape", ["x"], ["s"]), node("Size", ["s"], ["n"]), node("Equal", ["n", "two"], ["is_matrix"]),
        node("Relu", ["x"], ["r"]), node("If", ["is_matrix"], ["z"], **branches), node("Neg", ["z"], ["y"]),
    ]  # fmt: skip
    built = model(nodes, {"x": (2, 3)}, {"two": np.array(2)})
    values, expected = values_of(built, {"x": (2, 3)}, {})
    result = from_onnx(saved(tmp_path, built), strict=True)
    np.testing.assert_allclose(result.run({**values, "t_w": numbers(3, 2)})["y"], expected["y"], rtol=1e-5, atol=1e-6)
    built = model([node("If", ["c"], ["y"], **branches)], {"c": np.array(True), "r": (2, 3)})
    with pytest.raises(SpecError, match="which branch it takes is known only when the model runs"):
        from_onnx(saved(tmp_path, built), strict=True)


def test_operators_of_onnx_runtime_are_known(tmp_path):
    def own(operator, inputs, outputs, **attributes):
        return node(operator, inputs, outputs, domain="com.microsoft", **attributes)

    nodes = [
        own("FusedMatMul", ["x", "w"], ["m"], transB=1, alpha=0.5), own("BiasGelu", ["m", "b"], ["g"]),
        own("SkipLayerNormalization", ["g", "x", "scale"], ["n", "", "", "sum"]), own("QuickGelu", ["n"], ["q"]),
        own("FastGelu", ["q"], ["f"]), node("Add", ["f", "sum"], ["a"]),
        own("SkipSimplifiedLayerNormalization", ["a", "x", "scale"], ["y"]),
    ]  # fmt: skip
    w, b, scale, x = numbers(3, 3), numbers(3, seed=1), numbers(3, seed=2), numbers(2, 3, seed=3)
    built = model(nodes, {"x": (2, 3)}, {"w": w, "b": b, "scale": scale})
    built.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    result = from_onnx(saved(tmp_path, built), strict=True)
    v = 0.5 * (x @ w.T) + b
    total = v * (1 + erf(np, v / np.sqrt(2))) / 2 + x
    n = (total - total.mean(-1, keepdims=True)) / np.sqrt(total.var(-1, keepdims=True) + 1e-5) * scale
    q = n / (1 + np.exp(-1.702 * n))
    last = q / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (q + 0.044715 * q**3))) + total + x
    expected = last / np.sqrt((last * last).mean(-1, keepdims=True) + 1e-5) * scale
    found = result.run({"x": x, "w": w, "b": b, "scale": scale})["y"]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


def function(name, inputs, nodes, *attributes):
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("own", 1)]
    return helper.make_function("own", name, inputs, ["out"], nodes, opsets, [*attributes])


def call(name, inputs, output, **attributes):
    return node(name, inputs, [output], domain="own", **attributes)


def with_functions(nodes, functions):
    built = model(nodes, {"x": (2, 3)}, {"w": numbers(3, 3)})
    built.functions.extend(functions)
    built.opset_import.extend([helper.make_opsetid("own", 1)])
    return built


def test_functions_of_a_model_are_put_in_place_of_their_calls(tmp_path):
    leaky = node("LeakyRelu", ["a"], ["out"])
    leaky.attribute.append(AttributeProto(name="alpha", ref_attr_name="slope", type=AttributeProto.FLOAT))
    layer = function("Layer", ["a", "b"], [node("MatMul", ["a", "b"], ["m"]), call("Act", ["m"], "out", slope=0.5)])
    nodes = [call("Layer", ["x", "w"], "h"), call("Layer", ["h", "w"], "y")]
    built = with_functions(nodes, [function("Act", ["a"], [leaky], "slope"), layer])
    result = from_onnx(saved(tmp_path, built), strict=True)
    x, w = numbers(2, 3, seed=1), numbers(3, 3)
    h = np.where(x @ w < 0, 0.5 * (x @ w), x @ w)
    y = result.run({"x": x, "w": w})["y"]
    np.testing.assert_allclose(y, np.where(h @ w < 0, 0.5 * (h @ w), h @ w), rtol=1e-5)
    assert result.n_multiply_accumulates == 2 * 2 * 3 * 3


def test_functions_that_call_themselves_or_grow_without_end_are_refused(tmp_path):
    circle = [function("A", ["a"], [call("B", ["a"], "out")]), function("B", ["a"], [call("A", ["a"], "out")])]
    with pytest.raises(SpecError, match=r"the function '[AB]' calls itself"):
        from_onnx(saved(tmp_path, with_functions([call("A", ["x"], "y")], circle)))
    tower = [function("F0", ["a"], [node("Exp", ["a"], ["out"])])]
    for i in range(1, 30):
        inner = [call(f"F{i - 1}", ["a"], "b"), call(f"F{i - 1}", ["b"], "out")]
        tower.append(function(f"F{i}", ["a"], inner))
    with pytest.raises(SpecError, match="has 536,870,912 operators with those of its functions"):
        from_onnx(saved(tmp_path, with_functions([call("F29", ["x"], "y")], tower)))


def test_an_einsum_of_several_operands_has_the_products_of_two_at_a_time(tmp_path):
    nodes = [node("Einsum", ["x", "w", "v"], ["y"], equation="ij,jk,kl->il")]
    path = saved(tmp_path, model(nodes, {"x": (2, 3)}, {"w": numbers(3, 4), "v": numbers(4, 5)}))
    result = from_onnx(path)
    assert [e.n_computes for e in result.spec.workload.einsums] == [2 * 3 * 4, 2 * 4 * 5]
    assert result.n_multiply_accumulates == 2 * 3 * 4 + 2 * 4 * 5
    nodes = [node("Einsum", ["x"], ["s"], equation="ij->i"), node("Exp", ["s"], ["y"])]
    assert from_onnx(saved(tmp_path, model(nodes, {"x": (2, 3)}))).n_multiply_accumulates == 0


def test_places_that_are_known_are_counted_from_the_end_at_import(tmp_path):
    nodes = [node("Relu", ["x"], ["r"]), node("Pad", ["r", "w"], ["p"], mode="reflect"), node("Neg", ["p"], ["y"])]
    result = from_onnx(saved(tmp_path, model(nodes, {"x": (5,)}, {"w": np.array([1, 2])})))
    assert len(result.spec.workload.einsums) == 3


@pytest.mark.parametrize("inputs", [{"v": np.array(2.0)}, {}])
def test_a_border_wider_than_any_memory_is_not_made(tmp_path, inputs):
    nodes = [node("Relu", ["x"], ["r"]), node("Pad", ["r", "w", *inputs], ["p"]), node("Neg", ["p"], ["y"])]
    wide = {"w": np.array([2**56, 0]), **inputs}
    try:
        found = from_onnx(saved(tmp_path, model(nodes, {"x": (5,)}, wide))).spec.workload.einsums
    except SpecError as error:
        assert "Pad" in str(error)
    else:
        assert len(found) == 3 and not inputs
