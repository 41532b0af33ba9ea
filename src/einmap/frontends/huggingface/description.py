"""Blocks of language models and their sizes: what an architecture of `config.json` is told in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Norm:
    """Normalisation over features. `rms`: x / rms(x) times a gain (plus `offset`); `layer`: without its mean, over its
    standard deviation, times a gain (plus `offset`), plus a bias; `plain`: x / rms(x).
    """

    kind: Literal["rms", "layer", "plain"]
    epsilon: float
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention by heads: `heads` queries, `kv_heads` keys and values of `head` features each.

    `rotary`: whether queries and keys are turned by their position; `window`: positions that a query sees, itself
    included; `chunk`: it sees those from the last multiple of that on; `cap`: scores are cap * tanh(score / cap);
    `qk_norm`: norm of queries and keys, over each head, or over all heads where it is `joint`; `heated`: queries are
    multiplied by a factor of their position; `sinks`: each head has a score more, of no key (gpt-oss); `gated`: results
    are multiplied by a sigmoid of a product of the hidden states (Qwen3-Next).
    """

    heads: int
    kv_heads: int
    head: int
    scale: float
    rotary: bool = True
    qkv_bias: bool = False
    out_bias: bool = False
    qk_norm: Norm | None = None
    window: int | None = None
    cap: float | None = None
    causal: bool = True
    chunk: int | None = None
    joint: bool = False
    heated: bool = False
    sinks: bool = False
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Index:
    """Scores by which `chosen` positions are attended to (DeepSeek-V3.2, arXiv 2512.02556): `heads` queries of `head`
    features, keys that all heads share and that are cached, weights of the heads for each query.
    """

    heads: int
    head: int
    chosen: int


@dataclass(frozen=True, slots=True)
class Latent:
    """Attention by latent rows (DeepSeek-V2, arXiv 2405.04434): keys and values are products of a row of `kv_rank`
    values, which is cached with a rotated key of `rotated` features that all heads share.

    `q_rank`: of the queries; None where they are one product. `plain`, `value`: features of a head without rotary
    embedding, and of its value. `index`: chooses the positions that are seen; None: all are.
    """

    heads: int
    q_rank: int | None
    kv_rank: int
    plain: int
    rotated: int
    value: int
    scale: float
    norm: Norm
    bias: bool = False
    index: Index | None = None


@dataclass(frozen=True, slots=True)
class StateSpace:
    """A state-space layer (Mamba-2, arXiv 2405.21060): `heads` of `head` features with `state` values for each, B and C
    in `groups`, a convolution over `taps` positions, prompts in chunks of `chunk` positions.
    """

    heads: int
    head: int
    groups: int
    state: int
    taps: int
    chunk: int
    norm: Norm
    conv_bias: bool
    bias: bool


@dataclass(frozen=True, slots=True)
class Selective:
    """A selective state-space layer (Mamba, arXiv 2312.00752): `inner` features with `state` values each, steps of time
    by way of `rank` values, a convolution over `taps` positions. `inside`: norm of steps, B and C (Falcon Mamba).
    """

    inner: int
    state: int
    rank: int
    taps: int
    inside: Norm | None
    conv_bias: bool
    bias: bool


@dataclass(frozen=True, slots=True)
class DeltaRule:
    """Linear attention by a gated delta rule (Yang et al., arXiv 2412.06464): `heads` states of `key` x `value`
    features; a state decays, and is moved towards the value of each key. Queries and keys are in `groups`, with a
    convolution over `taps` positions, as values have. `norm`: of the results of each head, which are gated behind it.
    """

    heads: int
    groups: int
    key: int
    value: int
    taps: int
    norm: Norm
    conv_bias: bool = False


@dataclass(frozen=True, slots=True)
class FeedForward:
    """Two products with an activation between, or three where it is gated: act(x G) * (x U), times D.

    `limit`, of gated ones: g * sigmoid(`slope` * g) * (u + 1) instead, g at most `limit`, u between -limit and limit
    (gpt-oss).
    """

    hidden: int
    activation: str
    gated: bool
    bias: bool = False
    limit: float | None = None
    slope: float = 1.0


@dataclass(frozen=True, slots=True)
class Experts:
    """`chosen` of `number` feed-forward layers for each token, by a router; beside them a shared one, perhaps gated.

    `scores`: of the router; `normalised`: weights of the chosen ones sum to 1; `factor`: then multiplies them.
    `correction`: the choice is made by scores plus a bias of each expert, the weights are those of the scores.
    `bias`: of the router; `first`: weights multiply what goes into experts, not what comes out (Llama 4).
    """

    number: int
    chosen: int
    expert: FeedForward
    scores: Literal["softmax", "sigmoid"]
    normalised: bool
    factor: float = 1.0
    correction: bool = False
    shared: FeedForward | None = None
    shared_gate: bool = False
    bias: bool = False
    first: bool = False


type Mixer = Attention | Latent | StateSpace | Selective | DeltaRule


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer. `placed`: norms stand before each block, after each sum (BERT), before and after each block (Gemma),
    `behind` each block (OLMo 2), or one before both blocks, which stand beside each other (`parallel`, Phi).

    `second` is the feed-forward block; a layer of Mamba has none. `share` multiplies what blocks add.
    """

    mixer: Mixer
    second: FeedForward | Experts | None
    norm: Norm
    placed: Literal["before", "after", "both", "behind", "parallel"] = "before"
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Description:
    """A model: its layers in order, and what stands before and after them.

    `embedding_scale` multiplies embeddings; `positions` and `types` are rows of further embeddings, 0 for none;
    `embedding_norm` stands behind them. `head`: `logits` of the last position, `masked` logits of all positions behind
    a further layer (BERT), a `pooled` first position, or none. `tied`: logits use the embeddings; `logits_bias`,
    `logits_divisor`: they have a bias, and are divided. `left_out`: what of a larger model this is not, as a note.
    """

    architecture: str
    hidden: int
    vocabulary: int
    layers: tuple[Layer, ...]
    final_norm: Norm | None
    tied: bool
    head: Literal["logits", "masked", "pooled", "none"]
    bits: int
    embedding_scale: float = 1.0
    positions: int = 0
    types: int = 0
    embedding_norm: Norm | None = None
    logits_cap: float | None = None
    logits_bias: bool = False
    logits_divisor: float = 1.0
    longest: int | None = None
    left_out: str = ""
