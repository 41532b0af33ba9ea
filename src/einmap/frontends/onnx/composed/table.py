"""All operators that have a body, by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from einmap.frontends.onnx.composed.attention import (
    attention,
    grouped_query_attention,
    multi_head_attention,
    standard_attention,
)
from einmap.frontends.onnx.composed.body import Body
from einmap.frontends.onnx.composed.caches import scattered
from einmap.frontends.onnx.composed.causal import causal_convolution, gated
from einmap.frontends.onnx.composed.embedding import embedded
from einmap.frontends.onnx.composed.experts import experts
from einmap.frontends.onnx.composed.rotary import rotary

COMPOSED: Mapping[str, Callable[[Body], None]] = {
    "com.microsoft.Attention": attention,
    "com.microsoft.EmbedLayerNormalization": embedded,
    "com.microsoft.GroupQueryAttention": grouped_query_attention,
    "com.microsoft.MoE": experts,
    "com.microsoft.MultiHeadAttention": multi_head_attention,
    "com.microsoft.QMoE": experts,
    "com.microsoft.RotaryEmbedding": rotary,
    "Attention": standard_attention,
    "CausalConvWithState": causal_convolution,
    "SwiGLU": gated,
    "TensorScatter": scattered,
}
"""Functions that write the body of an operator, of other domains by full names."""
