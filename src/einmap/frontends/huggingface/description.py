"""Blocks of language models and their sizes: what an architecture of `config.json` is told in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class Norm:
    """Normalisation over features. `rms`: x / rms(x) times a gain (plus `offset`); `layer`: without its mean, over its
    standard deviation, times a gain, plus a bias.
    """

    kind: Literal["rms", "layer"]
    epsilon: float
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Attention:
    """Attention by heads: `heads` queries, `kv_heads` keys and values of `head` features each.

    `rotary`: whether queries and keys are turned by their position; `window`: positions that a query sees, itself
    included; `cap`: scores are cap * tanh(score / cap); `qk_norm`: norm of queries and keys, over each head.
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


@dataclass(frozen=True, slots=True)
class Latent:
    """Attention by latent rows (DeepSeek-V2, arXiv 2405.04434): keys and values are products of a row of `kv_rank`
    values, which is cached with a rotated key of `rotated` features that all heads share.

    `q_rank`: of the queries; None where they are one product. `plain`, `value`: features of a head without rotary
    embedding, and of its value.
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
class FeedForward:
    """Two products with an activation between, or three where it is gated: act(x G) * (x U), times D."""

    hidden: int
    activation: str
    gated: bool
    bias: bool = False


@dataclass(frozen=True, slots=True)
class Experts:
    """`chosen` of `number` feed-forward layers for each token, by a router; beside them a shared one, perhaps gated.

    `scores`: of the router; `normalised`: weights of the chosen ones sum to 1; `factor`: then multiplies them.
    `correction`: the choice is made by scores plus a bias of each expert, the weights are those of the scores.
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


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer. `placed`: norms stand before each block, after each sum (BERT), or before and after each block (Gemma).

    `second` is the feed-forward block; a layer of Mamba has none.
    """

    mixer: Attention | Latent | StateSpace
    second: FeedForward | Experts | None
    norm: Norm
    placed: Literal["before", "after", "both"] = "before"


@dataclass(frozen=True, slots=True)
class Description:
    """A model: its layers in order, and what stands before and after them.

    `embedding_scale` multiplies embeddings; `positions` and `types` are rows of further embeddings, 0 for none;
    `embedding_norm` stands behind them. `head`: `logits` of the last position, `masked` logits of all positions behind
    a further layer (BERT), a `pooled` first position, or none. `tied`: logits use the embeddings.
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
    longest: int | None = None
