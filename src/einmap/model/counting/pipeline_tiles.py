"""The tiles of a Pipeline: how many go through, in which order, and which loops make them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from einmap.mapping.nodes import Address
from einmap.mapping.pipelines import PlacedPipeline
from einmap.model.counting.path import EinsumPath, Loop

type Row = tuple[Loop, ...]
"""One loop as each Einsum below it meets it."""
type Visit = tuple[int, ...]
"""Iterations of loops, outermost first."""


@dataclass(frozen=True)
class Tiles:
    """The tiles of a Pipeline in order, those in the middle of a long loop by one of them.

    `loops`: the loops of more than one iteration that make them; `visits`: iterations of these; `count`: of all tiles.
    """

    loops: tuple[Address, ...]
    visits: tuple[Visit, ...]
    count: int


def tiles_of(pipeline: PlacedPipeline, paths: Mapping[str, EinsumPath]) -> Tiles:
    """The tiles that go through a Pipeline each time that it runs; there is a tile where any Einsum has one.

    Of loops with many iterations the first ones and the last one are listed: as many as are under way at a time.
    """
    # the loops above the Pipeline are the same nodes for every Einsum
    above = [
        [loop for loop in paths[name].loops if pipeline.address[: len(loop.address) - 1] == loop.address[:-1]]
        for name in pipeline.stage_of
    ]
    rows = list(zip(*([loop for loop in mine if loop.address < pipeline.address] for mine in above), strict=True))
    turning = tuple(row[0].address for row in rows if _makes_tiles(row, pipeline))
    visits, count = [], 0
    for visit, weight in _walk(rows, [dict(paths[name].einsum.bounds) for name in pipeline.stage_of], pipeline):
        visits.append(visit)
        count += weight
    return Tiles(turning, tuple(visits), count)


def _makes_tiles(row: Row, pipeline: PlacedPipeline) -> bool:
    is_temporal = not row[0].is_spatial and pipeline.beside(row[0].address)
    return is_temporal and max(loop.iterations for loop in row) > 1


def _walk(rows: list[Row], extents: list[dict[str, int]], pipeline: PlacedPipeline) -> Iterator[tuple[Visit, int]]:
    """Tiles by the iterations of the loops left, and how many each stands for."""
    if not rows:
        if any(all(n > 0 for n in known.values()) for known in extents):
            yield (), 1
        return
    row, most = rows[0], pipeline.depth + 2
    if not _makes_tiles(row, pipeline):
        cut = [
            {**known, loop.variable: _largest(loop, known[loop.variable])}
            for loop, known in zip(row, extents, strict=True)
        ]
        yield from _walk(rows[1:], cut, pipeline)
        return
    longest = max(loop.iterations for loop in row)
    for i in range(longest) if longest <= most + 1 else (*range(most), longest - 1):
        inside = [
            {**known, loop.variable: _extent(loop, known[loop.variable], i)}
            for loop, known in zip(row, extents, strict=True)
        ]
        weight = longest - most if longest > most + 1 and i == 1 else 1
        for visit, times in _walk(rows[1:], inside, pipeline):
            yield (i, *visit), times * weight


def _largest(loop: Loop, extent: int) -> int:
    """Values of the rank variable that the fullest iteration has."""
    return max(_extent(loop, extent, 0), _extent(loop, extent, 1))


def _extent(loop: Loop, extent: int, iteration: int) -> int:
    """Values of the rank variable that an iteration has."""
    first = min(extent, int(loop.shape if loop.initial is None else loop.initial))
    if iteration == 0:
        return first
    return max(0, min(int(loop.shape), extent - first - (iteration - 1) * int(loop.shape)))
