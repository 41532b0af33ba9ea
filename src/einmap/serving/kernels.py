"""A step of a language model as kernels and collectives on each of several devices, as a plan divides them.

Products behind a division by rows end in an all-reduce (Shoeybi et al., Megatron-LM, arXiv 1909.08053): two for each
layer. States are divided by heads; latent rows are on all devices that have heads of their own. Where cached positions
are divided, each device attends to its own, and an all-to-all brings the parts of a softmax together for some heads
each (Bhatia et al., Helix parallelism, arXiv 2507.07120). Where experts are divided, tokens go to them and back by an
all-to-all each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil

from einmap.distribute.operators import Attention as Attended
from einmap.distribute.operators import Pointwise, Product, Work
from einmap.distribute.plans.collectives import Kind
from einmap.distribute.training.plan import Dim
from einmap.frontends.huggingface.description import (
    Attention,
    DeltaRule,
    Experts,
    FeedForward,
    Index,
    Latent,
    Layer,
    Mixer,
    Selective,
    StateSpace,
)
from einmap.frontends.huggingface.model import LanguageModel
from einmap.serving.plan import ServingPlan

WIDE: tuple[Dim, ...] = ("tp", "cp")
"""Ways among whose devices products outside of attention are divided."""


@dataclass(frozen=True, slots=True)
class Collective:
    """A collective among the devices of some ways to divide them; `moved`: bytes of the larger of a device's operand
    and result, for an all-reduce those of the tensor.
    """

    kind: Kind
    moved: float
    over: tuple[Dim, ...] = WIDE


@dataclass(frozen=True, slots=True)
class Prompt:
    """A new request: `new` positions that go through the layers, after `kept` ones that are cached already."""

    new: int
    kept: int = 0


type Operator = Product | Attended | Pointwise | Collective | Work


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


def pairs_seen(context: int, new: int, window: int | None = None, chunk: int | None = None) -> int:
    """Pairs of a new position and one that it sees, itself included; `context`: cached positions before the new ones,
    with a `chunk` those of the same chunk.
    """
    if chunk is not None and context + new > chunk:
        first = chunk - context
        whole, rest = divmod(new - first, chunk)
        return pairs_seen(context, first) + whole * pairs_seen(0, chunk) + pairs_seen(0, rest)
    most = context + new if window is None else window
    before = min(context, most - 1)
    # as long as the window is not full, each sees one more than the one before
    more = min(new, most - before)
    return more * before + more * (more + 1) // 2 + (new - more) * most


def operators_of(
    model: LanguageModel, plan: ServingPlan | None = None, prompt: Prompt | None = None
) -> tuple[PartOperators, ...]:
    """Operators of each part of a model's step on a device, for a micro-batch of the plan; None: one device.

    `prompt`: of a new request in each group, which goes through the layers beside the step.
    """
    plan = plan or ServingPlan()
    writer = _Writer(model, plan, plan.sequences(model.step.batch), prompt)
    kinds = model.layers
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
    """Sizes of a step on one of several devices; `sequences`: of a micro-batch."""

    model: LanguageModel
    plan: ServingPlan
    sequences: int
    prompt: Prompt | None

    @property
    def hidden(self) -> int:
        """Features between layers."""
        return self.model.description.hidden

    @property
    def rows(self) -> int:
        """Positions that go through the layers, over all sequences."""
        return self.sequences * self.model.step.tokens + (self.prompt.new if self.prompt else 0)

    def columns(self, size: int) -> int:
        """The part of the columns, rows or heads of products outside of attention that one device has."""
        return ceil(size / self.plan.wide)

    def heads(self, number: int) -> int:
        """The part of the heads of attention that one device has."""
        return ceil(number / self.plan.tp)

    def product(self, n: int, k: int, *, rows: int | None = None, batch: int = 1, bits: int | None = None) -> Product:
        """A product with weights [k, n] on one device; `bits`: of a weight, where not those of linear layers."""
        widths = self.model.widths
        return Product(
            rows or self.rows,
            n,
            k,
            bits=widths.activations,
            weight_bits=bits or widths.weights,
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
        return self.among(Collective("all_reduce", self.rows * self.hidden * self.model.widths.others / 8))

    def among(self, collective: Collective) -> list[Operator]:
        """A collective, where there are several devices to take part."""
        return [collective] if any(self.plan.size(dim) > 1 for dim in collective.over) else []

    def joined(self, rows: int, heads: int, width: int) -> list[Operator]:
        """Results over positions of several devices, each with a maximum and a sum in 32 bits, brought together and
        weighed: a device gets those of some heads.
        """
        others, parts = self.model.widths.others, self.plan.cp
        if parts == 1:
            return []
        sent = rows * heads * (width * others + 64) / 8
        return [Collective("all_to_all", sent, ("cp",)), Pointwise(sent + rows * heads * width * others / 8 / parts)]

    def seen(self, context: int, new: int, window: int | None = None) -> tuple[int, float]:
        """Positions that are seen by some new ones, and the part of them that one device has."""
        every = context + new if window is None else max(min(context + new, window), new)
        return every, ceil(every / self.plan.cp) / every

    def layer(self, layer: Layer) -> list[Operator]:
        """A layer: its mixer and its feed-forward block, a norm with a sum for each."""
        norm = self.pointwise(2 * self.hidden, 2 * self.hidden, narrow=True)
        norms: list[Operator] = [norm] * (2 if layer.placed == "both" else 1)
        if layer.placed == "parallel" and layer.second is not None:
            # what both blocks have is added before it is sent
            return [norm, *self.mixer(layer.mixer), *self.second(layer.second), *self.sum_over_devices()]
        made = [*norms, *self.mixer(layer.mixer), *self.sum_over_devices()]
        if layer.second is not None:
            made += [*norms, *self.second(layer.second), *self.sum_over_devices()]
        return made

    def mixer(self, block: Mixer) -> list[Operator]:
        """Attention or states."""
        match block:
            case Attention():
                return self.attention(block)
            case Latent():
                return self.latent(block)
            case StateSpace():
                return self.states(block)
            case Selective():
                return self.selective(block)
            case DeltaRule():
                return self.delta_rule(block)

    def attention(self, block: Attention) -> list[Operator]:
        """One product for queries, keys and values, the rotary embedding, attention, the product of its results."""
        step = self.model.step
        heads, kv_heads = self.heads(block.heads), self.heads(block.kv_heads)
        attends: list[Operator] = [self.attended(block, self.sequences, step.context, step.tokens)]
        if self.prompt:
            attends.append(self.attended(block, 1, self.prompt.kept, self.prompt.new))
        gates = heads if block.gated else 0
        columns = (heads + 2 * kv_heads) * block.head
        turned: list[Operator] = [self.pointwise(columns, columns)] if block.rotary else []
        if block.qk_norm is not None:
            if block.joint and self.plan.tp > 1:
                # a norm over all heads needs those of other devices
                every = self.rows * (block.heads + block.kv_heads) * block.head * self.model.widths.others / 8
                turned.append(Collective("all_gather", every, ("tp",)))
            turned.append(self.pointwise((heads + kv_heads) * block.head, (heads + kv_heads) * block.head))
        if block.heated:
            turned.append(self.pointwise(heads * block.head, heads * block.head))
        inner = ceil(heads * block.head / self.plan.cp)
        joined = self.joined(self.rows, heads, block.head)
        if block.gated:
            joined.append(self.pointwise(2 * inner, inner, narrow=True))
        first = self.product(columns + gates * block.head, self.hidden)
        return [first, *turned, *attends, *joined, self.product(self.hidden, inner)]

    def attended(self, block: Attention, sequences: int, context: int, new: int) -> Operator:
        """Attention of new positions of some sequences to those that one device has."""
        widths = self.model.widths
        context = context if block.chunk is None else context % block.chunk
        seen, part = self.seen(context, new, block.window)
        whole = Attended(
            sequences, self.heads(block.heads), self.heads(block.kv_heads), seen, width=block.head, queries=new,
            bits=widths.cache, query_bits=max(widths.activations, widths.others),
        )  # fmt: skip
        pairs = pairs_seen(context, new, block.window, block.chunk)
        if part == 1 and pairs == new * (seen - (new - 1) / 2):
            return whole
        (work,) = whole.works
        work = replace(work, operations=work.operations * pairs / (new * (seen - (new - 1) / 2)))
        cached = 2 * sequences * block.head * whole.kv_heads * seen * widths.cache / 8
        return replace(work, operations=work.operations * part, moved=work.moved - (1 - part) * cached)

    def latent(self, block: Latent) -> list[Operator]:
        """Products into and out of latent rows; the rows are read by every device, once for all of its heads."""
        step = self.model.step
        heads, row = self.heads(block.heads), block.kv_rank + block.rotated
        columns = heads * (block.plain + block.rotated)
        if block.q_rank is not None:
            made: list[Operator] = [self.product(block.q_rank + row, self.hidden), self.product(columns, block.q_rank)]
        else:
            made = [self.product(columns + row, self.hidden)]
        made.append(self.pointwise(columns + row, columns + row))
        if block.index is not None and block.q_rank is not None:
            made += self.scored(block.index, block.q_rank)
        made += self.latent_attended(block, self.sequences, step.context, step.tokens)
        if self.prompt:
            made += self.latent_attended(block, 1, self.prompt.kept, self.prompt.new)
        return [*made, self.product(self.hidden, ceil(heads * block.value / self.plan.cp))]

    def latent_attended(self, block: Latent, sequences: int, context: int, new: int) -> list[Operator]:
        """Attention to latent rows as they are, or to keys and values that are made of them first, where that is
        less work.
        """
        heads, row, widths = self.heads(block.heads), block.kv_rank + block.rotated, self.model.widths
        most = None if block.index is None else block.index.chosen
        # rows that a prompt chooses are read once at least, as all are
        seen, part = self.seen(context, new, most)
        rows, there = sequences * new, sequences * seen * part
        pairs = 2.0 * sequences * heads * pairs_seen(context, new, most) * part
        if new * block.kv_rank * 2 <= seen * (block.plain + block.value):
            moved = (there * row * widths.cache + rows * heads * 2 * row * widths.others) / 8
            return [
                self.product(block.kv_rank, block.plain, rows=rows, batch=heads),
                Work(pairs * (row + block.kv_rank), moved, widths.others),
                *self.joined(rows, heads, block.kv_rank),
                self.product(block.value, block.kv_rank, rows=rows, batch=ceil(heads / self.plan.cp)),
            ]
        width = block.plain + block.rotated + block.value
        return [
            self.product(heads * (block.plain + block.value), block.kv_rank, rows=ceil(there)),
            Work(pairs * width, (there + rows) * heads * width * widths.others / 8, widths.others),
            *self.joined(rows, heads, block.value),
        ]

    def scored(self, block: Index, q_rank: int) -> list[Operator]:
        """Scores by which positions are chosen, on each device for all heads: its products, scores in 32 bits of the
        positions that it has, the choice, which reads them once.
        """
        step, widths, key = self.model.step, self.model.widths, block.head
        made: list[Operator] = [
            self.product(block.heads * key, q_rank),
            self.product(key + block.heads, self.hidden),
            self.pointwise((block.heads + 1) * key, (block.heads + 1) * key),
        ]
        groups = [(self.sequences, step.context, step.tokens)]
        if self.prompt:
            groups.append((1, self.prompt.kept, self.prompt.new))
        for sequences, context, new in groups:
            seen, part = self.seen(context, new)
            pairs = sequences * pairs_seen(context, new) * part
            read = (
                sequences * seen * part * key * widths.cache / 8
                + sequences * new * block.heads * key * widths.others / 8
            )
            made += [Work(2.0 * pairs * block.heads * (key + 1), read + pairs * 4, widths.others), Pointwise(pairs * 4)]
        return made

    def delta_rule(self, block: DeltaRule) -> list[Operator]:
        """As `states`, with a state that is read, moved and read again at each position."""
        widths = self.model.widths
        heads, groups = self.columns(block.heads), self.columns(block.groups)
        inner, shared = heads * block.value, 2 * groups * block.key
        values = heads * block.key * block.value
        return [
            self.product(2 * inner + shared + 2 * heads, self.hidden),
            self.pointwise(inner + shared, inner + shared),
            # decay, what a key finds, the move, what a query finds
            Work(7.0 * self.rows * values, 2 * self.sequences * values * widths.cache / 8, widths.others),
            self.pointwise(2 * inner, inner, narrow=True),
            self.product(self.hidden, inner),
        ]

    def states(self, block: StateSpace) -> list[Operator]:
        """One product into a layer of state spaces, its convolution, its states, its norm, one product out of it."""
        step, widths = self.model.step, self.model.widths
        heads = self.columns(block.heads)
        inner, shared = heads * block.head, 2 * self.columns(block.groups) * block.state
        values = self.sequences * heads * block.head * block.state
        chunk = min(block.chunk, max(step.tokens, self.prompt.new if self.prompt else 0))
        scanned = 2.0 * self.rows * inner * (2 * block.state + chunk)
        return [
            self.product(2 * inner + shared + heads, self.hidden),
            self.pointwise(inner + shared, inner + shared),
            Work(scanned, 2 * values * widths.cache / 8, widths.others),
            self.pointwise(3 * inner, inner, narrow=True),
            self.product(self.hidden, inner),
        ]

    def selective(self, block: Selective) -> list[Operator]:
        """As `states`, with decays for each feature: steps, B and C are a product of what the convolution gives, which
        devices sum; states go through the positions one after another.
        """
        widths = self.model.widths
        inner, chosen = self.columns(block.inner), block.rank + 2 * block.state
        values, sums = self.sequences * inner * block.state, self.rows * chosen * widths.others / 8
        return [
            self.product(2 * inner, self.hidden),
            self.pointwise(inner, inner),
            self.product(chosen, inner),
            *self.among(Collective("all_reduce", sums)),
            *([self.pointwise(chosen, chosen)] if block.inside is not None else []),
            self.product(inner, block.rank),
            # decay, state, what it gives: an exp and three products for each value
            Work(8.0 * self.rows * inner * block.state, 2 * values * widths.cache / 8, widths.others),
            self.pointwise(3 * inner, inner, narrow=True),
            self.product(self.hidden, inner),
        ]

    def second(self, block: FeedForward | Experts) -> list[Operator]:
        """A feed-forward block, or a router with the experts that it chooses."""
        if isinstance(block, FeedForward):
            return self.feed_forward(block, self.rows, 1)
        widths, groups = self.model.widths, self.plan.ep
        choices = self.rows * groups * block.chosen
        busy = min(block.number, choices)
        router = Product(self.rows, block.number, self.hidden, bits=widths.others)
        # a position is sent once to each device that has experts for it
        values = self.rows * min(block.chosen, groups) * self.hidden / 8
        made: list[Operator] = [
            router,
            self.pointwise(block.chosen * self.hidden, block.chosen * self.hidden, narrow=True),
            *self.among(Collective("all_to_all", values * min(widths.activations, widths.others), ("ep",))),
            *self.feed_forward(block.expert, ceil(choices / busy), ceil(busy / groups), widths.experts),
            *self.among(Collective("all_to_all", values * widths.others, ("ep",))),
        ]
        if block.shared is not None:
            made += self.feed_forward(block.shared, self.rows, 1)
        return made

    def feed_forward(self, block: FeedForward, rows: int, batch: int, bits: int | None = None) -> list[Operator]:
        """Gate and up in one product, the activation, down; `batch` of them, with weights of so many bits."""
        inner, width = self.columns(block.hidden), 2 if block.gated else 1
        widths = self.model.widths
        moved = rows * batch * inner * (width * widths.others + min(widths.activations, widths.others)) / 8
        return [
            self.product(width * inner, self.hidden, rows=rows, batch=batch, bits=bits),
            Pointwise(moved),
            self.product(self.hidden, inner, rows=rows, batch=batch, bits=bits),
        ]

    def head(self) -> list[Operator]:
        """The last norm, and logits of one position for each sequence, which every device gets and reads once."""
        made, widths = self.model.description, self.model.widths
        batch = self.sequences + (1 if self.prompt else 0)
        columns = self.columns(made.vocabulary)
        norm = Pointwise(2 * batch * self.hidden * widths.others / 8)
        logits = Product(batch, columns, self.hidden, bits=widths.others, result_bits=widths.others)
        joined = self.among(Collective("all_gather", batch * made.vocabulary * widths.others / 8))
        # logits in 32 bits, written and read once
        chosen = Pointwise(batch * made.vocabulary * (widths.others + 64) / 8)
        return [norm, logits, *joined, chosen]
