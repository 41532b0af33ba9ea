"""The four cases of every storage node (docs/definitions.md, 14), and what is stationary.

A loop above a storage node makes chunks where its rank is in the tensor, and fetches them again where it is not; a
loop below makes the tile, and uses it again. Lanes of spatial loops have buffers of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import product

import numpy as np

from einmap.arch.component import Memory
from einmap.einsum.spaces.projection import Affine, Lookup, Relevance
from einmap.model.counting.path import EinsumPath, Loop, Station, applies
from einmap.model.counting.reuse import Group, Takes, TensorCounts
from einmap.model.counting.tiles import ALL, FIRST, LARGEST, SKIP, number_of
from einmap.model.explanation.values import Kind, LoopUse, NodeCases, Stationary
from einmap.model.traffic.actions import units_with_copies
from einmap.model.traffic.einsum_traffic import EinsumTraffic
from einmap.model.traffic.tensor_traffic import EVERY, Exchange, TensorTraffic

MAX_POSITIONS = 200_000
"""Tiles of windows that are compared to find the distinct ones."""
MAX_CELLS = 5_000_000
"""Elements of the ranks that such windows cover."""

_KINDS: dict[Relevance, Kind] = {
    Relevance.FULL: "relevant",
    Relevance.PARTIAL: "partial",
    Relevance.NONE: "irrelevant",
}


def loop_use(path: EinsumPath, counts: TensorCounts, index: int) -> LoopUse:
    """A loop of the path as a tensor sees it."""
    loop = path.loops[index]
    dimension = None
    if loop.level is not None and loop.dimension is not None:
        dimension = f"{path.leaves[loop.level].name}.{loop.dimension.name}"
    kind = _KINDS[counts.relevance_of(index)]
    return LoopUse(loop.variable, loop.iterations, loop.address, kind, dimension)


def cases_of(traffic: EinsumTraffic) -> Iterator[NodeCases]:
    """For every tensor and storage node of an Einsum, outermost node first; copies have none."""
    if traffic.path.einsum.is_copy:
        return
    for tensor in traffic.tensors:
        for exchange in reversed(tensor.exchanges):
            yield _cases(traffic.path, tensor, exchange)


def _cases(path: EinsumPath, tensor: TensorTraffic, exchange: Exchange) -> NodeCases:
    """`exchange`: the one in which the node is the parent."""
    node, counts = exchange.parent, tensor.counts
    assert isinstance(node.component, Memory)
    above: list[LoopUse] = []
    below: list[LoopUse] = []
    for index, loop in enumerate(path.loops):
        if not loop.absent:
            (above if applies(loop, node) else below).append(loop_use(path, counts, index))
    takes = tensor.takes(node, node, EVERY)
    whole = node is tensor.stations[0]
    outward = next((e.parent for e in tensor.exchanges if e.child is node), None)
    fetches, positions = counts.repeats(takes), positions_of(counts, takes)
    chunks, elements = distinct(counts, takes)
    largest, smallest = _extents(path, counts, node, max), _extents(path, counts, node, min)
    slides = tensor.slides.get(node.position)
    lanes = tuple(LARGEST if take == ALL and not path.loops[i].is_spatial else take for i, take in enumerate(takes))
    return NodeCases(
        einsum=path.einsum.name,
        tensor=tensor.access.tensor,
        component=node.component.name,
        address=node.address,
        backing=outward is None,
        above=tuple(above),
        below=tuple(below),
        visits=fetches * positions,
        fetches=fetches,
        reads=0 if outward is None else counts.repeats(tensor.takes(node, outward, EVERY)),
        lanes=counts.repeats(lanes),
        positions=positions,
        chunks=chunks,
        values=counts.relevant(takes),
        elements=elements,
        ranks=tuple(rank for rank, _ in (tensor.access.written if whole else tensor.access.projection)),
        shape=_shape(tensor, largest, whole),
        smallest=_shape(tensor, smallest, whole),
        bits=math.prod(_shape(tensor, largest, whole)) * node.component.bits[tensor.access.tensor],
        child=exchange.child.component.name,
        held=counts.values(takes),
        used=tensor.moved(exchange.child, tensor.takes(exchange.child, node, EVERY))
        * units_with_copies(tensor, exchange, node),
        kept=counts.values(takes) - tensor.moved(node, takes),
        slides=None if slides is None else path.loops[slides].variable,
    )


def positions_of(counts: TensorCounts, takes: Takes) -> int:
    """Tiles of the relevant and partially relevant loops that are counted."""
    variables = [v for v, r in counts.relevance.items() if r is not Relevance.NONE]
    return math.prod(number_of(counts.tiles.of(v, takes)) for v in variables)


def _extents(
    path: EinsumPath, counts: TensorCounts, node: Station, pick: Callable[[Iterable[int]], int]
) -> dict[str, int]:
    takes = tuple(ALL if applies(loop, node) else SKIP for loop in path.loops)
    return {v: pick(e for e, _ in counts.tiles.of(v, takes)) for v in path.einsum.rank_variables}


def _shape(tensor: TensorTraffic, extents: dict[str, int], whole: bool = False) -> tuple[int, ...]:
    """Length of each rank; `whole`: of a table as it lies outermost, not of the rows that are looked up."""
    written = tensor.access.written if whole else tensor.access.projection
    return tuple(index.size if isinstance(index, Lookup) else index.extent(extents) for _, index in written)


# windows that may overlap


def distinct(counts: TensorCounts, takes: Takes) -> tuple[int | None, int | None]:
    """Distinct tiles, and distinct elements in them; None where there are too many to compare."""
    chunks: int | None = 1
    elements: int | None = 1
    for group in counts.groups:
        tiles, covered = _distinct_in(counts, group, takes)
        chunks = None if chunks is None or tiles is None else chunks * tiles
        elements = None if elements is None or covered is None else elements * covered
    return chunks, elements


def _distinct_in(counts: TensorCounts, group: Group, takes: Takes) -> tuple[int | None, int | None]:
    """Distinct tiles of the indices that share rank variables."""
    if group.is_plain and abs(group.indices[0].terms[0][1]) == 1:
        (variable,) = group.variables
        return number_of(counts.tiles.of(variable, takes)), counts.group_sum(group, takes)
    if math.prod(number_of(counts.tiles.of(v, takes)) for v in group.variables) > MAX_POSITIONS:
        return None, None
    places = {v: _places(counts.path, v, takes) for v in group.variables}
    boxes = {
        tuple(_ends(index, dict(zip(group.variables, chosen, strict=True))) for index in group.indices)
        for chosen in product(*places.values())
    }
    lows = [min(box[i][0] for box in boxes) for i in range(len(group.indices))]
    highs = [max(box[i][1] for box in boxes) for i in range(len(group.indices))]
    size = tuple(high - low + 1 for low, high in zip(lows, highs, strict=True))
    if math.prod(size) > MAX_CELLS:
        return len(boxes), None
    covered = np.zeros(size, dtype=bool)
    for box in boxes:
        covered[tuple(slice(a - low, b - low + 1) for (a, b), low in zip(box, lows, strict=True))] = True
    return len(boxes), int(covered.sum())


def _ends(index: Affine, places: dict[str, tuple[int, int]]) -> tuple[int, int]:
    """First and last value of an index over tiles given by their first value and extent."""
    low = high = index.constant
    for variable, a in index.terms:
        first, extent = places[variable]
        low += min(a * first, a * (first + extent - 1))
        high += max(a * first, a * (first + extent - 1))
    return low, high


def _places(path: EinsumPath, variable: str, takes: Takes) -> list[tuple[int, int]]:
    """First value and extent of every counted tile of a rank variable."""
    places = [(0, path.einsum.extents[variable])]
    for index in path.loops_of[variable]:
        if takes[index] != SKIP:
            loop = path.loops[index]
            places = [tile for start, extent in places for tile in _cut(loop, start, extent, takes[index])]
    return places


def _cut(loop: Loop, start: int, extent: int, take: int) -> list[tuple[int, int]]:
    first = min(extent, loop.shape if loop.initial is None else loop.initial)
    intervals = [(start, first)]
    for begin in range(first, extent, loop.shape) if take == ALL else ():
        intervals.append((start + begin, min(loop.shape, extent - begin)))
    return intervals


# stationarity


def stationary_of(traffic: EinsumTraffic) -> Iterator[Stationary]:
    """Tensors that stay at each level of an Einsum; a level is what stands in time between two storage nodes."""
    path = traffic.path
    if path.einsum.is_copy:
        return
    for number, level in enumerate(levels_of(path)):
        for tensor in traffic.tensors:
            trailing: list[int] = []
            for index in reversed(level):
                if tensor.counts.relevance_of(index) is not Relevance.NONE:
                    break
                trailing.append(index)
            if trailing:
                yield _stationary(path, tensor, number, level, trailing)


def levels_of(path: EinsumPath) -> list[list[int]]:
    """Loops in time of more than one iteration between storage nodes, as indices, outermost first."""
    nodes = [s.position for stations in path.stations.values() for s in stations if isinstance(s.component, Memory)]
    levels: dict[int, list[int]] = {}
    for index, loop in enumerate(path.loops):
        if loop.level is None and not loop.absent:
            levels.setdefault(sum(position < loop.position for position in set(nodes)), []).append(index)
    return list(levels.values())


def _stationary(
    path: EinsumPath, tensor: TensorTraffic, number: int, level: list[int], trailing: list[int]
) -> Stationary:
    end = path.loops[level[-1]].position
    takes = [LARGEST if loop.position <= end else SKIP for loop in path.loops]
    runs = tuple(ALL if i in trailing else take for i, take in enumerate(takes))
    reached = tuple(FIRST if take == SKIP else take for take in runs)
    counts = tensor.counts
    variables = {path.loops[i].variable for i in trailing}
    extents = {v: max(e for e, _ in counts.tiles.of(v, tuple(takes))) for v in path.einsum.rank_variables}
    return Stationary(
        einsum=path.einsum.name,
        level=number,
        loops=tuple(loop_use(path, counts, i) for i in level),
        tensor=tensor.access.tensor,
        stays_for=len(trailing),
        iterations=math.prod(number_of(counts.tiles.of(v, reached)) for v in variables),
        shape=_shape(tensor, extents),
        values=tensor.access.footprint(extents),
    )
