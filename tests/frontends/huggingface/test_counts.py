"""Parameters, products and bytes of public models."""

import pytest
from tests.frontends.huggingface.configs import PUBLISHED, ROUNDED

from einmap import from_huggingface


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_are_those_that_are_published(name):
    config, parameters = PUBLISHED[name]
    assert from_huggingface(config).n_parameters == parameters


@pytest.mark.parametrize("name", ROUNDED)
def test_parameters_are_those_that_are_published_as_rounded_numbers(name):
    config, parameters = ROUNDED[name]
    assert from_huggingface(config).n_parameters == pytest.approx(parameters, rel=0.005)


@pytest.mark.parametrize(("name", "active"), [("gpt-oss-20b", 3.61e9), ("gpt-oss-120b", 5.13e9)])
def test_active_parameters_of_gpt_oss_are_those_of_its_model_card_which_leaves_out_embeddings(name, active):
    model = from_huggingface(PUBLISHED[name][0])
    assert model.n_active_parameters - 201088 * 2880 == pytest.approx(active, rel=0.005)


def test_experts_of_gpt_oss_alone_are_quantised():
    config, parameters = PUBLISHED["gpt-oss-20b"]
    left_out = ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"]
    model = from_huggingface({**config, "quantization_config": {"quant_method": "mxfp4", "x": left_out}})
    experts = 24 * 32 * 3 * 2880 * 2880
    assert model.weight_bits == 4 * experts + 16 * (parameters - experts)


ACTIVE = {
    "Mixtral-8x7B": 12.9e9,
    "Qwen3-30B-A3B": 3.3e9,
    "Qwen3-235B-A22B": 22e9,
    "DeepSeek-V2": 21e9,
    "DeepSeek-V3": 37e9,
    "Llama-4-Scout": 17e9,
    "Llama-4-Maverick": 17e9,
}


@pytest.mark.parametrize("name", ACTIVE)
def test_active_parameters_are_those_that_are_published(name):
    assert from_huggingface(PUBLISHED[name][0]).n_active_parameters == pytest.approx(ACTIVE[name], rel=0.02)


UNGATED = ("phi", "nemotron")
OTHERS = ("qwen3_next", "deepseek_v32")
DECODERS = sorted(
    name
    for name, (config, _) in PUBLISHED.items()
    if "num_key_value_heads" in config and config["model_type"] not in OTHERS
)


def weights_of_a_token(config):
    """Weights that one token is multiplied with, from the sizes alone: 2 operations for each, as reports count them."""
    hidden, heads, layers = (config[key] for key in ("hidden_size", "num_attention_heads", "num_hidden_layers"))
    head, kv = config.get("head_dim") or _head(config), config["num_key_value_heads"]
    projections = 2 * hidden * head * (heads + kv)
    experts = config.get("num_experts") or config.get("num_local_experts") or config.get("n_routed_experts")
    dense = config.get("first_k_dense_replace", 0) if experts else layers
    inner = config.get("moe_intermediate_size", config["intermediate_size"])
    busy = config.get("num_experts_per_tok", 0) + config.get("n_shared_experts", 0)
    of_dense = config.get("intermediate_size_mlp", config["intermediate_size"])
    if config["model_type"] == "llama4_text":  # a shared one as well
        busy, dense = busy + 1, layers - layers // config.get("interleave_moe_layer_step", 1)
    shared = config.get("shared_expert_intermediate_size", 0)
    of_experts = hidden * (experts or 0) + 3 * hidden * (inner * busy + shared) + (hidden if shared else 0)
    if rows := config.get("kv_lora_rank"):
        nope, rope, value = (config[key] for key in ("qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"))
        q = config.get("q_lora_rank")
        queries = q * (hidden + heads * (nope + rope)) if q else hidden * heads * (nope + rope)
        # rows are not made into keys and values: queries are, and sums of rows afterwards
        projections = queries + hidden * (rows + rope) + rows * heads * (nope + value) + heads * value * hidden
    products = 2 if config["model_type"] in UNGATED else 3
    feed_forward = dense * products * hidden * of_dense + (layers - dense) * of_experts
    return layers * projections + feed_forward + config["vocab_size"] * hidden


def _head(config):
    return 256 if config["model_type"].startswith("gemma") else config["hidden_size"] // config["num_attention_heads"]


def products_with_the_cache(config):
    """Products of a token with one cached position: scores, and values or rows."""
    head = config.get("head_dim") or _head(config)
    each = 2 * config["kv_lora_rank"] + config["qk_rope_head_dim"] if "kv_lora_rank" in config else 2 * head
    return config["num_hidden_layers"] * config["num_attention_heads"] * each


def test_sizes_of_at_least_20_decoders_are_published():
    assert len(DECODERS) >= 20


@pytest.mark.parametrize("name", DECODERS)
def test_products_of_a_token_are_its_active_weights_and_pairs_of_positions(name):
    # no window is shorter than that
    context, config = 120, PUBLISHED[name][0]
    model = from_huggingface(config, context=context)
    expected = weights_of_a_token(config) + (context + 1) * products_with_the_cache(config)
    assert model.n_products == pytest.approx(expected, rel=0.005)


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


def test_a_token_of_deepseek_v32_sees_2048_positions_and_scores_all():
    config, _ = PUBLISHED["DeepSeek-V3.2"]
    rows, scores = 128 * (2 * 512 + 64), 64 * 128 + 64
    one, two = (from_huggingface(config, context=context) for context in (4096, 8192))
    assert two.n_products - one.n_products == 61 * 4096 * scores
    old = from_huggingface(PUBLISHED["DeepSeek-V3"][0], context=2047)
    index = 1536 * 64 * 128 + 7168 * (128 + 64)
    assert one.n_products - old.n_products == 61 * (index + 4097 * scores)
    # a prompt is not chosen from before there are more positions
    short = from_huggingface(config, tokens=4096).n_products - from_huggingface(config, tokens=2048).n_products
    assert short < 61 * 4096 * 4096 * rows
    assert one.cache_bits == 61 * 4096 * (576 + 128) * 16
    assert one.appended_bits == 61 * (576 + 128) * 16


def test_a_token_of_qwen3_next_reads_a_state_and_a_quarter_of_its_layers_a_cache():
    config, parameters = PUBLISHED["Qwen3-Next-80B-A3B"]
    one, two = (from_huggingface(config, context=context) for context in (1000, 2000))
    assert two.n_products - one.n_products == 12 * 16 * 2 * 256 * 1000
    states = 36 * (32 * 128 * 128 + 3 * 8192)
    assert one.cache_bits == (states + 12 * 2 * 2 * 256 * 1000) * 16
    # norms, convolutions and decays are no products, what a state is multiplied with is
    embeddings, idle = 151936 * 2048, 48 * 502 * 3 * 2048 * 512
    active = parameters - embeddings - idle
    states_and_pairs = 36 * 2 * 32 * 128 * 128 + 12 * 16 * 2 * 256 * 1001
    assert one.n_products == pytest.approx(active + states_and_pairs, rel=0.001)


def test_a_prompt_over_several_chunks_has_pairs_of_positions_within_each():
    config, _ = PUBLISHED["Llama-4-Scout"]
    one, long = (from_huggingface(config, tokens=tokens) for tokens in (8192, 3 * 8192))
    head = 202048 * 5120
    pairs = 40 * 128 * 2 * 8192**2
    # 36 layers in chunks, 12 that see all
    others = one.n_products - head - 48 * pairs
    assert long.n_products == 3 * others + head + (36 * 3 + 12 * 9) * pairs
    after = from_huggingface(config, tokens=9000, context=2 * 8192)
    assert after.cache_bits == 12 * 2 * 8192 * 2 * 8 * 128 * 16


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


@pytest.mark.parametrize(
    ("fields", "bits"),
    [
        ({"quant_method": "fp8", "weight_block_size": [128, 128]}, 8),
        ({"quant_method": "fbgemm_fp8", "activation_scale_ub": 1200.0}, 8),
        ({"quant_method": "gptq", "bits": 3, "group_size": 128}, 3),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"}, 4),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True, "load_in_4bit": False}, 8),
        (
            {
                "quant_method": "compressed-tensors",
                "kv_cache_scheme": None,
                "config_groups": {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 4, "type": "int"}}},
            },
            4,
        ),
    ],
)
def test_weights_of_linear_layers_are_as_wide_as_their_quantisation_says(fields, bits):
    config, parameters = PUBLISHED["Llama-3.1-8B"]
    linear = 32 * (4096 * 4096 * 2 + 4096 * 1024 * 2 + 3 * 4096 * 14336)
    model = from_huggingface({**config, "quantization_config": fields})
    assert model.weight_bits == bits * linear + 16 * (parameters - linear)


def test_an_mixture_reads_no_more_experts_than_it_has_choices():
    config, _ = PUBLISHED["Mixtral-8x7B"]
    few, many = (from_huggingface(config, batch=batch).parts[1] for batch in (1, 64))
    assert "Busy" in few.inputs
    assert "Busy" not in many.inputs
    # 2 experts of one token each, 8 of 16 tokens each
    assert [{t.name: t.values for t, _ in p.inputs.values()}["Token"] for p in (few, many)] == [2, 128]
