"""Result of the search of one Einsum: the best mappings, a bound, and how much was looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapper.templates.statistics import SubspaceTally
from einmap.mapping.mapping import Mapping
from einmap.model.batch.zero_tables import ZeroTables
from einmap.pareto import nondominated


@dataclass(frozen=True)
class Bounded:
    """A dataplacement with some uses of the fanouts. `least`: no mapping of them has a lesser objective."""

    plan: ChainTemplate
    lanes: LaneTable
    least: float


@dataclass(frozen=True)
class Listed:
    """Dataplacements and uses of the fanouts that a search has bounded by tables.

    `least_else`: least bound of what it has ruled out without them.
    """

    bounded: list[Bounded]
    least_else: float

    def within(self, most: float) -> list[Bounded] | None:
        """Dataplacements that may have a mapping with an objective of at most `most`; None where others may, too."""
        return None if self.least_else <= most else [one for one in self.bounded if one.least <= most]


@dataclass
class Optimum:
    """Best mappings found: rows of objectives (one instance of the Einsum) with their mappings, best first.

    `bound`: nothing is better than this, for each objective; `complete`: nothing was left out. `plans`, `searched`:
    dataplacements and how many of them were searched; `lanes`: uses of the fanouts; `nodes`, `work`: nodes of the
    search and choices looked at; `size`: mappings of the whole mapspace, variables that are alike taken as one;
    `points`: of the lattices; `tally`: what became of the mapspace, None where brute force does not know;
    `cut`: whether the search was stopped (else what it left out had no room, or was not asked for); `without`: what
    brute force could not look at, in words; `ties_broken`: of mappings that are equally good by energy or latency it is
    the best by the other one (see `tolerances`); `listed`: what tables have bounded, while ties are not broken;
    `tables`: of each mapping those with the formats that it was found with, where tensors have zeros.
    """

    values: list[tuple[float, ...]]
    mappings: list[Mapping]
    complete: bool
    bound: tuple[float, ...]
    plans: int = 0
    searched: int = 0
    nodes: int = 0
    work: int = 0
    lanes: int = 0
    size: float = 0.0
    points: int = 0
    tally: SubspaceTally | None = None
    cut: bool = False
    without: tuple[str, ...] = ()
    ties_broken: bool = False
    listed: Listed | None = None
    tables: list[ZeroTables] = field(default_factory=list)

    def with_points(self, points: Sequence[tuple[tuple[float, ...], Mapping]]) -> Optimum:
        """The best of what was found and of other mappings with their objectives."""
        values = [*self.values, *(point_mappings for point_mappings, _ in points)]
        mappings = [*self.mappings, *(mapping for _, mapping in points)]
        kept = [int(i) for i in nondominated(np.array(values, dtype=np.float64))]
        return replace(self, values=[values[i] for i in kept], mappings=[mappings[i] for i in kept])
