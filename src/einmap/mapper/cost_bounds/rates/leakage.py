"""Leakage, and other power that is drawn all the time, of an architecture for each use of its lanes."""

from __future__ import annotations

import numpy as np

from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable


def leak_power(arch: Architecture, compute: str, table: LaneTable) -> Floats:
    """W of everything that is not gated, a row for each use of the lanes on the path to a compute."""
    power = np.zeros(len(table))
    gated = any(d.power_gateable for leaf in arch.leaves.values() for d in leaf.spatial)
    for row in range(len(table)):
        used: dict[tuple[str, str], float] = {}
        for d, fanned in enumerate(table.dimensions):
            used[fanned.component, fanned.dimension.name] = float(table.bounds[row, d].prod())
        for _, _, watts in arch.drawn(compute, used):
            power[row] += watts
        if row == 0 and not gated:
            return np.full(len(table), power[0])
    return power
