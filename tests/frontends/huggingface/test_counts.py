"""Parameters, products and bytes of public models."""

import pytest
from tests.frontends.huggingface.configs import PUBLISHED

from einmap import from_huggingface


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_that_are_published(name):
    config, parameters = PUBLISHED[name]
    assert from_huggingface(config).n_parameters == parameters


ACTIVE = {
    "Mixtral-8x7B": 12.9e9,
    "Qwen3-30B-A3B": 3.3e9,
    "Qwen3-235B-A22B": 22e9,
    "DeepSeek-V2": 21e9,
    "DeepSeek-V3": 37e9,
}


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters_are_those_that_are_published(name):
    assert from_huggingface(PUBLISHED[name][0]).n_active_parameters == pytest.approx(ACTIVE[name], rel=0.02)


def test_products_of_a_token_are_its_weights_and_its_attention():
    config, parameters = PUBLISHED["Llama-3.1-8B"]
    model = from_huggingface(config, batch=3, context=1000)
    embeddings, norms = 128256 * 4096, 65 * 4096
    attention = 32 * 32 * 128 * 2 * 1001
    assert model.n_products == 3 * (parameters - embeddings - norms + attention)


def test_products_of_a_prompt_are_those_of_its_tokens_and_one_head():
    config, parameters = PUBLISHED["Llama-3.1-8B"]
    model = from_huggingface(config, tokens=512)
    embeddings, norms = 128256 * 4096, 65 * 4096
    layers = parameters - 2 * embeddings - norms
    assert model.n_products == 512 * layers + embeddings + 32 * 32 * 128 * 2 * 512 * 512


@pytest.mark.parametrize(
    ("name", "bits"),
    [
        # 32 layers of keys and values of 8 heads of 128
        ("Llama-3.1-8B", 32 * 2 * 8 * 128 * 16),
        # 61 rows of 512 and a key of 64
        ("DeepSeek-V3", 61 * 576 * 16),
    ],
)
def test_a_token_appends_what_is_cached_of_it(name, bits):
    model = from_huggingface(PUBLISHED[name][0], batch=2, context=100)
    assert model.appended_bits == 2 * bits
    assert model.cache_bits == 2 * 100 * bits


def test_a_window_bounds_what_is_read_and_layers_within_it_are_alike():
    config, _ = PUBLISHED["gemma-2-9b"]
    row = 2 * 8 * 256 * 16
    long = from_huggingface(config, context=8192)
    assert long.cache_bits == 21 * row * (4095 + 8192)
    assert [part.instances for part in long.parts] == [1, 21, 21, 1]
    assert [part.instances for part in from_huggingface(config, context=4000).parts] == [1, 42, 1]


def test_layers_cost_as_much_as_one_and_count_as_all():
    one, many = (
        from_huggingface({**PUBLISHED["Llama-3.1-8B"][0], "num_hidden_layers": n}, context=64) for n in (1, 1000)
    )
    assert len(one.spec.workload.einsums) == len(many.spec.workload.einsums)
    total = sum(einsum.n_computes * einsum.n_instances for einsum in many.spec.workload.einsums)
    layer = one.parts[1].spec.workload.n_computes
    assert total == one.spec.workload.n_computes + 999 * layer


def test_widths_are_of_weights_activations_and_cache_apart():
    config, _ = PUBLISHED["Llama-3.1-8B"]
    model = from_huggingface(config, context=10, weight_bits=4, activation_bits=8, cache_bits=2)
    linear = 32 * (4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 14336)
    others = 2 * 128256 * 4096 + 65 * 4096
    assert model.weight_bits == 4 * linear + 16 * others
    assert model.cache_bits == 10 * 2 * 32 * 1024 * 2
    accesses = {a.tensor: a.bits_per_value for e in model.spec.workload.einsums for a in e.accesses}
    assert (accesses["Q"], accesses["WQ"], accesses["K_cache"], accesses["K_new"]) == (8, 4, 2, 2)
    quantised = {**config, "quantization_config": {"quant_method": "fp8", "weight_block_size": [128, 128]}}
    assert from_huggingface(quantised).weight_bits == 8 * linear + 16 * others


def test_an_mixture_reads_no_more_experts_than_it_has_choices():
    config, _ = PUBLISHED["Mixtral-8x7B"]
    few, many = (from_huggingface(config, batch=batch).parts[1] for batch in (1, 64))
    assert "Busy" in few.inputs
    assert "Busy" not in many.inputs
    # 2 experts of one token each, 8 of 16 tokens each
    assert [{t.name: t.values for t, _ in p.inputs.values()}["Token"] for p in (few, many)] == [2, 128]
