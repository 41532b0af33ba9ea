"""A table of steps of a language model on a machine, over batches and contexts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from einmap.distribute.costs.cluster import Cluster
from einmap.errors import Note, SpecError
from einmap.facade import cluster_in
from einmap.frontends.huggingface.description import Attention
from einmap.frontends.huggingface.einsums import Step
from einmap.frontends.huggingface.model import LanguageModel, model_of
from einmap.frontends.huggingface.read import check_each, described
from einmap.pareto import nondominated
from einmap.progress import Progress
from einmap.serving.kernels import operators_of
from einmap.serving.on_architecture import Mapped
from einmap.serving.on_cluster import PartCost, parts_on_cluster
from einmap.spec.raw import RawMap
from einmap.spec.spec import Spec, checked_spec
from einmap.visible import brief

LONGEST_TABLE = 10_000
"""Points of one table."""


@dataclass(frozen=True, slots=True)
class Held:
    """Bytes on each device: weights, the cache of all sequences, activations; `memory`: room, inf: enough."""

    weights: float
    cache: float
    activations: float
    memory: float

    @property
    def fits(self) -> bool:
        """Whether there is room for all."""
        return self.weights + self.cache + self.activations <= self.memory


@dataclass(frozen=True)
class TokenPoint:
    """One batch of sequences with so many cached positions each, on a machine.

    `parts`: of a step that gives each sequence a token; `first`: of the prompt of one request, `context` positions
    long, alone on the machine; empty where it was not asked for. `served`: seconds for each token where the others'
    prompts come between, None where it was not asked for. `most_sequences`: how many fit, None: any number.
    """

    __repr__ = brief

    batch: int
    context: int
    devices: int
    parts: tuple[PartCost, ...]
    first: tuple[PartCost, ...]
    served: float | None
    held: Held
    most_sequences: int | None

    @property
    def seconds(self) -> float:
        """Time for each token of a sequence: of one step."""
        return _seconds(self.parts)

    @property
    def seconds_to_first(self) -> float | None:
        """Time from a prompt to its first token, without a queue; None where it was not asked for."""
        return _seconds(self.first) if self.first else None

    @property
    def energy(self) -> float | None:
        """J for each token, None where it is not known."""
        energies = [part.energy for part in self.parts]
        if None in energies:
            return None
        return math.fsum(part.instances * (part.energy or 0.0) for part in self.parts) / self.batch

    @property
    def rate(self) -> float:
        """Tokens/s on each device, of all sequences, prompts between them included where they were asked for."""
        return self.batch * self.user_rate / self.devices

    @property
    def user_rate(self) -> float:
        """Tokens/s of one sequence, prompts of others between them included where they were asked for."""
        return 1 / (self.seconds if self.served is None else self.served)

    @property
    def limited_by(self) -> str:
        """On what the part that takes longest spends most of its time."""
        return max(self.parts, key=lambda part: part.instances * part.seconds).limited_by

    @property
    def proven(self) -> bool | None:
        """Whether the mapping of each part is the best one; None on a cluster."""
        known = [part.proven for part in self.parts]
        return None if None in known else all(known)


@dataclass(frozen=True)
class TokenCosts:
    """Costs of tokens of a model on a machine. `points`: batch by batch, context by context."""

    __repr__ = brief

    architecture: str
    n_parameters: int
    points: tuple[TokenPoint, ...]
    notes: tuple[Note, ...] = ()

    @property
    def front(self) -> tuple[TokenPoint, ...]:
        """Points that fit and that no other point of the same context beats in tokens/s of a device and of a user."""
        found: list[TokenPoint] = []
        for context in dict.fromkeys(point.context for point in self.points):
            fitting = [p for p in self.points if p.context == context and p.held.fits]
            if fitting:
                rates = np.array([(-point.rate, -point.user_rate) for point in fitting])
                found += [fitting[row] for row in sorted(nondominated(rates))]
        return tuple(found)


def _seconds(parts: Sequence[PartCost]) -> float:
    return math.fsum(part.instances * part.seconds for part in parts)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """Batches and contexts of a table, and how they are answered.

    `first`: whether the time to the first token is wanted; `answer`: tokens that each request makes after its prompt
    of `context` positions, None: its steps alone are asked for; `metric`: of the mappings, `time_limit_s`: for each
    part that is mapped, `fuse`: whether tensors may stay inside between Einsums, for machines that are an architecture;
    `widths`: bits, as `from_huggingface` takes them.
    """

    batches: tuple[int, ...] = (1,)
    contexts: tuple[int, ...] = (1024,)
    devices: int = 1
    first: bool = True
    answer: int | None = None
    metric: str = "latency"
    time_limit_s: float = 60.0
    fuse: bool = True
    widths: Mapping[str, int] | None = None


def token_costs(
    config: str | Path | Mapping[str, object],
    machine: Spec,
    request: TokenRequest | None = None,
    *,
    progress: Progress | None = None,
) -> TokenCosts:
    """Costs of tokens of a language model on a machine, for each batch and context of `request`.

    `config`: as `from_huggingface` takes it; `machine`: a specification with a cluster, on `devices` of which the model
    is divided by tensor parallelism, or with an architecture, onto which each kind of layer is mapped.

    Raises SpecError for configs, machines and requests that do not fit, NoMappingError where no mapping does.
    """
    asked, spec = request or TokenRequest(), checked_spec(machine, "token_costs")
    if len(asked.batches) * len(asked.contexts) > LONGEST_TABLE:
        raise SpecError(f"a table of {len(asked.batches) * len(asked.contexts):,} points; at most {LONGEST_TABLE:,}")
    cluster = _cluster(spec)
    if cluster is None and spec.raw.get("arch") is None:
        raise SpecError("the machine has neither a cluster nor an architecture", hint="--on h100_node, --on tpu_v4i")
    if cluster is None and asked.devices > 1:
        raise SpecError("an architecture is one device", hint="a cluster has several: --on h100_node --devices 8")
    on = _Machine(cluster, Mapped(spec, asked.metric, asked.time_limit_s, asked.fuse, progress), asked.devices)
    made, widths = described(config, **(asked.widths or {}))
    if any(isinstance(layer.mixer, Attention) and not layer.mixer.causal for layer in made.layers):
        raise SpecError(f"{made.architecture} is an encoder, which makes no tokens")
    points: list[TokenPoint] = []
    notes: dict[Note, None] = {}
    check_each(asked.contexts, "tokens", "context")
    check_each([asked.answer], "tokens", "answer")
    check_each(asked.batches, "batch", "batch")
    for context in asked.contexts:
        prompt = on.parts(model_of(made, Step(1, context, 0), widths)) if asked.first or asked.answer else ()
        first = prompt if asked.first else ()
        for batch in asked.batches:
            model = model_of(made, Step(batch, 1, context + (asked.answer or 0) // 2), widths)
            notes |= dict.fromkeys(model.notes)
            point = _point(model, on, context, first)
            if asked.answer:
                point = replace(
                    point, served=point.seconds + (batch - 1) / asked.answer * on.delay(model, point, prompt)
                )
            points.append(point)
    parameters = model_of(made, Step(1, 1, 0), widths).n_parameters
    return TokenCosts(made.architecture, parameters, tuple(points), tuple(notes))


def _cluster(machine: Spec) -> Cluster | None:
    """The cluster of a machine. Raises SpecError where its PEs have an architecture."""
    written = machine.raw.get("cluster")
    pe = written.get("pe") if isinstance(written, RawMap) else None
    if isinstance(pe, RawMap) and pe.get("arch") is not None:
        text = "the devices of the cluster have an architecture, which costs Einsums, not kernels"
        raise SpecError(text, at=pe.at, hint="name the architecture itself: --on tpu_v4i")
    return cluster_in(machine)


@dataclass(frozen=True, slots=True)
class _Machine:
    """A cluster, or an architecture onto which parts are mapped."""

    cluster: Cluster | None
    mapped: Mapped
    devices: int

    def delay(self, model: LanguageModel, point: TokenPoint, prompt: tuple[PartCost, ...]) -> float:
        """Seconds that a prompt adds to the step in which it comes: its rows beside those of the step on a cluster, a
        step of its own on an architecture.
        """
        if self.cluster is None:
            return _seconds(prompt)
        return _seconds(parts_on_cluster(model, self.cluster, self.devices, point.context)) - point.seconds

    def parts(self, model: LanguageModel) -> tuple[PartCost, ...]:
        """Costs of each part of a step."""
        if self.cluster is not None:
            return parts_on_cluster(model, self.cluster, self.devices)
        return self.mapped.parts(model)

    @property
    def memory(self) -> float:
        """Bytes of the outermost memory of each device."""
        if self.cluster is not None:
            return self.cluster.pe.memory
        return self.mapped.memory


def _point(model: LanguageModel, on: _Machine, context: int, first: tuple[PartCost, ...]) -> TokenPoint:
    step, devices = model.step, on.devices
    heads = max((k.mixer.kv_heads for k in model.layers if isinstance(k.mixer, Attention)), default=1)
    # rows of latent attention, and heads that are fewer than devices, are on several of them
    cache = model.cache_bits / 8 / min(devices, heads)
    widest = max(part.widest for part in operators_of(model, devices))
    parts = on.parts(model)
    held = Held(model.weight_bits / 8 / devices, cache, widest, on.memory)
    most = None
    if math.isfinite(held.memory):
        most = max(0, int((held.memory - held.weights) / ((cache + widest) / step.batch)))
    return TokenPoint(step.batch, context, devices, parts, first, None, held, most)
