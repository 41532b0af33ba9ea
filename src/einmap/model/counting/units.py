"""A tile in a memory that is several units of an array: which part of it each unit has.

The lanes of the array are grouped by the values of the tensor that they need. Lanes of one *class* need the same ones:
they differ in loops that do not index the tensor. The units that have a lane of a class share its values: each has
them all where the tensor is replicated, else all values that the same units share are dealt out, class by class.

A loop over the array's lanes has *parts*: runs of lanes of one unit.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import ceil, prod

from einmap.arch.component import Memory
from einmap.einsum.spaces.projection import Relevance
from einmap.errors import MappingError, NotSupportedError
from einmap.model.counting.path import EinsumPath, Station, applies
from einmap.model.counting.reuse import TensorCounts
from einmap.model.counting.tiles import LARGEST, SKIP, Count


@dataclass(frozen=True)
class LaneLoop:
    """A loop over the array: lanes of it in one unit (`block`), and places from one of its lanes to the next."""

    index: int
    lanes: int
    stride: int
    block: int
    indexes: bool
    merges: bool
    """Whether its lanes share one copy of a tile."""

    @property
    def parts(self) -> int:
        """Units that its lanes are in."""
        return ceil(self.lanes / self.block)

    @property
    def fullest(self) -> int:
        """Lanes in the first unit."""
        return min(self.lanes, self.block)


@dataclass(frozen=True)
class Spread:
    """One tensor at one station of a memory of several units.

    `loops`: those over the array, by its dimensions in order, the outer ones of each first. `values`: of the largest
    tile. `replicated`: whether every unit that needs values has them.
    """

    loops: tuple[LaneLoop, ...]
    values: Count
    replicated: bool

    @cached_property
    def by_index(self) -> dict[int, LaneLoop]:
        """The loops by their index on the path."""
        return {loop.index: loop for loop in self.loops}

    @property
    def sharing(self) -> tuple[LaneLoop, ...]:
        """The loops whose lanes are alike, in units apart from each other."""
        return tuple(loop for loop in self.loops if not loop.indexes and loop.parts > 1)

    @property
    def of_class(self) -> Count:
        """Values of one class in the largest tile."""
        return self.values // prod(loop.lanes for loop in self.loops if loop.indexes)

    @property
    def holders(self) -> int:
        """Units that share a class."""
        return prod(loop.parts for loop in self.sharing)

    @property
    def fullest(self) -> Count:
        """Values of the largest tile in the fullest unit, which is the first one."""
        classes = prod(loop.fullest for loop in self.loops if loop.indexes)
        return classes * self.of_class if self.replicated else -(-classes * self.of_class // self.holders)

    @property
    def copies(self) -> int:
        """How many units have a value."""
        return self.holders if self.replicated else 1

    @property
    def readers(self) -> int:
        """How often a value is read where a memory of one unit reads it once: units of lanes that share it."""
        return prod(loop.parts for loop in self.sharing if loop.merges) if self.replicated else 1

    def dealt(self, classes: int, parts: Mapping[int, int]) -> Count:
        """Of the values of one class, how many lie in these parts of `sharing` loops (by index).

        `classes`: those before it that the same units share.
        """
        found: Count = 0
        for at, values in self.by_unit(classes):
            if all(parts.get(loop.index, part) == part for loop, part in zip(self.sharing, at, strict=True)):
                found = found + values
        return found

    def by_unit(self, classes: int) -> Iterator[tuple[tuple[int, ...], Count]]:
        """For each unit that shares a class, as parts of `sharing` loops, how many values of it are dealt to it.

        `classes`: those before it that the same units share.
        """
        first = classes * self.of_class
        for number, at in enumerate(product(*(range(loop.parts) for loop in self.sharing))):
            yield at, self._up_to(first + self.of_class, number) - self._up_to(first, number)

    def _up_to(self, values: Count, number: int) -> Count:
        """Of the first so many values that units share those that lie in the unit of that number."""
        return (values - number + self.holders - 1) // self.holders


def spread_of(path: EinsumPath, counts: TensorCounts, station: Station) -> Spread | None:
    """Where the tile of a station lies; None in a memory of one unit.

    Raises MappingError where units and lanes do not fit, NotSupportedError for tiles that lanes do not cut evenly or
    whose values are not used alike.
    """
    memory = station.component
    if not isinstance(memory, Memory) or not memory.is_spread:
        return None
    level = next(i for i, leaf in enumerate(path.leaves) if leaf.name == memory.array)
    loops: list[LaneLoop] = []
    for units in memory.units:
        along = [
            i
            for i in path.spatial_loops
            if path.loops[i].level == level and _name(path, i) == units.name and not path.loops[i].absent
        ]
        for place, index in enumerate(along):
            stride = prod(path.loops[i].iterations for i in along[place + 1 :])
            if stride % units.stride and units.stride % stride:
                raise MappingError(
                    f"Einsum {path.einsum.name!r}: lanes of the loop over {path.loops[index].variable!r} stand "
                    f"{stride} places apart in {memory.array}.{units.name}, where each unit of {memory.name!r} serves "
                    f"{units.stride}: one of the two numbers has to divide the other"
                )
            block = max(1, units.stride // stride)
            relevance = counts.relevance_of(index)
            loops.append(
                LaneLoop(
                    index,
                    path.loops[index].iterations,
                    stride,
                    min(block, path.loops[index].iterations),
                    relevance is not Relevance.NONE,
                    counts.merges(path.loops[index]),
                )
            )
    takes = tuple(LARGEST if applies(loop, station) else SKIP for loop in path.loops)
    found = Spread(tuple(loops), counts.tile_values(takes), counts.access.tensor in memory.replicate)
    _check(path, counts, memory, found)
    return found


def _name(path: EinsumPath, index: int) -> str:
    dimension = path.loops[index].dimension
    assert dimension is not None
    return dimension.name


def _check(path: EinsumPath, counts: TensorCounts, memory: Memory, spread: Spread) -> None:
    plain = {g.variables[0] for g in counts.groups if g.is_plain and abs(g.indices[0].terms[0][1]) == 1}
    over = {path.loops[loop.index].variable for loop in spread.loops}
    uneven = _uneven(path) & (over | counts.access.variables)
    if path.einsum.is_copy:
        _refuse(path, memory, counts, "a copy Einsum moves it")
    if counts.access.gathered:
        _refuse(path, memory, counts, "its rows are looked up, so that nobody knows which lanes need them")
    if spread.loops and uneven:
        _refuse(path, memory, counts, f"tile shapes of {sorted(uneven)[0]!r} do not divide evenly")
    if any(loop.indexes and path.loops[loop.index].variable not in plain for loop in spread.loops):
        _refuse(path, memory, counts, "lanes need parts of it that overlap or leave values out")
    if spread.holders > 1 and not spread.replicated and len(plain) < len(counts.groups):
        _refuse(path, memory, counts, "units share values of which some are used more often than others")
    if spread.holders > 1 and spread.replicated and counts.access.output:
        _refuse(path, memory, counts, "it is an output that units would have copies of", field="replicate")


def _uneven(path: EinsumPath) -> set[str]:
    """Rank variables of which some tile shape does not divide the one outside it."""
    uneven: set[str] = set()
    left = dict(path.einsum.bounds)
    for loop in path.loops:
        if loop.divides:
            continue
        if loop.initial is not None or left[loop.variable] % loop.shape:
            uneven.add(loop.variable)
        left[loop.variable] = loop.shape
    return uneven


def _refuse(path: EinsumPath, memory: Memory, counts: TensorCounts, why: str, field: str = "") -> None:
    """Raise NotSupportedError. `field`: of the memory that asks for it; else it follows from the mapping."""
    raise NotSupportedError(
        f"{counts.access.tensor!r} of Einsum {path.einsum.name!r} in the units of {memory.name!r}: {why}; that is not "
        "supported",
        hint=f"leave it out of {field}" if field else f"bypass {memory.name}, or give it one unit",
        about=memory.name if field else None,
        field=field,
    )


type Where = tuple[object, ...]


def placement_of(path: EinsumPath, counts: TensorCounts, spread: Spread) -> Iterator[Where]:
    """Key of the units in which values lie: equal for Einsums that find the values in the same units."""
    ranks = {v: rank for rank, index in counts.access.projection for v, _ in index.terms}
    for loop in spread.loops:
        on_path = path.loops[loop.index]
        if loop.indexes:
            before = [path.loops[i].shape for i in path.loops_of[on_path.variable] if i < loop.index]
            extent = before[-1] if before else path.einsum.extents[on_path.variable]
            yield ranks[on_path.variable], extent, on_path.shape, on_path.level, _name(path, loop.index), loop.stride
        elif loop.parts > 1:
            yield "", loop.parts, loop.block, on_path.level, _name(path, loop.index), loop.stride
