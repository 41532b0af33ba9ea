"""Embeddings as ONNX Runtime writes them: rows of words, positions and segments, summed and normalised."""

from __future__ import annotations

import numpy as np

from einmap.frontends.onnx.composed.body import Body


def embedded(b: Body) -> None:
    """EmbedLayerNormalization; the second result, lengths of masks, is the sum of each row of the mask."""
    batch, tokens = b.shape(0, 2)
    total = b.op("Gather", b.name(2), b.name(0), axis=0, label="words")
    if b.has(8):
        positions = b.op("Gather", b.name(3), b.name(8), axis=0, label="positions")
    else:
        rows = b.shape(3, 2)[0]
        b.expect(tokens <= rows, f"{tokens} positions are beyond the {rows} rows of operand 3")
        positions = b.slice(b.name(3), 0, 0, tokens)
    total = b.map("a + b", total, positions)
    if b.has(1) and b.has(4):
        total = b.map("a + b", total, b.op("Gather", b.name(4), b.name(1), axis=0, label="segments"))
    epsilon = b.call.number("epsilon", 1e-12)
    scale = [b.name(5), *([b.name(6)] if b.has(6) else [])]
    b.results[0] = b.op("LayerNormalization", total, *scale, axis=-1, epsilon=epsilon, label="normalised")
    mask = b.name(7) if b.has(7) else b.known(np.broadcast_to(np.int64(0), (batch, 1)))
    b.results[1] = b.op("ReduceSum", mask, b.integers(1), keepdims=0, label="lengths")
    b.results[2] = total
