"""Fields of public `config.json`s that give sizes, and the parameters that are published.

The source of each number is above it, looked up on 28 November 2026. `hub`: `safetensors.total` of the Hub's model API, as
public tables of it have it (kvfit, `scripts/build_registry.py`; `HF_API` of others, with revisions); `KerasHub`: its
presets at 71453d08, `params`; index: `total_size` of `model.safetensors.index.json`, 2 bytes each.
"""


def _dense(kind, vocab, hidden, inner, layers, heads, kv_heads, **more):
    return {
        "model_type": kind, "vocab_size": vocab, "hidden_size": hidden, "intermediate_size": inner,
        "num_hidden_layers": layers, "num_attention_heads": heads, "num_key_value_heads": kv_heads,
        "torch_dtype": "bfloat16", **more,
    }  # fmt: skip


def _deepseek(kind, vocab, hidden, inner, layers, heads, **more):
    rows = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}
    return _dense(kind, vocab, hidden, inner, layers, heads, heads, **rows, **more)


def _llama4(experts, published, **more):
    """The text model: what is published counts 871,932,416 parameters of images as well, 34 layers of 1,408 features."""
    config = _dense(
        "llama4_text",
        202048,
        5120,
        8192,
        48,
        40,
        8,
        head_dim=128,
        num_local_experts=experts,
        num_experts_per_tok=1,
        intermediate_size_mlp=16384,
        attention_chunk_size=8192,
        **more,
    )
    return config, published - IMAGES


def _image_parameters(hidden=1408, inner=5632, layers=34, patches=577, pixels=588, adapter=4096, text=5120):
    """Parameters of Llama 4 for images: patches, layers with biases, an adapter of two products, one into text."""
    layer = 4 * (hidden + 1) * hidden + (hidden + 1) * inner + (inner + 1) * hidden + 4 * hidden
    ends = pixels * hidden + hidden + patches * hidden + 4 * hidden
    return layers * layer + ends + inner * adapter + adapter * adapter + adapter * text


def _next_token_parameters(hidden=2048, heads=16, kv_heads=2, head=256, experts=512, inner=512):
    """Parameters of the layer of Qwen3-Next that predicts a further token, which is published with the others: a
    product of two hidden states, three norms, a layer with attention, its gate, experts and a shared one.
    """
    attention = hidden * head * (3 * heads + 2 * kv_heads) + 2 * head
    return (
        2 * hidden * hidden
        + 3 * hidden
        + attention
        + hidden * experts
        + 3 * hidden * inner * (experts + 1)
        + 3 * hidden
    )


IMAGES = _image_parameters()
# DeepSeek-V3.2-Exp (685,396,921,376) has beyond DeepSeek-V3 (684,531,386,000) what chooses positions in 61 layers and
# in the one that predicts a further token, with 824 scales of their blocks each
INDICES = 61 * ((685_396_921_376 - 684_531_386_000) // 62 - 824)
GRANITE = {"embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.0078125,
           "logits_scaling": 16.0, "tie_word_embeddings": True}  # fmt: skip
GPT_OSS = {"head_dim": 64, "num_experts_per_tok": 4, "experts_per_token": 4, "sliding_window": 128,
           "swiglu_limit": 7.0, "attention_bias": True}  # fmt: skip
TIED, H128 = {"tie_word_embeddings": True}, {"head_dim": 128}
PUBLISHED = {
    # hub 6,738,417,664, with 32 x 64 frequencies; KerasHub
    "Llama-2-7b": (_dense("llama", 32000, 4096, 11008, 32, 32, 32), 6_738_415_616),
    # hub 13,015,866,880, with 40 x 64 frequencies
    "Llama-2-13b": (_dense("llama", 32000, 5120, 13824, 40, 40, 40), 13_015_864_320),
    # hub 68,976,653,312, with 80 x 64 frequencies
    "Llama-2-70b": (_dense("llama", 32000, 8192, 28672, 80, 64, 8), 68_976_648_192),
    # hub; KerasHub; index 16,060,522,496 bytes
    "Llama-3.1-8B": (_dense("llama", 128256, 4096, 14336, 32, 32, 8), 8_030_261_248),
    # hub
    "Llama-3.1-70B": (_dense("llama", 128256, 8192, 28672, 80, 64, 8), 70_553_706_496),
    # hub
    "Llama-3.1-405B": (_dense("llama", 128256, 16384, 53248, 126, 128, 8), 405_853_388_800),
    # hub; KerasHub 1,498,482,688, with a head of 128256 x 2048
    "Llama-3.2-1B": (_dense("llama", 128256, 2048, 8192, 16, 32, 8, head_dim=64, **TIED), 1_235_814_400),
    # hub; KerasHub 3,606,752,256, with a head of 128256 x 3072
    "Llama-3.2-3B": (_dense("llama", 128256, 3072, 8192, 28, 24, 8, **H128, **TIED), 3_212_749_824),
    # hub; KerasHub
    "Mistral-7B-v0.1": (_dense("mistral", 32000, 4096, 14336, 32, 32, 8, sliding_window=4096), 7_241_732_096),
    # hub
    "Mistral-Nemo": (_dense("mistral", 131072, 5120, 14336, 40, 32, 8, **H128, sliding_window=None), 12_247_782_400),
    # KerasHub
    "Qwen2.5-0.5B": (_dense("qwen2", 151936, 896, 4864, 24, 14, 2, **TIED), 494_032_768),
    # hub; KerasHub (Math 7B)
    "Qwen2.5-7B": (_dense("qwen2", 152064, 3584, 18944, 28, 28, 4), 7_615_616_512),
    # hub; KerasHub
    "Qwen2.5-72B": (_dense("qwen2", 152064, 8192, 29568, 80, 64, 8), 72_706_203_648),
    # KerasHub
    "Qwen3-0.6B": (_dense("qwen3", 151936, 1024, 3072, 28, 16, 8, **H128, **TIED), 596_049_920),
    # hub; KerasHub
    "Qwen3-8B": (_dense("qwen3", 151936, 4096, 12288, 36, 32, 8, **H128), 8_190_735_360),
    # hub; KerasHub
    "Qwen3-32B": (_dense("qwen3", 151936, 5120, 25600, 64, 64, 8, **H128), 32_762_123_264),
    # KerasHub
    "gemma-2b": (_dense("gemma", 256000, 2048, 16384, 18, 8, 1), 2_506_172_416),
    # KerasHub
    "gemma-7b": (_dense("gemma", 256000, 3072, 24576, 28, 16, 16), 8_537_680_896),
    # KerasHub
    "gemma-2-2b": (_dense("gemma2", 256000, 2304, 9216, 26, 8, 4, sliding_window=4096), 2_614_341_888),
    # hub; KerasHub
    "gemma-2-9b": (_dense("gemma2", 256000, 3584, 14336, 42, 16, 8, sliding_window=4096), 9_241_705_984),
    # hub; KerasHub
    "gemma-2-27b": (_dense("gemma2", 256000, 4608, 36864, 46, 32, 16, **H128, sliding_window=4096), 27_227_128_320),
    # KerasHub
    "gemma-3-1b": (_dense("gemma3_text", 262144, 1152, 6912, 26, 4, 1, sliding_window=512), 999_885_952),
    # hub; KerasHub
    "Phi-3-mini-4k": (_dense("phi3", 32064, 3072, 8192, 32, 32, 32, sliding_window=2047), 3_821_079_552),
    # hub
    "Phi-4-mini": (
        _dense("phi3", 200064, 3072, 8192, 32, 24, 8, sliding_window=262144, partial_rotary_factor=0.75, full_attn_mod=1,
               interpolate_factor=1, lm_head_bias=False, mlp_bias=False, **TIED), 3_836_021_760,
    ),
    # hub
    "SmolLM2-135M": (
        _dense("llama", 49152, 576, 1536, 30, 9, 3, is_llama_config=True, rope_interleaved=False, **TIED), 134_515_008,
    ),
    # hub
    "phi-4": (_dense("phi3", 100352, 5120, 17920, 40, 40, 10, sliding_window=None), 14_659_507_200),
    # hub; KerasHub
    "Mixtral-8x7B": (
        _dense("mixtral", 32000, 4096, 14336, 32, 32, 8, num_local_experts=8, num_experts_per_tok=2), 46_702_792_704,
    ),
    # hub
    "Mixtral-8x22B": (
        _dense("mixtral", 32000, 6144, 16384, 56, 48, 8, num_local_experts=8, num_experts_per_tok=2), 140_620_634_112,
    ),
    # KerasHub
    "Qwen1.5-MoE-A2.7B": (
        _dense("qwen2_moe", 151936, 2048, 5632, 24, 16, 16, moe_intermediate_size=1408, num_experts=60,
               num_experts_per_tok=4, shared_expert_intermediate_size=5632), 14_315_784_192,
    ),
    # hub; KerasHub
    "Qwen3-30B-A3B": (
        _dense("qwen3_moe", 151936, 2048, 6144, 48, 32, 4, **H128, moe_intermediate_size=768, num_experts=128,
               num_experts_per_tok=8, norm_topk_prob=True), 30_532_122_624,
    ),
    # hub; KerasHub
    "Qwen3-235B-A22B": (
        _dense("qwen3_moe", 151936, 4096, 12288, 94, 64, 4, **H128, moe_intermediate_size=1536, num_experts=128,
               num_experts_per_tok=8, norm_topk_prob=True), 235_093_634_560,
    ),
    # hub
    "DeepSeek-V2-Lite": (
        _deepseek("deepseek_v2", 102400, 2048, 10944, 27, 16, q_lora_rank=None, moe_intermediate_size=1408,
                  n_routed_experts=64, n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1),
        15_706_484_224,
    ),
    # hub
    "DeepSeek-V2": (
        _deepseek("deepseek_v2", 102400, 5120, 12288, 60, 128, q_lora_rank=1536, moe_intermediate_size=1536,
                  n_routed_experts=160, n_shared_experts=2, num_experts_per_tok=6, first_k_dense_replace=1),
        235_741_434_880,
    ),
    # headers of its 163 shards, the main model
    "DeepSeek-V3": (
        _deepseek("deepseek_v3", 129280, 7168, 18432, 61, 128, q_lora_rank=1536, moe_intermediate_size=2048,
                  n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=3,
                  num_nextn_predict_layers=1), 671_026_419_200,
    ),
    # hub 685,396,921,376, see INDICES
    "DeepSeek-V3.2": (
        _deepseek("deepseek_v32", 129280, 7168, 18432, 61, 128, q_lora_rank=1536, moe_intermediate_size=2048,
                  n_routed_experts=256, n_shared_experts=1, num_experts_per_tok=8, first_k_dense_replace=3,
                  num_nextn_predict_layers=1, index_head_dim=128, index_n_heads=64, index_topk=2048),
        671_026_419_200 + INDICES,
    ),
    # hub 81,324,862,720
    "Qwen3-Next-80B-A3B": (
        _dense("qwen3_next", 151936, 2048, 5120, 48, 16, 2, head_dim=256, moe_intermediate_size=512, num_experts=512,
               num_experts_per_tok=10, norm_topk_prob=True, shared_expert_intermediate_size=512,
               full_attention_interval=4, linear_conv_kernel_dim=4, linear_key_head_dim=128, linear_num_key_heads=16,
               linear_num_value_heads=32, linear_value_head_dim=128, use_sliding_window=False),
        81_324_862_720 - _next_token_parameters(),
    ),
    # hub
    "OLMo-2-7B": (_dense("olmo2", 100352, 4096, 11008, 32, 32, 32), 7_298_617_344),
    # hub
    "OLMo-2-32B": (_dense("olmo2", 100352, 5120, 27648, 64, 40, 8), 32_234_279_936),
    # rounded, 8,171 million (EuroEval); all digits from the sizes
    "granite-3.0-8b": (_dense("granite", 49155, 4096, 12800, 40, 32, 8, **GRANITE), 8_170_848_256),
    # hub (3.1 2B, of the same sizes)
    "granite-3.0-2b": (_dense("granite", 49155, 2048, 8192, 40, 32, 8, **GRANITE), 2_533_531_648),
    # hub
    "phi-2": (_dense("phi", 51200, 2560, 10240, 32, 32, 32, partial_rotary_factor=0.4), 2_779_683_840),
    # hub; KerasHub; model card 20.91B
    "gpt-oss-20b": (_dense("gpt_oss", 201088, 2880, 2880, 24, 64, 8, num_local_experts=32, **GPT_OSS), 20_914_757_184),
    # hub; KerasHub; model card 116.83B
    "gpt-oss-120b": (
        _dense("gpt_oss", 201088, 2880, 2880, 36, 64, 8, num_local_experts=128, **GPT_OSS), 116_829_156_672,
    ),
    # hub 108,641,793,536
    "Llama-4-Scout": _llama4(16, 108_641_793_536),
    # hub 401,583,781,376
    "Llama-4-Maverick": _llama4(128, 401_583_781_376, interleave_moe_layer_step=2, use_qk_norm=False),
    # hub
    "mamba-130m": (
        {"model_type": "mamba", "hidden_size": 768, "num_hidden_layers": 24, "vocab_size": 50280, "state_size": 16,
         "time_step_rank": 48, "expand": 2, "intermediate_size": 1536}, 129_135_360,
    ),
    # rounded, 7.27B (hub); all digits from the sizes
    "falcon-mamba-7b": (
        {"model_type": "falcon_mamba", "hidden_size": 4096, "intermediate_size": 8192, "num_hidden_layers": 64,
         "vocab_size": 65024, "state_size": 16, "time_step_rank": 256, "tie_word_embeddings": False}, 7_272_665_088,
    ),
    # from the sizes alone: what is published is its name
    "mamba2-130m": (
        {"d_model": 768, "n_layer": 24, "vocab_size": 50277, "ssm_cfg": {"layer": "Mamba2"},
         "pad_vocab_size_multiple": 16, "tie_embeddings": True}, 128_989_632,
    ),
    # from the sizes alone: what is published is its name
    "mamba2-2.7b": (
        {"d_model": 2560, "n_layer": 64, "vocab_size": 50277, "ssm_cfg": {"layer": "Mamba2"},
         "pad_vocab_size_multiple": 16, "tie_embeddings": True}, 2_702_599_680,
    ),
    # announcement of Mistral AI, July 2024
    "Mamba-Codestral-7B": (
        {"model_type": "mamba2", "hidden_size": 4096, "num_hidden_layers": 64, "vocab_size": 32768, "num_heads": 128,
         "head_dim": 64, "n_groups": 8, "state_size": 128, "expand": 2, "conv_kernel": 4,
         "tie_word_embeddings": False}, 7_285_403_648,
    ),
    # KerasHub; BertModel of transformers
    "bert-base-uncased": (
        {"model_type": "bert", "vocab_size": 30522, "hidden_size": 768, "intermediate_size": 3072,
         "num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 512, "type_vocab_size": 2},
        109_482_240,
    ),
    # hub, with the head of masked positions
    "roberta-base": (
        {"model_type": "roberta", "vocab_size": 50265, "hidden_size": 768, "intermediate_size": 3072,
         "num_hidden_layers": 12, "num_attention_heads": 12, "max_position_embeddings": 514, "type_vocab_size": 1,
         "pad_token_id": 1, "architectures": ["RobertaForMaskedLM"]}, 124_697_433,
    ),
    # KerasHub; BertModel of transformers
    "bert-large-uncased": (
        {"model_type": "bert", "vocab_size": 30522, "hidden_size": 1024, "intermediate_size": 4096,
         "num_hidden_layers": 24, "num_attention_heads": 16, "max_position_embeddings": 512, "type_vocab_size": 2},
        335_141_888,
    ),
}  # fmt: skip

ROUNDED = {
    # model cards: embeddings of 9.4 billion, and 331.6 billion others; 3.2 and 12.5 billion (Nemotron-4, arXiv 2406.11704, 2402.16819)
    "Nemotron-4-340B": (_dense("nemotron", 256000, 18432, 73728, 96, 96, 8), 341.0e9),
    "Nemotron-4-15B": (_dense("nemotron", 256000, 6144, 24576, 32, 48, 8), 15.7e9),
    "granite-3.0-3b-a800m": (
        _dense("granitemoe", 49155, 1536, 512, 32, 24, 8, num_local_experts=40, num_experts_per_tok=8, **GRANITE), 3.30e9,
    ),
}  # fmt: skip
"""The same, where the published number is rounded."""
