"""Architectures by `model_type`: one entry of a table each, where `config.json` leaves something open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

from einmap.errors import SpecError, did_you_mean
from einmap.frontends.huggingface.config import Config
from einmap.frontends.huggingface.description import (
    Attention,
    Description,
    Experts,
    FeedForward,
    Layer,
    Norm,
    Selective,
    StateSpace,
)
from einmap.frontends.huggingface.sizes import (
    Decoder,
    activation,
    attention,
    bits_of,
    cap,
    chosen_of,
    layer_count,
    mixers,
    rms,
    second_blocks,
)
from einmap.spec.raw import RawList, RawMap, RawScalar
from einmap.visible import short

_GEMMA = Decoder(gemma=True, head=256, activation="gelu_pytorch_tanh", tied=True)

DECODERS = {
    "llama": Decoder(),
    "mistral": Decoder(windows="all"),
    "qwen2": Decoder(qkv_bias=True, windows="late"),
    "qwen3": Decoder(qk_norm=True, windows="late"),
    "gemma": _GEMMA,
    "gemma2": replace(_GEMMA, both_norms=True, windows="turns", turn=2, caps=(50.0, 30.0)),
    "gemma3_text": replace(_GEMMA, both_norms=True, qk_norm=True, windows="turns", turn=6),
    "phi3": Decoder(windows="all"),
    "mixtral": Decoder(windows="all", experts="mixtral"),
    "qwen2_moe": Decoder(qkv_bias=True, windows="late", experts="qwen"),
    "qwen3_moe": Decoder(qk_norm=True, windows="late", experts="qwen"),
    "qwen3_next": Decoder(qk_norm=True, head=256, experts="qwen", delta=True),
    "deepseek_v2": Decoder(latent=True, experts="deepseek_v2"),
    "deepseek_v3": Decoder(latent=True, experts="deepseek_v3"),
    "deepseek_v32": Decoder(latent=True, experts="deepseek_v3", indexed=True),
    "kimi_k2": Decoder(latent=True, experts="deepseek_v3"),
    "olmo2": Decoder(qk_norm=True, joint=True, placed="behind"),
    "granite": Decoder(multipliers=True),
    "granitemoe": Decoder(multipliers=True, experts="mixtral"),
    "phi": Decoder(
        norm=("layer", "layer_norm_eps"), placed="parallel", gated=False, biases=True, activation="gelu_new"
    ),
    "nemotron": Decoder(norm=("layer", "norm_eps"), gated=False, activation="relu2"),
    "gpt_oss": Decoder(head=64, sinks=True, windows="turns", turn=2, experts="gpt_oss"),
}
"""Decoders: what each is beside its fields."""


_HEADS = {"ForCausalLM": "logits", "ForConditionalGeneration": "logits", "Model": "none"}


def description_of(c: Config) -> Description:
    """Description of a model. Raises SpecError, with the place, for what is unknown or does not fit."""
    found = c.get("model_type")
    if found is None and c.has("ssm_cfg"):
        made = _state_spaces(c)
    elif found is None:
        raise SpecError("the field 'model_type' is missing", at=c.top, hint=f"known are {', '.join(sorted(READERS))}")
    else:
        kind = found.text()
        if kind not in READERS:
            hint = did_you_mean(kind, READERS, listing="known")
            if c.has("text_config"):
                hint = "save its text_config as a file of its own, and import that"
            raise c.wrong("model_type", f"the architecture {short(kind, 60)} is not known", hint)
        made = READERS[kind](c)
    c.close()
    return made


def _head(c: Config, without: str, allowed: dict[str, str]) -> str:
    """Head behind the layers, by the ending of the first of `architectures`."""
    found = c.get("architectures")
    if found is None or not found.items():
        return without
    name = found.items()[0].text()
    for ending, head in allowed.items():
        if name.endswith(ending):
            return head
    text = f"the head of {short(name, 60)} is not known"
    raise c.wrong("architectures", text, f"known are names that end in {', '.join(allowed)}")


def _decoder(c: Config) -> Description:
    kind = c.get("model_type")
    assert kind is not None
    decoder = DECODERS[kind.text()]
    layers, hidden = layer_count(c), c.size("hidden_size")
    norm = rms(c, decoder)
    blocks = mixers(c, decoder, layers)
    seconds = second_blocks(c, decoder, layers)
    c.get("num_nextn_predict_layers")
    for key in ("full_attn_mod", "interpolate_factor"):
        c.only(key, 1, "layers of another kind of attention in between are not imported")
    c.only("lm_head_bias", False, "a head with a bias is not imported")
    c.only("use_bidirectional_attention", False, "attention to later positions is not imported")
    c.only("qk_layernorm", False, "norms of queries and keys in Phi are not imported")
    placed: Literal["both", "before", "behind", "parallel"] = "both" if decoder.both_norms else decoder.placed
    scaled = decoder.multipliers
    share = c.number("residual_multiplier", 1.0) if scaled else 1.0
    scale = c.number("embedding_multiplier", 1.0) if scaled else 1.0
    divisor = c.number("logits_scaling", 1.0) if scaled else 1.0
    if not divisor:
        raise c.wrong("logits_scaling", "logits are divided by it, expected a positive number")
    return Description(
        architecture=kind.text(),
        hidden=hidden,
        vocabulary=c.size("vocab_size"),
        layers=tuple(Layer(mixer, second, norm, placed, share) for mixer, second in zip(blocks, seconds, strict=True)),
        final_norm=norm,
        tied=c.flag("tie_word_embeddings", decoder.tied),
        head="none" if _head(c, "logits", _HEADS) == "none" else "logits",
        bits=bits_of(c),
        embedding_scale=hidden**0.5 if decoder.gemma else scale,
        logits_bias=decoder.biases,
        logits_divisor=divisor,
        logits_cap=cap(c, "final_logit_softcapping", decoder.caps[1]) if decoder.gemma else None,
        longest=c.size("max_position_embeddings") if c.has("max_position_embeddings") else None,
    )


def _llama4(c: Config) -> Description:
    """The text model of Llama 4: layers by turns with and without rotary embedding, experts in some of them."""
    layers, hidden, norm = layer_count(c), c.size("hidden_size"), rms(c)
    turn, step = c.size("no_rope_layer_interval", 4), c.size("interleave_moe_layer_step", 1)
    turned = [(layer + 1) % turn != 0 for layer in range(layers)]
    listed = c.get("no_rope_layers")
    if listed is not None and listed.items():
        turned = [item.integer(0, 1) == 1 for item in listed.items()]
        _one_each(c, "no_rope_layers", len(turned), layers)
    sparse = {layer for layer in range(layers) if (layer + 1) % step == 0}
    if (chosen := c.get("moe_layers")) is not None:
        sparse = {item.integer(0, layers - 1) for item in chosen.items()}
    chunk = c.size("attention_chunk_size", 8192) if "attention_chunk_size" not in c.names() else None
    chunk = c.size("attention_chunk_size") if c.has("attention_chunk_size") else chunk
    chunks = [chunk if rotary else None for rotary in turned]
    if (kinds := c.get("layer_types")) is not None:
        words = [kind.text() for kind in kinds.items()]
        _one_each(c, "layer_types", len(words), layers)
        if unknown := [word for word in words if word not in ("chunked_attention", "full_attention")]:
            raise c.wrong("layer_types", f"expected full_attention or chunked_attention, found {short(unknown[0], 60)}")
        chunks = [chunk if word == "chunked_attention" else None for word in words]
    plain = attention(c, Decoder(head=128))
    normal = Norm("plain", norm.epsilon) if c.flag("use_qk_norm", True) else None
    tuned = c.get("attn_temperature_tuning")
    heated = tuned is None or not isinstance(tuned.raw, RawScalar) or bool(tuned.raw.value)
    for key in ("floor_scale", "attn_scale", "for_llm_compressor"):
        c.get(key)
    rotated, straight = replace(plain, qk_norm=normal), replace(plain, rotary=False, heated=heated)
    act, inner = activation(c, "silu"), c.size("intermediate_size")
    expert, number = FeedForward(inner, act, gated=True), c.size("num_local_experts")
    experts = Experts(number, chosen_of(c, number), expert, "sigmoid", normalised=False, shared=expert, first=True)
    dense = FeedForward(c.size("intermediate_size_mlp", 16384), act, gated=True)
    return Description(
        architecture="llama4",
        hidden=hidden,
        vocabulary=c.size("vocab_size"),
        layers=tuple(
            Layer(replace(rotated if rotary else straight, chunk=seen), experts if layer in sparse else dense, norm)
            for layer, (rotary, seen) in enumerate(zip(turned, chunks, strict=True))
        ),
        final_norm=norm,
        tied=c.flag("tie_word_embeddings", False),
        head="logits",
        bits=bits_of(c),
        longest=c.size("max_position_embeddings") if c.has("max_position_embeddings") else None,
    )


def _one_each(c: Config, key: str, found: int, layers: int) -> None:
    """Raise SpecError where a list does not have an entry for each layer."""
    if found != layers:
        raise c.wrong(key, f"{found} entries for {layers} layers (num_hidden_layers)")


def _bert(c: Config) -> Description:
    hidden, heads = c.size("hidden_size"), c.size("num_attention_heads")
    if hidden % heads:
        raise c.wrong("num_attention_heads", f"{heads} heads do not divide hidden_size, {hidden}")
    c.only("position_embedding_type", "absolute", "relative positions are not imported")
    c.only("is_decoder", False, "BERT as a decoder is not imported")
    c.only("add_cross_attention", False, "attention to another sequence is not imported")
    norm = Norm("layer", c.number("layer_norm_eps", 1e-12))
    block = Attention(
        heads, heads, hidden // heads, (hidden // heads) ** -0.5, rotary=False, qkv_bias=True, out_bias=True,
        causal=False,
    )  # fmt: skip
    second = FeedForward(c.size("intermediate_size"), activation(c, "gelu"), gated=False, bias=True)
    positions, kind = c.size("max_position_embeddings"), c.get("model_type")
    first = c.size("pad_token_id", 1, least=0) + 1 if kind is not None and kind.text() == "roberta" else 0
    if first >= positions:
        raise c.wrong("max_position_embeddings", f"positions begin with number {first} of {positions}")
    kinds = {"ForMaskedLM": "masked", "ForPreTraining": "masked", "Model": "pooled"}
    return Description(
        architecture="roberta" if first else "bert",
        hidden=hidden,
        vocabulary=c.size("vocab_size"),
        layers=(Layer(block, second, norm, "after"),) * layer_count(c),
        final_norm=None,
        tied=c.flag("tie_word_embeddings", True),
        head="masked" if _head(c, "pooled", kinds) == "masked" else "pooled",
        bits=bits_of(c),
        positions=positions,
        types=c.size("type_vocab_size", 2),
        embedding_norm=norm,
        longest=positions - first,
    )


def _mamba(c: Config) -> Description:
    hidden, heads, head = c.size("hidden_size"), c.size("num_heads"), c.size("head_dim")
    groups = c.size("n_groups", 8)
    inner = c.number("expand", 2) * hidden
    if heads * head != inner:
        raise c.wrong("num_heads", f"{heads} heads of {head} features are not expand * hidden_size, {inner:g}")
    if heads % groups:
        raise c.wrong("n_groups", f"{groups} groups do not divide {heads} heads")
    c.only("hidden_act", "silu", "another activation is not imported")
    c.only("rms_norm", True, "layers without their norm are not imported")
    for key in ("norm_before_gate",):
        c.get(key)
    norm = Norm("rms", c.number("layer_norm_epsilon", 1e-5))
    mixer = StateSpace(
        heads, head, groups, c.size("state_size", 128), c.size("conv_kernel", 4, least=2), c.size("chunk_size", 256),
        norm, c.flag("use_conv_bias", True), c.flag("use_bias", False),
    )  # fmt: skip
    layers = layer_count(c)
    return _of_state_spaces(
        c, "mamba2", (hidden, c.size("vocab_size"), layers), mixer, norm, c.flag("tie_word_embeddings", False)
    )


def _mamba_1(c: Config) -> Description:
    """Mamba, and Falcon Mamba, which normalises steps, B and C."""
    hidden, layers = c.size("hidden_size"), layer_count(c)
    found = c.number("expand", 2) * hidden
    inner = c.size("intermediate_size") if c.has("intermediate_size") else int(found)
    if inner < 1:
        raise c.wrong("expand", f"{found:g} features inside (expand * hidden_size); expected 1 or more")
    kind, rank = c.get("model_type"), c.get("time_step_rank")
    falcon = kind is not None and kind.text() == "falcon_mamba"
    auto = rank is None or (isinstance(rank.raw, RawScalar) and rank.raw.value == "auto")
    c.only("hidden_act", "silu", "another activation is not imported")
    c.only("rms_norm", True, "layers without their norm are not imported")
    for key, size in (("d_model", hidden), ("d_inner", inner), ("n_layer", layers)):
        c.only(key, size, "two fields of one size differ")
    for key in ("ssm_cfg", "pad_vocab_size_multiple", "use_mambapy", "use_falcon_mambapy", "use_associative_scan"):
        c.get(key)
    mixer = Selective(
        inner,
        c.size("state_size", 16),
        -(-hidden // 16) if auto else c.size("time_step_rank"),
        c.size("conv_kernel", 4, least=2),
        Norm("plain", c.number("mixer_rms_eps", 1e-6)) if falcon else None,
        c.flag("use_conv_bias", True),
        c.flag("use_bias", False),
    )
    norm = Norm("rms", c.number("layer_norm_epsilon", 1e-5))
    sizes, tied = (hidden, c.size("vocab_size"), layers), c.flag("tie_word_embeddings", True)
    return _of_state_spaces(c, "falcon_mamba" if falcon else "mamba", sizes, mixer, norm, tied)


def _state_spaces(c: Config) -> Description:
    """The form of the package `mamba_ssm`, whose sizes have defaults."""
    found = c.get("ssm_cfg")
    assert found is not None
    fields = Config(found.raw, c.top.file)
    fields.word("layer", ("Mamba2",))
    hidden = c.size("d_model")
    head, groups = fields.size("headdim", 64), fields.size("ngroups", 1)
    inner = fields.size("expand", 2) * hidden
    if inner % head:
        raise c.wrong("d_model", f"heads of {head} features do not divide {inner}")
    c.only("d_intermediate", 0, "feed-forward layers beside state spaces are not imported")
    c.only("rms_norm", True, "layers without their norm are not imported")
    for key in ("attn_layer_idx", "attn_cfg"):
        given = c.get(key)
        if given is not None and isinstance(given.raw, RawList | RawMap) and given.raw.items:
            raise c.wrong(key, "layers of attention beside state spaces are not imported")
    norm = Norm("rms", 1e-5)
    mixer = StateSpace(
        inner // head, head, groups, fields.size("d_state", 128), fields.size("d_conv", 4, least=2),
        fields.size("chunk_size", 256), norm, conv_bias=True, bias=False,
    )  # fmt: skip
    fields.close()
    multiple = c.size("pad_vocab_size_multiple", 8)
    vocabulary = -(-c.size("vocab_size") // multiple) * multiple
    sizes = hidden, vocabulary, layer_count(c, "n_layer")
    return _of_state_spaces(c, "mamba2", sizes, mixer, norm, c.flag("tie_embeddings", True))


def _of_state_spaces(
    c: Config, name: str, sizes: tuple[int, int, int], mixer: StateSpace | Selective, norm: Norm, tied: bool
) -> Description:
    hidden, vocabulary, layers = sizes
    return Description(
        architecture=name,
        hidden=hidden,
        vocabulary=vocabulary,
        layers=(Layer(mixer, None, norm),) * layers,
        final_norm=norm,
        tied=tied,
        head="logits",
        bits=bits_of(c),
    )


READERS: dict[str, Callable[[Config], Description]] = {
    **dict.fromkeys(DECODERS, _decoder),
    "bert": _bert,
    "roberta": _bert,
    "llama4_text": _llama4,
    "mamba": _mamba_1,
    "falcon_mamba": _mamba_1,
    "mamba2": _mamba,
}
"""How each architecture is read."""
