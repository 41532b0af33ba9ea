"""Einsums that cost more in the best cascade known than on the cheapest path of the graph: where the bound has to rise.

All others may stay as they are: with the best they cost no more than the bound says already.
"""

from __future__ import annotations

import math
from collections.abc import Collection

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.fronts.protocol import Fronts
from einmap.mapper.fusion.refinement.relaxation import Relaxation

PART = 1 / 16
"""Chains make up so much of the whole difference, those of all Einsums that are alike together."""
AT_STAKE = 0.05
"""Neighbours cost by at least this part of the whole more than each does at least where they are mapped anew."""


def contested(relaxed: Relaxation, costs: Floats | None) -> set[Fronts]:
    """Chains of Einsums that are cheaper on the cheapest path than in the best cascade known.

    `costs`: a row for each Einsum of that cascade; where none is known no chains are named.
    """
    cascade = relaxed.cascade
    if costs is None or not (costs.sum(axis=0) > 0).all():
        return set()
    weight = _decisive(cascade.weights, costs.sum(axis=0))
    excess: dict[Fronts, float] = {}
    for k, member in enumerate(cascade.members):
        through = relaxed.paths.through[relaxed.stages[k]][:, weight]
        o = int(np.argmin(through))
        least = float(through[o] - relaxed.rests[k][o, weight])
        excess[member.chains] = excess.get(member.chains, 0.0) + float(cascade.weights[weight] @ costs[k]) - least
    whole = sum(max(each, 0.0) for each in excess.values())
    return {chains for chains, each in excess.items() if each > PART * whole}


def most_at_stake(weights: Floats, costs: Floats, least: Floats, width: int, tried: Collection[int]) -> int | None:
    """The first of the `width` neighbours that cost most above their least costs, but for those that begin at `tried`.

    None where less than `AT_STAKE` of the whole is at stake. `weights`: shape (weights, goals); `costs`: of the best
    cascade known, shape (Einsums, goals); `least`: weighted, shape (Einsums, weights).
    """
    weight = _decisive(weights, costs.sum(axis=0))
    weighted = costs @ weights[weight]
    excess = np.maximum(weighted - least[:, weight], 0.0)
    sums = np.convolve(excess, np.ones(min(width, len(excess))), "valid")
    sums[list(tried)] = 0.0
    begin = int(np.argmax(sums))
    return begin if sums[begin] > AT_STAKE * weighted.sum() else None


def _decisive(weights: Floats, costs: Floats) -> int:
    """The weights at which all costs count about the same, as they do in a product."""
    if len(costs) == 1:
        return 0
    ratio = math.log(costs[0] / costs[1])
    slopes = [abs(math.log(b / a) - ratio) if a > 0 and b > 0 else math.inf for a, b in weights.tolist()]
    return int(np.argmin(slopes))
