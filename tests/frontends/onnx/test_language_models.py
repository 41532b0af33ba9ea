"""Decoders as exporters write them have the products of `config.json`, whoever wrote them; equal layers become one."""

import json
import math

import numpy as np
import pytest
from tests.frontends.onnx.language_models import Sizes, genai, optimum
from tests.onnx_models import model, node, numbers, saved

import einmap
from einmap.errors import SpecError
from einmap.frontends.onnx.read import from_onnx
from einmap.frontends.yaml.spec import dump

LLAMA_3_8B = Sizes(layers=32)
SMALL = Sizes(layers=4, hidden=64, heads=4, key_heads=2, inner=96, vocabulary=50, positions=32)


def imported(folder, write, sizes, tokens, context, **how):
    dimensions = {"batch_size": 1, "sequence_length": tokens, "past_sequence_length": context}
    if write is genai:
        dimensions["total_sequence_length"] = tokens + context
    return from_onnx(write(folder / "model.onnx", sizes), dimensions=dimensions, **how)


def config(folder, sizes, tokens, context):
    path = folder / "config.json"
    path.write_text(json.dumps(sizes.config()))
    return einmap.from_huggingface(path, batch=1, tokens=tokens, context=context)


def parameters(result):
    """Weights of the model by name; what is derived from positions is none."""
    derived = ("cos_cache", "sin_cache", "model_rotary_emb_inv_freq")
    names = [t for name, t in result.inputs.items() if t.weight and isinstance(t.source, str) and name not in derived]
    return sum(math.prod(tensor.sizes) for tensor in names)


@pytest.mark.parametrize("write", [genai, optimum])
@pytest.mark.parametrize(("tokens", "context"), [(1, 1023), (128, 0)])
def test_one_layer_of_llama_3_8b_has_the_products_and_parameters_of_its_configuration(tmp_path, write, tokens, context):
    sizes = Sizes(layers=1)
    found, expected = imported(tmp_path, write, sizes, tokens, context), config(tmp_path, sizes, tokens, context)
    assert not found.barriers
    assert found.n_multiply_accumulates == expected.n_products
    assert parameters(found) == expected.n_parameters


@pytest.mark.slow
@pytest.mark.parametrize("write", [genai, optimum])
@pytest.mark.parametrize(("tokens", "context"), [(1, 4095), (4096, 0)])
def test_llama_3_8b_has_the_published_counts(tmp_path, write, tokens, context):
    found = imported(tmp_path, write, LLAMA_3_8B, tokens, context)
    assert parameters(found) == 8_030_261_248
    assert found.n_multiply_accumulates == config(tmp_path, LLAMA_3_8B, tokens, context).n_products


def test_weights_of_four_bits_have_these_and_their_scales_are_tensors_of_their_own(tmp_path):
    found = imported(tmp_path, genai, Sizes(layers=1, bits=4), 1, 1023)
    by_bits = {}
    for tensor in found.inputs.values():
        if tensor.weight and isinstance(tensor.source, str) and "layers_0" in tensor.name:
            by_bits[tensor.bits] = by_bits.get(tensor.bits, 0) + math.prod(tensor.sizes)
    linear = 4096 * (2 * 4096 + 2 * 1024 + 3 * 14336)
    assert by_bits == {4: linear, 16: linear // 32 + 2 * 4096}


@pytest.mark.parametrize("write", [genai, optimum])
def test_rows_are_appended_to_a_cache_that_stays_where_it_is(tmp_path, write):
    found = imported(tmp_path, write, SMALL, 1, 7)
    for name in (f"present.{layer}.{what}" for layer in range(4) for what in ("key", "value")):
        assert found.joined[name].axis == 2
        old, new = found.joined[name].parts
        assert old.tensor.source == name.replace("present", "past_key_values")
        assert found.outputs[new].shape == (1, 2, 1, 16)
    assert not any("past" in einsum.name for einsum in found.spec.workload.einsums)


@pytest.mark.parametrize("write", [genai, optimum])
def test_equal_layers_are_one_with_instances_and_the_rest_is_the_same(tmp_path, write):
    plain = imported(tmp_path, write, SMALL, 1, 7)
    found = imported(tmp_path, write, SMALL, 1, 7, instances=True)
    assert found.n_multiply_accumulates == plain.n_multiply_accumulates
    assert {einsum.n_instances for einsum in found.spec.workload.einsums} == {1, 4}
    assert len(found.spec.workload.einsums) < len(plain.spec.workload.einsums) / 2
    costs = [
        einmap.map_workload(einmap.load("simple", text), metrics="energy", fuse=False).cost.energy
        for text in (written(tmp_path / "plain.yaml", plain), written(tmp_path / "found.yaml", found))
    ]
    assert costs[0] == pytest.approx(costs[1], rel=1e-12)


def written(path, result):
    path.write_text(dump(result.spec))
    return path


def test_layers_as_one_have_no_values(tmp_path):
    found = imported(tmp_path, genai, SMALL, 1, 7, instances=True)
    with pytest.raises(SpecError, match="equal layers are one: they have no values"):
        found.run({})


def stack(weights, skip=0):
    """Products one behind another, each plus its input, or with `skip` that of so many before it, or the first."""
    nodes = []
    for i in range(6):
        names = [f"x{i}", f"{weights}{i}" if len(weights) == 1 else "w0"]
        nodes += [node("MatMul", names, [f"m{i}"]), node("Relu", [f"m{i}"], [f"r{i}"])]
        nodes += [node("Softmax", [f"r{i}"], [f"s{i}"]), node("Add", [f"s{i}", f"x{max(0, i - skip)}"], [f"x{i + 1}"])]
    return nodes


@pytest.mark.parametrize(("weights", "skip", "instances"), [("w", 0, 6), ("one", 0, 6), ("w", 2, 3)])
def test_layers_are_one_where_each_reads_its_own_weight_one_for_all_and_the_layer_before(
    tmp_path, weights, skip, instances
):
    nodes = stack(weights, skip)
    names = {name for entry in nodes for name in entry.input if name.startswith("w")}
    built = model(nodes, {"x0": (4, 8)}, {name: numbers(8, 8) for name in names}, ["x6"])
    found = from_onnx(saved(tmp_path, built), instances=True)
    assert max(einsum.n_instances for einsum in found.spec.workload.einsums) == instances
    assert found.n_multiply_accumulates == 6 * 4 * 8 * 8


def test_layers_of_an_encoder_and_of_a_decoder_are_one_each(tmp_path):
    """The layers of the second kind read the result of those of the first, and one another's."""
    nodes, x = stack("w", 0), "x6"
    for i in range(5):
        nodes += [node("MatMul", ["x6", f"c{i}"], [f"k{i}"]), node("MatMul", [x, f"d{i}"], [f"q{i}"])]
        nodes += [node("Add", [f"q{i}", f"k{i}"], [f"p{i}"]), node("Softmax", [f"p{i}"], [f"t{i}"])]
        nodes += [node("Tanh", [f"t{i}"], [f"u{i}"]), node("Softmax", [f"u{i}"], [f"y{i}"])]
        x = f"y{i}"
    names = {name for entry in nodes for name in entry.input if name[0] in "wcd"}
    built = model(nodes, {"x0": (4, 8)}, {name: numbers(8, 8) for name in names}, [x])
    found = from_onnx(saved(tmp_path, built), instances=True)
    assert {einsum.n_instances for einsum in found.spec.workload.einsums} == {1, 4, 6}
    assert found.n_multiply_accumulates == (6 + 2 * 5) * 4 * 8 * 8


def test_values_of_both_exports_agree(tmp_path):
    """The same weights in both forms give the same logits and caches, for a token behind a cache and for a prompt."""
    rng = np.random.default_rng(0)
    for tokens, context in ((1, 7), (5, 0)):
        one, other = (imported(tmp_path, write, SMALL, tokens, context) for write in (genai, optimum))
        sources = {t.source: t.shape for t in one.inputs.values() if isinstance(t.source, str)}
        values = {name: rng.uniform(-0.3, 0.3, shape) for name, shape in sources.items()}
        values["input_ids"] = rng.integers(0, 50, (1, tokens))
        values["lm_head.MatMul.weight"] = rng.uniform(-1, 1, (64, 50))
        frequencies = 1 / 10000 ** (np.arange(8) / 8)
        angles = np.arange(32)[:, None] * frequencies
        values |= {"cos_cache": np.cos(angles), "sin_cache": np.sin(angles)}
        renamed = {renamed_as(name): array for name, array in values.items()}
        renamed |= {"position_ids": np.arange(context, context + tokens)[None]}
        renamed |= {
            "model.rotary_emb.inv_freq": frequencies.reshape(1, 8, 1),
            "model.norm.weight": values["model.layers.4.input_layernorm.weight"],
        }
        first, second = one.run(values), other.run(renamed)
        assert first.keys() == second.keys()
        for name, array in first.items():
            np.testing.assert_allclose(array, second[name], rtol=1e-4, atol=1e-6)  # 1e-5 in 16 bits


def renamed_as(name):
    """The name that optimum gives a weight."""
    return name.replace(".attn.", ".self_attn.").replace("lm_head.MatMul.weight", "lm_head")
