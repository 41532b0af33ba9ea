"""Keeping the best: one point for one objective, or the Pareto front of energy and latency."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from einmap.arrays import Bools, Floats
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.pareto import nondominated
from einmap.units import format_si


@dataclass
class ExhaustiveFront:
    """Points that are worth keeping, each with what leads to it.

    `keep`: `front` for all nondominated points, or the name of the one objective. For the energy-delay product of a
    cascade the whole front is needed, so it is kept there too.
    """

    keep: str
    energy: list[float] = field(default_factory=list)
    latency: list[float] = field(default_factory=list)
    what: list[Any] = field(default_factory=list)

    def offer(self, energy: Floats, latency: Floats, fits: Bools, what: Callable[[int], Any]) -> None:
        """Take in the rows that fit and are not dominated; `what(row)` is asked only for those."""
        rows = np.flatnonzero(fits)
        if not rows.size:
            return
        candidates = rows[nondominated(np.stack([energy[rows], latency[rows]], axis=1))]
        all_energy = np.concatenate([self.energy, energy[candidates]])
        all_latency = np.concatenate([self.latency, latency[candidates]])
        kept = self._best(all_energy, all_latency)
        n = len(self.energy)
        self.what = [self.what[i] if i < n else what(int(candidates[i - n])) for i in kept]
        self.energy = [float(all_energy[i]) for i in kept]
        self.latency = [float(all_latency[i]) for i in kept]

    def _best(self, energy: Floats, latency: Floats) -> Sequence[int]:
        front = nondominated(np.stack([energy, latency], axis=1))
        if self.keep == "energy":
            least = energy[front[0]]
            return [int(front[energy[front] <= least + abs(least) * ROUNDING][-1])]
        if self.keep == "latency":
            # energy rises along the front
            return [int(front[latency[front] <= latency[front[-1]] * (1 + ROUNDING)][0])]
        return [int(i) for i in front]

    def describe(self, objective: str) -> str | None:
        """The best value of one objective, in words."""
        if not self.energy:
            return None
        if objective == "energy":
            return format_si(min(self.energy), "J")
        if objective == "latency":
            return format_si(min(self.latency), "s")
        return format_si(min(e * t for e, t in zip(self.energy, self.latency, strict=True)), "J*s")
