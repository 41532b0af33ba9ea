"""Blocks from the fields of a `config.json`: heads, windows, experts, latent rows, bits."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Literal

from einmap.frontends.foreign import Value
from einmap.frontends.huggingface.blocks import ACTIVATIONS
from einmap.frontends.huggingface.config import WIDEST, Config
from einmap.frontends.huggingface.description import (
    Attention,
    DeltaRule,
    Experts,
    FeedForward,
    Index,
    Latent,
    Norm,
)
from einmap.spec.raw import RawMap

BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "float8_e4m3fn": 8, "float8_e5m2": 8}
"""Bits of a number by the names of `dtype`."""
WINDOWED, FULL, LINEAR = "sliding_attention", "full_attention", "linear_attention"
MOST_LAYERS = 10_000


@dataclass(frozen=True, slots=True)
class Decoder:
    """Facts that a decoder's `config.json` leaves to its architecture; the rest is in the fields.

    `qkv_bias`: whether queries, keys and values alone have a bias; None: all four products, as `attention_bias` says.
    `gemma`: norms with 1 + gain, scaled embeddings; `caps`: of scores and logits. `windows`: which layers have a
    window: `none`, `all`, from layer `max_window_layers` on (`late`), or by turns, every `turn`-th layer without.
    `experts`: how its mixture of experts is told, if there is one; `latent`: attention by latent rows; `head`,
    `activation`, `tied`: where the fields say nothing, `head` 0 for hidden size by heads. `norm`: kind of norm, with
    the field that has its epsilon; `placed`: of norms where not `both_norms`; `gated`: whether feed-forward layers are;
    `biases`: whether all products of a layer, and the head, have biases; `joint`: as `Attention` has it; `sinks`:
    attention and experts are those of gpt-oss; `multipliers`: scales are fields (Granite); `delta`: most layers have
    linear attention, the others a gate, norms are 1 + gain (Qwen3-Next); `indexed`: latent rows are chosen by scores.
    """

    qkv_bias: bool | None = None
    qk_norm: bool = False
    gemma: bool = False
    both_norms: bool = False
    caps: tuple[float | None, float | None] = (None, None)
    windows: str = "none"
    turn: int = 0
    experts: str = ""
    latent: bool = False
    head: int = 0
    activation: str = "silu"
    tied: bool = False
    norm: tuple[Literal["rms", "layer"], str] = ("rms", "rms_norm_eps")
    placed: Literal["before", "behind", "parallel"] = "before"
    gated: bool = True
    biases: bool = False
    joint: bool = False
    sinks: bool = False
    multipliers: bool = False
    delta: bool = False
    indexed: bool = False


def bits_of(c: Config) -> int:
    """Bits of parameters, by `dtype`; 16 where it is missing."""
    words = [c.word(key, BITS, "") for key in ("dtype", "torch_dtype")]
    return next((BITS[word] for word in words if word), 16)


def quantised_bits(c: Config) -> tuple[int | None, int | None]:
    """Bits of the weights of linear layers, and of those of experts alone, where `quantization_config` says so.

    Raises SpecError for other methods.
    """
    found = c.get("quantization_config")
    if found is None:
        return None, None
    if not isinstance(found.raw, RawMap):
        raise found.wrong("a dictionary")
    fields = Config(found.raw, c.top.file)
    known = ("fp8", "fbgemm_fp8", "gptq", "awq", "bitsandbytes", "compressed-tensors", "mxfp4")
    match fields.word("quant_method", known):
        case "gptq" | "awq":
            return fields.size("bits", most=WIDEST), None
        case "bitsandbytes":
            return 4 if fields.flag("load_in_4bit", False) else 8, None
        case "compressed-tensors":
            return _of_groups(fields), None
        case "mxfp4":
            # what it leaves out is all but experts
            return None, 4
        case _:
            return 8, None


def _of_groups(fields: Config) -> int | None:
    """Bits of weights that `compressed-tensors` gives to groups of layers, which have to be alike."""
    groups = fields.get("config_groups")
    if groups is None or not isinstance(groups.raw, RawMap):
        raise fields.wrong("config_groups", "expected a dictionary of groups of layers")
    bits = set[int | None]()
    for name in Config(groups.raw, fields.top.file).names():
        group = Config(groups.raw.get(name), fields.top.file)
        weights = group.get("weights")
        bits.add(None if weights is None else Config(weights.raw, fields.top.file).size("num_bits", most=WIDEST))
    if not bits:
        raise fields.wrong("config_groups", "expected a group of layers, found none", "give weight_bits")
    if len(bits) != 1:
        raise fields.wrong("config_groups", "groups of layers with weights of several widths", "give weight_bits")
    fields.only("kv_cache_scheme", None, "a quantised cache is not read: leave the field out, and give cache_bits")
    return bits.pop()


def rms(c: Config, decoder: Decoder | None = None) -> Norm:
    """The norm of a decoder."""
    decoder = decoder or Decoder()
    kind, field = decoder.norm
    # Gemma, Qwen3-Next, and Nemotron's norms
    offset = 1 if decoder.gemma or decoder.delta or field == "norm_eps" else 0
    return Norm(kind, c.number(field, 1e-6 if kind == "rms" else 1e-5), offset)


def layer_count(c: Config, key: str = "num_hidden_layers") -> int:
    """How many layers there are."""
    found = c.size(key)
    if found > MOST_LAYERS:
        raise c.wrong(key, f"{found:,} layers; at most {MOST_LAYERS:,} are imported")
    return found


def attention(c: Config, decoder: Decoder) -> Attention:
    """Attention of a decoder, without a window."""
    heads, hidden = c.size("num_attention_heads"), c.size("hidden_size")
    kv_heads = c.size("num_key_value_heads", heads)
    if heads % kv_heads:
        text = f"{kv_heads} heads of keys and values do not divide {heads} heads of queries"
        raise c.wrong("num_key_value_heads", text)
    head = c.size("head_dim", decoder.head or (0 if hidden % heads else hidden // heads), least=1)
    if head == 0:
        raise c.wrong("num_attention_heads", f"{heads} heads do not divide hidden_size, {hidden}", "or give head_dim")
    if head % 2:
        raise c.wrong("head_dim", f"rotary embedding needs an even number of features, found {head}")
    scale = (c.number("query_pre_attn_scalar", 256 if decoder.both_norms else head) if decoder.gemma else head) ** -0.5
    if decoder.multipliers:
        scale = c.number("attention_multiplier", 1.0)
    bias = decoder.biases or c.flag("attention_bias", decoder.sinks)
    return Attention(
        heads=heads,
        kv_heads=kv_heads,
        head=head,
        scale=scale,
        qkv_bias=bias if decoder.qkv_bias is None else decoder.qkv_bias,
        out_bias=bias if decoder.qkv_bias is None else False,
        qk_norm=rms(c, decoder) if decoder.qk_norm else None,
        joint=decoder.joint,
        sinks=decoder.sinks,
        gated=decoder.delta,
        cap=cap(c, "attn_logit_softcapping", decoder.caps[0]) if decoder.gemma else None,
    )


def mixers(c: Config, decoder: Decoder, layers: int) -> list[Attention | Latent | DeltaRule]:
    """Attention of each layer of a decoder, in order."""
    if decoder.latent:
        return [latent(c, decoder)] * layers
    plain = attention(c, decoder)
    if not decoder.delta:
        return [replace(plain, window=window) for window in windows(c, decoder, layers)]
    turn, listed = c.size("full_attention_interval", 4), c.get("layer_types")
    kinds = [(layer + 1) % turn != 0 for layer in range(layers)]
    if listed is not None:
        kinds = [_is_kind(item, LINEAR) for item in listed.items()]
        _check_kinds(c, len(kinds), layers)
    c.only("use_sliding_window", False, "windows beside linear attention are not imported")
    linear = delta_rule(c)
    return [linear if kind else plain for kind in kinds]


def delta_rule(c: Config) -> DeltaRule:
    """Linear attention by a gated delta rule."""
    heads, groups = c.size("linear_num_value_heads"), c.size("linear_num_key_heads")
    if heads % groups:
        text = f"{groups} heads of keys do not divide {heads} heads of values"
        raise c.wrong("linear_num_key_heads", text)
    key, value = c.size("linear_key_head_dim"), c.size("linear_value_head_dim")
    taps = c.size("linear_conv_kernel_dim", 4, least=2)
    return DeltaRule(heads, groups, key, value, taps, Norm("rms", c.number("rms_norm_eps", 1e-6)))


def index(c: Config, q_rank: int | None, rotated: int) -> Index:
    """Scores that choose positions, of queries to latent rows."""
    made = Index(c.size("index_n_heads"), c.size("index_head_dim"), c.size("index_topk", least=2))
    if made.head % 2 or made.head < rotated:
        text = (
            f"{made.head} features, of which {rotated} are turned (qk_rope_head_dim): expected an even number, as many"
        )
        raise c.wrong("index_head_dim", text)
    if q_rank is None:
        raise c.wrong("q_lora_rank", "scores of positions are made of latent queries, expected their size")
    return made


def latent(c: Config, decoder: Decoder) -> Latent:
    """Attention by latent rows, with the factor of YaRN's `mscale_all_dim` in its scale."""
    heads = c.size("num_attention_heads")
    plain, rotated = c.size("qk_nope_head_dim"), c.size("qk_rope_head_dim")
    if rotated % 2:
        raise c.wrong("qk_rope_head_dim", f"rotary embedding needs an even number of features, found {rotated}")
    if c.size("num_key_value_heads", heads) != heads:
        raise c.wrong("num_key_value_heads", f"latent rows give keys to all {heads} heads", "write as many, or none")
    for key in ("qk_head_dim", "head_dim"):
        c.get(key)
    scale = (plain + rotated) ** -0.5
    found = c.get("rope_scaling") or c.get("rope_parameters")
    if found is not None and isinstance(found.raw, RawMap):
        turned = Config(found.raw, c.top.file)
        most, factor = turned.number("mscale_all_dim", 0.0), turned.number("factor", 1.0)
        scale *= (0.1 * most * math.log(factor) + 1.0) ** 2 if most and factor > 1 else 1.0
    q_rank = c.size("q_lora_rank") if c.has("q_lora_rank") else None
    return Latent(
        heads=heads,
        q_rank=q_rank,
        kv_rank=c.size("kv_lora_rank"),
        plain=plain,
        rotated=rotated,
        value=c.size("v_head_dim"),
        scale=scale,
        norm=Norm("rms", 1e-6),
        bias=c.flag("attention_bias", False),
        index=index(c, q_rank, rotated) if decoder.indexed else None,
    )


def cap(c: Config, key: str, without: float | None) -> float | None:
    """A bound of scores or logits, `without` where the field is missing, None where it is null."""
    return (c.number(key, 0.0) or None) if key in c.names() else without


def windows(c: Config, decoder: Decoder, layers: int) -> list[int | None]:
    """The window of each layer, None for all positions."""
    if decoder.windows == "none":
        return [None] * layers
    size = c.size("sliding_window") if c.has("sliding_window") else None
    kinds = [False] * layers
    first = c.size("max_window_layers", layers, least=0) if decoder.windows == "late" else 0
    turn = decoder.turn
    if decoder.windows == "turns":
        if size is not None and c.size("sliding_window_size", size) != size:
            raise c.wrong("sliding_window_size", f"expected as many positions as sliding_window, {size}")
        turn = c.size("sliding_window_pattern", turn)
    if decoder.windows == "late":
        kinds = [layer >= first for layer in range(layers)] if c.flag("use_sliding_window", False) else kinds
    elif decoder.windows == "turns":
        kinds = [(layer + 1) % turn != 0 for layer in range(layers)]
    elif size is not None:
        kinds = [True] * layers
    listed = c.get("layer_types")
    if listed is not None:
        kinds = [_is_kind(item, WINDOWED) for item in listed.items()]
        _check_kinds(c, len(kinds), layers)
    if any(kinds) and size is None:
        raise c.wrong("sliding_window", "layers have a window, but its size is missing")
    return [size if windowed else None for windowed in kinds]


def _check_kinds(c: Config, kinds: int, layers: int) -> None:
    """Raise SpecError where there are not as many kinds as layers."""
    if kinds != layers:
        raise c.wrong("layer_types", f"{kinds} kinds for {layers} layers (num_hidden_layers)")


def _is_kind(found: Value, kind: str) -> bool:
    """Whether a layer is of this kind, and has no full attention. Raises SpecError for other words."""
    text = found.text()
    if text not in (kind, FULL):
        raise found.wrong(f"{FULL} or {kind}")
    return text == kind


def activation(c: Config, without: str) -> str:
    """The activation of feed-forward layers."""
    first = c.word("hidden_activation", ACTIVATIONS, "")
    second = c.word("hidden_act", ACTIVATIONS, without)
    return first or second


def dense(c: Config, decoder: Decoder) -> FeedForward:
    """The feed-forward layer of a decoder."""
    act = activation(c, decoder.activation)
    bias = decoder.biases or c.flag("mlp_bias", False)
    return FeedForward(c.size("intermediate_size"), act, gated=decoder.gated, bias=bias)


def second_blocks(c: Config, decoder: Decoder, layers: int) -> list[FeedForward | Experts]:
    """The feed-forward block of each layer."""
    if not decoder.experts:
        return [dense(c, decoder)] * layers
    if decoder.experts in ("mixtral", "gpt_oss"):
        return [_mixtral(c, decoder)] * layers
    if decoder.experts == "qwen":
        sparse, step = _qwen(c, decoder), c.size("decoder_sparse_step", 1)
        found = c.get("mlp_only_layers")
        plain = {item.integer(0, layers - 1) for item in found.items()} if found is not None else set()
        kinds = [layer not in plain and (layer + 1) % step == 0 for layer in range(layers)]
    else:
        sparse, step = _deepseek(c, decoder), c.size("moe_layer_freq", 1)
        first = c.size("first_k_dense_replace", 0, least=0)
        kinds = [layer >= first and layer % step == 0 for layer in range(layers)]
    # `intermediate_size` may be missing or said where no layer uses it
    c.get("intermediate_size")
    return [sparse if kind else dense(c, decoder) for kind in kinds]


def chosen_of(c: Config, number: int) -> int:
    """How many of so many experts each token has."""
    chosen = c.size("num_experts_per_tok")
    if chosen > number:
        raise c.wrong("num_experts_per_tok", f"{chosen} of {number} experts for each token")
    return chosen


def _mixtral(c: Config, decoder: Decoder) -> Experts:
    number, expert = c.size("num_local_experts"), dense(c, decoder)
    if decoder.experts == "gpt_oss":
        limit, slope = c.number("swiglu_limit", 7.0), c.number("swiglu_alpha", 1.702)
        expert = FeedForward(expert.hidden, expert.activation, gated=True, bias=True, limit=limit, slope=slope)
        if c.size("experts_per_token", chosen_of(c, number)) != chosen_of(c, number):
            raise c.wrong("experts_per_token", "expected what num_experts_per_tok says")
    return Experts(number, chosen_of(c, number), expert, "softmax", normalised=True, bias=expert.bias)


def _qwen(c: Config, decoder: Decoder) -> Experts:
    number, act = c.size("num_experts"), activation(c, decoder.activation)
    shared = None
    if c.has("shared_expert_intermediate_size"):
        shared = FeedForward(c.size("shared_expert_intermediate_size"), act, gated=True)
    return Experts(
        number,
        chosen_of(c, number),
        FeedForward(c.size("moe_intermediate_size"), act, gated=True),
        "softmax",
        normalised=c.flag("norm_topk_prob", decoder.delta),
        shared=shared,
        shared_gate=shared is not None,
    )


def _deepseek(c: Config, decoder: Decoder) -> Experts:
    number, act = c.size("n_routed_experts"), activation(c, decoder.activation)
    hidden, shared = c.size("moe_intermediate_size"), c.size("n_shared_experts", 0, least=0)
    third = decoder.experts == "deepseek_v3"
    scores = c.word("scoring_func", ("softmax", "sigmoid"), "sigmoid" if third else "softmax")
    method = c.word("topk_method", ("greedy", "group_limited_greedy", "noaux_tc"), "noaux_tc" if third else "greedy")
    for key in ("n_group", "topk_group"):
        c.size(key, 1)
    return Experts(
        number,
        chosen_of(c, number),
        FeedForward(hidden, act, gated=True),
        "sigmoid" if scores == "sigmoid" else "softmax",
        normalised=c.flag("norm_topk_prob", third),
        factor=c.number("routed_scaling_factor", 1.0),
        correction=method == "noaux_tc",
        shared=FeedForward(hidden * shared, act, gated=True) if shared else None,
    )
