"""The model's traffic of one tensor for fills that are not known yet: where its nodes are, and the lanes around them.

With perfect factors all visits of a node are alike, and so are all lanes of a loop but for first touches. So what moves
is affine in the values that fill the nodes, whatever the tile shapes and the order of temporal loops. `EinsumPath` and
`TensorCounts` of the model get such counts here, and `TensorTraffic` says what each station sees of them.

Counts of an output are in units of its size: of that many values each one starts without a result once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from einmap.arch.component import Compute, Leaf, Memory, Toll
from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.cost_bounds.rates.affine import Affine
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.tile_lattice import Lattice
from einmap.model.counting.path import EinsumPath, Loop, Station
from einmap.model.counting.reuse import Takes, TensorCounts, VariableTiles
from einmap.model.counting.semantics import Semantics
from einmap.model.counting.tiles import ALL, FIRST, SKIP, Count, Take
from einmap.model.traffic.tensor_traffic import Fixed, TensorTraffic

INDEXING, REPEATING = "indexing", "repeating"
"""Rank variables that index the tensor, all as one, and those that do not."""
RELEVANCE = {INDEXING: Relevance.FULL, REPEATING: Relevance.NONE}


@dataclass(frozen=True, slots=True)
class Fills:
    """Values that fill the node at a level in all."""

    level: int


@dataclass(frozen=True, slots=True)
class Visits:
    """Visits of the node at a level, by all instances together."""

    level: int


@dataclass(frozen=True, slots=True)
class TileValues:
    """Values of one tile of the node at a level."""

    level: int


ONE_TIME = "one time"
"""Key of events that happen once, whatever the tile shapes."""


class FillTiles(VariableTiles):
    """Tiles on a path of `traffic_of`; `lanes`: of each loop, (uses,), and 1 of loops that are not lanes."""

    def __init__(self, path: EinsumPath, lanes: Sequence[Floats | float]) -> None:
        super().__init__(path)
        self.lanes = lanes
        self._known: dict[tuple[int, ...], Any] = {}

    def product(self, loops: Iterable[int]) -> Any:
        """Lanes of some loops together."""
        chosen = tuple(loops)
        if chosen not in self._known:
            self._known[chosen] = prod((self.lanes[i] for i in chosen), start=1.0)
        return self._known[chosen]

    def taken(self, takes: Takes, *variables: str) -> tuple[int, ...]:
        """The loops over some variables of which one lane counts, alone or for a group that shares a tile."""
        return tuple(
            i
            for i, loop in enumerate(self.path.loops)
            if takes[i] >= FIRST and loop.is_spatial and loop.variable in variables
        )

    def all_of(self, takes: Takes, *variables: str) -> tuple[int, ...]:
        """The loops over some variables of which all lanes count."""
        return tuple(
            i
            for i, loop in enumerate(self.path.loops)
            if takes[i] == ALL and loop.is_spatial and loop.variable in variables
        )

    def node(self, takes: Takes) -> tuple[int, Take, Take]:
        """Level of the node whose visits count, and which iterations of indexing and of repeating loops do."""
        last = max(i for i, loop in enumerate(self.path.loops) if takes[i] != SKIP and not loop.is_spatial)
        return self.path.loops[last].address[0], takes[last - 1], takes[last]

    def visits(self, takes: Takes) -> Count:
        """Visits of a node, all of them or those at one time."""
        level, _, repeating = self.node(takes)
        if repeating == ALL:
            return Affine({Visits(level): 1 / self.product(self.taken(takes, *RELEVANCE))})
        return Affine({ONE_TIME: self.product(self.all_of(takes, *RELEVANCE))})


@dataclass
class FillCounts(TensorCounts):
    """Counts of one tensor, told in what fills its nodes.

    `excess`: how many more tiles there may be than perfect factors make. `may_be_alone`: whether of several lanes one
    may be left with the last part of all.
    """

    tiles: FillTiles
    excess: float = 1.0
    may_be_alone: bool = False

    def __post_init__(self) -> None:
        self.relevance = RELEVANCE
        self._groups = ()
        self._loop_relevance = tuple(RELEVANCE[loop.variable] for loop in self.path.loops)

    def values(self, takes: Takes, slides: int | None = None) -> Count:
        """Values moved: of all visits, of all first visits of each place, or of one visit."""
        del slides
        tiles, (level, indexing, repeating) = self.tiles, self.tiles.node(takes)
        if repeating == ALL:
            return Affine({Fills(level): 1 / tiles.product(tiles.taken(takes, *RELEVANCE))})
        if indexing == ALL:
            return self.relevant(takes) * tiles.product(tiles.all_of(takes, REPEATING))
        return Affine({TileValues(level): tiles.product(tiles.all_of(takes, *RELEVANCE))})

    def relevant(self, takes: Takes) -> Count:
        """Values of all places of a tile, in units of the tensor's size."""
        return 1 / self.tiles.product(self.tiles.taken(takes, INDEXING))

    def repeats(self, takes: Takes) -> Count:
        """How often a node has each value."""
        shared = self.tiles.product(self.tiles.taken(takes, REPEATING))
        return Affine({Fills(self.tiles.node(takes)[0]): np.where(shared > 1, 1 / shared, self.excess)})

    def lanes_at_the_end(self, loop: int) -> Count:
        """Lanes of a loop that have a part of the last tile, at least."""
        return 1 if self.may_be_alone else self.tiles.lanes[loop]


@dataclass(frozen=True)
class UnitFills:
    """The traffic of the tensors of an Einsum on one path of an architecture."""

    einsum: Einsum
    arch: Architecture
    leaves: tuple[Leaf, ...]
    lattice: Lattice
    rules: Semantics

    def lanes(self, table: LaneTable, access: TensorAccess) -> Floats:
        """Lanes of each dimension over the axes that index a tensor, then over the others: (uses, 2 * dimensions)."""
        relevance = [access.relevance(axis.variables[0]) for axis in self.lattice.axes]
        repeating = np.array([r is Relevance.NONE for r in relevance], dtype=bool)
        each = np.eye(len(table.dimensions), dtype=bool)
        lanes = [table.over(chosen, axes) for axes in (~repeating, repeating) for chosen in each]
        return np.stack(lanes, axis=1) if lanes else np.ones((len(table), 0))

    def traffic(self, table: LaneTable, lanes: Floats, access: TensorAccess, levels: Sequence[int]) -> TensorTraffic:
        """The traffic of a tensor in stations at some `levels`, outermost first; `lanes`: as above."""
        loops: list[Loop] = []
        stations: list[Station] = []
        for place, level in enumerate(levels):
            unit = self.leaves[level]
            assert isinstance(unit, Memory | Toll | Compute)
            if place and not isinstance(unit, Toll):
                # what is written above a node: all temporal loops there, as one of each kind
                loops += [Loop(variable, 0, None, 2 * place - 1, (level,)) for variable in RELEVANCE]
            stations.append(Station(unit, level, 2 * place, ()))
        used = [number for number, n in enumerate(lanes.T) if (n > 1).any()]
        of_loops: list[Floats | float] = [*(1.0 for _ in loops), *(lanes[:, number] for number in used)]
        for number in used:
            kind, dimension = divmod(number, len(table.dimensions))
            fanned = table.dimensions[dimension]
            loops.append(Loop((INDEXING, REPEATING)[kind], 0, None, -1, (), fanned.level, fanned.dimension))
        of_tensor = {access.tensor: tuple(stations[:-1])}
        path = EinsumPath(self.einsum, self.arch, self.leaves, tuple(loops), of_tensor, stations[-1], {})
        excess, uneven = self.lattice.excess, any(axis.uneven for axis in self.lattice.axes)
        counts = FillCounts(path, access, FillTiles(path, of_loops), excess, uneven)
        return TensorTraffic(path, access, self.rules, counts, {})


def busiest_lanes(traffic: TensorTraffic, at: Station) -> tuple[Fixed, Fixed, Any]:
    """Two lanes of a station, and for which uses the second one has more of the traffic of an exchange.

    The first lane alone takes part for lanes that share a tile. Of lanes that take turns it starts without results,
    where later ones do not.
    """
    counts = traffic.counts
    assert isinstance(counts, FillCounts)
    loops = traffic.path.loops
    fixed = [i for i in traffic.path.spatial_loops if (loops[i].level or 0) <= at.level]
    turns = [i for i in fixed if counts.relevance_of(i) is Relevance.NONE and not counts.merges(loops[i])]
    first = dict.fromkeys(fixed, FIRST)
    if not turns or traffic.semantics.lane_first_touch == "every lane":
        return first, first, False
    return first, {**first, **dict.fromkeys(turns, 1)}, counts.tiles.product(turns) > 1
