"""Metrics of mappings: one entry for each, and everything that others ask of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from numbers import Real
from typing import Any, NamedTuple, cast

import numpy as np

from einmap.arrays import Floats
from einmap.errors import SpecError
from einmap.model.cost import Cost
from einmap.plugins import plugin
from einmap.visible import short


class Parts[N](NamedTuple):
    """Parts of the metrics of a mapping: J, J, J, s, numbers or arrays of them.

    `energy` is that of actions (`dynamic`) and leakage.
    """

    energy: N
    dynamic: N
    leak: N
    latency: N


@dataclass(frozen=True)
class Metric:
    """One metric, smaller is better.

    `flag`: its bit where metrics are given as a number (AccelForge's flags). `parts`: metrics that are added up over
    Einsums to make it. `code`: what the kernels know it by, None where they know it memory by memory. `of`: its value
    from the parts, None where it is not made of them. `of_cost`: its value for an evaluated mapping. `title`: as
    reports write it; `is_timed`: whether the latency matters.
    """

    name: str
    unit: str
    flag: int
    parts: tuple[str, ...]
    code: int | None
    of: Callable[[Parts[Any]], Any] | None
    of_cost: Callable[[Cost], float]
    title: str
    is_timed: bool
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class AddedMetric:
    """A metric that a package adds, smaller is better: `of_cost` is its value for an evaluated mapping, in `unit`.

    It must not fall where one of the metrics `rises_with` rises and the others stay, and must depend on nothing else:
    then no mapping is better than the best of those that are not beaten in all of them, and that is the one found.
    """

    name: str
    unit: str
    title: str
    of_cost: Callable[[Cost], float]
    rises_with: tuple[str, ...] = ("energy", "latency")
    is_timed: bool = True


_ADDED: dict[str, AddedMetric] = {}


class _Metrics(dict[str, Metric]):
    """Metrics by name; one that was added is found by its name, but is not among those that are searched for."""

    def __missing__(self, name: str) -> Metric:
        one = _ADDED[name]
        of = partial(_of_totals, one) if {*one.rises_with} <= {*OF_ENERGY_AND_LATENCY} else None
        return Metric(one.name, one.unit, 0, one.rises_with, None, of, one.of_cost, one.title, one.is_timed)


@dataclass(frozen=True, slots=True)
class _Totals:
    """Part of a cost that an added metric may read which rises with energy (J) and latency (s) alone."""

    energy: float
    latency: float

    @property
    def edp(self) -> float:
        """Energy times latency, J*s."""
        return self.energy * self.latency


def _of_totals(metric: AddedMetric, parts: Parts[Any]) -> Any:
    """The value of an added metric for energies (J) and latencies (s), numbers or arrays. Raises SpecError."""
    cost = cast("Callable[[_Totals], float]", metric.of_cost)
    if np.ndim(parts.energy) == 0:
        return cost(_Totals(float(parts.energy), float(parts.latency)))
    pairs = zip(parts.energy.tolist(), parts.latency.tolist(), strict=True)
    return np.array([cost(_Totals(energy, latency)) for energy, latency in pairs], np.float64)


def _checked(metric: AddedMetric, cost: Cost | _Totals) -> float:
    """The value of an added metric, whose function may be wrong in any way. Raises SpecError."""
    try:
        value = metric.of_cost(cast("Cost", cost))
    except Exception as error:  # code of others
        if isinstance(error, AttributeError) and isinstance(cost, _Totals):
            text = f"the metric {metric.name} reads more of a cost than {', '.join(metric.rises_with)}: {error}"
            raise SpecError(text, hint="name in rises_with what it reads") from error
        text = f"the metric {metric.name} fails for {_short(cost)}: {type(error).__name__}: {error}"
        raise SpecError(text, hint="mend the package that adds it") from error
    if not isinstance(value, Real) or value != value:  # noqa: PLR0124
        text = f"the metric {metric.name} must be a number, found {short(str(value))} for {_short(cost)}"
        raise SpecError(text, hint="mend the package that adds it")
    return float(value)


def _short(cost: Cost | _Totals) -> str:
    return f"{cost.energy:.4g} J and {cost.latency:.4g} s"


def added_metric(name: object) -> AddedMetric | None:
    """The metric that an installed package adds under a name; None for anything else. Raises SpecError."""
    if not isinstance(name, str) or (word := name.strip().lower()) in METRICS or word in ALIASES or "," in word:
        return None
    metric = _ADDED.get(word) or plugin("metrics", word)
    if metric is not None and (not isinstance(metric, AddedMetric) or not {*metric.rises_with} <= {*METRICS}):
        raise SpecError(f"the plug-in {word} is not an AddedMetric that rises with metrics of einmap")
    if metric is not None and word not in _ADDED:
        metric = replace(metric, of_cost=partial(_checked, metric))
        _ADDED[metric.name] = _ADDED[word] = metric
    return metric


METRICS = _Metrics(
    (metric.name, metric)
    for metric in (
        Metric(
            "energy", "J", 2, ("energy",), 0, lambda parts: parts.energy, lambda cost: cost.energy, "energy", False
        ),
        Metric(
            "latency", "s", 1, ("latency",), 1, lambda parts: parts.latency, lambda cost: cost.latency, "latency", True,
            ("delay",),
        ),
        Metric(
            "energy_delay_product", "J*s", 128, ("energy", "latency"), 2, lambda parts: parts.energy * parts.latency,
            lambda cost: cost.edp, "EDP", True, ("edp",),
        ),
        Metric(
            "dynamic_energy", "J", 4, ("dynamic_energy",), 3, lambda parts: parts.dynamic,
            lambda cost: cost.energy - cost.leak_energy, "dynamic energy", False,
        ),
        Metric(
            "leak_energy", "J", 8, ("leak_energy",), 4, lambda parts: parts.leak, lambda cost: cost.leak_energy,
            "leak energy", True,
        ),
        Metric(
            "resource_usage", "", 16, ("resource_usage",), None, None,
            lambda cost: max((row.usage for row in cost.memory_usage), default=0.0), "resource usage", False,
        ),
    )
)  # fmt: skip
"""By name. A new metric is one entry here and, where kernels are to minimise it, its formula in `objective_kernels`."""
ALIASES = {alias: metric.name for metric in METRICS.values() for alias in metric.aliases}
DEFAULT = "energy_delay_product"
OF_ENERGY_AND_LATENCY = tuple(name for name, metric in METRICS.items() if {*metric.parts} <= {"energy", "latency"})
"""Metrics that energy and latency make, as of single mappings that are evaluated many at a time."""


def of_energy_and_latency[N: (float, Floats)](name: str, energy: N, latency: N) -> N:
    """The value of one of OF_ENERGY_AND_LATENCY, or of an added metric that rises with some of these alone, for
    energies (J) and latencies (s).
    """
    of = METRICS[name].of
    assert of is not None
    value: N = of(Parts(energy, energy, energy, latency))
    return value


def values_of(names: Sequence[str], parts: Parts[float]) -> tuple[float, ...]:
    """The values of some metrics; 0 for names that are not metrics made of these parts."""
    metrics = [METRICS.get(name) for name in names]
    return tuple(0.0 if metric is None or metric.of is None else metric.of(parts) for metric in metrics)
