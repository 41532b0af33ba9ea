"""Causal convolutions with the positions before as a state, and gates, as layers of state spaces have them."""

from __future__ import annotations

import numpy as np

from einmap.errors import did_you_mean
from einmap.frontends.onnx.composed.body import Body
from einmap.frontends.onnx.operators.elementwise import short_decimal

_ACTIVATIONS = {"none": "", "silu": "a * sigmoid(a)", "swish": "a * sigmoid(a)"}


def causal_convolution(b: Body) -> None:
    """CausalConvWithState: each channel by itself, its state in front of it, or zeros; and the last positions."""
    batch, channels, length = b.shape(0, 3)
    *of_weight, size = b.shape(1, 3)
    b.expect(of_weight == [channels, 1] and size > 0, f"weights of {[*of_weight, size]} do not fit {channels} channels")
    activation = b.call.text("activation", "none")
    hint = did_you_mean(activation, _ACTIVATIONS)
    b.expect(activation in _ACTIVATIONS, f"there is no activation {activation[:30]!r}; {hint}")
    before, shape = size - 1, (batch, channels, size - 1)
    if b.has(3):
        b.expect(b.shape(3, 3) == shape, f"the state has the shape {[*b.shape(3)]}, expected {[*shape]}")
    operands = [b.name(1), *([b.name(2)] if b.has(2) else [])]
    if b.has(3) and before:
        x = b.joined(2, b.name(3), b.name(0))
        y = b.op("Conv", x, *operands, group=channels, label="conv")
    else:
        x = b.name(0)
        y = b.op("Conv", x, *operands, group=channels, pads=[before, 0], label="conv")
        if before > length and b.call.is_used(1):
            x = b.joined(2, b.known(np.zeros((batch, channels, before - length))), x)
    b.results[0] = b.map(_ACTIVATIONS[activation], y) if _ACTIVATIONS[activation] else y
    if before:
        end = length + before if b.has(3) else max(length, before)
        b.results[1] = b.slice(x, 2, end - before, end)


def gated(b: Body) -> None:
    """SwiGLU: the second operand times the first one's Swish (Shazeer, arXiv 2002.05202)."""
    b.expect(b.shape(0) == b.shape(1), f"the shapes {[*b.shape(0)]} and {[*b.shape(1)]} are not equal")
    alpha = short_decimal(b.call.number("alpha", 1.0))
    b.results[0] = b.map(f"a * sigmoid(({alpha}) * a) * b", b.name(0), b.name(1))
