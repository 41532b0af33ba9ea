"""The best sums over Einsums: one mapping of each, objectives added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.objective.metrics import METRICS
from einmap.pareto import nondominated

PARTS = {name: metric.parts for name, metric in METRICS.items() if metric.of is not None}
"""Parts to be added up over Einsums for each objective."""


@dataclass(frozen=True)
class Sums:
    """Rows of objectives of the whole workload, and which row of each Einsum's front each one takes."""

    values: Floats
    chosen: tuple[tuple[int, ...], ...]


def sums(fronts: Sequence[Floats], weights: Sequence[int]) -> Sums:
    """The front of weighted sums of one row of each front."""
    n = fronts[0].shape[1]
    values, chosen = np.zeros((1, n)), [()]
    total: list[tuple[int, ...]] = list(chosen)
    for front, weight in zip(fronts, weights, strict=True):
        added = (values[:, None, :] + front[None, :, :] * weight).reshape(-1, n)
        kept = nondominated(added)
        values = added[kept]
        total = [(*total[i // len(front)], int(i % len(front))) for i in kept]
    return Sums(values, tuple(total))
