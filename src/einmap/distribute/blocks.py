"""In which blocks ranks and rank variables may be split: equally, and as what they are indexed by or index is split.

A variable `h` of 6 values over 4 PEs has blocks of 2; the rank `16*h + f` then has blocks of 32, though 96 coordinates
alone would be cut in blocks of 24. Both are offered, for the rank as well as for what reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import permutations

from einmap.distribute.indices import mixed_radix
from einmap.distribute.mesh import AxisName, Mesh
from einmap.distribute.placement import Placement, Split, block_of
from einmap.einsum.einsum import TensorName
from einmap.einsum.projection import Rank, RankVar
from einmap.einsum.workload import Workload

type Part = tuple[tuple[AxisName, ...], int]
"""Axes that a rank variable is split over, and its values per PE."""
type _Even = tuple[int, int]
"""A number of parts, and the values of each."""


@dataclass(frozen=True)
class Blocks:
    """`splits`: of each rank of each tensor; `parts`: of each rank variable of each Einsum."""

    splits: Mapping[tuple[TensorName, Rank], tuple[Split, ...]]
    parts: Mapping[tuple[str, RankVar], tuple[Part, ...]]


@dataclass(frozen=True, slots=True)
class _Link:
    """A rank whose index a variable leads: coordinate `factor*v + ...`."""

    rank: tuple[TensorName, Rank]
    variable: tuple[str, RankVar]
    factor: int


def offered_blocks(
    workload: Workload,
    mesh: Mesh,
    sizes: Mapping[TensorName, Mapping[Rank, int]],
    placements: Iterable[tuple[TensorName, Placement]] = (),
    imperfect: bool = True,
) -> Blocks:
    """All blocks that may serve; `placements`: those that are asked for. Without `imperfect`, even ones alone."""
    extents: dict[tuple[str, RankVar], int] = {
        (einsum.name, variable): extent for einsum in workload.einsums for variable, extent in einsum.bounds
    }
    lengths = {(tensor, rank): size for tensor, ranks in sizes.items() for rank, size in ranks.items()}
    chains = _axis_chains(mesh)
    counts = sorted({mesh.parts(axes) for axes in chains})
    of_rank: dict[tuple[TensorName, Rank], dict[_Even, None]] = {
        key: dict.fromkeys((count, block_of(size, count)) for count in counts if size > 1)
        for key, size in lengths.items()
    }
    of_variable: dict[tuple[str, RankVar], dict[_Even, None]] = {
        key: dict.fromkeys((count, block_of(extent, count)) for count in counts if extent > 1)
        for key, extent in extents.items()
    }
    for tensor, placement in placements:
        for split in placement.splits:
            of_rank[tensor, split.rank][mesh.parts(split.axes), split.block] = None
    _spread(list(_links(workload)), of_rank, of_variable, lengths, extents)
    splits = {
        (tensor, rank): tuple(
            Split(rank, axes, block)
            for axes, block in _chained(mesh, chains, evens, None if imperfect else lengths[tensor, rank])
        )
        for (tensor, rank), evens in of_rank.items()
    }
    first = {(einsum.name, variable) for einsum in workload.einsums for variable, low in einsum.first_values if low}
    parts = {
        key: () if key in first else tuple(_chained(mesh, chains, evens, None if imperfect else extents[key]))
        for key, evens in of_variable.items()
    }
    return Blocks(splits, parts)


def _axis_chains(mesh: Mesh) -> list[tuple[AxisName, ...]]:
    """Some of the axes along which there is more than one PE, in every order."""
    axes = [name for name, size in mesh.axes if size > 1]
    return [chain for count in range(1, len(axes) + 1) for chain in permutations(axes, count)]


def _links(workload: Workload) -> Iterator[_Link]:
    for einsum in workload.einsums:
        for access in einsum.accesses:
            for rank, index in access.projection:
                radix = mixed_radix(einsum, index)
                if radix is not None and radix.leading is not None:
                    variable, factor = radix.leading
                    yield _Link((access.tensor, rank), (einsum.name, variable), factor)


def _spread(
    links: list[_Link],
    of_rank: Mapping[tuple[TensorName, Rank], dict[_Even, None]],
    of_variable: Mapping[tuple[str, RankVar], dict[_Even, None]],
    lengths: Mapping[tuple[TensorName, Rank], int],
    extents: Mapping[tuple[str, RankVar], int],
) -> None:
    """Carry blocks from variables to the ranks that they lead in, and back, until nothing is new."""
    waiting = dict.fromkeys(links)
    by_end: dict[object, list[_Link]] = {}
    for link in links:
        by_end.setdefault(link.rank, []).append(link)
        by_end.setdefault(link.variable, []).append(link)
    while waiting:
        link = next(iter(waiting))
        del waiting[link]
        ranks, variables = of_rank[link.rank], of_variable[link.variable]
        before = len(ranks), len(variables)
        for count, block in list(variables):
            if count * block * link.factor >= lengths[link.rank]:
                ranks[count, block * link.factor] = None
        for count, block in list(ranks):
            if block % link.factor == 0 and count * block // link.factor >= extents[link.variable]:
                variables[count, block // link.factor] = None
        if (len(ranks), len(variables)) != before:
            waiting |= dict.fromkeys([*by_end[link.rank], *by_end[link.variable]])


def _chained(
    mesh: Mesh, chains: list[tuple[AxisName, ...]], evens: Iterable[_Even], even_size: int | None = None
) -> Iterator[Part]:
    """Blocks over axes, and those over their first axes alone, each once. `even_size`: it must divide into them."""
    seen: dict[Part, None] = {}
    for axes in chains:
        for count, block in evens:
            if count == mesh.parts(axes) and even_size in (None, count * block):
                for end in range(len(axes), 0, -1):
                    seen[axes[:end], block * mesh.parts(axes[end:])] = None
    yield from seen


def all_splits(mesh: Mesh, sizes: Iterable[tuple[Rank, int]], asked: Iterable[Split] = ()) -> tuple[Split, ...]:
    """Splits of ranks in equal blocks over the axes in every order, and those that are asked for, with what they nest
    in.
    """
    chains = _axis_chains(mesh)
    evens: dict[Rank, dict[_Even, None]] = {
        rank: dict.fromkeys((mesh.parts(axes), block_of(size, mesh.parts(axes))) for axes in chains if size > 1)
        for rank, size in sizes
    }
    for split in asked:
        evens[split.rank][mesh.parts(split.axes), split.block] = None
    return tuple(Split(rank, *part) for rank, blocks in evens.items() for part in _chained(mesh, chains, blocks))
