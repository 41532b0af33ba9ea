"""Shipped workloads compute what their files say: reduced in size, against formulas in numpy."""

import numpy as np
import pytest
from numpy.lib.stride_tricks import sliding_window_view
from tests.examples.reduced import LLAMA, REDUCED

import einmap
from einmap.einsum.numeric import random_inputs, run
from einmap.frontends.yaml.spec import example_paths


def computed(name, **define):
    """All tensors of a workload, inputs included."""
    workload = einmap.load(name, define={**REDUCED[name], **define}).workload
    inputs = random_inputs(workload, 0)
    return {**inputs, **run(workload, inputs)}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def windows(image, size, stride=1, dilation=1):
    """All windows of the two last axes: [..., p, q, r, s]."""
    r, s = (dilation * (n - 1) + 1 for n in size)
    return sliding_window_view(image, (r, s), (-2, -1))[..., ::stride, ::stride, ::dilation, ::dilation]


def conv(image, filters, stride=1, dilation=1):
    found = windows(image, filters.shape[-2:], stride, dilation)
    return np.einsum("ncpqrs,mcrs->nmpq", found, filters)


def depthwise(image, filters, stride=1):
    return np.einsum("ncpqrs,crs->ncpq", windows(image, filters.shape[-2:], stride), filters)


def test_every_workload_has_a_small_size():
    assert REDUCED.keys() == {name for name, path in example_paths().items() if path.parent.name == "workloads"}


@pytest.mark.parametrize("name", REDUCED)
def test_every_workload_runs_on_real_values(name):
    tensors = computed(name)
    assert all(np.isfinite(values).all() and values.any() for values in tensors.values())


# convolutions


def test_conv_is_a_convolution_over_the_padded_input():
    x = computed("conv")
    assert x["I"].shape == (2, 3, 2 * 4 + 2 * 2 + 1, 2 * 3 + 2 * 1 + 1)
    np.testing.assert_allclose(x["O"], conv(x["I"], x["F"], 2, 2))


def test_mobilenet_pair_is_depthwise_then_pointwise():
    x = computed("mobilenet_pair")
    np.testing.assert_allclose(x["O"], conv(depthwise(x["I"], x["FD"], 2), x["FP"][:, :, None, None]))


@pytest.mark.parametrize("net", ["resnet50", "vgg16", "mobilenet_v1"])
def test_every_layer_of_a_net_is_a_convolution(net):
    x = computed(net, N=2)
    names = [name.removeprefix("O_") for name in x if name.startswith("O_")]
    assert len(names) in (22, 12, 20)
    for name in names:
        image, filters, output = x[f"I_{name}"], x[f"F_{name}"], x[f"O_{name}"]
        stride = 1 if output.shape[-1] == 1 else (image.shape[-1] - filters.shape[-1]) // (output.shape[-1] - 1)
        layer = depthwise if filters.ndim == 3 else conv
        np.testing.assert_allclose(output, layer(image, filters, stride), err_msg=name)


# transformers


def attention(x, q="bpd,dhe->bhpe", kv="bmd,dhe->bhme"):
    heads = [np.einsum(form, x["I"], x[w]) for form, w in ((q, "WQ"), (kv, "WK"), (kv, "WV"))]
    weights = softmax(np.einsum("bhpe,bhme->bhpm", heads[0], heads[1]))
    return np.einsum("bhpm,bhmf->bhpf", weights, heads[2])


@pytest.mark.parametrize("kind", ["plain", "safe"])
def test_attention_is_multi_head_softmax_attention(kind):
    x = computed("attention", SOFTMAX=kind)
    assert ("GM" in x) == (kind == "safe")
    np.testing.assert_allclose(x["I"], x["IR"] @ x["WI"])
    np.testing.assert_allclose(x["A"].sum(2), 1)
    joined = attention(x).transpose(0, 2, 1, 3).reshape(2, 5, 8)
    np.testing.assert_allclose(x["Z"], joined @ x["WZ"])


@pytest.mark.parametrize("kind", ["plain", "safe"])
def test_attention_of_a_single_head(kind):
    x = computed("attention_single_head", SOFTMAX=kind)
    weights = softmax((x["I"] @ x["WQ"]) @ (x["I"] @ x["WK"]).swapaxes(1, 2))
    np.testing.assert_allclose(x["Z"], weights @ (x["I"] @ x["WV"]) @ x["WZ"])


def test_the_safe_softmax_does_not_overflow():
    workload = einmap.load("attention_core", define={"N_TOKENS": 2, "HEADS": 1, "D_HEAD": 1}).workload
    ones = np.ones((1, 1, 2, 1))
    found = run(workload, {"Q": 1000 * ones, "K": 1000 * ones, "V": 3 * ones})
    assert (found["AV"] == 3).all()


def test_attention_core_is_scaled_softmax_attention():
    x = computed("attention_core")
    weights = softmax(x["Q"] @ x["K"].swapaxes(2, 3) / np.sqrt(4))
    np.testing.assert_allclose(x["AV"], weights @ x["V"])


def silu(x):
    return x / (1 + np.exp(-x))


def test_feed_forward_is_relu_or_swiglu():
    x = computed("feed_forward")
    np.testing.assert_allclose(x["Z"], np.maximum(x["X"] @ x["W1"], 0) @ x["W2"])
    x = computed("feed_forward", GATED=1)
    np.testing.assert_allclose(x["Z"], (silu(x["X"] @ x["WG"]) * (x["X"] @ x["W1"])) @ x["W2"])


@pytest.mark.parametrize("model", ["gpt3_6.7b", "gpt3_175b"])
def test_gpt3_is_attention_with_the_softmax_of_its_file_then_two_matrices(model):
    for name in (model, f"{model}_decode"):
        x = computed(name)
        q, k, v = (np.einsum("bmd,dhe->bhme", x["I"], x[w]) for w in ("WQ", "WK", "WV"))
        if "K_cache" in x:
            np.testing.assert_allclose(x["K_new"].transpose(0, 2, 1, 3), k)
            k, v = x["K_cache"].transpose(0, 2, 1, 3), x["V_cache"].transpose(0, 2, 1, 3)
        heads = np.exp(q @ k.swapaxes(2, 3)) @ v
        z = np.einsum("bhmf,hfg->bmg", heads, x["WZ"])
        np.testing.assert_allclose(x["FFB"], z @ x["WFFA"] @ x["WFFB"])


def rms_norm(x):
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-5)


def llama(x):
    """The formula of a layer, head by head; each key-value head serves two query heads."""
    xn = rms_norm(x["X"])
    k, v = (x[t] if t in x else np.einsum("bmd,dhe->bmhe", xn, x[w]) for t, w in (("K_cache", "WK"), ("V_cache", "WV")))
    z = np.zeros_like(x["X"])
    for head in range(LLAMA["HEADS"]):
        h, g = divmod(head, LLAMA["HEADS"] // LLAMA["KV_HEADS"])
        scores = (xn @ x["WQ"][:, h, g]) @ k[:, :, h].swapaxes(1, 2) / np.sqrt(LLAMA["D_HEAD"])
        z += softmax(scores) @ v[:, :, h] @ x["WZ"][h, g]
    y = x["X"] + z
    yn = rms_norm(y)
    return y + (silu(yn @ x["WFFG"]) * (yn @ x["WFFU"])) @ x["WFFD"]


@pytest.mark.parametrize("name", ["llama3_8b", "llama3_8b_decode"])
def test_llama3_is_grouped_query_attention_and_swiglu(name):
    x = computed(name)
    np.testing.assert_allclose(x["O"], llama(x))


# small ones


def test_matrix_vector_and_elementwise():
    x = computed("matrix_vector")
    np.testing.assert_allclose(x["Z"], x["A"].T @ x["B"])
    y = computed("elementwise")
    np.testing.assert_allclose(y["Z"], y["A"] * y["B"])


def test_lstm_is_step_by_step():
    found = computed("lstm")
    h = c = np.zeros((2, 5))
    for t, row in enumerate(found["X"]):
        gates = np.einsum("bk,kgn->gbn", row, found["W"]) + np.einsum("bm,mgn->gbn", h, found["U"])
        i, o, f = 1 / (1 + np.exp(-gates[:3]))
        c = f * c + i * np.tanh(gates[3])
        h = o * np.tanh(c)
        np.testing.assert_allclose(found["C"][t + 1], c)
        np.testing.assert_allclose(found["Y"][t], h)
