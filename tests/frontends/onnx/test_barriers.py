"""Operators without Einsum form: shapes of their results, and the products that they hide."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from tests.frontends.onnx.language_cases import CASES, B, D, H
from tests.onnx_models import model, node, numbers, saved

from einmap.errors import SpecError
from einmap.frontends.onnx.read import from_onnx


def runtime(operator, inputs, outputs, **attributes):
    return node(operator, inputs, outputs, domain="com.microsoft", **attributes)


def decoder(tmp_path, **how):
    """Attention of a token after five, of rows that weights give, and a weight behind it."""
    (call,), inputs, weights, _, known = CASES["a token after five"]
    attention = onnx.NodeProto()
    attention.CopyFrom(call)
    attention.output[:] = ["a", "ok", "ov"]
    attention.attribute.extend(helper.make_attribute(name, value) for name, value in how.items())
    inputs = {"x": (B, 1, 32), **{name: value for name, value in inputs.items() if name != "q"}}
    weights = {**weights, "wq": numbers(32, D), "wo": numbers(D, 32)}
    nodes = [node("MatMul", ["x", "wq"], ["q"]), attention, node("MatMul", ["a", "wo"], ["y"])]
    given = {name: inputs[name].tolist() for name in known}
    return from_onnx(saved(tmp_path, model(nodes, inputs, weights, ["y", "ok"])), values=given)


WEIGHTS, SCORES = B * 32 * D * 2, 2 * B * D * 6


def test_a_decoder_whose_attention_has_no_einsum_form_says_first_which_part_of_its_products_is_hidden(tmp_path):
    found = decoder(tmp_path, k_quant_type="PER_TENSOR")
    assert found.barrier_counts == {"com.microsoft.GroupQueryAttention": 1}
    assert found.n_multiply_accumulates == WEIGHTS
    assert found.n_hidden_products == SCORES
    share = f"{SCORES / (SCORES + WEIGHTS):.0%}"
    first, second, *_ = map(str, found.notes)
    assert f"about {share} of the model's products ({SCORES:,} of {SCORES + WEIGHTS:,}) are not counted" in first
    assert "its cache is quantised): a barrier" in second
    assert f"it hides about {SCORES:,} products" in second
    assert found.outputs["ok"].shape == (B, 2, 6, H)


def test_a_decoder_that_is_known_hides_nothing(tmp_path):
    found = decoder(tmp_path)
    assert found.n_multiply_accumulates == WEIGHTS + SCORES
    assert found.notes == () and found.hidden_text is None


def test_an_operator_behind_one_of_onnx_runtime_has_a_known_shape(tmp_path):
    nodes = [runtime("QuickGelu", ["x"], ["a"]), node("Hardmax", ["a"], ["b"]), node("Exp", ["b"], ["y"])]
    found = from_onnx(saved(tmp_path, model(nodes, {"x": (3, 5)})))
    assert found.inputs["b"].sizes == (3, 5)
    assert found.n_hidden_products == 0


def graph_with(nodes, inputs, outputs):
    def info(name, kind=TensorProto.FLOAT, shape=None):
        return helper.make_tensor_value_info(name, kind, shape)

    return helper.make_graph(nodes, "body", [info(*i) for i in inputs], [info(name) for name in outputs])


def test_a_loop_hides_the_products_of_all_its_steps(tmp_path):
    body = graph_with(
        [node("MatMul", ["state", "w"], ["next"]), node("Identity", ["going"], ["goes"])],
        [("i", TensorProto.INT64, []), ("going", TensorProto.BOOL, []), ("state",)],
        ["goes", "next"],
    )
    nodes = [node("Loop", ["n", "", "x"], ["z"], body=body), node("MatMul", ["z", "w"], ["y"])]
    weights = {"w": numbers(8, 8), "n": np.array(5)}
    found = from_onnx(saved(tmp_path, model(nodes, {"x": (4, 8)}, weights)))
    assert found.n_hidden_products == 5 * 4 * 8 * 8
    assert "about 83% of the model's products" in str(found.notes[0])


def test_a_branch_that_is_not_known_hides_the_products_of_the_larger_one(tmp_path):
    then = graph_with([node("MatMul", ["x", "w"], ["t"])], [], ["t"])
    other = graph_with([node("MatMul", ["x", "w"], ["m"]), node("MatMul", ["m", "w"], ["e"])], [], ["e"])
    nodes = [node("Cast", ["f"], ["c"], to=TensorProto.BOOL), node("MatMul", ["x", "w"], ["s"])]
    nodes += [node("If", ["c"], ["z"], then_branch=then, else_branch=other), node("Add", ["z", "s"], ["y"])]
    found = from_onnx(saved(tmp_path, model(nodes, {"x": (4, 8), "f": (1,)}, {"w": numbers(8, 8)})))
    assert found.n_hidden_products == 2 * 4 * 8 * 8


@pytest.mark.parametrize(
    ("operator", "operands", "attributes", "hidden"),
    [
        ("MatMulBnb4", ["x", "w"], {"N": 6, "K": 8, "block_size": 16, "quant_type": 0}, 4 * 8 * 6),
        ("SparseAttention", ["q", "q", "q", "p", "p"], {"num_heads": 2, "kv_num_heads": 2}, 2 * 4 * 8 * 13),
        ("MatMulFpQ4", ["x", "w"], {"N": 6}, 4 * 8 * 6),
    ],
)
def test_operators_of_onnx_runtime_that_are_not_known_hide_products(tmp_path, operator, operands, attributes, hidden):
    nodes = [runtime(operator, operands, ["a", "k2", "v2"], **attributes), node("Exp", ["a"], ["y"])]
    inputs = {"x": (4, 8), "q": (1, 4, 8), "p": (1, 2, 9, 4)}
    found = from_onnx(saved(tmp_path, model(nodes, inputs, {"w": np.zeros(48, np.uint8)})))
    assert found.n_hidden_products == hidden
    assert "about all of the model's products" in str(found.notes[0])


def test_an_operator_of_which_nothing_is_known_is_refused(tmp_path):
    nodes = [runtime("Unheard", ["x"], ["a"]), node("Exp", ["a"], ["y"])]
    with pytest.raises(SpecError, match="the shape of its result 'a' is not known"):
        from_onnx(saved(tmp_path, model(nodes, {"x": (4, 8)})))
