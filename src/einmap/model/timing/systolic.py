"""Fill and drain of systolic arrays: lanes that begin one after another, as values are handed on from lane to lane.

Along a dimension with `skew` the last of n lanes begins n - 1 steps of the compute after the first. With `once` that
happens once in an Einsum, since the next values follow without a gap; with `each_fold` in each *fold*: each visit of
the innermost storage node of a memory that the dimension spreads. An output that stays in an R x C array for T steps so
takes T + (R - 1) + (C - 1) steps a fold, and R more where the results leave by one edge and nothing else happens
meanwhile (`buffering: single`), 2R + C + T - 2 in all, as in the paper of
SCALE-Sim (Samajdar et al., arXiv 1811.02883); its version 3.0.0 counts R + C + T - 2 where outputs stay.
"""

from __future__ import annotations

import math

from einmap.arch.component import Compute, Leaf, Memory
from einmap.model.counting.path import EinsumPath, Station
from einmap.model.counting.spatial import lanes_used
from einmap.model.counting.tiles import Count
from einmap.model.traffic.einsum_traffic import EinsumTraffic


def is_skewed(leaves: tuple[Leaf, ...]) -> bool:
    """Whether lanes of some dimension begin one after another."""
    return any(dimension.skew != "none" for leaf in leaves for dimension in leaf.spatial)


def step_seconds(unit: Compute) -> float:
    """Seconds of one step of a compute: those of one operation; 0 where it takes none."""
    throughput = unit.action("compute").throughput
    return 1 / throughput if 0 < throughput < math.inf else 0.0


def skew_seconds(path: EinsumPath, traffic: EinsumTraffic) -> Count:
    """Seconds in which the busiest compute of an Einsum waits for values to reach it; 0 for a copy."""
    unit = path.compute.component
    assert isinstance(unit, Compute)
    if path.einsum.is_copy or not is_skewed(path.leaves):
        return 0.0
    used = lanes_used(path)
    steps: Count = 0
    for level, leaf in enumerate(path.leaves):
        for dimension in leaf.spatial:
            if dimension.skew != "none":
                fold = _fold(path, level) if dimension.skew == "each_fold" else None
                folds = 1 if fold is None else traffic.visits(fold)
                steps = steps + (used[leaf.name, dimension.name] - 1) * folds
    return steps * unit.actions_scale * step_seconds(unit)


def _fold(path: EinsumPath, level: int) -> Station | None:
    """The innermost storage node of the memories that a dimension at a level spreads."""
    inside = [
        station
        for stations in path.stations.values()
        for station in stations
        if isinstance(station.component, Memory) and station.level >= level
    ]
    return max(inside, key=lambda station: station.position, default=None)
