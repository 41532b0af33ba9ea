"""Seconds and bytes of a step on the devices of a cluster by a plan, part by part, and what limits each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

from einmap.distribute.costs.cluster import Cluster, ProcessingElement
from einmap.distribute.operators import Work
from einmap.distribute.training.cuts import Unit, best_cut
from einmap.frontends.huggingface.model import LanguageModel
from einmap.serving.held import Held, ends_held, layer_held
from einmap.serving.kernels import WIDE, Collective, Operator, PartOperators, Prompt, operators_of
from einmap.serving.plan import ServingPlan

ROUNDING = 1e-12
"""Of sums of seconds."""
LINKS, NEXT_STAGE, WAITING = "links", "to the next stage", "waiting"
IDENTIFIER_BYTES = 4
"""Of a token that goes from the last stage of a pipeline to the first one."""


@dataclass(frozen=True, slots=True)
class PartCost:
    """A part of a model in one step: seconds and J (None: not known) of one instance; `limited_by`: on what it spends
    most of its time; `proven`: whether a mapping of it is the best one, None on a cluster; `operations` and `moved`
    bytes of one instance on a device, at its outermost memory; `spent`: seconds by what they go to.
    """

    name: str
    instances: int
    seconds: float
    energy: float | None
    limited_by: str
    proven: bool | None = None
    operations: float = 0.0
    moved: float = 0.0
    spent: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Planned:
    """A step by a plan. `stages`: layers of each; `served`: seconds for each token where the others' prompts come
    between, None where it was not asked for; `most_sequences`: how many fit, None: any number.
    """

    plan: ServingPlan
    parts: tuple[PartCost, ...]
    stages: tuple[int, ...]
    held: Held
    most_sequences: int | None
    served: float | None = None

    @property
    def seconds(self) -> float:
        """Time of one step, which gives each sequence a token."""
        return seconds_of(self.parts)

    @property
    def each_token(self) -> float:
        """Time for each token of a sequence, prompts of others between them included where they were asked for."""
        return self.seconds if self.served is None else self.served

    @property
    def through(self) -> float:
        """Time of a step of one micro-batch through all stages, without waiting for others."""
        return seconds_of(tuple(part for part in self.parts if part.name != WAITING))

    @property
    def spent(self) -> dict[str, float]:
        """Seconds of a step by what they go to: operations, memory, launches, each kind of collective, stages."""
        found: dict[str, float] = {}
        for part in self.parts:
            for what, seconds in part.spent:
                found[what] = found.get(what, 0.0) + part.instances * seconds
        return found

    @property
    def collectives(self) -> float:
        """Seconds of a step in collectives."""
        return math.fsum(seconds for what, seconds in self.spent.items() if what not in _OF_KERNELS | {WAITING})


_OF_KERNELS = frozenset({"operations", "memory", "launches"})


def seconds_of(parts: tuple[PartCost, ...]) -> float:
    """Seconds of all instances of some parts."""
    return math.fsum(part.instances * part.seconds for part in parts)


def planned(model: LanguageModel, cluster: Cluster, plan: ServingPlan, prompt: Prompt | None = None) -> Planned:
    """A step on the devices of a cluster, whose PEs have rates; `prompt`: of a request beside it in each group.

    Stages are cut so that the longest one is as short as memory allows. Raises SpecError where the cluster has not so
    many devices.
    """
    written = operators_of(model, plan, prompt)
    costs = tuple(_part(part, cluster, plan) for part in written)
    activations = max(part.widest for part in written)
    stages, longest, held = _staged(model, cluster, plan, costs, activations)
    parts = costs if plan.pp == 1 else (*costs, *_between(model, cluster, plan, prompt, costs, longest))
    most = [stage.most(plan.of_group(model.step.batch)) for stage in held]
    least = None if None in most else min(number for number in most if number is not None) * plan.groups
    return Planned(plan, parts, stages, max(held, key=lambda stage: stage.total), least)


def _staged(
    model: LanguageModel, cluster: Cluster, plan: ServingPlan, costs: tuple[PartCost, ...], activations: float
) -> tuple[tuple[int, ...], float, list[Held]]:
    """Layers of each stage, seconds of the longest one, what a device of each holds."""
    memory, of_layers = cluster.pe.memory, layer_held(model, plan)
    (embedding, head), order = ends_held(model, plan), model.layers_in_order
    if plan.pp == 1:
        weights = math.fsum(of_layers[layer][0] * count for layer, count in model.layers.items())
        cache = math.fsum(of_layers[layer][1] * count for layer, count in model.layers.items())
        return (len(order),), seconds_of(costs), [Held(weights + embedding + head, cache, activations, memory)]
    taken = dict(zip(model.layers, (part.seconds for part in costs[1:-1]), strict=True))
    units = [Unit(taken[layer], of_layers[layer][1], of_layers[layer][0]) for layer in order]
    units[0] = replace(units[0], seconds=units[0].seconds + costs[0].seconds, fixed=units[0].fixed + embedding)
    units[-1] = replace(units[-1], seconds=units[-1].seconds + costs[-1].seconds, fixed=units[-1].fixed + head)
    flight = [1.0] * plan.pp
    cut = best_cut(units, flight, memory - activations) or best_cut(units, flight, math.inf)
    assert cut is not None  # a plan has as many layers as stages
    held, longest, begin = [], 0.0, 0
    for count in cut:
        stage = units[begin : begin + count]
        begin += count
        held.append(Held(math.fsum(u.fixed for u in stage), math.fsum(u.saved for u in stage), activations, memory))
        longest = max(longest, math.fsum(u.seconds for u in stage))
    return cut, longest, held


def _between(
    model: LanguageModel,
    cluster: Cluster,
    plan: ServingPlan,
    prompt: Prompt | None,
    costs: tuple[PartCost, ...],
    longest: float,
) -> tuple[PartCost, ...]:
    """Time of a token between stages: on its way, and waiting for other micro-batches in the longest stage."""
    step, machine = model.step, plan.on(cluster)
    rows = plan.sequences(step.batch) * step.tokens + (prompt.new if prompt else 0)
    hidden = rows * model.description.hidden * model.widths.others / 8
    # all devices of a stage have the same: each may send a part, which the next ones gather
    gathered = machine.seconds("shift", ("pp",), hidden / plan.wide) + _collective(
        Collective("all_gather", hidden), cluster, plan
    )
    sending = min(machine.seconds("shift", ("pp",), hidden), gathered)
    back = machine.seconds("shift", ("pp",), rows * IDENTIFIER_BYTES) if step.tokens == 1 else 0.0
    ways = (plan.pp - 1) * sending + back
    waiting = max(0.0, plan.micro_batches(step.batch) * (longest + sending) - seconds_of(costs) - ways)
    parts: tuple[PartCost, ...] = (PartCost(NEXT_STAGE, 1, ways, None, LINKS, spent=((NEXT_STAGE, ways),)),)
    if waiting > ROUNDING * longest:
        parts += (PartCost(WAITING, 1, waiting, None, "the longest stage", spent=((WAITING, waiting),)),)
    return parts


def _part(part: PartOperators, cluster: Cluster, plan: ServingPlan) -> PartCost:
    spent: dict[str, float] = {}
    grouped: dict[str, float] = {}
    works: list[Work] = []
    for operator in part.operators:
        if isinstance(operator, Collective):
            seconds, what, why = _collective(operator, cluster, plan), str(operator.kind), LINKS
        else:
            works += operator.works
            seconds = operator.seconds(cluster.pe)
            what = why = _limit(operator.works, seconds, cluster.pe)
        spent[what] = spent.get(what, 0.0) + seconds
        grouped[why] = grouped.get(why, 0.0) + seconds
    most = max(grouped, key=lambda why: grouped[why])
    operations, moved = math.fsum(work.operations for work in works), math.fsum(work.moved for work in works)
    return PartCost(
        part.name, part.instances, math.fsum(spent.values()), None, most, None, operations, moved, tuple(spent.items())
    )


def operator_time(operator: Operator, cluster: Cluster, plan: ServingPlan) -> float:
    """Seconds of a kernel or collective."""
    return _collective(operator, cluster, plan) if isinstance(operator, Collective) else operator.seconds(cluster.pe)


def _collective(collective: Collective, cluster: Cluster, plan: ServingPlan) -> float:
    """Seconds of a collective; devices of `tp` and `cp` together are one group next to one another."""
    if collective.over == WIDE:
        return plan.joined().on(cluster).seconds(collective.kind, ("tp",), collective.moved)
    return plan.on(cluster).seconds(collective.kind, collective.over, collective.moved)


def _limit(works: tuple[Work, ...], seconds: float, pe: ProcessingElement) -> str:
    """Whether operations, memory or launches take most of an operator's time."""
    working, computing = (sum(work.seconds(p) for work in works) for p in _without_launches(pe))
    if seconds > 2 * working:
        return "launches"
    return "operations" if computing >= working * (1 - 1e-9) else "memory"


@lru_cache(maxsize=100)
def _without_launches(pe: ProcessingElement) -> tuple[ProcessingElement, ProcessingElement]:
    """A PE that starts kernels in no time, and one whose memory takes none either."""
    kernels = tuple((bits, replace(kernel, launch=0.0)) for bits, kernel in pe.kernels)
    attention = None if pe.attention is None else replace(pe.attention, launch=0.0)
    bare = replace(pe, launch=0.0, dispatch=0.0, kernels=kernels, attention=attention)
    return bare, replace(bare, memory_bandwidth=math.inf)
