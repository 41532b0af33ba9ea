"""A table of steps of a language model on a machine, over batches and contexts."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Protocol

import numpy as np

from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.training.plan import Dim
from einmap.errors import Note, SpecError
from einmap.facade import cluster_in
from einmap.frontends.huggingface.description import Attention, Description
from einmap.frontends.huggingface.einsums import Step
from einmap.frontends.huggingface.model import LanguageModel, model_of
from einmap.frontends.huggingface.read import check_each, described
from einmap.model.roofline import Roof, finite_roofs
from einmap.pareto import nondominated
from einmap.progress import Progress
from einmap.serving.held import Held
from einmap.serving.kernels import Prompt, operators_of
from einmap.serving.on_architecture import Mapped
from einmap.serving.on_cluster import PartCost, Planned, planned, seconds_of
from einmap.serving.plan import Fixed, ServingPlan, plans_of, uneven
from einmap.spec.raw import RawMap
from einmap.spec.spec import Spec, checked_spec
from einmap.units import format_bytes
from einmap.visible import brief

LONGEST_TABLE = 10_000
"""Points of one table."""
MOST_STEPS = 1_000_000
"""Points of a table times the ways to divide devices that are tried for each."""


@dataclass(frozen=True)
class TokenPoint:
    """One batch of sequences with so many cached positions each, on a machine.

    `best`: a step that gives each sequence a token, by the plan that takes least; `first`: parts of the prompt of one
    request, `context` positions long, alone on the machine; empty where it was not asked for. `ways`: the best plan of
    each way to divide devices, `best` first; those without room last.
    """

    __repr__ = brief

    batch: int
    context: int
    best: Planned
    first: tuple[PartCost, ...]
    ways: tuple[Planned, ...]

    @property
    def plan(self) -> ServingPlan:
        """How devices are divided."""
        return self.best.plan

    @property
    def devices(self) -> int:
        """Number of devices."""
        return self.plan.devices

    @property
    def parts(self) -> tuple[PartCost, ...]:
        """Parts of a step."""
        return self.best.parts

    @property
    def served(self) -> float | None:
        """Seconds for each token where the others' prompts come between, None where it was not asked for."""
        return self.best.served

    @property
    def held(self) -> Held:
        """Bytes on the fullest device."""
        return self.best.held

    @property
    def most_sequences(self) -> int | None:
        """How many sequences fit on all devices, None: any number."""
        return self.best.most_sequences

    @property
    def seconds(self) -> float:
        """Time for each token of a sequence: of one step."""
        return self.best.seconds

    @property
    def seconds_to_first(self) -> float | None:
        """Time from a prompt to its first token, without a queue; None where it was not asked for."""
        return seconds_of(self.first) if self.first else None

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
        return 1 / self.best.each_token

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
    """Costs of tokens of a model on a machine. `points`: batch by batch, context by context; `machine`: its name;
    `peaks` of computes and `bandwidths` of the outermost memory of a device.
    """

    __repr__ = brief

    machine: str
    architecture: str
    n_parameters: int
    points: tuple[TokenPoint, ...]
    peaks: tuple[Roof, ...] = ()
    bandwidths: tuple[Roof, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def front(self) -> tuple[TokenPoint, ...]:
        """Points that fit and that no other point of the same context beats in tokens/s of a device and of a user.

        Of all ways to divide the devices the one that takes least is best in both, at any batch.
        """
        found: list[TokenPoint] = []
        for context in dict.fromkeys(point.context for point in self.points):
            fitting = [p for p in self.points if p.context == context and p.held.fits]
            if fitting:
                rates = np.array([(-point.rate, -point.user_rate) for point in fitting])
                found += [fitting[row] for row in sorted(nondominated(rates))]
        return tuple(found)


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """Batches and contexts of a table, and how they are answered.

    `batches`: sequences at a time on all `devices` together; `fixed`: sizes that ways to divide devices may have, by
    `tensor`, `data`, `expert`, `context`, `pipeline`; `first`: whether the time to the first token is wanted; `answer`:
    tokens that each request makes after its prompt of `context` positions, None: its steps alone are asked for; `kept`:
    which part of each prompt is cached from before, 0 to below 1; `metric`: of the mappings, `time_limit_s`: for each
    part that is mapped, `fuse`: whether tensors may stay inside between Einsums, for machines that are an architecture;
    `widths`: bits, as `from_huggingface` takes them.
    """

    batches: tuple[int, ...] = (1,)
    contexts: tuple[int, ...] = (1024,)
    devices: int = 1
    fixed: Fixed | None = None
    first: bool = True
    answer: int | None = None
    kept: float = 0.0
    metric: str = "latency"
    time_limit_s: float = 60.0
    fuse: bool = True
    widths: Mapping[str, int] | None = None

    def prompt(self, context: int) -> Prompt:
        """The positions of a prompt that are new, one at least, and those that are kept."""
        new = max(1, context - int(context * self.kept))
        return Prompt(new, context - new)


def token_costs(
    config: str | Path | Mapping[str, object],
    machine: Spec,
    request: TokenRequest | None = None,
    *,
    progress: Progress | None = None,
) -> TokenCosts:
    """Costs of tokens of a language model on a machine, for each batch and context of `request`.

    `config`: as `from_huggingface` takes it; `machine`: a specification with a cluster, on `devices` of which the model
    is divided as each step takes least within their memory, or with an architecture, onto which each kind of layer is
    mapped.

    Raises SpecError for configs, machines and requests that do not fit, NoMappingError where no mapping does.
    """
    asked, spec = request or TokenRequest(), checked_spec(machine, "token_costs")
    _check(asked)
    made, widths = described(config, **(asked.widths or {}))
    if any(isinstance(layer.mixer, Attention) and not layer.mixer.causal for layer in made.layers):
        raise SpecError(f"{made.architecture} is an encoder, which makes no tokens")
    on, name = _machine(spec, asked, made, progress)
    points: list[TokenPoint] = []
    notes: dict[Note, None] = {}
    for context in asked.contexts:
        cached = asked.prompt(context)
        asks = asked.first or asked.answer is not None
        prompt = model_of(made, Step(1, cached.new, cached.kept), widths) if asks else None
        for batch in asked.batches:
            model = model_of(made, Step(batch, 1, context + (asked.answer or 0) // 2), widths)
            notes |= dict.fromkeys(model.notes)
            ways = best_of_ways(on.steps(model, prompt, cached))
            first = on.first(prompt, ways[0].plan) if prompt is not None and asked.first else ()
            points.append(TokenPoint(batch, context, ways[0], first, ways))
            notes |= dict.fromkeys(map(Note, uneven(made, ways[0].plan, batch)))
    parameters = model_of(made, Step(1, 1, 0), widths).n_parameters
    peaks, bandwidths = on.roofs(widths.activations, widths.others)
    if not any(point.most_sequences is None or point.most_sequences for point in points):
        notes[_too_small(points[0])] = None
    return TokenCosts(name, made.architecture, parameters, tuple(points), peaks, bandwidths, tuple(notes))


def _too_small(point: TokenPoint) -> Note:
    """A note that no sequence fits, and how many devices the weights alone would need."""
    held, whole = point.held, point.held.weights * point.devices / point.plan.dp
    more = f", {math.ceil(whole / held.memory):,} devices or more" if held.weights > held.memory else ""
    return Note(f"not one sequence of {point.context:,} positions fits: weights are {format_bytes(whole)}{more}")


def best_of_ways(steps: Iterator[Planned]) -> tuple[Planned, ...]:
    """Of each way to divide devices the step that takes least, the best one first; where none has room, last, the one
    that needs least.
    """
    found: dict[tuple[Dim, ...], Planned] = {}
    for step in steps:
        kind = step.plan.kind
        if kind not in found or _worth(step) < _worth(found[kind]):
            found[kind] = step
    return tuple(sorted(found.values(), key=_worth))


def _worth(step: Planned) -> tuple[bool, float]:
    """Less is better: time where there is room, else bytes."""
    fits = step.held.fits
    return not fits, step.each_token if fits else step.held.total


def _check(asked: TokenRequest) -> None:
    if len(asked.batches) * len(asked.contexts) > LONGEST_TABLE:
        raise SpecError(f"a table of {len(asked.batches) * len(asked.contexts):,} points; at most {LONGEST_TABLE:,}")
    check_each(asked.contexts, "tokens", "context")
    check_each([asked.answer], "tokens", "answer")
    check_each(asked.batches, "batch", "batch")
    check_each([asked.devices], "batch", "devices")
    if not 0 <= asked.kept < 1:
        raise SpecError(f"kept is {asked.kept:g}; expected the part of a prompt that is cached, from 0 to below 1")


class _Machine(Protocol):
    """A cluster, or an architecture onto which parts are mapped."""

    def steps(self, model: LanguageModel, prompt: LanguageModel | None, cached: Prompt) -> Iterator[Planned]:
        """Steps by all plans; `prompt`: the step of a new request, of which `cached` says what is new."""

    def first(self, prompt: LanguageModel, plan: ServingPlan) -> tuple[PartCost, ...]:
        """Parts of the step of a prompt."""

    def roofs(self, *bits: int) -> tuple[tuple[Roof, ...], tuple[Roof, ...]]:
        """Peaks of computes for values of so many bits, and bandwidths of the outermost memory."""


def _machine(spec: Spec, asked: TokenRequest, made: Description, progress: Progress | None) -> tuple[_Machine, str]:
    """The machine of a specification and its name: that of its file, or of what it is."""
    written = spec.raw.get("cluster")
    cluster = cluster_or_none(spec)
    if cluster is None:
        written = spec.raw.get("arch")
        if written is None:
            text, hint = "the machine has neither a cluster nor an architecture", "--on h100_node, --on tpu_v4i"
            raise SpecError(text, at=next((value.at for _, value in spec.raw.items), None), hint=hint)
        if asked.devices > 1 or asked.fixed:
            raise SpecError("an architecture is one device", hint="a cluster has several: --on h100_node --devices 8")
    at = getattr(written, "at", None)
    file = None if at is None else at.file
    if cluster is None:
        on: _Machine = _OnArchitecture(
            Mapped(spec, asked.metric, asked.time_limit_s, asked.fuse, progress), asked.answer
        )
        return on, PurePath(file).stem if file else "architecture"
    plans = plans_of(made, cluster, asked.devices, asked.fixed, at)
    steps = len(plans) * len(asked.batches) * len(asked.contexts)
    if steps > MOST_STEPS:
        text = f"{len(plans):,} ways to divide {asked.devices:,} devices for each of {steps // len(plans):,} points"
        raise SpecError(f"{text}; at most {MOST_STEPS:,} together", hint="fix some: --fix tensor=8,context=1")
    return _OnCluster(cluster, plans, asked.answer), PurePath(file).stem if file else "cluster"


def cluster_or_none(machine: Spec) -> Cluster | None:
    """The cluster of a machine, None for an architecture. Raises SpecError where its PEs have an architecture."""
    written = machine.raw.get("cluster")
    pe = written.get("pe") if isinstance(written, RawMap) else None
    if isinstance(pe, RawMap) and pe.get("arch") is not None:
        text = "the devices of the cluster have an architecture, which costs Einsums, not kernels"
        raise SpecError(text, at=pe.at, hint="name the architecture itself: --on tpu_v4i")
    return cluster_in(machine)


@dataclass(frozen=True, slots=True)
class _OnCluster:
    """Devices of a cluster, divided in several ways."""

    cluster: Cluster
    plans: Sequence[ServingPlan]
    answer: int | None

    def steps(self, model: LanguageModel, prompt: LanguageModel | None, cached: Prompt) -> Iterator[Planned]:
        del prompt
        for plan in self.plans:
            step = planned(model, self.cluster, plan)
            if self.answer is not None:
                # prompts of the others of a group, and so in each round of its micro-batches; further ones of a round
                # go through the stages one behind another
                prompts = (plan.of_group(model.step.batch) - 1) / self.answer
                rounds = min(1.0, prompts) + max(0.0, prompts - 1) / plan.pp
                delay = planned(model, self.cluster, plan, cached).through - step.through if prompts else 0.0
                step = replace(step, served=step.seconds + rounds * delay)
            yield step

    def first(self, prompt: LanguageModel, plan: ServingPlan) -> tuple[PartCost, ...]:
        return planned(prompt, self.cluster, plan).parts

    def roofs(self, *bits: int) -> tuple[tuple[Roof, ...], tuple[Roof, ...]]:
        pe = self.cluster.pe
        peaks = {f"{width} bits": pe.peak_for(width) for width in sorted(bits)}
        return finite_roofs(peaks), finite_roofs({"memory": pe.memory_bandwidth})


@dataclass(frozen=True, slots=True)
class _OnArchitecture:
    """An architecture, one device, onto which parts are mapped, each once."""

    mapped: Mapped
    answer: int | None
    prompts: dict[Step, tuple[PartCost, ...]] = field(default_factory=dict)

    def steps(self, model: LanguageModel, prompt: LanguageModel | None, cached: Prompt) -> Iterator[Planned]:
        del cached
        parts = self.mapped.parts(model)
        widest = max(part.widest for part in operators_of(model))
        held = Held(model.weight_bits / 8, model.cache_bits / 8, widest, self.mapped.memory)
        layers = (len(model.description.layers),)
        step = Planned(ServingPlan(), parts, layers, held, held.most(model.step.batch))
        if self.answer is not None:
            others = model.step.batch - 1
            delay = seconds_of(self.first(prompt, step.plan)) if others and prompt is not None else 0.0
            step = replace(step, served=step.seconds + others / self.answer * delay)
        yield step

    def first(self, prompt: LanguageModel, plan: ServingPlan) -> tuple[PartCost, ...]:
        del plan
        if prompt.step not in self.prompts:
            self.prompts[prompt.step] = self.mapped.parts(prompt)
        return self.prompts[prompt.step]

    def roofs(self, *bits: int) -> tuple[tuple[Roof, ...], tuple[Roof, ...]]:
        del bits
        return self.mapped.roofs
