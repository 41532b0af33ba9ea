"""Cost of a point over all workloads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from einmap.sweep.definition.definition import OBJECTIVES
from einmap.sweep.definition.points.axes import Value
from einmap.sweep.front import Front
from einmap.sweep.outcome import Outcome
from einmap.visible import brief

type Status = Literal["done", "failed", "ruled out", "missing"]


@dataclass(frozen=True)
class PointResult:
    """One point of a sweep.

    `number`: its position in the whole grid. `values`: of the axes, by name. `outcomes`: by the name of the workload,
    each counting as often as its weight in `weights`. `objectives`: the names of what points are judged by.
    `better`: the number of the point that rules this one out, None where none does. `limits`: what objectives must not
    exceed; `beyond`: the objective whose bound does, so that nothing was searched.
    """

    __repr__ = brief

    number: int
    values: Mapping[str, Value]
    outcomes: Mapping[str, Outcome]
    weights: Mapping[str, float]
    objectives: tuple[str, ...]
    better: int | None = None
    limits: Mapping[str, float] = field(default_factory=dict)
    beyond: str | None = None

    @property
    def status(self) -> Status:
        """`done`; `failed`, where one workload has no cost; `ruled out` by a bound or a limit; `missing` where work is
        left.
        """
        if any(not outcome.done for outcome in self.outcomes.values()):
            return "failed"
        if self.better is not None or self.beyond is not None:
            return "ruled out"
        if len(self.outcomes) < len(self.weights):
            return "missing"
        if self.lacking is not None:
            return "failed"
        return "done" if self.exceeded is None else "ruled out"

    @property
    def exceeded(self) -> str | None:
        """The first objective beyond its limit; None where there is none."""
        if self.beyond is not None or len(self.outcomes) < len(self.weights):
            return self.beyond
        values = {name: self.value(name) for name in self.limits}
        return next((name for name, value in values.items() if value is not None and value > self.limits[name]), None)

    @property
    def lacking(self) -> str | None:
        """The objective that a point with all its outcomes has no value of; None where there is none."""
        if len(self.outcomes) < len(self.weights):
            return None
        return next((name for name in (*self.objectives, *self.limits) if self.value(name) is None), None)

    @property
    def reason(self) -> str:
        """Why there is no cost; empty where there is one."""
        failed = [(name, outcome) for name, outcome in self.outcomes.items() if not outcome.done]
        if failed:
            name, outcome = failed[0]
            where = f" ({name})" if len(self.weights) > 1 else ""
            return f"{outcome.status}{where}: {outcome.reason}"
        if self.better is not None:
            return f"point {self.better} costs less than this one can"
        exceeded = self.exceeded
        if exceeded is not None:
            return f"{exceeded} is above its limit of {self.limits[exceeded]:g} {OBJECTIVES[exceeded]}".rstrip()
        lacking = self.lacking
        return "" if lacking is None else f"no {lacking}: a component gives none"

    @property
    def energy(self) -> float | None:
        """J over all workloads, leakage included; None where one has no cost."""
        return self._sum("energy")

    @property
    def latency(self) -> float | None:
        """S over all workloads, one after the other; None where one has no cost."""
        return self._sum("latency")

    @property
    def leak_energy(self) -> float | None:
        """J of leakage over all workloads; None where one has no cost."""
        return self._sum("leak_energy")

    @property
    def dynamic_energy(self) -> float | None:
        """J over all workloads without leakage; None where one has no cost."""
        return None if self.energy is None or self.leak_energy is None else self.energy - self.leak_energy

    @property
    def energy_delay_product(self) -> float | None:
        """J*s: the energy of all workloads times the latency of all; None where one has no cost."""
        return None if self.energy is None or self.latency is None else self.energy * self.latency

    @property
    def area(self) -> float | None:
        """m^2, the largest of all workloads; None where a component gives none."""
        return self._largest("area")

    @property
    def sent_bytes(self) -> float | None:
        """Bytes that one PE sends on average, over all workloads; None where one has no plan."""
        return self._sum("sent_bytes")

    @property
    def peak_memory(self) -> float | None:
        """Bytes that one PE holds at most, the largest of all workloads; None where one has no plan."""
        return self._largest("peak_memory")

    @property
    def processing_elements(self) -> int | None:
        """The PEs of the mesh; None where a workload has no plan."""
        count = self._largest("processing_elements")
        return None if count is None else int(count)

    @property
    def optimal(self) -> bool | None:
        """Whether every mapping is proven best for its workload; None where mappings were only evaluated."""
        proofs = [outcome.optimal for outcome in self.outcomes.values()]
        return None if not proofs or None in proofs else all(proofs)

    def value(self, objective: str) -> float | None:
        """One objective, by its name."""
        value: float | None = getattr(self, objective)
        return value

    @property
    def objective_values(self) -> tuple[float, ...] | None:
        """Objectives of the point, in order; None where it has no cost."""
        if self.status != "done":
            return None
        values = [self.value(name) for name in self.objectives]
        return tuple(value for value in values if value is not None)

    def _sum(self, field: str) -> float | None:
        values = {name: getattr(outcome, field) for name, outcome in self.outcomes.items()}
        if len(values) < len(self.weights) or None in values.values():
            return None
        return float(sum(weight * values[name] for name, weight in self.weights.items()))

    def _largest(self, field: str) -> float | None:
        values = [getattr(outcome, field) for outcome in self.outcomes.values()]
        return None if not values or None in values else float(max(values))


def front_of(results: Sequence[PointResult]) -> list[PointResult]:
    """The points that none beats, by number; of points with equal values all."""
    front = Front()
    for result in results:
        values = result.objective_values
        if values is not None:
            front.add(result.number, values)
    on_front = front.points
    return [result for result in results if result.number in on_front]
