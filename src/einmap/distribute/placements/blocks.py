"""In which blocks ranks and rank variables may be split: equally, and as what they are indexed by or index is split.

A variable `h` of 6 values over 4 PEs has blocks of 2; the rank `16*h + f` then has blocks of 32, though 96 coordinates
alone would be cut in blocks of 24. Both are offered, for the rank as well as for what reads it. Where a rank is read
through a window such as `p + r`, `p` may have the blocks of the rank, and the rank those of `p` with a halo.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Literal

from einmap.distribute.placements.indices import mixed_radix, window
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import Placement, Split, block_of
from einmap.einsum.einsum import TensorName
from einmap.einsum.spaces.projection import Rank, RankVar
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


@dataclass(frozen=True, slots=True)
class _Window:
    """A rank that is read at `factor*v + ...`, up to `halo` coordinates beyond the block of `v`."""

    rank: tuple[TensorName, Rank]
    variable: tuple[str, RankVar]
    factor: int
    halo: int


@dataclass(frozen=True, slots=True)
class Offer:
    """Which splits are offered. `halos`: windows in blocks with halos; `order`: a rank may be split over axes in
    `every` order, over some of them in that of the `mesh`, over one of them or the first ones (`single`), or over the
    first ones alone (`nested`); `also`: axes that are asked for.
    """

    halos: bool = True
    order: Literal["every", "mesh", "single", "nested"] = "every"
    also: tuple[tuple[AxisName, ...], ...] = ()

    def chains(self, mesh: Mesh) -> list[tuple[AxisName, ...]]:
        """The axes of a split, in their order; with each chain those that it begins with."""
        every = _axis_chains(mesh)
        axes = [name for name, size in mesh.axes if size > 1]
        if self.order == "every":
            return every
        made = [tuple(axes[:count]) for count in range(1, len(axes) + 1)]
        if self.order == "mesh":
            made = [chain for chain in every if list(chain) == [axis for axis in axes if axis in chain]]
        elif self.order == "single":
            made = [(axis,) for axis in axes] + made[1:]
        asked = (axes[:count] for axes in self.also for count in range(1, len(axes) + 1))
        return list(dict.fromkeys((*made, *asked)))


def offered_blocks(
    workload: Workload,
    mesh: Mesh,
    sizes: Mapping[TensorName, Mapping[Rank, int]],
    placements: Iterable[tuple[TensorName, Placement]] = (),
    imperfect: bool = True,
    offer: Offer | None = None,
) -> Blocks:
    """All blocks that may serve; `placements`: those that are asked for. Without `imperfect`, even ones alone. `offer`:
    which of them, all if None.
    """
    offer = offer or Offer()
    extents: dict[tuple[str, RankVar], int] = {
        (einsum.name, variable): extent for einsum in workload.einsums for variable, extent in einsum.bounds
    }
    lengths = {(tensor, rank): size for tensor, ranks in sizes.items() for rank, size in ranks.items()}
    chains = offer.chains(mesh)
    counts = sorted({mesh.parts(axes) for axes in chains})
    of_rank: dict[tuple[TensorName, Rank], dict[_Even, None]] = {
        key: dict.fromkeys((count, block_of(size, count)) for count in counts if size > 1)
        for key, size in lengths.items()
    }
    of_variable: dict[tuple[str, RankVar], dict[_Even, None]] = {
        key: dict.fromkeys((count, block_of(extent, count)) for count in counts if extent > 1)
        for key, extent in extents.items()
    }
    asked: dict[tuple[TensorName, Rank], list[Split]] = {}
    for tensor, placement in placements:
        for split in placement.splits:
            asked.setdefault((tensor, split.rank), []).append(split)
            if mesh.parts(split.axes) * split.block >= lengths[tensor, split.rank]:
                of_rank[tensor, split.rank][mesh.parts(split.axes), split.block] = None
    links, windows = list(_links(workload)), list(_windows(workload)) if offer.halos else []
    _spread(links, of_rank, of_variable, lengths, extents)
    if windows:
        # once: blocks of a chain of convolutions would become more with each of them
        _through_windows(windows, of_rank, of_variable, lengths, extents)
        _spread(links, of_rank, of_variable, lengths, extents)
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
    with_halos = {key: [split for split in some if split.halo] for key, some in asked.items()}
    for one in windows:
        with_halos.setdefault(one.rank, []).extend(
            Split(one.rank[1], axes, block * one.factor, one.halo) for axes, block in parts[one.variable]
        )
    for key, some in with_halos.items():
        grown = [replace(split, halo=halo) for split in some for halo in _halos(split)]
        fitting = [split for split in grown if split.room < lengths[key] and split.covers(lengths[key], mesh)]
        splits[key] = tuple(dict.fromkeys((*splits[key], *fitting)))
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


def windowed(workload: Workload) -> Iterator[tuple[TensorName, Rank]]:
    """Ranks that are read through windows, which a split variable leads."""
    return (one.rank for one in _windows(workload))


def _windows(workload: Workload) -> Iterator[_Window]:
    for einsum in workload.einsums:
        for access in einsum.accesses:
            for rank, index in access.projection if not access.output else ():
                for variable, _ in index.terms if mixed_radix(einsum, index) is None else ():
                    if (found := window(einsum, index, {variable})) is not None:
                        yield _Window((access.tensor, rank), (einsum.name, variable), *found[1:])


def _through_windows(
    windows: list[_Window],
    of_rank: Mapping[tuple[TensorName, Rank], dict[_Even, None]],
    of_variable: Mapping[tuple[str, RankVar], dict[_Even, None]],
    lengths: Mapping[tuple[TensorName, Rank], int],
    extents: Mapping[tuple[str, RankVar], int],
) -> None:
    """Blocks of ranks that are read through windows for the variables that lead there, and back."""
    ranks = {one.rank: list(of_rank[one.rank]) for one in windows}
    for one in windows:
        blocks = of_variable[one.variable]
        for count, block in ranks[one.rank]:
            if count * -(-block // one.factor) >= extents[one.variable] > 1:
                blocks[count, -(-block // one.factor)] = None
        for count, block in list(blocks):
            if count * block * one.factor >= lengths[one.rank]:
                of_rank[one.rank][count, block * one.factor] = None


def _halos(split: Split) -> list[int]:
    """The halo of a split, and those on the way there: each is larger by a block at most and comes from the next PE."""
    return [*range(split.block, split.halo, split.block), split.halo] if split.halo else []


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
