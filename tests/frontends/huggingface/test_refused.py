"""Configs and steps that are refused, with the place and what was expected."""

import json

import pytest
from tests.frontends.huggingface.configs import PUBLISHED

from einmap import SpecError, from_huggingface

LLAMA = PUBLISHED["Llama-3.1-8B"][0]
GEMMA = PUBLISHED["gemma-2-9b"][0]
MOE = PUBLISHED["Qwen3-30B-A3B"][0]
CODESTRAL = PUBLISHED["Mamba-Codestral-7B"][0]
BERT = PUBLISHED["bert-base-uncased"][0]
ROBERTA = PUBLISHED["roberta-base"][0]
SCOUT = PUBLISHED["Llama-4-Scout"][0]
GPT_OSS = PUBLISHED["gpt-oss-20b"][0]
NEXT = PUBLISHED["Qwen3-Next-80B-A3B"][0]
CHOOSING = PUBLISHED["DeepSeek-V3.2"][0]
FALCON = PUBLISHED["falcon-mamba-7b"][0]


def _groups(*bits):
    groups = {f"group_{i}": {"targets": ["Linear"], "weights": {"num_bits": n}} for i, n in enumerate(bits)}
    return {"quant_method": "compressed-tensors", "config_groups": groups}


@pytest.mark.parametrize(
    ("config", "change", "message"),
    [
        (LLAMA, {"model_type": "lama"}, "model_type: the architecture 'lama' is not known"),
        (LLAMA, {"model_type": None}, "the field 'model_type' is missing"),
        (LLAMA, {"num_experts": 8}, "num_experts: this field is not known"),
        (LLAMA, {"num_attention_head": 8}, "did you mean 'num_attention_heads'"),
        (LLAMA, {"hidden_size": None}, "the field 'hidden_size' is missing, expected a whole number"),
        (
            LLAMA,
            {"hidden_size": "4k"},
            "hidden_size: expected an integer of at least 1, at most 4,294,967,296, found '4k'",
        ),
        (LLAMA, {"hidden_size": -4096}, "hidden_size: expected an integer"),
        (LLAMA, {"hidden_size": 2.5}, "hidden_size: expected an integer"),
        (LLAMA, {"vocab_size": 2**40}, "vocab_size: expected an integer"),
        (LLAMA, {"num_hidden_layers": 10**6}, "num_hidden_layers: 1,000,000 layers"),
        (LLAMA, {"num_key_value_heads": 5}, "num_key_value_heads: 5 heads of keys and values do not divide 32"),
        (LLAMA, {"num_attention_heads": 24}, "num_attention_heads: 24 heads do not divide hidden_size, 4096"),
        (LLAMA, {"head_dim": 127}, "head_dim: rotary embedding needs an even number of features, found 127"),
        (LLAMA, {"hidden_act": "mish"}, "hidden_act: hidden_act 'mish' is not known"),
        (LLAMA, {"mlp_bias": "yes please"}, "mlp_bias: expected true or false"),
        (LLAMA, {"torch_dtype": "int3"}, "torch_dtype: torch_dtype 'int3' is not known"),
        (LLAMA, {"architectures": ["LlamaForSequenceClassification"]}, "architectures: the head of"),
        (LLAMA, {"quantization_config": {"quant_method": "aqlm"}}, "quant_method 'aqlm' is not known"),
        (LLAMA, {"quantization_config": {"quant_method": "gptq"}}, "the field 'bits' is missing"),
        (
            LLAMA,
            {"quantization_config": _groups(4, 8)},
            "config_groups: groups of layers with weights of several widths",
        ),
        (
            LLAMA,
            {"quantization_config": {"quant_method": "compressed-tensors"}},
            "config_groups: expected a dictionary",
        ),
        (
            LLAMA,
            {"quantization_config": {**_groups(8), "kv_cache_scheme": {"num_bits": 8}}},
            "kv_cache_scheme: a quantised cache is not read",
        ),
        (
            LLAMA,
            {"quantization_config": {"quant_method": "gptq", "bits": 2**31}},
            "bits: expected an integer of at least 1, at most 1,024",
        ),
        (LLAMA, {"quantization_config": _groups(2000)}, "num_bits: expected an integer of at least 1, at most 1,024"),
        (LLAMA, {"quantization_config": _groups()}, "config_groups: expected a group of layers, found none"),
        (
            LLAMA,
            {"quantization_config": {"quant_method": "compressed-tensors", "config_groups": {"group_0": 8}}},
            "expected a dictionary of fields",
        ),
        (LLAMA, {"lm_head_bias": True}, "lm_head_bias: a head with a bias"),
        (GEMMA, {"layer_types": ["full_attention"] * 3}, "layer_types: 3 kinds for 42 layers"),
        (GEMMA, {"layer_types": ["chunked_attention"] * 42}, r"layer_types\[0\]: expected full_attention"),
        (GEMMA, {"sliding_window": None}, "sliding_window: layers have a window, but its size is missing"),
        (MOE, {"num_experts_per_tok": 200}, "num_experts_per_tok: 200 of 128 experts"),
        (MOE, {"moe_intermediate_size": None}, "'moe_intermediate_size' is missing"),
        (CODESTRAL, {"num_heads": 100}, "num_heads: 100 heads of 64 features are not expand"),
        (CODESTRAL, {"n_groups": 7}, "n_groups: 7 groups do not divide 128 heads"),
        (LLAMA, {"model_type": "kimi_linear"}, "model_type: the architecture 'kimi_linear' is not known"),
        (NEXT, {"linear_num_key_heads": 5}, "linear_num_key_heads: 5 heads of keys do not divide 32"),
        (NEXT, {"layer_types": ["sliding_attention"] * 48}, r"layer_types\[0\]: expected full_attention or linear_"),
        (NEXT, {"layer_types": ["linear_attention"]}, "layer_types: 1 kinds for 48 layers"),
        (NEXT, {"use_sliding_window": True}, "use_sliding_window: windows beside linear attention"),
        (CHOOSING, {"index_topk": None}, "the field 'index_topk' is missing"),
        (CHOOSING, {"index_head_dim": 32}, "index_head_dim: 32 features, of which 64 are turned"),
        (CHOOSING, {"q_lora_rank": None}, "q_lora_rank: scores of positions are made of latent queries"),
        (SCOUT, {"no_rope_layers": [1, 0]}, "no_rope_layers: 2 entries for 48 layers"),
        (SCOUT, {"no_rope_layers": [2] * 48}, r"no_rope_layers\[0\]: expected an integer"),
        (SCOUT, {"layer_types": ["sliding_attention"] * 48}, "layer_types: expected full_attention or chunked"),
        (SCOUT, {"moe_layers": [48]}, r"moe_layers\[0\]: expected an integer"),
        (GPT_OSS, {"experts_per_token": 2}, "experts_per_token: expected what num_experts_per_tok says"),
        (PUBLISHED["granite-3.0-8b"][0], {"logits_scaling": 0}, "logits_scaling: logits are divided by it"),
        (PUBLISHED["phi-2"][0], {"qk_layernorm": True}, "qk_layernorm: norms of queries and keys in Phi"),
        (FALCON, {"time_step_rank": "some"}, "time_step_rank: expected an integer"),
        (FALCON, {"expand": 1e-4, "intermediate_size": None}, "expand: 0.4096 features inside"),
        (FALCON, {"d_model": 100}, "d_model: two fields of one size differ"),
        (BERT, {"position_embedding_type": "relative_key"}, "position_embedding_type: relative positions"),
        (BERT, {"is_decoder": True}, "is_decoder: BERT as a decoder"),
    ],
)
def test_a_field_that_is_unknown_or_wrong_is_refused_at_its_place(config, change, message, tmp_path):
    changed = {**config, **change}
    with pytest.raises(SpecError, match=message):
        from_huggingface(changed)
    path = tmp_path / "config.json"
    path.write_text(json.dumps(changed, indent=1))
    with pytest.raises(SpecError, match=message) as error:
        from_huggingface(path)
    assert str(error.value).startswith(str(path))


@pytest.mark.parametrize("text", ["", "[1]", "{", '{"model_type": [1]}', '{"model_type": "bert", "a": {"b": 1}'])
def test_files_that_are_no_config_are_refused(text, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(SpecError, match=r"config\.json"):
        from_huggingface(path)


@pytest.mark.parametrize(
    ("config", "step", "message"),
    [
        (LLAMA, {"tokens": 0}, "tokens: expected a whole number from 1"),
        (LLAMA, {"batch": True}, "batch: expected a whole number"),
        (LLAMA, {"context": 1.5}, "context: expected a whole number"),
        (LLAMA, {"weight_bits": 0}, "weight_bits: expected"),
        (GEMMA, {"tokens": 5000, "context": 1}, "a chunk of 5000 tokens after a context"),
        (CODESTRAL, {"tokens": 2, "context": 1}, "2 tokens after a context, in state-space layers"),
        (CODESTRAL, {"tokens": 300}, "300 tokens are not a multiple of chunk_size, 256"),
        (SCOUT, {"tokens": 9000, "context": 100}, "9000 tokens after 100, in layers that see chunks of 8192 positions"),
        (CHOOSING, {"tokens": 2, "context": 4000}, "2 tokens after 4000, in layers that see 2048 positions by choice"),
        (NEXT, {"tokens": 2, "context": 1}, "2 tokens after a context, in state-space layers"),
        (FALCON, {"tokens": 2, "context": 1}, "2 tokens after a context, in state-space layers"),
        (BERT, {"tokens": 8, "context": 1}, "an encoder sees all positions at once"),
        ({**LLAMA, "num_hidden_layers": 1000}, {"unrolled": True}, "1,000 layers written one by one; at most 256"),
        (BERT, {"tokens": 513}, "the model has embeddings of 512 positions"),
        (ROBERTA, {"tokens": 513}, "the model has embeddings of 512 positions"),
    ],
)
def test_steps_that_a_model_does_not_have_are_refused(config, step, message):
    with pytest.raises(SpecError, match=message):
        from_huggingface(config, **step)


def test_more_positions_than_a_model_is_made_for_are_noted():
    model = from_huggingface({**LLAMA, "max_position_embeddings": 8192}, context=8192)
    assert "8,193 positions; the model is made for 8,192" in str(model.notes[0])
    assert from_huggingface({**LLAMA, "max_position_embeddings": 8192}, context=8191).notes == ()
