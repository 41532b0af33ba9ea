"""The best sums over Einsums: one mapping of each, objectives added up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.mapper.objective.metrics import METRICS

PARTS = {name: metric.parts for name, metric in METRICS.items() if metric.of is not None}
"""What has to be added up over Einsums for each objective."""


@dataclass(frozen=True)
class Sums:
    """Rows of objectives of the whole workload, and which row of each Einsum's front each one takes."""

    values: Floats
    chosen: tuple[tuple[int, ...], ...]


def nondominated(values: Floats) -> Ints:
    """Rows that no other row is at most as large as in everything; of equal rows the first. Sorted by column."""
    order = np.lexsort(values.T[::-1])
    if values.shape[1] <= 2:
        last = values[order, -1]
        before = np.concatenate([[np.inf], np.minimum.accumulate(last)[:-1]])
        better = last < before
        better[:1] = True  # the first one also where every value is infinite
        kept: Ints = order[better]
        return kept
    front: list[int] = []
    for row in order:
        if not any((values[other] <= values[row]).all() for other in front):
            front.append(int(row))
    return np.array(front, dtype=np.int64)


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
