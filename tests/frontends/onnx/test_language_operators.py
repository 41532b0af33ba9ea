"""Operators that ONNX Runtime has for language models: values are its own, and all products are counted.

Values: ONNX Runtime 1.32.0 (CPU, graph optimisations disabled) for the models of `language_cases`: three numbers of each
output, in `language_values.json`.
"""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.frontends.onnx.language_cases import CASES, signature
from tests.onnx_models import model, node, numbers, saved, values_of

from einmap.errors import SpecError
from einmap.frontends.onnx.read import from_onnx

EXPECTED = json.loads(Path(__file__).with_name("language_values.json").read_text())
PRODUCTS = {
    "a prompt": 2 * 4 * 3 * 3 * 16 * 2,
    "a token after five": 2 * 4 * 6 * 16 * 2,
    "a token, packed": 2 * 4 * 6 * 16 * 2,
    "three tokens after five": 4 * 3 * 8 * 16 * 2,
    "a cache": 2 * 4 * 3 * 8 * 16 * 2,
    "one weight": 2 * 3 * 8 * 192 + 2 * 4 * 3 * 3 * 16 * 2,
    "experts of a row": 2 * (2 * 8 * 12 + 8),
    "experts with room for two rows each": 4 * 2 * (2 * 8 * 12 + 8),
    "experts of 4 bits": 2 * (2 * 32 * 48 + 32),
}
"""Worked out by hand: of scores and mixed values, of weights, of the experts that are chosen and the sum of them."""


def imported(folder, case, **how):
    nodes, inputs, weights, outputs, known = case
    built = model(nodes, inputs, weights, outputs)
    given = {name: inputs[name].tolist() for name in known}
    return from_onnx(saved(folder, built), values=given, **how), {**inputs, **weights}


@pytest.mark.parametrize("case", CASES)
def test_values_are_those_of_onnx_runtime(tmp_path, case):
    result, values = imported(tmp_path, CASES[case])
    assert not result.barriers
    found = result.run(values)
    for name, expected in zip(CASES[case][3], EXPECTED[case], strict=True):
        np.testing.assert_allclose(signature(found[name]), expected, rtol=2e-5, atol=2e-5)
    if case in PRODUCTS:
        assert result.n_multiply_accumulates == PRODUCTS[case]


@pytest.mark.parametrize("largest", [0, 1])
def test_one_value_is_chosen_of_several(tmp_path, largest):
    nodes = [node("TopK", ["x", "k"], ["y", "z"], largest=largest)]
    x = np.array([[3, 1, 3, 0], [5, 7, 7, 2]], np.float32)
    found = from_onnx(saved(tmp_path, model(nodes, {"x": x}, {"k": np.array([1])}, ["y", "z"]))).run({"x": x})
    assert found["y"].tolist() == ([[3], [7]] if largest else [[0], [2]])
    assert found["z"].tolist() == ([[0], [1]] if largest else [[3], [3]])


def test_rows_are_written_into_a_cache_from_a_given_place_on(tmp_path):
    cache, new = numbers(2, 3, 8, 4), numbers(2, 3, 3, 4, seed=1)
    nodes = [node("Neg", ["u"], ["n"]), node("TensorScatter", ["c", "n", "i"], ["y"], mode="circular")]
    inputs = {"c": cache, "u": new, "i": np.array([6, 6])}
    path = saved(tmp_path, model(nodes, inputs, opset=24))
    expected = cache.copy()
    expected[:, :, [6, 7, 0]] = -new
    found = from_onnx(path, values={"i": 6})
    np.testing.assert_array_equal(found.run(inputs)["y"], expected)
    written = [einsum for einsum in found.spec.workload.einsums if not einsum.is_copy]
    assert sum(einsum.n_computes for einsum in written) == new.size
    (barrier,) = from_onnx(path).barriers if from_onnx(path).barriers else ()
    assert "--value i=N" in barrier.reason


@pytest.mark.parametrize(
    "how",
    [{}, {"softcap": 1.5}, {"left_window_size": 1}, {"right_window_size": 1, "left_window_size": 0}, {"is_causal": 1}],
)
@pytest.mark.parametrize("hides", [False, True])
def test_attention_of_onnx_has_the_values_of_its_evaluator(tmp_path, how, hides):
    mask = np.array([[1, 0, 0, 1, 1, 0, 1, 1], [0] * 8, [1, 1, 1, 0, 0, 1, 0, 1]], bool)
    inputs = {"q": numbers(2, 4, 3, 8), "k": numbers(2, 2, 3, 8), "v": numbers(2, 2, 3, 8, seed=4)}
    inputs |= {"pk": numbers(2, 2, 5, 8, seed=5), "pv": numbers(2, 2, 5, 8, seed=6)} | ({"m": mask} if hides else {})
    names = ["q", "k", "v", "m" if hides else "", "pk", "pv"]
    built = model([node("Attention", names, ["y", "ok", "ov"], **how)], inputs, outputs=["y", "ok", "ov"], opset=25)
    values, expected = values_of(built, inputs, {})
    found = from_onnx(saved(tmp_path, built))
    assert found.n_multiply_accumulates == 2 * 2 * 4 * 3 * 8 * 8
    for name, array in found.run(values).items():
        np.testing.assert_allclose(array, expected[name], rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("how", [{}, {"exclusive": 1}, {"reverse": 1}])
def test_products_up_to_each_place_are_those_of_the_evaluator(tmp_path, how):
    built = model([node("CumProd", ["x", "a"], ["y"], **how)], {"x": (2, 6)}, {"a": np.array(1)}, opset=26)
    values, expected = values_of(built, {"x": (2, 6)}, {"a": np.array(1)})
    np.testing.assert_allclose(from_onnx(saved(tmp_path, built)).run(values)["y"], expected["y"], rtol=1e-6)


def evaluated(folder, call, inputs, products):
    """Values of both results are those of onnx's evaluator, and so many products are counted."""
    built = model([call], inputs, outputs=["y", "s"], opset=28)
    values, expected = values_of(built, inputs, {})
    result = from_onnx(saved(folder, built), strict=True)
    assert result.n_multiply_accumulates == products
    found = result.run(values)
    for name in ("y", "s"):
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
@pytest.mark.parametrize("tokens", [1, 3])
def test_linear_attention_has_the_values_of_the_evaluator(tmp_path, rule, tokens):
    inputs = {"q": numbers(2, tokens, 12), "k": numbers(2, tokens, 6, seed=1), "v": numbers(2, tokens, 10, seed=2)}
    inputs["p" if tokens == 1 or rule == "delta" else ""] = numbers(2, 2, 3, 5, seed=3)
    inputs |= {"g": -abs(numbers(2, tokens, 6 if tokens == 1 else 2))} if "gated" in rule else {}
    inputs |= {"b": abs(numbers(2, tokens, 1 if rule == "delta" else 2))} if "delta" in rule else {}
    inputs.pop("", None)
    names = [name if name in inputs else "" for name in "qkvpgb"]
    call = node("LinearAttention", names, ["y", "s"], q_num_heads=4, kv_num_heads=2, update_rule=rule)
    # each of 4 heads reads a state of 3 x 5; with the delta rule each of 2 states is read by its key before
    evaluated(tmp_path, call, inputs, 2 * tokens * 15 * (6 if "delta" in rule else 4))


def test_linear_attention_of_operands_that_do_not_fit_is_an_error(tmp_path):
    inputs = {"q": (1, 5, 8), "k": (1, 5, 8), "v": (1, 5, 12)}
    for other, text in [({"update_rule": "delta"}, "'delta' needs beta"), ({"kv_num_heads": 3}, "do not fit")]:
        how = {"q_num_heads": 2, "kv_num_heads": 2, "update_rule": "linear", **other}
        call = node("LinearAttention", ["q", "k", "v"], ["y"], **how)
        with pytest.raises(SpecError, match=text):
            from_onnx(saved(tmp_path, model([call], inputs, opset=27)))


@pytest.mark.parametrize("tokens", [1, 5])
@pytest.mark.parametrize("how", [{}, {"activation": "silu"}])
@pytest.mark.parametrize("has_state", [False, True])
def test_a_causal_convolution_goes_on_from_its_state(tmp_path, tokens, how, has_state):
    inputs = {"x": numbers(2, 3, tokens), "w": numbers(3, 1, 4), "b": numbers(3)}
    inputs |= {"p": numbers(2, 3, 3, seed=1)} if has_state else {}
    evaluated(tmp_path, node("CausalConvWithState", [*inputs], ["y", "s"], **how), inputs, 2 * 3 * tokens * 4)


def test_gates_and_integers_read_with_another_sign_have_the_values_of_the_evaluator(tmp_path):
    nodes = [node("SwiGLU", ["a", "b"], ["y"], alpha=1.5), node("BitCast", ["i"], ["u"], to=2)]
    nodes += [node("BitCast", ["u"], ["t"], to=3), node("BitCast", ["a"], ["f"], to=6)]
    inputs = {"a": numbers(2, 3), "b": numbers(2, 3, seed=1), "i": np.array([-128, -3, 0, 127], np.int8)}
    built = model(nodes, inputs, outputs=["y", "u", "t", "f"], opset=28)
    values, expected = values_of(built, inputs, {})
    result = from_onnx(saved(tmp_path, built))
    (barrier,) = result.barriers
    assert (barrier.operator, barrier.reason) == ("BitCast", "it reads bits of fractions as another type")
    found = result.run({**values, "f": values["a"]})
    np.testing.assert_allclose(found["y"], expected["y"], rtol=1e-6)
    assert [*found["u"], *found["t"]] == [*expected["u"], *inputs["i"]]
