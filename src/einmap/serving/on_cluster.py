"""Seconds of a step on the devices of a cluster, part by part, and what limits each."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from einmap.distribute.costs.cluster import Cluster
from einmap.distribute.operators import Exchange, operator_seconds
from einmap.frontends.huggingface.model import LanguageModel
from einmap.serving.kernels import Kernel, Operator, PartOperators, operators_of


@dataclass(frozen=True, slots=True)
class PartCost:
    """A part of a model in one step: seconds and J (None: not known) of one instance; `limited_by`: on what it spends
    most of its time; `proven`: whether a mapping of it is the best one, None on a cluster.
    """

    name: str
    instances: int
    seconds: float
    energy: float | None
    limited_by: str
    proven: bool | None = None


def parts_on_cluster(model: LanguageModel, cluster: Cluster, devices: int, prompt: int = 0) -> tuple[PartCost, ...]:
    """Each part of a step on `devices` of a cluster, whose PEs have rates; `prompt`: positions of a request beside it.

    Raises SpecError for more devices than there are.
    """
    return tuple(_part(part, cluster) for part in operators_of(model, devices, prompt))


def _part(part: PartOperators, cluster: Cluster) -> PartCost:
    spent: dict[str, float] = {}
    for operator in part.operators:
        seconds, why = _timed(operator, cluster)
        spent[why] = spent.get(why, 0.0) + seconds
    most = max(spent, key=lambda why: spent[why])
    return PartCost(part.name, part.instances, math.fsum(spent.values()), None, most)


def _timed(operator: Operator, cluster: Cluster) -> tuple[float, str]:
    """Seconds of an operator, and whether operations, memory, its launch or links take most of them."""
    if isinstance(operator, Exchange):
        return operator_seconds(cluster, operator), "links"
    pe = cluster.pe
    seconds = operator.seconds(pe) if isinstance(operator, Kernel) else operator_seconds(cluster, operator)
    bare = replace(pe, launch=0.0, dispatch=0.0)
    working, computing = (operator.seconds(p) for p in (bare, replace(bare, memory_bandwidth=math.inf)))
    if seconds > 2 * working:
        return seconds, "launches"
    return seconds, "operations" if computing >= working * (1 - 1e-9) else "memory"
