"""Models of text and images: the text model inside, from whole files as they are published."""

import json
import re

import pytest
from tests.frontends.huggingface.configs import PUBLISHED

from einmap import SpecError, TokenRequest, from_huggingface, load, token_costs

GEMMA = {
    "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 255999, "eoi_token_index": 256000,
    "eos_token_id": [1, 106], "image_token_index": 262144, "initializer_range": 0.02, "mm_tokens_per_image": 256,
    "model_type": "gemma3", "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
    "text_config": {
        "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
    },
    "vision_config": {
        "hidden_size": 1152, "image_size": 896, "intermediate_size": 4304, "model_type": "siglip_vision_model",
        "num_attention_heads": 16, "num_hidden_layers": 27, "patch_size": 14, "vision_use_head": False,
    },
}  # fmt: skip
MISTRAL = {
    "architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": 10, "model_type": "mistral3",
    "multimodal_projector_bias": False, "projector_hidden_act": "gelu", "spatial_merge_size": 2,
    "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0", "vision_feature_layer": -1,
    "text_config": {
        "attention_dropout": 0.0, "head_dim": 128, "hidden_act": "silu", "hidden_size": 5120,
        "initializer_range": 0.02, "intermediate_size": 32768, "max_position_embeddings": 131072,
        "model_type": "mistral", "num_attention_heads": 32, "num_hidden_layers": 40, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-05, "rope_theta": 1000000000.0, "sliding_window": None, "use_cache": True,
        "vocab_size": 131072,
    },
    "vision_config": {"model_type": "pixtral", "hidden_size": 1024, "num_hidden_layers": 24},
}  # fmt: skip
QWEN2 = {
    "architectures": ["Qwen2VLForConditionalGeneration"], "attention_dropout": 0.0, "bos_token_id": 151643,
    "eos_token_id": 151645, "vision_start_token_id": 151652, "vision_end_token_id": 151653,
    "vision_token_id": 151654, "image_token_id": 151655, "video_token_id": 151656, "hidden_act": "silu",
    "hidden_size": 3584, "initializer_range": 0.02, "intermediate_size": 18944, "max_position_embeddings": 32768,
    "max_window_layers": 28, "model_type": "qwen2_vl", "num_attention_heads": 28, "num_hidden_layers": 28,
    "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "sliding_window": 32768,
    "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "use_sliding_window": False,
    "vision_config": {"depth": 32, "embed_dim": 1280, "hidden_size": 3584, "mlp_ratio": 4, "num_heads": 16},
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]}, "vocab_size": 152064,
}  # fmt: skip
QWEN3 = {
    "architectures": ["Qwen3VLForConditionalGeneration"], "image_token_id": 151655, "model_type": "qwen3_vl",
    "text_config": {
        "attention_bias": False, "attention_dropout": 0.0, "bos_token_id": 151643, "dtype": "bfloat16",
        "eos_token_id": 151645, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
        "initializer_range": 0.02, "intermediate_size": 12288, "max_position_embeddings": 262144,
        "model_type": "qwen3_vl_text", "num_attention_heads": 32, "num_hidden_layers": 36, "num_key_value_heads": 8,
        "rms_norm_eps": 1e-06, "rope_scaling": {"mrope_interleaved": True, "mrope_section": [24, 20, 20]},
        "rope_theta": 5000000, "use_cache": True, "vocab_size": 151936,
    },
    "tie_word_embeddings": False, "transformers_version": "4.57.0.dev0", "video_token_id": 151656,
    "vision_config": {"depth": 27, "hidden_size": 1152, "model_type": "qwen3_vl"},
    "vision_end_token_id": 151653, "vision_start_token_id": 151652,
}  # fmt: skip


def _nested(outer, name):
    return {
        "architectures": [f"{outer}ForConditionalGeneration"],
        "model_type": outer,
        "text_config": PUBLISHED[name][0],
    }


def _without(config, *keys):
    return {key: value for key, value in config.items() if key not in keys}


def _siglip(hidden=1152, inner=4304, layers=27, patches=4096, pixels=588, text=2560):
    """Parameters of Gemma 3 for images: patches, layers with biases, a norm, and a product into text with its norm."""
    layer = 4 * (hidden + 1) * hidden + (hidden + 1) * inner + (inner + 1) * hidden + 4 * hidden
    return layers * layer + (pixels + 1) * hidden + patches * hidden + 2 * hidden + hidden * text + hidden


@pytest.mark.parametrize(
    ("config", "parameters"),
    [
        pytest.param(GEMMA, 4_300_079_472 - _siglip(), id="Gemma 3 4B"),
        pytest.param(MISTRAL, 23_572_403_200, id="Mistral Small 3.1"),  # as Mistral Small 3, without images
        pytest.param(QWEN2, 7_615_616_512, id="Qwen2-VL 7B"),  # as Qwen2 7B
        pytest.param(QWEN3, 8_190_735_360, id="Qwen3-VL 8B"),  # as Qwen3 8B
        pytest.param(_nested("llama4", "Llama-4-Scout"), PUBLISHED["Llama-4-Scout"][1], id="Llama 4 Scout"),
        pytest.param(_nested("qwen3_vl_moe", "Qwen3-30B-A3B"), PUBLISHED["Qwen3-30B-A3B"][1], id="Qwen3-VL 30B"),
    ],
)
def test_the_text_model_has_the_published_parameters_and_a_note_says_what_is_left_out(config, parameters):
    model = from_huggingface(config)
    assert model.n_parameters == parameters
    assert "what reads images (vision_config)" in str(model.notes[0])


def test_the_text_model_is_that_of_its_own_file():
    alone = from_huggingface(PUBLISHED["Llama-4-Scout"][0], batch=2, tokens=3, context=5)
    inside = from_huggingface(_nested("llama4", "Llama-4-Scout"), batch=2, tokens=3, context=5)
    assert inside.spec.raw == alone.spec.raw
    assert (inside.architecture, alone.notes, len(inside.notes)) == (alone.architecture, (), 1)


def test_fields_beside_the_text_model_count():
    quantised = {**MISTRAL, "quantization_config": {"quant_method": "fp8"}}
    assert from_huggingface(quantised).weight_bits < 0.6 * from_huggingface(MISTRAL).weight_bits
    wide, tied = {**MISTRAL, "torch_dtype": "float32"}, {**MISTRAL, "tie_word_embeddings": True}
    assert from_huggingface(wide).weight_bits == 2 * from_huggingface(MISTRAL).weight_bits
    assert from_huggingface(MISTRAL).n_parameters - from_huggingface(tied).n_parameters == 131072 * 5120


def test_an_older_file_and_one_with_the_same_fields_inside_are_equal():
    beside = [key for key in QWEN2 if "token_id" in key or key == "vision_config"]
    text = {**_without(QWEN2, *beside), "model_type": "qwen2_5_vl_text"}
    nested = {"model_type": "qwen2_5_vl", "vocab_size": 152064, "text_config": text}
    assert from_huggingface(nested).spec.raw == from_huggingface(QWEN2).spec.raw


def test_costs_of_tokens_have_the_note():
    costs = token_costs(GEMMA, load("h100_node"), TokenRequest((1,), (64,)))
    assert "the text model alone" in str(costs.notes[0])


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (_without(MISTRAL, "text_config"), "the field 'text_config' is missing, expected the fields of the text model"),
        ({**MISTRAL, "text_config": 3}, "text_config: expected a dictionary of fields"),
        ({**MISTRAL, "audio_config": {}}, "audio_config: this field is not known"),
        (
            {**MISTRAL, "vocab_size": 5},
            "text_config.vocab_size: it has another value than vocab_size beside text_config",
        ),
        ({**MISTRAL, "torch_dtype": "int3"}, "^(?!.*text_config).*torch_dtype: torch_dtype 'int3' is not known"),
        (
            {**MISTRAL, "text_config": {**MISTRAL["text_config"], "model_type": "llama"}},
            "text_config.model_type: expected mistral, the text model of mistral3, found 'llama'",
        ),
        (
            {**MISTRAL, "text_config": {**MISTRAL["text_config"], "num_experts": 8}},
            "text_config.num_experts: this field is not known",
        ),
        (
            {**MISTRAL, "text_config": _without(MISTRAL["text_config"], "hidden_size")},
            "text_config: the field 'hidden_size' is missing",
        ),
        (
            {**MISTRAL, "text_config": {**MISTRAL["text_config"], "hidden_size": "5k"}},
            "text_config.hidden_size: expected an integer",
        ),
        ({**QWEN2, "num_experts": 8}, "num_experts: this field is not known"),
        ({**MISTRAL, "architectures": ["Mistral3ForImages"]}, "architectures: the head of 'Mistral3ForImages'"),
        (
            {**MISTRAL, "model_type": "mllama"},
            "model_type: the architecture 'mllama' is not known(.|\n)*save its text_config as a file of its own",
        ),
    ],
)
def test_what_is_unknown_or_wrong_is_refused_at_its_place(config, message, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config, indent=1))
    with pytest.raises(SpecError) as error:
        from_huggingface(path)
    assert str(error.value).startswith(str(path))
    assert re.search(message, str(error.value).removeprefix(str(path))), error.value
