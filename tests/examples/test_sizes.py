"""Shipped workloads have the published numbers of operations and weights."""

import math

import pytest

import einmap


def operations(workload, names=None):
    chosen = [e for e in workload.einsums if names is None or e.name in names]
    return sum(math.prod(e.extents.values()) * e.n_instances for e in chosen)


def weights(workload):
    """Values of all inputs called F... (filters) or W..., repetitions counted."""
    total = 0
    for einsum in workload.einsums:
        for access in einsum.accesses:
            if access.tensor.startswith(("F_", "W")):
                ranks = [einsum.extents[index.terms[0][0]] for _, index in access.projection]
                total += math.prod(ranks) * einsum.n_instances
    return total


def test_resnet50_has_its_published_size():
    net = einmap.load("resnet50").workload
    assert operations(net) == pytest.approx(3.86e9, rel=0.002)
    # 25,557,032 parameters, of which 2 * 26,560 of normalisation and 1,000 biases
    assert weights(net) == 25_557_032 - 2 * 26_560 - 1_000
    assert sum(e.n_instances for e in net.einsums) == 53 + 1


def test_vgg16_has_its_published_size():
    net = einmap.load("vgg16").workload
    fully_connected = [e.name for e in net.einsums if e.name.startswith("fc")]
    assert operations(net) == pytest.approx(15.47e9, rel=0.001)
    assert operations(net, fully_connected) == 123_633_664
    # 138,357,544 parameters, of which one bias for each output channel
    assert weights(net) == 138_357_544 - 4_224 - (4_096 + 4_096 + 1_000)
    assert sum(e.n_instances for e in net.einsums) == 13 + 3


def test_mobilenet_v1_has_its_published_size():
    net = einmap.load("mobilenet_v1").workload
    assert operations(net) == pytest.approx(569e6, rel=0.001)
    # 4,231,976 parameters, of which 2 * 10,944 of normalisation and 1,000 biases
    assert weights(net) == 4_231_976 - 2 * 10_944 - 1_000
    assert sum(e.n_instances for e in net.einsums) == 27 + 1


def test_resnet50_layer_knows_every_layer_of_resnet50():
    for einsum in einmap.load("resnet50").workload.einsums:
        layer = einmap.load("resnet50_layer", define={"LAYER": einsum.name}).workload.einsums[0]
        assert list(layer.extents.values()) == list(einsum.extents.values())


@pytest.mark.parametrize("net", ["resnet50", "vgg16", "mobilenet_v1"])
def test_one_layer_of_a_net_by_name(net):
    whole = {e.name: tuple(e.extents.values()) for e in einmap.load(net).workload.einsums}
    for name in list(whole)[::4]:
        (einsum,) = einmap.load(net, define={"LAYER": name}).workload.einsums
        assert (einsum.name, tuple(einsum.extents.values())) == (name, whole[name])


def test_an_unknown_layer_is_an_error_that_lists_the_layers():
    for net in ("resnet50", "vgg16", "mobilenet_v1", "resnet50_layer"):
        with pytest.raises(einmap.SpecError, match=r"LAYER must be .*conv1"):
            einmap.load(net, define={"LAYER": "conv9"})


@pytest.mark.parametrize(
    ("name", "d", "layers", "billions"), [("gpt3_6.7b", 4096, 32, 6.7), ("gpt3_175b", 12288, 96, 175)]
)
def test_gpt3_has_its_published_size(name, d, layers, billions):
    prefill, decode = (einmap.load(n).workload for n in (name, f"{name}_decode"))
    assert weights(prefill) == weights(decode) == 12 * d**2
    embeddings = (50_257 + 2_048) * d
    assert layers * 12 * d**2 + embeddings == pytest.approx(billions * 1e9, rel=0.01)
    heads, n = d // 128, 2048
    assert operations(prefill) == 12 * d**2 * n + 2 * n**2 * d + heads * n**2
    assert operations(decode) == 12 * d**2 + 2 * (n - 1) * d + heads * (n - 1)


def test_llama3_8b_has_its_published_size():
    prefill, decode = (einmap.load(n).workload for n in ("llama3_8b", "llama3_8b_decode"))
    d, vocabulary, layers = 4096, 128_256, 32
    assert weights(prefill) == weights(decode) == 2 * d**2 + 2 * d * 1024 + 3 * d * 14336
    # two gains for each layer, one at the end, embeddings in and out
    assert layers * (weights(prefill) + 2 * d) + d + 2 * vocabulary * d == 8_030_261_248
    n, cached = 2048, 2047
    matrices = {"V", "K", "V_new", "K_new", "Q", "QK", "AV", "Z", "FFG", "FFU", "FFD"}
    assert operations(prefill, matrices) == weights(prefill) * n + 2 * n**2 * d
    assert operations(decode, matrices) == weights(decode) + 2 * cached * d
