"""A step of a language model as operators on each of several devices: tensor parallelism, heads and columns divided.

Products behind a division by rows end in an all-reduce (Shoeybi et al., Megatron-LM, arXiv 1909.08053): two for each
layer. Experts are divided as feed-forward layers are, states by heads; latent rows are whole everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from einmap.distribute.costs.cluster import ProcessingElement
from einmap.distribute.operators import Attention as Attended
from einmap.distribute.operators import Exchange, Pointwise, Product
from einmap.frontends.huggingface.description import Attention, Experts, FeedForward, Latent, Layer, StateSpace
from einmap.frontends.huggingface.model import LanguageModel


@dataclass(frozen=True, slots=True)
class Kernel:
    """A kernel that is none of the others: its operations, the bytes that it moves, bits of its values."""

    operations: float
    moved: float
    bits: float

    def seconds(self, pe: ProcessingElement) -> float:
        """Time on one device."""
        return pe.seconds(self.operations, self.moved, self.bits)


type Operator = Product | Attended | Pointwise | Exchange | Kernel


@dataclass(frozen=True, slots=True)
class PartOperators:
    """A part of a model: how often it is there, and the operators of one instance in order."""

    name: str
    instances: int
    operators: tuple[Operator, ...]

    @property
    def widest(self) -> float:
        """Bytes of the widest activations: what the largest product reads and writes."""
        products = [o for o in self.operators if isinstance(o, Product)]
        return max((o.batch * o.m * (o.k * o.bits + o.n * o.result_bits) / 8 for o in products), default=0)


def operators_of(model: LanguageModel, devices: int, prompt: int = 0) -> tuple[PartOperators, ...]:
    """Operators of each part of a model's step on each of `devices`; `prompt`: positions of a new request that go
    through the layers beside it, 0 for none.
    """
    writer = _Writer(model, devices, prompt)
    kinds: dict[Layer, int] = model.layers
    names = [part.name for part in model.parts[1 : 1 + len(kinds)]]
    layers = [
        PartOperators(name, count, tuple(writer.layer(layer)))
        for name, (layer, count) in zip(names, kinds.items(), strict=True)
    ]
    first = PartOperators(model.parts[0].name, 1, (writer.pointwise(writer.hidden, writer.hidden),))
    last = PartOperators(model.parts[-1].name, 1, tuple(writer.head()))
    return (first, *layers, last)


@dataclass(frozen=True, slots=True)
class _Writer:
    """Sizes of a step on one of several devices."""

    model: LanguageModel
    devices: int
    prompt: int

    @property
    def hidden(self) -> int:
        """Features between layers."""
        return self.model.description.hidden

    @property
    def rows(self) -> int:
        """Positions that go through the layers, over all sequences."""
        return self.model.step.batch * self.model.step.tokens + self.prompt

    def share(self, size: int) -> int:
        """The part of a size that one device has."""
        return max(1, ceil(size / self.devices))

    def product(self, n: int, k: int, *, rows: int | None = None, batch: int = 1) -> Product:
        """A product with weights [k, n] on one device."""
        widths = self.model.widths
        return Product(
            rows or self.rows,
            n,
            k,
            bits=widths.activations,
            weight_bits=widths.weights,
            result_bits=max(widths.activations, widths.others),
            batch=batch,
        )

    def pointwise(self, read: float, written: float, *, narrow: bool = False) -> Pointwise:
        """A kernel that reads and writes so many values of each position; `narrow`: as operands of products."""
        widths = self.model.widths
        bits = min(widths.activations, widths.others) if narrow else widths.others
        return Pointwise(self.rows * (read * widths.others + written * bits) / 8)

    def sum_over_devices(self) -> list[Operator]:
        """The all-reduce of hidden states, where there are several devices."""
        moved = self.rows * self.hidden * self.model.widths.others / 8
        return [Exchange(moved, self.devices)] if self.devices > 1 else []

    def layer(self, layer: Layer) -> list[Operator]:
        """A layer: its mixer and its feed-forward block, a norm with a sum for each."""
        norm = self.pointwise(2 * self.hidden, 2 * self.hidden, narrow=True)
        norms: list[Operator] = [norm] * (2 if layer.placed == "both" else 1)
        made = [*norms, *self.mixer(layer.mixer), *self.sum_over_devices()]
        if layer.second is not None:
            made += [*norms, *self.second(layer.second), *self.sum_over_devices()]
        return made

    def mixer(self, block: Attention | Latent | StateSpace) -> list[Operator]:
        """Attention or states."""
        match block:
            case Attention():
                return self.attention(block)
            case Latent():
                return self.latent(block)
            case StateSpace():
                return self.states(block)

    def attention(self, block: Attention) -> list[Operator]:
        """One product for queries, keys and values, the rotary embedding, attention, the product of its results."""
        step, widths = self.model.step, self.model.widths
        heads, kv_heads = self.share(block.heads), self.share(block.kv_heads)
        seen = step.context + step.tokens
        if block.window is not None:
            seen = max(min(seen, block.window), step.tokens)
        attended = Attended(
            step.batch, heads, kv_heads, seen, width=block.head, queries=step.tokens, bits=widths.cache,
            query_bits=max(widths.activations, widths.others),
        )  # fmt: skip
        attends: list[Operator] = [attended]
        if self.prompt:
            attends.append(replace(attended, sequences=1, context=self.prompt, queries=self.prompt))
        columns = (heads + 2 * kv_heads) * block.head
        turned: list[Operator] = [self.pointwise(columns, columns)] if block.rotary else []
        if block.qk_norm is not None:
            turned.append(self.pointwise((heads + kv_heads) * block.head, (heads + kv_heads) * block.head))
        return [self.product(columns, self.hidden), *turned, *attends, self.product(self.hidden, heads * block.head)]

    def latent(self, block: Latent) -> list[Operator]:
        """Products into and out of latent rows; the rows are read by every device, once for all of its heads."""
        step, widths = self.model.step, self.model.widths
        heads, row = self.share(block.heads), block.kv_rank + block.rotated
        made: list[Operator] = []
        columns, k = heads * (block.plain + block.rotated), self.hidden
        if block.q_rank is not None:
            made += [self.product(block.q_rank + row, self.hidden), self.product(columns, block.q_rank)]
        else:
            made += [self.product(columns + row, k)]
        seen = step.context + step.tokens
        moved = step.batch * (seen * row * widths.cache + step.tokens * heads * 2 * row * widths.others) / 8
        pairs = 2.0 * step.batch * heads * step.tokens * (seen - (step.tokens - 1) / 2)
        operations = pairs * (row + block.kv_rank)
        absorbed: list[Operator] = [
            self.product(block.kv_rank, block.plain, batch=heads),
            Kernel(operations, moved, widths.others),
            self.product(block.value, block.kv_rank, batch=heads),
        ]
        expanded: list[Operator] = [
            self.product(heads * (block.plain + block.value), block.kv_rank, rows=step.batch * seen),
            Kernel(pairs * (block.plain + block.rotated + block.value), moved, widths.others),
        ]
        in_latent = step.tokens * block.kv_rank * 2 <= seen * (block.plain + block.value)
        made += [self.pointwise(columns + row, columns + row), *(absorbed if in_latent else expanded)]
        if self.prompt:
            width = block.plain + block.rotated + block.value
            pairs = heads * self.prompt * (self.prompt + 1.0)
            made.append(self.product(heads * (block.plain + block.value), block.kv_rank, rows=self.prompt))
            made.append(Kernel(pairs * width, self.prompt * heads * 2 * width * widths.others / 8, widths.others))
        return [*made, self.product(self.hidden, heads * block.value)]

    def states(self, block: StateSpace) -> list[Operator]:
        """One product into a layer of state spaces, its convolution, its states, its norm, one product out of it."""
        step, widths = self.model.step, self.model.widths
        heads = self.share(block.heads)
        inner, shared = heads * block.head, 2 * self.share(block.groups) * block.state
        values = step.batch * heads * block.head * block.state
        chunk = min(block.chunk, max(step.tokens, self.prompt))
        scanned = 2.0 * self.rows * inner * (2 * block.state + chunk)
        return [
            self.product(2 * inner + shared + heads, self.hidden),
            self.pointwise(inner + shared, inner + shared),
            Kernel(scanned, 2 * values * widths.cache / 8, widths.others),
            self.pointwise(3 * inner, inner, narrow=True),
            self.product(self.hidden, inner),
        ]

    def second(self, block: FeedForward | Experts) -> list[Operator]:
        """A feed-forward block, or a router with the experts that it chooses."""
        if isinstance(block, FeedForward):
            return self.feed_forward(block, self.rows, 1)
        choices = self.rows * block.chosen
        busy = min(block.number, choices)
        router = Product(self.rows, block.number, self.hidden, bits=self.model.widths.others)
        made: list[Operator] = [
            router,
            self.pointwise(block.chosen * self.hidden, block.chosen * self.hidden, narrow=True),
        ]
        made += self.feed_forward(block.expert, ceil(choices / busy), busy)
        if block.shared is not None:
            made += self.feed_forward(block.shared, self.rows, 1)
        return made

    def feed_forward(self, block: FeedForward, rows: int, batch: int) -> list[Operator]:
        """Gate and up in one product, the activation, down; `batch` of them."""
        inner, width = self.share(block.hidden), 2 if block.gated else 1
        widths = self.model.widths
        moved = rows * batch * inner * (width * widths.others + min(widths.activations, widths.others)) / 8
        return [
            self.product(width * inner, self.hidden, rows=rows, batch=batch),
            Pointwise(moved),
            self.product(self.hidden, inner, rows=rows, batch=batch),
        ]

    def head(self) -> list[Operator]:
        """The last norm, and logits of one position for each sequence, which every device gets and reads once."""
        made, widths = self.model.description, self.model.widths
        batch = self.model.step.batch + (1 if self.prompt else 0)
        columns = self.share(made.vocabulary)
        norm = Pointwise(2 * batch * self.hidden * widths.others / 8)
        logits = Product(batch, columns, self.hidden, bits=widths.others, result_bits=widths.others)
        joined = Exchange(batch * made.vocabulary * widths.others / 8, self.devices, "all_gather")
        # logits in 32 bits, written and read once
        chosen = Pointwise(batch * made.vocabulary * (widths.others + 64) / 8)
        return [norm, logits, *([joined] if self.devices > 1 else []), chosen]
