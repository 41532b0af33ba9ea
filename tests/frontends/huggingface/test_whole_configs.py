"""Configs as they are published, with all of their fields: nothing harmless is refused."""

import json

import pytest

from einmap import from_huggingface

COMMON = """"transformers_version": "4.40.1", "use_cache": true, "initializer_range": 0.02, "bos_token_id": 1"""
QWEN = """{"architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "eos_token_id": 151643, "hidden_act": "silu",
"hidden_size": 3584, "intermediate_size": 18944, "max_position_embeddings": 131072, "max_window_layers": 28,
"model_type": "qwen2", "num_attention_heads": 28, "num_hidden_layers": 28, "num_key_value_heads": 4,
"rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 131072, "tie_word_embeddings": false,
"torch_dtype": "bfloat16", "use_mrope": false, "use_sliding_window": false, "vocab_size": 152064, """
GEMMA = """{"architectures": ["Gemma2ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
"attn_logit_softcapping": 50.0, "cache_implementation": "hybrid", "eos_token_id": 1, "final_logit_softcapping": 30.0,
"head_dim": 256, "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 3584,
"intermediate_size": 14336, "max_position_embeddings": 8192, "model_type": "gemma2", "num_attention_heads": 16,
"num_hidden_layers": 42, "num_key_value_heads": 8, "pad_token_id": 0, "query_pre_attn_scalar": 256,
"rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 4096, "sliding_window_size": 4096,
"torch_dtype": "float32", "vocab_size": 256000, """
GEMMA3 = """{"architectures": ["Gemma3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
"attn_logit_softcapping": null, "cache_implementation": "hybrid", "eos_token_id": [1, 106],
"final_logit_softcapping": null, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
"intermediate_size": 6912, "max_position_embeddings": 32768, "model_type": "gemma3_text", "num_attention_heads": 4,
"num_hidden_layers": 26, "num_key_value_heads": 1, "pad_token_id": 0, "query_pre_attn_scalar": 256,
"rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": null, "rope_theta": 1000000,
"sliding_window": 512, "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "vocab_size": 262144, """
MIXTRAL = """{"architectures": ["MixtralForCausalLM"], "attention_dropout": 0.0, "eos_token_id": 2, "hidden_act": "silu",
"hidden_size": 4096, "intermediate_size": 14336, "max_position_embeddings": 32768, "model_type": "mixtral",
"num_attention_heads": 32, "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
"num_local_experts": 8, "output_router_logits": false, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
"router_aux_loss_coef": 0.02, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
"vocab_size": 32000, """
PHI = """{"_name_or_path": "Phi-3-mini-4k-instruct", "architectures": ["Phi3ForCausalLM"], "attention_bias": false,
"attention_dropout": 0.0, "auto_map": {"AutoConfig": "configuration_phi3.Phi3Config"}, "embd_pdrop": 0.0,
"eos_token_id": 32000, "hidden_act": "silu", "hidden_size": 3072, "intermediate_size": 8192,
"max_position_embeddings": 4096, "model_type": "phi3", "num_attention_heads": 32, "num_hidden_layers": 32,
"num_key_value_heads": 32, "original_max_position_embeddings": 4096, "pad_token_id": 32000, "resid_pdrop": 0.0,
"rms_norm_eps": 1e-05, "rope_scaling": null, "rope_theta": 10000.0, "sliding_window": 2047,
"tie_word_embeddings": false, "torch_dtype": "bfloat16", "vocab_size": 32064, """
DEEPSEEK = """{"architectures": ["DeepseekV3ForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
"auto_map": {"AutoConfig": "configuration_deepseek.DeepseekV3Config"}, "aux_loss_alpha": 0.001, "eos_token_id": 1,
"ep_size": 1, "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168, "intermediate_size": 18432,
"kv_lora_rank": 512, "max_position_embeddings": 163840, "model_type": "deepseek_v3", "moe_intermediate_size": 2048,
"moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true,
"num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
"num_nextn_predict_layers": 1, "pretraining_tp": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128,
"qk_rope_head_dim": 64, "quantization_config": {"activation_scheme": "dynamic", "fmt": "e4m3", "quant_method": "fp8",
"weight_block_size": [128, 128]}, "rms_norm_eps": 1e-06, "rope_scaling": {"beta_fast": 32, "beta_slow": 1,
"factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 4096, "type": "yarn"},
"rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "seq_aux": true,
"tie_word_embeddings": false, "topk_group": 4, "topk_method": "noaux_tc", "torch_dtype": "bfloat16",
"v_head_dim": 128, "vocab_size": 129280, """
QWEN_MOE = """{"architectures": ["Qwen3MoeForCausalLM"], "attention_bias": false, "attention_dropout": 0.0,
"decoder_sparse_step": 1, "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
"intermediate_size": 6144, "max_position_embeddings": 40960, "max_window_layers": 48, "mlp_only_layers": [],
"model_type": "qwen3_moe", "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32,
"num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48, "num_key_value_heads": 4,
"output_router_logits": false, "rms_norm_eps": 1e-06, "rope_scaling": null, "rope_theta": 1000000.0,
"router_aux_loss_coef": 0.001, "sliding_window": null, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
"use_sliding_window": false, "vocab_size": 151936, """
MAMBA = """{"architectures": ["Mamba2ForCausalLM"], "chunk_size": 256, "conv_kernel": 4, "eos_token_id": 0, "expand": 2,
"head_dim": 64, "hidden_act": "silu", "hidden_size": 4096, "layer_norm_epsilon": 1e-05, "model_type": "mamba2",
"n_groups": 8, "norm_before_gate": true, "num_heads": 128, "num_hidden_layers": 64, "pad_token_id": 0,
"rescale_prenorm_residual": false, "residual_in_fp32": true, "rms_norm": true, "state_size": 128,
"tie_word_embeddings": false, "time_step_floor": 0.0001, "time_step_init_scheme": "random",
"time_step_limit": [0.0, Infinity], "time_step_max": 0.1, "time_step_min": 0.001, "time_step_rank": 256,
"time_step_scale": 1.0, "torch_dtype": "bfloat16", "use_bias": false, "use_conv_bias": true, "vocab_size": 32768, """
BERT = """{"architectures": ["BertForMaskedLM"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": false,
"hidden_act": "gelu", "hidden_dropout_prob": 0.1, "hidden_size": 768, "intermediate_size": 3072,
"layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert", "num_attention_heads": 12,
"num_hidden_layers": 12, "pad_token_id": 0, "position_embedding_type": "absolute", "type_vocab_size": 2,
"vocab_size": 30522, """
WHOLE = {
    "qwen": (QWEN, 7_615_616_512), "gemma": (GEMMA, 9_241_705_984), "gemma3": (GEMMA3, 999_885_952),
    "mixtral": (MIXTRAL, 46_702_792_704), "phi": (PHI, 3_821_079_552), "deepseek": (DEEPSEEK, 671_026_419_200),
    "qwen_moe": (QWEN_MOE, 30_532_122_624), "mamba": (MAMBA, 7_285_403_648),
    # embeddings and layers, and the head of masked positions without the pooled one
    "bert": (BERT, 109_482_240 - 768 * 769 + 768 * 769 + 2 * 768 + 30522),
}  # fmt: skip


@pytest.mark.parametrize("name", WHOLE)
def test_a_whole_config_is_imported(name, tmp_path):
    text, parameters = WHOLE[name]
    path = tmp_path / "config.json"
    path.write_text(text + COMMON + "}")
    assert from_huggingface(path).n_parameters == parameters
    if "Infinity" not in text:
        assert from_huggingface(json.loads(path.read_text())).n_parameters == parameters


def test_weights_in_8_bits_are_those_of_linear_layers(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(DEEPSEEK + COMMON + "}")
    model = from_huggingface(path)
    wide = 2 * 129280 * 7168 + 58 * 7168 * 256
    assert model.weight_bits / 8 == pytest.approx(671_026_419_200 + wide, rel=1e-5)
