"""Moves by collectives: sums, blocks joined, blocks cut."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from einmap.distribute.hops.hop import Hop
from einmap.distribute.placements.mesh import AxisName, Mesh
from einmap.distribute.placements.placement import Placement, Split, actual_values, values_of
from einmap.distribute.plans.collectives import Kind, sent
from einmap.einsum.spaces.projection import Rank

type Finer = Mapping[Rank, Mapping[tuple[AxisName, ...], Sequence[Split]]]
"""For each rank the splits that begin with some axes and have more."""


def finer_splits(splits: Sequence[Split]) -> Finer:
    """The splits that ranks may have after a move, by what they begin with."""
    made: dict[Rank, dict[tuple[AxisName, ...], list[Split]]] = {}
    for split in splits:
        for length in range(len(split.axes)):
            made.setdefault(split.rank, {}).setdefault(split.axes[:length], []).append(split)
    return made


def collective_hops(mesh: Mesh, sizes: Mapping[Rank, int], finer: Finer, here: Placement) -> Iterator[Hop]:
    """All-reduces, all-gathers, reduce-scatters, all-to-alls and slices of a tensor that lies as `here`."""
    yield from _reductions(mesh, sizes, here)
    for split in here.splits:
        if split.halo:
            continue
        for length in range(1, len(split.axes) + 1):
            yield _gathered(mesh, sizes, here, split, length)
    used = here.used
    for rank, by_axes in finer.items():
        now = here.of(rank)
        for split in by_axes.get(now.axes if now else (), ()):
            yield from _scattered(mesh, sizes, here, used, now, split)


def _reductions(mesh: Mesh, sizes: Mapping[Rank, int], here: Placement) -> Iterator[Hop]:
    """All-reduce over some of the axes over which it is partial; several at once send less."""
    axes = [axis for axis in mesh.names if axis in here.partial]
    for length in range(1, len(axes) + 1):
        for some in combinations(axes, length):
            after = replace(here, partial=tuple(axis for axis in here.partial if axis not in some))
            yield _hop(mesh, sizes, "all_reduce", some, here, after)


def _gathered(mesh: Mesh, sizes: Mapping[Rank, int], here: Placement, split: Split, length: int) -> Hop:
    """All-gather over the last axes of a split."""
    axes = split.axes[-length:]
    return _hop(mesh, sizes, "all_gather", axes, here, _without(mesh, here, split, length), gather=split.rank)


def _scattered(
    mesh: Mesh, sizes: Mapping[Rank, int], here: Placement, used: frozenset[AxisName], now: Split | None, finer: Split
) -> Iterator[Hop]:
    """Split a rank further than `now`, so that it is split as `finer`; a halo is cut from what is whole. `used`: axes
    over which the tensor is not replicated.
    """
    axes = finer.axes[len(now.axes) if now else 0 :]
    if now and (now.halo or finer.halo or now.block != finer.block * mesh.parts(axes)):
        return
    kept = tuple(split for split in here.splits if split.rank != finer.rank)
    split_further = (*kept, finer)
    if used.isdisjoint(axes):
        after = replace(here, splits=split_further)
        yield Hop("slice", axes, after, values_of(sizes, here), values_of(sizes, after), 0, scatter=finer.rank)
        return
    if finer.halo:
        return
    if set(axes) <= set(here.partial) and here.reduction == "sum":
        left = tuple(axis for axis in here.partial if axis not in axes)
        after = replace(here, splits=split_further, partial=left)
        yield _hop(mesh, sizes, "reduce_scatter", axes, here, after, scatter=finer.rank)
        return
    for other in kept:
        if other.axes[-len(axes) :] == axes and not other.halo:
            after = _without(mesh, replace(here, splits=split_further), other, len(axes))
            yield _hop(mesh, sizes, "all_to_all", axes, here, after, other.rank, finer.rank)


def _without(mesh: Mesh, here: Placement, split: Split, length: int) -> Placement:
    """The placement with `split` no longer over its last axes."""
    left = split.axes[:-length]
    coarser = (Split(split.rank, left, split.block * mesh.parts(split.axes[-length:])),) if left else ()
    return replace(here, splits=(*(s for s in here.splits if s.rank != split.rank), *coarser))


def _hop(
    mesh: Mesh,
    sizes: Mapping[Rank, int],
    kind: Kind,
    axes: tuple[AxisName, ...],
    here: Placement,
    after: Placement,
    gather: Rank | None = None,
    scatter: Rank | None = None,
) -> Hop:
    parts = mesh.parts(axes)
    values = values_of(sizes, here)
    larger = after if kind == "all_gather" else here
    actual = actual_values(mesh, sizes, larger)
    if scatter is not None:
        # what is scattered is padded to whole blocks
        before, cut = here.of(scatter), after.of(scatter)
        assert cut is not None
        values = values // (before.room if before else sizes[scatter]) * cut.room * parts
    result = {"all_gather": values * parts, "reduce_scatter": values // parts}.get(kind, values)
    every = sent(kind, parts, values, result) * mesh.n_devices
    return Hop(kind, axes, after, values, result, int(every), gather, scatter, filled=actual / max(values, result))
