"""Seconds of the kernels of one kind of layer, by the names that vLLM has for them, on a cluster or an architecture.

On a cluster they are the kernels of a step. On an architecture the Einsums before attention, of attention, behind it
and of experts are a cascade each, mapped by itself; what an Einsum takes in it is time of the kernel that it is in.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Protocol

from einmap.distribute.costs.cluster import Cluster
from einmap.errors import SpecError
from einmap.frontends.huggingface.description import Attention, Description, Experts, FeedForward, Layer
from einmap.frontends.huggingface.einsums import Step, Widths
from einmap.frontends.huggingface.model import LanguageModel, ModelPart, model_of
from einmap.serving.kernels import Collective, Operator, operators_of
from einmap.serving.on_architecture import Mapped
from einmap.serving.on_cluster import operator_time
from einmap.serving.plan import ServingPlan

EMBEDDING, FINAL_NORM, HEAD, SAMPLER = "embedding", "final_layernorm", "lm_head", "sampler"
NORM, ATTENTION, EXPERTS = "layernorm", "attention", "moe"
BEFORE = ("qkv_proj", "rotary_emb", "qk_norm")
BEHIND = ("o_proj",)
FEED_FORWARD = ("gate_up_proj", "act_fn", "down_proj")
EINSUMS = {
    NORM: r"[NM]X(_\w+)?|Mixed|Output",
    "qkv_proj": r"[QKV](_product)?",
    "qk_norm": r"[QK]N(_\w+)?",
    "rotary_emb": r"[QK]R",
    ATTENTION: r"(S|P|AV|A)(_\w+)?|[KV]_new",
    "o_proj": r"O(_product)?",
    "gate_up_proj": r"F[GU](_product)?",
    "act_fn": "FA",
    "down_proj": r"FD(_product)?",
    EXPERTS: r"R(_\w+)?|XE|E[UGAD](_product)?|FE|F|H[GUADX](_product)?",
    FINAL_NORM: r"N(_\w+)?_H",
    HEAD: r"(L|Logits)_H",
    EMBEDDING: r"\w+_E",
}
"""Kernels by the names of the Einsums that an imported model has for them. What is added to hidden states is part of
the next norm.
"""
ROUTER = r"R(_\w+)?"


class LayerTimes(Protocol):
    """Seconds of kernels on one device."""

    def of_rows(self, rows: int) -> dict[str, float]:
        """Kernels outside of attention for so many positions, the embedding and the last norm among them."""

    def of_sequences(self, sequences: int) -> dict[str, float]:
        """The head and the choice of tokens for so many sequences."""

    def of_attention(self, sequences: int, new: int, context: int) -> float:
        """Attention of `new` positions of each sequence after `context` cached ones."""

    def of_experts(self, rows: int, busy: int) -> float:
        """A block of experts on one device, router and shared expert included, of which `busy` are read."""


def only_layer(made: Description) -> Layer:
    """The one kind of layer of a decoder: attention by heads, a feed-forward block, a norm before each.

    Raises SpecError for models of other layers.
    """
    kinds = set(made.layers)
    layer = made.layers[0]
    what = ""
    if len(kinds) > 1:
        what = f"layers of {len(kinds)} kinds"
    elif not isinstance(layer.mixer, Attention) or layer.second is None:
        what = "layers without attention by heads"
    elif not layer.mixer.causal or made.head != "logits":
        what = "layers of an encoder"
    elif layer.placed != "before":
        what = "norms behind its blocks"
    if what:
        hint = "decoders whose layers are alike, with attention and a feed-forward block, a norm before each"
        raise SpecError(f"{made.architecture} has {what}, which LLMServingSim has no names for", hint=hint)
    return layer


def with_experts(made: Description, number: int) -> Description:
    """A model with so many experts in each layer, all else as it is."""
    layer = made.layers[0]
    assert isinstance(layer.second, Experts)
    other = replace(layer, second=replace(layer.second, number=number))
    return replace(made, layers=(other,) * len(made.layers))


@dataclass(frozen=True, slots=True)
class TimesOnCluster:
    """Kernels on a device of a cluster among `devices` of which layers are divided by tensor parallelism.

    Collectives of layers are left out; the head brings logits together.
    """

    made: Description
    widths: Widths
    cluster: Cluster
    devices: int

    def of_rows(self, rows: int) -> dict[str, float]:
        """As `LayerTimes` says."""
        first, layer, last = self._operators(self.made, Step(rows, 1, 0), self.devices)
        found = {name: self._seconds(o) for name, o in self._named(layer) if name not in (ATTENTION, EXPERTS)}
        return {EMBEDDING: self._seconds(*first), **found, FINAL_NORM: self._seconds(last[0])}

    def of_sequences(self, sequences: int) -> dict[str, float]:
        """As `LayerTimes` says."""
        *_, (_, *head, choice) = self._operators(self.made, Step(sequences, 1, 0), self.devices)
        return {HEAD: self._seconds(*head), SAMPLER: self._seconds(choice)}

    def of_attention(self, sequences: int, new: int, context: int) -> float:
        """As `LayerTimes` says."""
        _, layer, _ = self._operators(self.made, Step(sequences, new, context), self.devices)
        return self._seconds(*(operator for name, operator in self._named(layer) if name == ATTENTION))

    def of_experts(self, rows: int, busy: int) -> float:
        """As `LayerTimes` says."""
        whole, few = (
            [o for name, o in self._named(self._operators(made, Step(rows, 1, 0), 1)[1]) if name == EXPERTS]
            for made in (self.made, with_experts(self.made, busy))
        )
        return self._seconds(whole[0], *few[1:])

    def _operators(self, made: Description, step: Step, devices: int) -> list[tuple[Operator, ...]]:
        model = model_of(made, step, self.widths)
        return [part.operators for part in operators_of(model, ServingPlan(tp=devices))]

    def _named(self, operators: Iterable[Operator]) -> list[tuple[str, Operator]]:
        """The kernels of a layer in order, with their names."""
        kernels = [operator for operator in operators if not isinstance(operator, Collective)]
        layer = self.made.layers[0]
        assert isinstance(layer.mixer, Attention)
        there = (True, layer.mixer.rotary, layer.mixer.qk_norm is not None)
        names = [NORM, *(name for name, given in zip(BEFORE, there, strict=True) if given), ATTENTION, *BEHIND, NORM]
        if isinstance(layer.second, FeedForward):
            names += FEED_FORWARD
        else:
            names += [EXPERTS] * (len(kernels) - len(names))
        return list(zip(names, kernels, strict=True))

    def _seconds(self, *operators: Operator) -> float:
        plan = ServingPlan(tp=self.devices)
        return math.fsum(operator_time(operator, self.cluster, plan) for operator in operators)


@dataclass(frozen=True, slots=True)
class TimesOnArchitecture:
    """Kernels mapped onto an architecture. The choice of a token is not an Einsum, and takes no time."""

    made: Description
    widths: Widths
    mapped: Mapped

    def of_rows(self, rows: int) -> dict[str, float]:
        """As `LayerTimes` says."""
        model = self._model(rows, 1, 0)
        first, layer, last = model.parts
        found = self._times(first, _like(EINSUMS[EMBEDDING]))
        for names in ((r"NX.*", *BEFORE), (r"MX.*|Mixed|Output", *BEHIND, *FEED_FORWARD)):
            wanted = "|".join(EINSUMS.get(name, name) for name in names)
            for kernel, seconds in self._times(layer, _like(wanted)).items():
                found[kernel] = found.get(kernel, 0.0) + seconds
        # both norms of a layer have one name
        found[NORM] /= 2
        return {**found, **self._times(last, _like(EINSUMS[FINAL_NORM]))}

    def of_sequences(self, sequences: int) -> dict[str, float]:
        """As `LayerTimes` says."""
        *_, head = self._model(sequences, 1, 0).parts
        return {**self._times(head, _like(EINSUMS[HEAD])), SAMPLER: 0.0}

    def of_attention(self, sequences: int, new: int, context: int) -> float:
        """As `LayerTimes` says."""
        _, layer, _ = self._model(sequences, new, context).parts
        return math.fsum(self._times(layer, _like(EINSUMS[ATTENTION])).values())

    def of_experts(self, rows: int, busy: int) -> float:
        """As `LayerTimes` says."""
        _, whole, _ = self._model(rows, 1, 0).parts
        _, few, _ = model_of(with_experts(self.made, busy), Step(rows, 1, 0), self.widths).parts
        is_router, is_expert = _like(ROUTER), _like(EINSUMS[EXPERTS])
        times = self._times(whole, is_router), self._times(few, lambda n: is_expert(n) and not is_router(n))
        return math.fsum(seconds for found in times for seconds in found.values())

    def _model(self, sequences: int, new: int, context: int) -> LanguageModel:
        return model_of(self.made, Step(sequences, new, context), self.widths)

    def _times(self, part: ModelPart, wanted: Callable[[str], bool]) -> dict[str, float]:
        """Seconds of each kernel of the Einsums that are wanted, mapped as one cascade.

        Copies that a mapping adds, of inputs that several Einsums share, and what overlaps are divided among kernels
        in proportion to their time.
        """
        chosen = part_of(part, wanted)
        cost = self.mapped.result(chosen).cost
        names = [name_of(entry) for entry in chosen.einsums]
        spent: dict[str, float] = {}
        for name in names:
            kernel = kernel_of(name)
            spent[kernel] = spent.get(kernel, 0.0) + cost.latency_by_einsum[name]
        total = math.fsum(spent.values())
        return {kernel: cost.latency * seconds / total if total else 0.0 for kernel, seconds in spent.items()}


def kernel_of(einsum: str) -> str:
    """The kernel that an Einsum of an imported model is in, by its name."""
    return next(kernel for kernel, names in EINSUMS.items() if re.fullmatch(names, einsum))


def name_of(entry: object) -> str:
    """The tensor that a written Einsum makes."""
    assert isinstance(entry, dict)
    return str(entry["einsum"]).partition("[")[0]


def part_of(part: ModelPart, wanted: Callable[[str], bool]) -> ModelPart:
    """Some Einsums of a part of a model, by the names of their results, as a part by itself."""
    einsums = tuple(entry for entry in part.einsums if wanted(name_of(entry)))
    words = set(re.findall(r"\w+", " ".join(str(entry["einsum"]) for entry in einsums)))
    return replace(
        part,
        einsums=einsums,
        sizes={rank: size for rank, size in part.sizes.items() if rank in words or rank.lower() in words},
        bits={tensor: width for tensor, width in part.bits.items() if tensor in words},
    )


def _like(names: str) -> Callable[[str], bool]:
    return lambda name: re.fullmatch(names, name) is not None
