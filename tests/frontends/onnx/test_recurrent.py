"""Recurrent layers of ONNX: values of the reference evaluator, and of plain NumPy where it has no such layer."""

import numpy as np
import pytest
from tests.onnx_models import model, node, numbers, saved, values_of

import einmap
from einmap import SpecError
from einmap.frontends.onnx.read import from_onnx

STEPS, BATCH, FEATURES, HIDDEN = 4, 2, 3, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


def layer(kind, outputs=("y",), extra=None, steps=STEPS, **attributes):
    """A model of one layer, its inputs and its weights; `extra`: operands beyond the bias, by name."""
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    rows = GATES[kind] * HIDDEN
    weights = {"w": numbers(directions, rows, FEATURES, seed=1), "r": numbers(directions, rows, HIDDEN, seed=2)}
    weights |= {"b": numbers(directions, 2 * rows, seed=3)}
    places = [name if name in (extra or {}) else "" for name in ("lengths", "h0", "c0", "p")]
    operands = ["x", "w", "r", "b", *places]
    while not operands[-1]:
        operands.pop()
    weights |= extra or {}
    shape = (BATCH, steps, FEATURES) if attributes.get("layout") else (steps, BATCH, FEATURES)
    nodes = [node(kind, operands, list(outputs), hidden_size=HIDDEN, **attributes), node("Relu", ["x"], ["z"])]
    outputs = (*outputs, "z")
    return model(nodes, {"x": shape}, weights, outputs=outputs), {"x": numbers(*shape)}, weights


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def plain(kind, x, weights, **attributes):
    """All states of a layer as (steps, directions, batch, hidden), the last ones, and the last cells."""
    if attributes.get("layout"):
        x = x.transpose(1, 0, 2)
    turned = {"forward": [False], "reverse": [True], "bidirectional": [False, True]}
    every, lasts, cells = [], [], []
    for d, backwards in enumerate(turned[attributes.get("direction", "forward")]):
        w, r = weights["w"][d], weights["r"][d]
        wb, rb = np.split(weights["b"][d], 2)
        h, c = np.zeros((x.shape[1], HIDDEN)), np.zeros((x.shape[1], HIDDEN))
        states = []
        for row in x[::-1] if backwards else x:
            a, b = (np.split(v, GATES[kind], axis=1) for v in (row @ w.T + wb, h @ r.T + rb))
            if kind == "RNN":
                h = np.tanh(a[0] + b[0])
            elif kind == "LSTM":
                i, o, f = (sigmoid(a[g] + b[g]) for g in range(3))
                f = 1 - i if attributes.get("input_forget") else f  # as ONNX Runtime 1.32 has it
                c = f * c + i * np.tanh(a[3] + b[3])
                h = o * np.tanh(c)
            else:
                z, u = (sigmoid(a[g] + b[g]) for g in range(2))
                h = (1 - z) * np.tanh(a[2] + u * b[2]) + z * h
            states.append(h)
        every.append(states[::-1] if backwards else states)
        lasts.append(h)
        cells.append(c)
    order = (2, 1, 0, 3) if attributes.get("layout") else (1, 0, 2, 3)
    last = (1, 0, 2) if attributes.get("layout") else (0, 1, 2)
    return np.array(every).transpose(order), np.array(lasts).transpose(last), np.array(cells).transpose(last)


@pytest.mark.parametrize(
    ("kind", "outputs", "extra", "attributes"),
    [
        pytest.param("RNN", ("y", "h"), {"h0": numbers(1, BATCH, HIDDEN)}, {}, id="RNN with a state to begin with"),
        pytest.param("GRU", ("y",), {}, {}, id="GRU"),
        pytest.param("GRU", ("y", "h"), {"h0": numbers(1, BATCH, HIDDEN)}, {"linear_before_reset": 1}, id="GRU, reset"),
        pytest.param("LSTM", ("y", "h", "c"), {}, {}, id="LSTM"),
        pytest.param(
            "LSTM",
            ("y", "c"),
            {"h0": numbers(1, BATCH, HIDDEN), "c0": numbers(1, BATCH, HIDDEN, seed=4), "p": numbers(1, 3 * HIDDEN)},
            {},
            id="LSTM with peepholes",
        ),
    ],
)
def test_values_are_those_of_the_reference_evaluator(tmp_path, kind, outputs, extra, attributes):
    built, inputs, weights = layer(kind, outputs, extra, **attributes)
    values, expected = values_of(built, inputs, weights)
    result = from_onnx(saved(tmp_path, built))
    found = result.run(values)
    assert result.barriers == ()
    for name in outputs:
        assert found[name].shape == expected[name].shape
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)


def test_a_forget_gate_may_be_what_the_input_gate_leaves(tmp_path):
    built, inputs, weights = layer("LSTM", ("y", "h", "c"), input_forget=1)
    found = from_onnx(saved(tmp_path, built), strict=True).run({**inputs, **weights})
    for name, values in zip("yhc", plain("LSTM", inputs["x"], weights, input_forget=1), strict=True):
        np.testing.assert_allclose(found[name], values, atol=1e-6)


@pytest.mark.parametrize("kind", GATES)
@pytest.mark.parametrize(
    "attributes",
    [
        pytest.param({"direction": "reverse"}, id="reverse"),
        pytest.param({"direction": "bidirectional"}, id="bidirectional"),
        pytest.param({"layout": 1}, id="batch first"),
        pytest.param({"steps": 1}, id="one step"),
    ],
)
def test_values_are_those_of_numpy(tmp_path, kind, attributes):
    if kind == "GRU":
        attributes = {**attributes, "linear_before_reset": 1}
    outputs = ("y", "h", "c") if kind == "LSTM" else ("y", "h")
    built, inputs, weights = layer(kind, outputs, **attributes)
    result = from_onnx(saved(tmp_path, built))
    found = result.run({**inputs, **weights})
    expected = plain(kind, inputs["x"], weights, **attributes)
    for name, values in zip(outputs, expected, strict=False):
        assert found[name].shape == values.shape
        np.testing.assert_allclose(found[name], values, atol=1e-6)


def test_a_layer_is_a_recurrence_with_the_products_of_all_its_steps(tmp_path):
    result = from_onnx(saved(tmp_path, layer("LSTM")[0]))
    (recurrence,) = result.spec.workload.recurrences
    assert set(recurrence.states) == {"y_h", "y_c"}
    assert "y_inputs" not in recurrence.einsums
    assert result.n_multiply_accumulates == STEPS * BATCH * 4 * HIDDEN * (FEATURES + HIDDEN)


@pytest.mark.parametrize(
    ("extra", "attributes", "text"),
    [
        ({"lengths": np.array([4, 3], np.int32)}, {}, "sequence_lens"),
        ({}, {"clip": 1.0}, "clip"),
        ({}, {"activations": ["Gelu"]}, "there is no activation 'Gelu'"),
        ({}, {"activations": ["Tanh", "Tanh"]}, "2 activations for 1 directions of 1"),
        ({}, {"activations": [1]}, "must be a list of texts"),
    ],
)
def test_what_has_no_einsum_form_is_told(tmp_path, extra, attributes, text):
    built, _, _ = layer("RNN", extra=extra, **attributes)
    with pytest.raises(SpecError, match=text):
        from_onnx(saved(tmp_path, built), strict=True)


def test_weights_that_do_not_fit_are_told(tmp_path):
    nodes = [node("RNN", ["x", "w", "r"], ["y"], hidden_size=5)]
    built = model(nodes, {"x": (4, 2, 3)}, {"w": numbers(1, 5, 7), "r": numbers(1, 5, 5)})
    with pytest.raises(SpecError, match="do not fit inputs"):
        from_onnx(saved(tmp_path, built))
    built, _, _ = layer("LSTM", extra={"c0": numbers(1, HIDDEN, BATCH)})
    with pytest.raises(SpecError, match=r"operand 6 has the shape \[1, 5, 2\], expected \[1, 2, 5\]"):
        from_onnx(saved(tmp_path, built))


def test_an_imported_layer_is_mapped(tmp_path):
    built, _, _ = layer("RNN", outputs=("h",), steps=3)
    spec = einmap.load("simple")
    imported = from_onnx(saved(tmp_path, built)).spec.to_dict()
    given = einmap.Spec.from_dict({**spec.to_dict(), **imported})
    assert einmap.map_workload(given, max_fused_loops=1, share_inputs=False).optimal
    # the second output is made of x as well, and one copy of x for both is not searched
    found = einmap.map_workload(given, max_fused_loops=1)
    assert not found.optimal
    assert "mappings that fill x once for all Einsums that read it" in found.reason
