"""Mixtures of experts of ONNX Runtime: a router, the largest scores, and what the chosen experts make of each row."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, prod

from einmap.frontends.cascade.step import NotExpressible
from einmap.frontends.onnx.composed.body import Body
from einmap.frontends.onnx.operators.choice import SLOTS, TABLE_PRODUCT
from einmap.frontends.onnx.operators.elementwise import TANH_GELU, short_decimal
from einmap.frontends.onnx.operators.packed import EXPERT_WEIGHT
from einmap.visible import short

_ACTIVATIONS = {"relu": "relu(a)", "gelu": TANH_GELU, "silu": "a * sigmoid(a)", "identity": "a"}


@dataclass(frozen=True, slots=True)
class _Weights:
    """Places of the operands of one linear layer of all experts: weight, bias, scale and zero point of a weight."""

    weight: int
    bias: int
    scale: int | None = None
    zero: int | None = None


_PLAIN = _Weights(2, 3), _Weights(4, 5), _Weights(6, 7)
_QUANTISED = _Weights(2, 4, 3, 11), _Weights(5, 7, 6, 12), _Weights(8, 10, 9, 13)


def experts(b: Body) -> None:
    """MoE and QMoE. Rows that are no more than there are experts look up the matrices of theirs; else each expert has
    room for as many rows as it gets where all get as many, and rows beyond that are left out.
    """
    is_quantised = b.call.node.operator.endswith("QMoE")
    if b.call.integer("use_sparse_mixer", 0):
        raise NotExpressible("its router is a sparse mixer")
    shape, router = b.shape(0), b.shape(1, 2)
    rows, hidden = prod(shape[:-1]), shape[-1]
    chosen, number = b.positive("k", 1), router[1]
    b.expect(router[0] == rows, f"{router[0]} rows of the router are not the {rows} of the input")
    b.expect(chosen <= number, f"{chosen} of {number} experts")
    scores = b.op("Softmax", b.name(1), axis=-1, label="scores")
    gates = b.op("TopK", scores, b.integers(chosen), outputs=2, axis=-1, label="chosen")
    where = f"{gates[:-1]}1"
    if is_quantised or b.call.integer("normalize_routing_weights", 0):
        gates = b.map("a / b", gates, b.op("ReduceSum", gates, b.integers(1), label="gates"))
    x = b.reshape(b.name(0), rows, hidden)
    layers = _Layers(b, _QUANTISED if is_quantised else _PLAIN, number, where)
    if rows * chosen <= number:
        y = layers.applied(x)
    else:
        room = -(-rows * chosen // number)
        taken = b.op(SLOTS, where, outputs=2, groups=number, capacity=room, label="slots")
        layers.where = None
        y = layers.applied(b.op("Gather", x, taken, axis=0, label="rows"))
        y = b.op("einmap.SlotRows", y, where, f"{taken[:-1]}1", label="results")
    y = b.op("MatMul", b.op("Unsqueeze", gates, b.integers(1)), y, label="mixed")
    b.results[0] = b.reshape(y, *shape)


@dataclass(slots=True)
class _Layers:
    """The linear layers of experts. `where`: the expert of each choice of a row; None where rows lie by expert."""

    b: Body
    places: tuple[_Weights, _Weights, _Weights]
    number: int
    where: str | None

    def applied(self, x: str) -> str:
        """Rows after the feed-forward layer of their experts."""
        b = self.b
        kind = b.call.text("activation_type", "relu")
        first = self.linear(0, x)
        if kind == "swiglu":
            return self.linear(1, self.gated(first, x))
        if kind not in _ACTIVATIONS:
            raise NotExpressible(f"its activation is {short(kind, 40)}")
        inner = first if kind == "identity" else b.map(_ACTIVATIONS[kind], first, label="inner")
        if b.has(self.places[2].weight):
            inner = b.map("a * b", inner, self.linear(2, x), label="gated")
        return self.linear(1, inner)

    def gated(self, first: str, x: str) -> str:
        """`gate * sigmoid(alpha * gate) * (linear + beta)`, both parts of the first layer, or the third one linear."""
        b = self.b
        fusion = b.call.integer("swiglu_fusion", 0)
        if fusion == 0:
            gate, linear = first, self.linear(2, x)
        else:
            size = b.shape(self.places[0].weight)[1]
            b.expect(size % 2 == 0, f"{size} features do not fall into two halves")
            parts = [2, size // 2] if fusion == 2 else [size // 2, 2]
            axis = 2 if fusion == 2 else 3
            lead = [0, 0]
            halves = b.op("Reshape", first, b.integers(*lead, *parts))
            gate, linear = (b.op("Squeeze", b.slice(halves, axis, i, i + 1), b.integers(axis)) for i in range(2))
        alpha, beta = b.call.number("activation_alpha", 1.0), b.call.number("activation_beta", 0.0)
        limit = b.call.number("swiglu_limit", inf)
        if limit < 3e38:
            end = short_decimal(limit)
            gate, linear = b.map(f"min(a, {end})", gate), b.map(f"max(min(a, {end}), -{end})", linear)
        text = f"a * sigmoid(({short_decimal(alpha)}) * a) * (b + ({short_decimal(beta)}))"
        return b.map(text, gate, linear, label="inner")

    def linear(self, place: int, x: str) -> str:
        """One linear layer of each expert."""
        b, at = self.b, self.places[place]
        shape = b.shape(at.weight, 3)
        b.expect(shape[0] == self.number, f"operand {at.weight} has {shape[0]} matrices for {self.number} experts")
        weight = b.name(at.weight)
        if at.scale is not None:
            zero = [b.name(at.zero)] if at.zero is not None and b.has(at.zero) else []
            how = {"bits": b.call.integer("expert_weight_bits", 4), "block_size": b.call.integer("block_size", 0)}
            weight = b.op(EXPERT_WEIGHT, weight, b.name(at.scale), *zero, label="weight", **how)
        name = f"layer_{place + 1}"
        if self.where is None:
            y = b.op("MatMul", x, b.transpose(weight, 0, 2, 1), label=name)
        else:
            y = b.op(TABLE_PRODUCT, x, weight, self.where, label=name)
        if not b.has(at.bias):
            return y
        rows, size = b.shape(at.bias, 2)
        bias = b.name(at.bias)
        if self.where is None:
            return b.map("a + b", y, b.reshape(bias, rows, 1, size), label="biased")
        return b.map("a + b", y, b.op("Gather", bias, self.where, axis=0, label="bias"), label="biased")
