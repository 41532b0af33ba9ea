"""Lower bounds on the cost of a point, before it is searched."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

from einmap.mapper.exhaustive.compulsory_traffic import lower_bounds
from einmap.mapper.objective.metrics import Parts, values_of
from einmap.spec.shared_inputs import shareable
from einmap.spec.spec import Spec
from einmap.sweep.outcome import Outcome

ROUNDING = 1e-9
"""Part by which bounds are lowered: sums in another order may differ by rounding."""
MOST_SHARED = 3
"""Inputs of several Einsums; of more of them there is no bound."""


@dataclass(frozen=True, slots=True)
class Least:
    """Lower bounds of all mappings of one specification: J without leakage, J of leakage, s, and m^2."""

    dynamic: float
    leak: float
    latency: float
    area: float

    @staticmethod
    def of(spec: Spec) -> Least:
        """Each operation is done once, each tensor passes its outermost memory once. Raises SpecError."""
        areas = [arch.total_area for arch in spec.archs.values()]
        area = min((a for a in areas if a is not None), default=-math.inf)
        shared = shareable(spec.workload)
        if len(shared) > MOST_SHARED:
            return Least(-math.inf, -math.inf, 0.0, area)
        # an input that several Einsums read may be copied or not: whatever is best
        subsets = [c for n in range(len(shared) + 1) for c in combinations(shared.items(), n)]
        sums = [_sums(spec.with_shared_inputs(dict(subset)) if subset else spec) for subset in subsets]
        dynamic, leak, latency = (min(values) for values in zip(*sums, strict=True))
        return Least(dynamic, leak, latency, area)

    @staticmethod
    def nothing() -> Least:
        """Where nothing is known."""
        return Least(-math.inf, -math.inf, -math.inf, -math.inf)

    @staticmethod
    def known(outcome: Outcome) -> Least:
        """Costs of a specification that is finished."""
        assert outcome.energy is not None and outcome.leak_energy is not None
        assert outcome.latency is not None
        area = -math.inf if outcome.area is None else outcome.area
        return Least(outcome.energy - outcome.leak_energy, outcome.leak_energy, outcome.latency, area)


def _sums(spec: Spec) -> tuple[float, float, float]:
    """J without leakage, J of leakage and s of all Einsums, each at its least."""
    dynamic = leak = latency = 0.0
    for einsum in spec.workload.einsums:
        times = spec.workload.n_instances * einsum.n_instances
        least = lower_bounds(einsum, spec.bound[einsum.name].arch)
        dynamic += times * least.dynamic
        leak += times * least.leak
        latency += times * least.latency
    return dynamic, leak, latency


def least_objectives(
    parts: Mapping[str, Least], weights: Mapping[str, float], objectives: tuple[str, ...]
) -> tuple[float, ...]:
    """Lower bounds of a point's objectives, from the parts of its workloads."""
    sums = {
        name: sum(weights[workload] * getattr(part, name) for workload, part in parts.items() if weights[workload])
        for name in ("dynamic", "leak", "latency")
    }
    whole = Parts(sums["dynamic"] + sums["leak"], **sums)

    def least(name: str, value: float) -> float:
        if name == "area":
            # the very sums that results have
            return max(part.area for part in parts.values())
        # a product bounds nothing where a factor may be negative
        bounds_nothing = not math.isfinite(value) or (name == "energy_delay_product" and whole.energy < 0)
        return -math.inf if bounds_nothing else value - abs(value) * ROUNDING

    return tuple(map(least, objectives, values_of(objectives, whole)))
