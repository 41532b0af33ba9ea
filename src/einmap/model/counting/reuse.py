"""How often a tile of one tensor is visited, and how many values that moves.

`TensorCounts` answers, for one tensor on one path: the sum of tile footprints over chosen iterations of the
loops. Rank variables that share no index are independent, so every answer is a product of small sums.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod

from einmap.einsum.einsum import TensorAccess
from einmap.einsum.spaces.projection import Affine, Relevance
from einmap.model.counting.path import EinsumPath, Loop, last_tile
from einmap.model.counting.tiles import FIRST, SKIP, Count, Steps, Take, Tiles, cut, cut_steps, number_of, steps_of

type Takes = tuple[Take, ...]
"""For each loop of the path, which of its iterations are counted."""


@dataclass(frozen=True)
class Group:
    """Indices that share rank variables, and these variables."""

    indices: tuple[Affine, ...]
    variables: tuple[str, ...]

    @property
    def is_plain(self) -> bool:
        """Whether tiles of different visits never overlap: one variable in one index."""
        return len(self.variables) == 1 and len(self.indices) == 1

    @property
    def is_dense(self) -> bool:
        """Whether inner tiles leave no holes in outer ones: one index with unit coefficients."""
        return len(self.indices) == 1 and all(abs(a) == 1 for _, a in self.indices[0].terms)


def groups_of(access: TensorAccess) -> tuple[Group, ...]:
    """The indices of a tensor, those together that share rank variables."""
    groups: list[tuple[list[Affine], set[str]]] = []
    for _, index in access.projection:
        variables = {v for v, _ in index.terms}
        joined = [g for g in groups if g[1] & variables]
        groups = [g for g in groups if not g[1] & variables]
        merged = (
            [i for g in joined for i in g[0]] + [index],
            set().union(variables, *(g[1] for g in joined)),
        )
        groups.append(merged)
    return tuple(Group(tuple(i), tuple(sorted(v))) for i, v in groups if v)


class VariableTiles:
    """The tiles of each rank variable of a path, remembered."""

    def __init__(self, path: EinsumPath) -> None:
        self.path = path
        self._tiles: dict[tuple[str, Takes], Tiles] = {}

    def of(self, variable: str, takes: Takes) -> Tiles:
        """Tiles of `variable` under its loops; `takes` has one entry for each loop of the path."""
        loops = self.path.loops_of[variable]
        chosen = [takes[i] for i in loops]
        while chosen and chosen[-1] == SKIP:
            chosen.pop()
        return self._prefix(variable, loops, tuple(chosen))

    def steps(self, takes: Takes, loop: int) -> Steps:
        """Pairs of consecutive iterations of the temporal loop `loop`, as tiles of its variable under `takes`."""
        variable = self.path.loops[loop].variable
        loops = self.path.loops_of[variable]
        at = loops.index(loop)
        outside = self._prefix(variable, loops, tuple(takes[i] for i in loops[:at]))
        steps = steps_of(outside, self.path.loops[loop].shape, self.path.loops[loop].initial)
        for i in loops[at + 1 :]:
            steps = cut_steps(steps, self.path.loops[i].shape, takes[i])
        return steps

    def visits(self, takes: Takes) -> Count:
        """How many tiles there are of all variables together; a loop that is skipped counts once."""
        once = tuple(FIRST if t == SKIP else t for t in takes)
        total: Count = 1
        for variable in self.path.einsum.rank_variables:
            total = total * number_of(self.of(variable, once))
        return total

    def _prefix(self, variable: str, loops: tuple[int, ...], chosen: Takes) -> Tiles:
        key = (variable, chosen)
        tiles = self._tiles.get(key)
        if tiles is None:
            # from the longest beginning that is known on: there may be more loops than Python may nest calls
            n = next((n for n in range(len(chosen), 0, -1) if (variable, chosen[:n]) in self._tiles), 0)
            tiles = self._tiles[variable, chosen[:n]] if n else [(self.path.einsum.extents[variable], 1)]
            for end in range(n + 1, len(chosen) + 1):
                loop = self.path.loops[loops[end - 1]]
                tiles = cut(tiles, loop.shape, loop.initial, chosen[end - 1], loop.divides)
                self._tiles[variable, chosen[:end]] = tiles
            self._tiles[key] = tiles
        return tiles


@dataclass
class TensorCounts:
    """Counting for one tensor on one path."""

    path: EinsumPath
    access: TensorAccess
    tiles: VariableTiles
    relevance: dict[str, Relevance] = field(init=False)

    def __post_init__(self) -> None:
        self.relevance = {v: self.access.relevance(v) for v in self.path.einsum.rank_variables}
        self._footprints: dict[Takes, Count] = {}
        self._groups = groups_of(self.access)
        self._irrelevant = tuple(v for v, r in self.relevance.items() if r is Relevance.NONE)
        self._loop_relevance = tuple(self.relevance[loop.variable] for loop in self.path.loops)

    def relevance_of(self, loop: int) -> Relevance:
        """Relation of the loop's variable to the tensor."""
        return self._loop_relevance[loop]

    def merges(self, loop: Loop) -> bool:
        """Whether the lanes of a spatial loop use one copy of the tensor's tile."""
        assert loop.dimension is not None
        irrelevant = self.relevance[loop.variable] is Relevance.NONE
        return irrelevant and self.access.tensor in loop.dimension.may_reuse

    def lanes_at_the_end(self, loop: int) -> Count:
        """Lanes of a spatial loop that have a part of its variable's last tile, in time and in the loops outside."""
        extent: Count = self.path.einsum.extents[self.path.loops[loop].variable]
        lanes: Count = 1
        for index in self.path.loops_of[self.path.loops[loop].variable]:
            lanes, extent = last_tile(extent, self.path.loops[index])
            if index == loop:
                break
        return lanes

    def values(self, takes: Takes, slides: int | None = None) -> Count:
        """Footprints summed over the counted iterations: values moved when each visit moves its tile.

        `slides`: the temporal loop whose next iteration keeps what it needs of the tile before.
        """
        footprints = self.relevant(takes)
        if slides is not None:
            footprints = footprints - self.kept(takes, slides)
        return footprints * self.repeats(takes)

    def kept(self, takes: Takes, loop: int) -> int:
        """The part of `relevant` that the iteration of `loop` before had too."""
        variable = self.path.loops[loop].variable
        total: Count = 1
        for group in self._groups:
            shares = variable in group.variables
            total = total * (self.group_kept(group, takes, loop) if shares else self._group_sum(group, takes))
        return int(total)

    def group_kept(self, group: Group, takes: Takes, loop: int) -> int:
        """Values of one group of indices that consecutive tiles have in common, added up.

        A tile of extent `before` and the next one, which begins `step` values later, share
        `a * (before - 1) + width - a * step` indices of `a*p + ...`, `width` being the extent over the other variables.
        """
        variable = self.path.loops[loop].variable
        others = tuple(v for v in group.variables if v != variable)
        steps = self.tiles.steps(takes, loop)
        total = 0
        for chosen in product(*(self.tiles.of(v, takes) for v in others)):
            extents = {variable: 1, **{v: extent for v, (extent, _) in zip(others, chosen, strict=True)}}
            times = prod(count for _, count in chosen)
            widths = [(index.extent(extents), abs(dict(index.terms).get(variable, 0))) for index in group.indices]
            for before, _, step, count in steps:
                total += times * count * prod(max(0, width - a * (step - before + 1)) for width, a in widths)
        return total

    def repeats(self, takes: Takes) -> Count:
        """Iterations of the irrelevant loops; one below the point counts once."""
        total: Count = 1
        # a loop below is not a tile boundary for an irrelevant variable, whatever stands inside it
        once = tuple(FIRST if t == SKIP else t for t in takes)
        for variable in self._irrelevant:
            total = total * number_of(self.tiles.of(variable, once))
        return total

    def relevant(self, takes: Takes) -> Count:
        """Footprints summed over the counted iterations of relevant and partially relevant loops."""
        footprints = self._footprints.get(takes)
        if footprints is None:
            footprints = self._footprints[takes] = self._relevant(takes)
        return footprints

    def _relevant(self, takes: Takes) -> Count:
        total: Count = 1
        for group in self._groups:
            total = total * self._group_sum(group, takes)
        return total

    def _group_sum(self, group: Group, takes: Takes) -> Count:
        if len(group.variables) == 1 and len(group.indices) == 1:
            ((_, a),) = group.indices[0].terms
            total: Count = 0
            for extent, count in self.tiles.of(group.variables[0], takes):
                total = total + (extent if abs(a) == 1 else abs(a) * (extent - 1) + 1) * count
            return total
        return self._joint(group, takes, 0, {}, 1)

    def _joint(self, group: Group, takes: Takes, at: int, extents: dict[str, Count], count: Count) -> Count:
        if at == len(group.variables):
            for index in group.indices:
                count = count * index.extent(extents)
            return count
        variable = group.variables[at]
        total: Count = 0
        for extent, times in self.tiles.of(variable, takes):
            total = total + self._joint(group, takes, at + 1, {**extents, variable: extent}, count * times)
        return total

    def tile_values(self, takes: Takes) -> Count:
        """Footprint of the one tile that `takes` leaves (no ALL in it)."""
        return self.relevant(takes)

    # elements, not visits

    @property
    def groups(self) -> tuple[Group, ...]:
        """Indices that share no rank variable with those of other groups."""
        return self._groups

    def group_sum(self, group: Group, takes: Takes) -> Count:
        """The part of `relevant` that the indices of one group give."""
        return self._group_sum(group, takes)
