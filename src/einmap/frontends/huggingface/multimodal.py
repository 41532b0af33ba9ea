"""The text model inside a model of text and images: its fields, with those that stand beside `text_config`."""

from __future__ import annotations

from einmap.errors import SpecError
from einmap.frontends.huggingface.config import HARMLESS, Config
from einmap.spec.raw import Raw, RawScalar

TEXT = "text_config"
"""The field that has the text model."""
WRAPPERS = {
    "gemma3": "gemma3_text",
    "llama4": "llama4_text",
    "mistral3": "mistral",
    "qwen2_vl": "qwen2",
    "qwen2_5_vl": "qwen2",
    "qwen3_vl": "qwen3",
    "qwen3_vl_moe": "qwen3_moe",
}
"""Models of text and images by `model_type`, with that of their text model."""
_DEFAULTS = {"gemma3": {"vocab_size": 262_208, "num_attention_heads": 8, "num_key_value_heads": 4}}
"""Sizes that published files leave out, as `Gemma3TextConfig` of transformers has them."""
_SHARED = ("architectures", "dtype", "torch_dtype", "quantization_config", "tie_word_embeddings")
"""Fields that stand beside the text model, and are of it; the first one says what its head is."""
_OF_IMAGES_BY_WHAT = {
    "how images are read, and joined to text": "vision_config mm_tokens_per_image multimodal_projector_bias "
    "projector_hidden_act spatial_merge_size vision_feature_layer",
    "tokens that stand for them": "image_token_id image_token_index video_token_id vision_token_id "
    "vision_start_token_id vision_end_token_id boi_token_id boi_token_index eoi_token_id eoi_token_index",
}
_OF_IMAGES = frozenset(name for names in _OF_IMAGES_BY_WHAT.values() for name in names.split())
"""Fields of what is left out."""
LEFT_OUT = "the text model alone: what reads images (vision_config), and joins them to text, is left out"
"""Note on such a model."""


def text_of(c: Config) -> Config | None:
    """The fields of the text model of a model of text and images; None for other models.

    They stand in `text_config`, or beside the fields of images (older files of Qwen2-VL). Raises SpecError, with the
    place, for a text model of another kind, for a field on both levels with two values, and for unknown fields.
    """
    found = c.get("model_type")
    kind = found.text() if found is not None else ""
    if found is None or kind not in WRAPPERS:
        return None
    inside, named = c.get(TEXT), WRAPPERS[kind]
    c.pass_over(_OF_IMAGES)
    if inside is None and c.has("hidden_size"):
        return c.with_fields({"model_type": RawScalar(named, named, at=found.at)})
    if inside is None:
        raise SpecError(f"the field {TEXT!r} is missing, expected the fields of the text model", at=c.top)
    text = Config(inside.raw, c.top.file, TEXT)
    own = text.get("model_type")
    if own is not None and own.text() not in (named, f"{kind}_text"):
        raise own.wrong(f"{named}, the text model of {kind}")
    fields = _shared(c, text)
    outside = frozenset(fields)
    for key, size in _DEFAULTS.get(kind, {}).items():
        if not text.has(key):
            fields[key] = RawScalar(size, str(size))
    c.close()
    fields["model_type"] = RawScalar(named, named, at=(own or found).at)
    return text.with_fields(fields, outside)


def _shared(c: Config, text: Config) -> dict[str, Raw]:
    """Fields that stand beside the text model alone, and are of it. Raises SpecError where the two levels differ."""
    fields: dict[str, Raw] = {}
    names = {*text.names()}
    for key in c.names():
        if key in HARMLESS and key not in _SHARED:
            continue
        outer, inner = c.get(key) if key in names or key in _SHARED else None, text.get(key) if key in names else None
        if outer is not None and inner is not None and outer.raw != inner.raw and key != "architectures":
            raise text.wrong(key, f"it has another value than {key} beside {TEXT}", "leave one of the two out")
        if outer is not None and key in _SHARED and (inner is None or key == "architectures"):
            fields[key] = outer.raw
    return fields
