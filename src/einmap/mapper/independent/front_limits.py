"""Limits of the fronts of Einsums whose sums of energy and of latency are multiplied."""

from __future__ import annotations

import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.independent.einsum_result import EinsumResult
from einmap.mapper.problem.request import Remainder
from einmap.progress import Progress

CORNER = 0.01
"""How far from the best the corners of a front may be found."""
type Pair = tuple[float, float]
"""Energy (J) and latency (s)."""


def limit_fronts(parts: Mapping[str, EinsumResult], weights: Mapping[str, int], workers: int, token: Progress) -> None:
    """Limit each Einsum's front to what can be a part of the best product of sums.

    A product is known: that of each Einsum's own best product. And each Einsum needs at least its least energy and
    latency, so that little room is left for any other one. `weights`: how often each Einsum runs. Nothing is limited
    where time is over before all corners are found.
    """
    least: dict[str, Pair] = {}
    chosen: dict[str, Pair] = {}
    distinct = [part for part in parts.values() if part.same_as is None]
    with ThreadPoolExecutor(workers) as executor:
        for part, corners in zip(distinct, executor.map(lambda part: _corners(part, token), distinct), strict=True):
            if corners is None:
                return
            least[part.einsum.name], chosen[part.einsum.name] = corners
    lows = {name: least[part.same_as or name] for name, part in parts.items()}
    tops = {name: chosen[part.same_as or name] for name, part in parts.items()}
    total = [sum(weights[n] * low[i] for n, low in lows.items()) for i in (0, 1)]
    product = math.prod(sum(weights[n] * top[i] for n, top in tops.items()) for i in (0, 1)) * (1 + 1e-9)
    for part in distinct:
        name = part.einsum.name
        weight, low = weights[name], lows[name]
        rest = [(total[i] - weight * low[i]) / weight for i in (0, 1)]
        assert part.search is not None
        part.search.narrow(Remainder(np.array([rest]), product / weight**2))


def _corners(part: EinsumResult, token: Progress) -> tuple[Pair, Pair] | None:
    """Least energy and latency of an Einsum, and those of its best product; None when it has no mapping in time."""
    assert part.search is not None
    optima: list[Optimum] = []
    for goal in ("energy_delay_product", "energy", "latency"):
        known = part.alone.get(goal)
        optima.append(known or part.search.alone(goal, CORNER, token, part.budget - part.spent))
        part.spent += 0 if known else optima[-1].work
        part.early += optima[-1].mappings[:1]
        if not (optima[-1].mappings and optima[-1].complete):
            return None
    product, energy, latency = optima
    cost = part.search.cost_of(product)
    return (energy.values[0][0] / (1 + CORNER), latency.values[0][0] / (1 + CORNER)), cost
