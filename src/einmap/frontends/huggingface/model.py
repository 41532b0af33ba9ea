"""A whole model as a workload: its parts, how often each is there, and what it counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

from einmap.errors import Note, SpecError
from einmap.frontends.huggingface.attention import attention, latent_attention
from einmap.frontends.huggingface.blocks import added, experts, feed_forward, linear, normalised, times
from einmap.frontends.huggingface.delta_rule import delta_rule
from einmap.frontends.huggingface.description import (
    Attention,
    DeltaRule,
    Description,
    Experts,
    FeedForward,
    Latent,
    Layer,
    Selective,
    StateSpace,
)
from einmap.frontends.huggingface.einsums import WEIGHTS, Cascade, Role, Step, Tensor, Widths
from einmap.frontends.huggingface.state_space import selective, state_space
from einmap.spec.spec import Spec
from einmap.visible import brief

EMBEDDING, HEAD = "embedding", "head"
MOST_UNROLLED = 256
"""Layers that are written one by one."""


@dataclass(frozen=True)
class ModelPart:
    """Embedding, a kind of layer, or head: its Einsums, and how often it is there (`instances`).

    Counts are of one instance: `n_parameters` without those that another part has already, `n_active_parameters` those
    that one token uses, `n_products` multiply-accumulates of its contractions, bits of its weights, of the cache that
    it reads and of what it appends to it.
    """

    __repr__ = brief

    name: str
    instances: int
    einsums: tuple[Mapping[str, Any], ...]
    sizes: Mapping[str, int]
    bits: Mapping[str, int]
    inputs: Mapping[str, tuple[Tensor, Role]]
    n_parameters: int
    n_active_parameters: int
    n_products: int
    weight_bits: int
    read_bits: int
    appended_bits: int

    @cached_property
    def spec(self) -> Spec:
        """The part by itself as a workload, one instance."""
        return Spec.from_dict(workload=_workload([self], with_instances=False))


@dataclass(frozen=True)
class LanguageModel:
    """One step of a model: `tokens` new positions of each of `batch` sequences after `context` cached ones.

    `parts`: embedding, each kind of layer once with its instances, head. In `spec` they are one workload; they exchange
    hidden states through the outermost memory, by inputs and outputs of their own, unless they were `unrolled`.
    """

    __repr__ = brief

    description: Description
    step: Step
    widths: Widths
    parts: tuple[ModelPart, ...]
    notes: tuple[Note, ...] = ()

    @property
    def architecture(self) -> str:
        """The kind of model, as `model_type` says."""
        return self.description.architecture

    @cached_property
    def layers_in_order(self) -> tuple[Layer, ...]:
        """All layers as they are in this step."""
        return tuple(_as_seen(layer, self.step) for layer in self.description.layers)

    @cached_property
    def layers(self) -> dict[Layer, int]:
        """Kinds of layers as they are in this step, in order of their first one, with how often they are there."""
        return Counter(self.layers_in_order)

    @cached_property
    def spec(self) -> Spec:
        """All parts as one workload, layers with their instances."""
        return Spec.from_dict(workload=_workload(self.parts))

    @property
    def n_parameters(self) -> int:
        """Parameters of all layers, embeddings and heads; tied ones once."""
        return self._sum("n_parameters")

    @property
    def n_active_parameters(self) -> int:
        """Parameters that one token uses: of experts, the chosen ones."""
        return self._sum("n_active_parameters")

    @property
    def n_products(self) -> int:
        """Multiply-accumulates of the step; of attention with all pairs of positions, later ones included."""
        return self._sum("n_products")

    @property
    def weight_bits(self) -> int:
        """Bits of all parameters."""
        return self._sum("weight_bits")

    @property
    def cache_bits(self) -> int:
        """Bits of the cache that the step reads, over all sequences."""
        return self._sum("read_bits")

    @property
    def appended_bits(self) -> int:
        """Bits that the step adds to the cache, or writes there anew (states), over all sequences."""
        return self._sum("appended_bits")

    def _sum(self, name: str) -> int:
        return sum(getattr(part, name) * part.instances for part in self.parts)


def summary(model: LanguageModel) -> str:
    """Comments of a YAML file that say what the model is."""
    step = model.step
    lines = [
        f"{model.architecture}, {model.n_parameters:,} parameters; written by einmap",
        f"batch {step.batch}, {step.tokens} tokens after {step.context}: {model.n_products:,} multiply-accumulates",
    ]
    lines += [f"{part.name}: {part.instances} x {part.n_parameters:,} parameters" for part in model.parts]
    return "\n".join(f"# {line}" for line in lines)


def model_of(made: Description, step: Step, widths: Widths, *, unrolled: bool = False) -> LanguageModel:
    """The workload of one step. `unrolled`: each layer by itself, with weights of its own, joined to the one before.

    Raises SpecError for steps that the model does not have.
    """
    _check(made, step)
    if unrolled and len(made.layers) > MOST_UNROLLED:
        text = f"{len(made.layers):,} layers written one by one; at most {MOST_UNROLLED} are"
        raise SpecError(text, hint="without `unrolled` equal layers are one with instances")
    writer = _Writer(step, widths)
    stream: Tensor | None = writer.add(EMBEDDING, 1, "_E", None, partial(_embedded, made=made))
    if unrolled:
        for number, layer in enumerate(made.layers):
            stream = writer.add(
                f"layer_{number}", 1, f"_{number}", stream, partial(_layer, layer=layer, hidden=made.hidden)
            )
    else:
        kinds = Counter(_as_seen(layer, step) for layer in made.layers)
        for number, (layer, count) in enumerate(kinds.items(), start=1):
            several = len(kinds) > 1
            name, suffix = (f"layer_{number}", f"_{number}") if several else ("layer", "")
            writer.add(name, count, suffix, None, partial(_layer, layer=layer, hidden=made.hidden))
        stream = None
    if made.final_norm is not None or made.head != "none":
        writer.add(HEAD, 1, "_H", stream, partial(_headed, made=made))
    return LanguageModel(made, step, widths, tuple(writer.parts), _notes(made, step))


def _as_seen(layer: Layer, step: Step) -> Layer:
    """A layer without its window or chunk where no position is outside: so layers of two kinds may be alike."""
    mixer, positions = layer.mixer, step.context + step.tokens
    if isinstance(mixer, Attention) and mixer.window is not None and mixer.window >= positions:
        return replace(layer, mixer=replace(mixer, window=None))
    if isinstance(mixer, Attention) and mixer.chunk is not None and mixer.chunk >= positions:
        return replace(layer, mixer=replace(mixer, chunk=None))
    return layer


type Write = Callable[[Cascade, Tensor | None], Tensor]
"""Writes a part behind hidden states, None for an input, and gives its result."""


@dataclass(slots=True)
class _Writer:
    """The parts that are written; parameters that one has already are those of it alone."""

    step: Step
    widths: Widths
    parts: list[ModelPart] = field(default_factory=list)
    counted: set[str] = field(default_factory=set)

    def add(self, name: str, instances: int, suffix: str, stream: Tensor | None, write: Write) -> Tensor:
        """Write a part, and give its result."""
        w = Cascade(self.step, self.widths, suffix)
        result = write(w, stream)
        own = {tensor: given for tensor, given in w.inputs.items() if tensor not in self.counted}
        weights = [(tensor, role) for tensor, role in own.values() if role in WEIGHTS]
        self.counted |= {tensor for tensor, (_, role) in own.items() if role in WEIGHTS}
        read = [tensor for tensor, role in own.values() if role == "cache"]
        self.parts.append(
            ModelPart(
                name=name,
                instances=instances,
                einsums=tuple(einsum.entry for einsum in w.einsums),
                sizes=w.sizes,
                bits=w.bits,
                inputs=w.inputs,
                n_parameters=sum(tensor.values for tensor, _ in weights),
                n_active_parameters=sum(round(tensor.values * w.active[tensor.name]) for tensor, _ in weights),
                n_products=w.products,
                weight_bits=sum(tensor.values * self.widths.of(role) for tensor, role in weights),
                read_bits=sum(tensor.values for tensor in read) * self.widths.cache,
                appended_bits=sum(tensor.values for tensor in w.appended) * self.widths.cache,
            )
        )
        return result


def _hidden(w: Cascade, made_hidden: int, tokens: int) -> Tensor:
    return w.input("Hidden", "activation", w.size("b", w.step.batch), w.size("m", tokens), w.size("d", made_hidden))


def _embedded(w: Cascade, _stream: Tensor | None, *, made: Description) -> Tensor:
    """Rows of the embeddings of tokens, positions and kinds of tokens."""
    b, m, d = w.size("b", w.step.batch), w.size("m", w.step.tokens), w.size("d", made.hidden)
    v = w.size("v", made.vocabulary)
    tokens = w.input("Ids", "index", b, m)
    text = w.input("Embedding", "parameter", v, d, shared=True).at(v=f"{tokens}")
    if made.embedding_scale != 1:
        text += f" * {made.embedding_scale!r}"
    if made.positions:
        p = w.size("p", made.positions)
        text += f" + {w.input('Position', 'parameter', p, d).at(p=m)}"
    if made.types:
        kinds = w.input("Kinds", "index", b, m)
        text += f" + {w.input('Kind', 'parameter', w.size('u', made.types), d).at(u=f'{kinds}')}"
    x = w.put("X", (b, m, d), text)
    return x if made.embedding_norm is None else normalised(w, "XN", made.embedding_norm, x)


def _layer(w: Cascade, stream: Tensor | None, *, layer: Layer, hidden: int) -> Tensor:
    """A layer: its mixer and its feed-forward block, each beside what goes past it."""
    x = stream or _hidden(w, hidden, w.step.tokens)
    if layer.placed == "parallel" and layer.second is not None:
        normal = normalised(w, "NX", layer.norm, x)
        mixed, result = _mixed(w, layer, normal), _second(w, layer.second, normal)
        return w.put("Output", x.variables, f"{x} + {mixed} + {result}")
    mixed = _beside(w, layer, "N", "Mixed", x, partial(_mixed, w, layer))
    if layer.second is None:
        return mixed
    return _beside(w, layer, "M", "Output", mixed, partial(_second, w, layer.second))


def _beside(w: Cascade, layer: Layer, norm: str, name: str, x: Tensor, block: Callable[[Tensor], Tensor]) -> Tensor:
    """`x` plus what a block makes of it, with its norms."""
    if layer.placed == "after":
        return normalised(w, name, layer.norm, added(w, f"{name}_sum", x, block(x)))
    result = block(x if layer.placed == "behind" else normalised(w, f"{norm}X", layer.norm, x))
    if layer.placed in ("both", "behind"):
        result = normalised(w, f"{norm}Y", layer.norm, result)
    return w.put(name, x.variables, f"{x} + {result}{times(layer.share)}")


def _mixed(w: Cascade, layer: Layer, x: Tensor) -> Tensor:
    match layer.mixer:
        case Attention():
            return attention(w, layer.mixer, x)
        case Latent():
            return latent_attention(w, layer.mixer, x)
        case Selective():
            return selective(w, layer.mixer, x)
        case StateSpace():
            return state_space(w, layer.mixer, x)
        case DeltaRule():
            return delta_rule(w, layer.mixer, x)


def _second(w: Cascade, block: FeedForward | Experts, x: Tensor) -> Tensor:
    return experts(w, block, x) if isinstance(block, Experts) else feed_forward(w, "F", block, x)


def _headed(w: Cascade, stream: Tensor | None, *, made: Description) -> Tensor:
    """Final norm and head: of the last position, or of all (masked), or of the first (pooled)."""
    tokens = w.step.tokens if made.head in ("masked", "none") else 1
    if stream is None:
        x = _hidden(w, made.hidden, tokens)
    elif tokens < w.step.tokens:
        b, _, d = stream.variables
        first = w.step.tokens - 1 if made.head == "logits" else 0
        one = w.size("m", 1)
        x = w.put("Hidden", (b, one, d), stream.at(m=f"{one} + {first}" if first else one))
    else:
        x = stream
    if made.final_norm is not None:
        x = normalised(w, "N", made.final_norm, x)
    d = x.variables[-1]
    if made.head == "none":
        return x
    if made.head == "pooled":
        dense = linear(w, "Pool", x, (d,), (w.size("e", made.hidden),), bias=True)
        return w.put("Pooled", dense.variables, f"tanh({dense})")
    if made.head == "masked":
        assert made.embedding_norm is not None
        dense = linear(w, "T", x, (d,), (w.size("e", made.hidden),), bias=True)
        act = w.put("TA", x.variables, f"gelu({dense.at(e=d)})")
        x = normalised(w, "TN", made.embedding_norm, act)
    v = w.size("v", made.vocabulary)
    table = w.input("Embedding" if made.tied else "Unembedding", "parameter", v, d, shared=True)
    text = f"{x} * {table}"
    if made.head == "masked":
        product = w.put("L", (*x.variables[:-1], v), text, weight=table)
        return w.put("Logits", product.variables, f"{product} + {w.input('L_bias', 'parameter', v)}")
    if made.logits_cap is None and made.logits_divisor == 1 and not made.logits_bias:
        return w.put("Logits", (*x.variables[:-1], v), text, weight=table)
    product = w.put("L", (*x.variables[:-1], v), text, weight=table)
    bias = f" + {w.input('L_bias', 'parameter', v)}" if made.logits_bias else ""
    divided = f"{product}{bias}" if made.logits_divisor == 1 else f"({product}{bias}) / {made.logits_divisor!r}"
    if made.logits_cap is None:
        return w.put("Logits", product.variables, divided)
    return w.put("Logits", product.variables, f"{made.logits_cap!r} * tanh({divided} / {made.logits_cap!r})")


def _check(made: Description, step: Step) -> None:
    """Raise SpecError for a step that the model does not have."""
    mixers = {layer.mixer for layer in made.layers}
    if step.context and any(isinstance(mixer, Attention) and not mixer.causal for mixer in mixers):
        raise SpecError("an encoder sees all positions at once, and has no context", hint="give a context of 0")
    if made.positions and made.longest and step.tokens > made.longest:
        text = f"{step.tokens} tokens; the model has embeddings of {made.longest} positions"
        raise SpecError(text, hint=f"at most {made.longest} (max_position_embeddings)")


def _notes(made: Description, step: Step) -> tuple[Note, ...]:
    seen, texts = step.context + step.tokens, [made.left_out] if made.left_out else []
    if made.longest is not None and seen > made.longest:
        texts.append(f"{seen:,} positions; the model is made for {made.longest:,} (max_position_embeddings)")
    return tuple(map(Note, texts))


def _workload(parts: Sequence[ModelPart], *, with_instances: bool = True) -> dict[str, Any]:
    """The section `workload` of some parts."""
    sizes = {rank: size for part in parts for rank, size in part.sizes.items()}
    bits = {name: width for part in parts for name, width in part.bits.items()}
    by_width: dict[int, list[str]] = {}
    for name, width in bits.items():
        by_width.setdefault(width, []).append(name)
    most = max(by_width, key=lambda width: len(by_width[width]))
    named: dict[str, int] = {" | ".join(names): width for width, names in by_width.items() if width != most}
    named["Other" if named else "All"] = most
    einsums = [
        {**entry, "n_instances": part.instances} if with_instances and part.instances > 1 else dict(entry)
        for part in parts
        for entry in part.einsums
    ]
    # variables that no tensor has by themselves need bounds, ranks that are looked up need sizes
    shape = {rank.lower(): f"0 <= {rank.lower()} < {size}" for rank, size in sizes.items()}
    return {"rank_sizes": sizes, "iteration_space_shape": shape, "bits_per_value": named, "einsums": einsums}
