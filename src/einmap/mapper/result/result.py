"""Results of searches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from einmap.mapper.objective.metrics import METRICS, AddedMetric
from einmap.mapper.objective.tolerances import tie_breaker, tied
from einmap.mapping.mapping import Mapping
from einmap.model.cost import Cost
from einmap.pareto import nondominated
from einmap.spec.forms.chosen_layouts import Lies
from einmap.spec.spec import Spec
from einmap.visible import brief


@dataclass(frozen=True)
class Found:
    """One mapping with its cost as `evaluate` gives it.

    `spec`: the specification that it belongs to: the one that was given, or with a copy Einsum for each of
    `shared_inputs`, graph inputs that are filled once for all their users. `rewrites`: changes of the cascade that was
    given, as `einmap.spec.forms.rewritten` reads them, that make it the one that is mapped.
    """

    __repr__ = brief

    cost: Cost
    mapping: Mapping
    spec: Spec = field(compare=False)
    shared_inputs: tuple[str, ...] = ()
    rewrites: tuple[str, ...] = ()

    @property
    def layouts(self) -> dict[str, dict[str, Lies]]:
        """Layouts chosen where the architecture leaves them open, by memory and tensor."""
        return self.spec.layouts

    @property
    def formats(self) -> dict[str, dict[str, Any]]:
        """Formats of sparse tensors chosen where they are left open, as written, by memory and tensor."""
        return self.spec.formats

    @property
    def made_for(self) -> dict[str, Any]:
        """Copies, layouts, formats and rewrites that the mapping is made for, as keywords of `dump_mapping`."""
        found = {
            "shared_inputs": self.copies,
            "layouts": self.layouts,
            "formats": self.formats,
            "rewrites": list(self.rewrites),
        }
        return {key: value for key, value in found.items() if value}

    @property
    def copies(self) -> dict[str, str]:
        """The name of the copy of each shared input."""
        workload = self.spec.workload
        made = {t: e.name for e in workload.einsums if e.is_copy for t in e.inputs}
        return {tensor: made[tensor] for tensor in self.shared_inputs}


@dataclass(frozen=True)
class MapStats:
    """How the search went. `mapspace_size`: mappings of the space (a float, it can be huge), of its
    built part where an Einsum's mapspace is `truncated` in `by_einsum`.

    `templates`, `evaluated`, `seconds`: dataplacements, choices looked at, wall time. `steps`: seconds of the steps of
    the search, which are less than all. `by_einsum`: for each Einsum the same, and what became of its mapspace
    (docs/mapper.md, Statistics).
    """

    __repr__ = brief

    mapspace_size: float = 0.0
    templates: int = 0
    evaluated: int = 0
    seconds: float = 0.0
    by_einsum: dict[str, dict[str, Any]] = field(default_factory=dict)
    steps: dict[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class MapResult:
    """The best mappings found, best first by the first metric.

    `optimal`: all that was asked for was covered, so nothing better exists. `lower_bound`: no mapping is better
    than this in the metric (None for several metrics, or where none is known); `reason`: why the search ended, for
    which mappings it speaks, and why no gap is known where there is none, in words. `not_searched`: what of the
    mapspace that was asked for was not looked at, in words; something better may be there.
    `ties_broken`: of the mappings that are as good by the one metric, energy or latency, none is better by the other
    one; false where that is not proven, and for other metrics.
    `stopped`: the search was ended before it was complete. `cached`: it was found before, and kept in the directory
    `cache` of the call; `stats` are those of that search. `unfused`: what the same search found that fuses nothing,
    where it looked for that beside fused mappings.
    """

    __repr__ = brief

    front: tuple[Found, ...]
    metrics: tuple[str, ...]
    optimal: bool
    lower_bound: float | None
    reason: str
    stats: MapStats
    cached: bool = field(default=False, compare=False)
    not_searched: tuple[str, ...] = ()
    stopped: bool = False
    ties_broken: bool = False
    unfused: MapResult | None = field(default=None, compare=False)

    @property
    def cost(self) -> Cost:
        """Cost of the best mapping."""
        return self.front[0].cost

    @property
    def mapping(self) -> Mapping:
        """The best mapping."""
        return self.front[0].mapping

    @property
    def spec(self) -> Spec:
        """The specification that the best mapping belongs to: `evaluate(result.spec, result.mapping)`."""
        return self.front[0].spec

    @property
    def shared_inputs(self) -> tuple[str, ...]:
        """Graph inputs that a copy Einsum, put in by the mapper, fills once for all their users."""
        return self.front[0].shared_inputs

    @property
    def gap(self) -> float | None:
        """How far the best may be above the optimum, as a fraction of the lower bound; 0 when proven optimal.

        None where the lower bound is not known or not positive: `reason` says why.
        """
        if self.optimal:
            return 0.0
        if self.lower_bound is None or self.lower_bound <= 0:
            return None
        return objective(self.cost, self.metrics[0]) / self.lower_bound - 1


def best_of(points: Sequence[Found], goals: tuple[str, ...]) -> list[Found]:
    """The best of several searches: one mapping, or all that no other one beats, best first by the first goal.

    Of mappings that are equally good by energy or latency the best by the other one.
    """
    values = np.array([[objective(point.cost, goal) for goal in goals] for point in points])
    if len(goals) == 1:
        best = points[int(np.argmin(values[:, 0]))]
        if (breaker := tie_breaker(goals)) is not None:
            limits = tied(math.inf, objective(best.cost, goals[0]))
            equal = [point for point, (value,) in zip(points, values, strict=True) if value < limits.most]
            best = min(equal, key=lambda point: objective(point.cost, breaker))
        return [best]
    return [points[int(row)] for row in nondominated(values)]


def objective(cost: Cost, metric: str) -> float:
    """The value of one metric: J, s or J*s; of `resource_usage` the fullest memory's."""
    return METRICS[metric].of_cost(cost)


def by_added_metric(result: MapResult, metric: AddedMetric) -> MapResult:
    """The best mapping of a front by a metric that rises with all of its metrics, which no other mapping can beat."""
    best = min(result.front, key=lambda found: metric.of_cost(found.cost))
    bound = metric.of_cost(best.cost) if result.optimal else None
    names = " and ".join(METRICS[name].title for name in result.metrics)
    reason = f"the least {metric.title} of {len(result.front):,} mappings by {names}: {result.reason}"
    one = replace(result, front=(best,), metrics=(metric.name,), lower_bound=bound, reason=reason)
    return replace(one, ties_broken=False, unfused=None)
