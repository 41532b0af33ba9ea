"""Windows that overlap: what Timeloop counts once and einmap more often, said of each storage node of a mapping."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from einmap.einsum.spaces.projection import Relevance, relevance
from einmap.frontends.timeloop.levels import Level
from einmap.frontends.timeloop.problem import DataSpace, Problem


@dataclass(frozen=True, slots=True)
class Loop:
    """A loop of more than one iteration; `axis`: of a fanout, None for one in time."""

    level: Level
    dimension: str
    iterations: int
    axis: str | None = None


@dataclass(frozen=True, slots=True)
class Hold:
    """A storage node: what a level holds, in front of the loop number `position`."""

    level: Level
    space: DataSpace
    position: int
    slides: bool


def relevance_of(problem: Problem, space: DataSpace, loop: Loop) -> Relevance:
    """Whether a loop changes which part of a data space is used, and whether parts in a row overlap."""
    projection = tuple((str(i), index) for i, index in enumerate(space.indices))
    return relevance(projection, problem.variables[loop.dimension])


def overlaps(problem: Problem, levels: Sequence[Level], loops: Sequence[Loop], holds: Sequence[Hold]) -> Iterator[str]:
    """Notes on what is counted otherwise: lanes with values in common, and line buffers that begin anew.

    `levels` and `loops` outermost first, `holds` of each data space as well.
    """
    order = {level.name: place for place, level in enumerate(levels)}
    for place, hold in enumerate(holds):
        if place and holds[place - 1].space is hold.space:
            yield from _lanes(problem, order, loops, hold, holds[place - 1])
            yield from _windows(problem, order, loops, hold)


def _lanes(
    problem: Problem, order: Mapping[str, int], loops: Sequence[Loop], hold: Hold, parent: Hold
) -> Iterator[str]:
    """Lanes between a node and its parent that fetch some values together."""
    own, outer = order[hold.level.name], order[parent.level.name]
    # lanes spread all levels further in, wherever their loops stand
    between = [
        loop
        for loop in loops
        if loop.axis is not None
        and outer < order[loop.level.name] < own
        and relevance_of(problem, hold.space, loop) is not Relevance.NONE
    ]
    below = loops[hold.position :]
    inside = _extents(problem, [loop for loop in below if loop.axis is None or order[loop.level.name] > own])
    around = dict(inside)
    for loop in between:
        around[problem.variables[loop.dimension]] *= loop.iterations
    lanes = math.prod(loop.iterations for loop in between)
    each, different = _size(hold.space, inside), _size(hold.space, around)
    if lanes * each > different:
        names = " and ".join(dict.fromkeys(loop.dimension for loop in between))
        yield (
            f"{lanes} lanes over {names} fetch {lanes * each} values of {hold.space.tensor} at a time into "
            f"{hold.level.name}, of which {different} differ: Timeloop reads a value once for all lanes that use it, "
            "here it is read for each of them"
        )


def _windows(problem: Problem, order: Mapping[str, int], loops: Sequence[Loop], hold: Hold) -> Iterator[str]:
    """A window that is fetched whole though it moves by less than it is long."""
    tensor, memory = hold.space.tensor, hold.level.name
    above = [
        loop
        for loop in loops[: hold.position]
        if loop.axis is None and relevance_of(problem, hold.space, loop) is not Relevance.NONE
    ]
    if not above or relevance_of(problem, hold.space, above[-1]) is not Relevance.PARTIAL:
        return
    moving, own = above[-1], order[memory]
    if hold.slides:
        if len(above) > 1 and above[-2].dimension == moving.dimension:
            yield (
                f"two loops over {moving.dimension} move the window of {tensor} in {memory}: Timeloop counts what is "
                "new in it alone, here it is fetched whole whenever the outer loop goes on"
            )
        return
    inside = _extents(problem, [lp for lp in loops[hold.position :] if lp.axis is None or order[lp.level.name] > own])
    around = dict(inside)
    around[problem.variables[moving.dimension]] *= moving.iterations
    whole, different = _size(hold.space, inside) * moving.iterations, _size(hold.space, around)
    if whole > different:
        yield (
            f"a loop inside of that over {moving.dimension} leaves the window of {tensor} in {memory} in place: each "
            f"window is fetched whole, {whole} values in place of {different}, as outputs of Timeloop have it; "
            "with sliding_window: true at the storage node only what is new is"
        )


def _extents(problem: Problem, loops: Sequence[Loop]) -> dict[str, int]:
    """Iterations of all `loops` together, by rank variable."""
    extents = dict.fromkeys(problem.variables.values(), 1)
    for loop in loops:
        extents[problem.variables[loop.dimension]] *= loop.iterations
    return extents


def _size(space: DataSpace, extents: Mapping[str, int]) -> int:
    """Values of a data space that a box of rank variables uses, from the first to the last of each rank."""
    return math.prod(
        sum(abs(factor) * (extents[variable] - 1) for variable, factor in index.terms) + 1 for index in space.indices
    )
