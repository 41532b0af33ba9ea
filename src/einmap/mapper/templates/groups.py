"""Search groups of a path of the architecture: its tile shapes, and dataplacements that admit the same lanes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from einmap.arrays import Ints
from einmap.mapper.mapspace.lanes.fanout_table import FEW_USES, LaneTable
from einmap.mapper.mapspace.tile_lattice import FEW_POINTS, Lattice
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapper.templates.statistics import MappingCounts

# processor time with tables of few rows: 0.07 to 0.5 times of those with all for vgg16 on edge (loops lead to 3 to 13 %
# of the points), but 1.3 to 3 times on eyeriss and nvdla (to all), and 1.7 times on edge with a lattice of 520 points
MOST_OUT = 8
"""So many times as many points as loops lead to are worth tables that have rows for few of them."""


def loops_leave_most_out(lattice: Lattice, plans: Sequence[ChainTemplate]) -> bool:
    """Whether loops above the innermost lanes lead to a small part of many points, on average over the plans."""
    if lattice.size <= FEW_POINTS:
        return False
    points = 0
    for plan in plans:
        last = max((i for i, step in enumerate(plan.steps) if step.fanouts), default=len(plan.steps) - 1)
        axes = {axis for step in plan.steps[: last + 1] for axis in step.axes}
        points += int(lattice.radices[sorted(axes)].prod())
    return points * MOST_OUT <= lattice.size * len(plans)


@dataclass(frozen=True)
class Group:
    """Dataplacements that admit the same uses of the fanouts, with the lattice of their tile shapes."""

    plans: list[ChainTemplate]
    lanes: LaneTable
    lattice: Lattice

    @cached_property
    def mapping_counts(self) -> MappingCounts:
        """Mappings of each plan with each use of the fanouts."""
        return MappingCounts(self.lattice, self.plans, self.lanes)

    @property
    def size(self) -> float:
        """Mappings of all plans with all uses of the fanouts."""
        if len(self.lanes) <= FEW_USES:
            return self.mapping_counts.total()
        # part by part: there is no room for the number of each use
        parts = np.split(np.arange(len(self.lanes)), range(FEW_USES, len(self.lanes), FEW_USES))
        return math.fsum(self.only(part).size for part in parts)

    def only(self, rows: Ints) -> Group:
        """The dataplacements with some of the uses alone."""
        return Group(self.plans, self.lanes.only(rows), self.lattice)


@dataclass(frozen=True)
class TileShapes:
    """The tile shapes that a path is searched with.

    `is_sparse`: tables have rows for a few points only. `has_many`: an axis has more sizes than are listed.
    `is_coarse`: tile shapes are left out, for that reason or since tables of all have no room.
    """

    lattice: Lattice
    is_sparse: bool
    has_many: bool
    is_coarse: bool
