"""Metrics of mappings: one entry for each, and everything that others ask of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from einmap.arrays import Floats
from einmap.model.cost import Cost


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


METRICS = {
    metric.name: metric
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
}  # fmt: skip
"""By name. A new metric is one entry here and, where kernels are to minimise it, its formula in `objective_kernels`."""
ALIASES = {alias: metric.name for metric in METRICS.values() for alias in metric.aliases}
DEFAULT = "energy_delay_product"
OF_ENERGY_AND_LATENCY = tuple(name for name, metric in METRICS.items() if {*metric.parts} <= {"energy", "latency"})
"""Metrics that energy and latency make, as of single mappings that are evaluated many at a time."""


def of_energy_and_latency[N: (float, Floats)](name: str, energy: N, latency: N) -> N:
    """The value of one of OF_ENERGY_AND_LATENCY for energies (J) and latencies (s)."""
    of = METRICS[name].of
    assert of is not None
    value: N = of(Parts(energy, energy, energy, latency))
    return value


def values_of(names: Sequence[str], parts: Parts[float]) -> tuple[float, ...]:
    """The values of some metrics; 0 for names that are not metrics made of these parts."""
    metrics = [METRICS.get(name) for name in names]
    return tuple(0.0 if metric is None or metric.of is None else metric.of(parts) for metric in metrics)
