"""Bytes that a device holds as a plan divides a model: weights, cache, activations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from math import ceil

from einmap.frontends.huggingface.description import (
    Attention,
    DeltaRule,
    Experts,
    FeedForward,
    Latent,
    Layer,
    Mixer,
    Selective,
    StateSpace,
)
from einmap.frontends.huggingface.model import LanguageModel
from einmap.serving.plan import ServingPlan


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes on each device: weights, the cache of all sequences, activations; `memory`: room, inf: enough."""

    weights: float
    cache: float
    activations: float
    memory: float

    @property
    def total(self) -> float:
        """Bytes of all that is held."""
        return self.weights + self.cache + self.activations

    @property
    def fits(self) -> bool:
        """Whether there is room for all."""
        return self.total <= self.memory

    def most(self, sequences: int) -> int | None:
        """How many sequences would fit where `sequences` need this; None: any number."""
        if not math.isfinite(self.memory):
            return None
        return max(0, int((self.memory - self.weights) / ((self.cache + self.activations) / sequences)))


def layer_held(model: LanguageModel, plan: ServingPlan) -> dict[Layer, tuple[float, float]]:
    """Bytes of weights and of the cache of each kind of layer on a device, for all sequences of a group."""
    step, found = model.step, {}
    for part, layer in zip(model.parts[1:], model.layers, strict=False):
        whole = ServingPlan()
        weights = _values(layer, model.description.hidden, plan) / _values(layer, model.description.hidden, whole)
        cache = part.read_bits / 8 / step.batch * plan.of_group(step.batch) * _of_cache(layer, step.context, plan)
        found[layer] = part.weight_bits / 8 * weights, cache
    return found


def ends_held(model: LanguageModel, plan: ServingPlan) -> tuple[float, float]:
    """Bytes of embeddings and of the head on a device: by columns; the last stage has tied embeddings as well."""
    made = model.description
    part = ceil(made.vocabulary / plan.wide) / made.vocabulary
    first, last = model.parts[0].weight_bits / 8, model.parts[-1].weight_bits / 8
    if made.tied and plan.pp > 1:
        last += made.vocabulary * made.hidden * model.widths.others / 8
    return first * part, last * part


def _values(layer: Layer, hidden: int, plan: ServingPlan) -> float:
    """Values of the products of a layer on a device; norms and biases are in proportion to them."""
    second = 0.0
    match layer.second:
        case FeedForward():
            second = _feed_forward(layer.second, hidden, plan)
        case Experts():
            experts = ceil(layer.second.number / plan.ep)
            second = experts * _feed_forward(layer.second.expert, hidden, plan) + layer.second.number * hidden
            if layer.second.shared is not None:
                second += _feed_forward(layer.second.shared, hidden, plan)
    return _mixer(layer.mixer, hidden, plan) + second


def _feed_forward(block: FeedForward, hidden: int, plan: ServingPlan) -> float:
    return (3 if block.gated else 2) * hidden * ceil(block.hidden / plan.wide)


def _mixer(block: Mixer, hidden: int, plan: ServingPlan) -> float:
    """Values of products around attention or states: those before attention are on all devices of `cp`."""
    match block:
        case Attention():
            heads, kv_heads = ceil(block.heads / plan.tp), ceil(block.kv_heads / plan.tp)
            gates = heads if block.gated else 0
            return hidden * ((heads + gates + 2 * kv_heads) * block.head + ceil(heads * block.head / plan.cp))
        case Latent():
            heads, row = ceil(block.heads / plan.tp), block.kv_rank + block.rotated
            columns = heads * (block.plain + block.rotated)
            queries = hidden * columns if block.q_rank is None else block.q_rank * (hidden + columns)
            keys = heads * block.plain + ceil(heads * block.value / plan.cp)
            if block.index is not None and block.q_rank is not None:
                # each device chooses by itself
                scores = block.index.heads * block.index.head
                queries += block.q_rank * scores + hidden * (block.index.heads + block.index.head)
            return queries + hidden * row + block.kv_rank * keys + hidden * ceil(heads * block.value / plan.cp)
        case StateSpace():
            inner = ceil(block.heads / plan.wide) * block.head
            shared = 2 * ceil(block.groups / plan.wide) * block.state
            return hidden * (3 * inner + shared + ceil(block.heads / plan.wide))
        case DeltaRule():
            inner = ceil(block.heads / plan.wide) * block.value
            shared = 2 * ceil(block.groups / plan.wide) * block.key
            return hidden * (3 * inner + shared + 2 * ceil(block.heads / plan.wide)) + block.taps * (inner + shared)
        case Selective():
            return ceil(block.inner / plan.wide) * (3 * hidden + 2 * block.rank + 3 * block.state + block.taps)


def _of_cache(layer: Layer, context: int, plan: ServingPlan) -> float:
    """The part of the cache of a layer that a device has: some heads of some positions."""
    block = layer.mixer
    if isinstance(block, StateSpace | DeltaRule):
        return ceil(block.heads / plan.wide) / block.heads
    if isinstance(block, Selective):
        return ceil(block.inner / plan.wide) / block.inner
    if isinstance(block, Attention) and block.chunk is not None:
        context %= block.chunk
    kept = context if isinstance(block, Latent) or block.window is None else min(context, block.window)
    positions = ceil(kept / plan.cp) / kept if kept else 1.0
    heads = ceil(block.kv_heads / plan.tp) / block.kv_heads if isinstance(block, Attention) else 1.0
    return positions * heads
