"""The cheapest way from one placement of a tensor to another."""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import combinations

from einmap.distribute.collectives import Kind, sent
from einmap.distribute.mesh import AxisName, Mesh
from einmap.distribute.placement import Placement, Split, local_shape
from einmap.einsum.projection import Rank


@dataclass(frozen=True, slots=True)
class Hop:
    """One move of a tensor; `after` is its placement then.

    `sent_values`: what all PEs together send, a whole number. `kind` and ranks as in `plan.Move`.
    """

    kind: Kind
    axes: tuple[AxisName, ...]
    after: Placement
    sent_values: int
    gather: Rank | None = None
    scatter: Rank | None = None


@dataclass(frozen=True, slots=True)
class Route:
    """Hops from `start`, in order."""

    start: Placement
    hops: tuple[Hop, ...]

    @property
    def sent_values(self) -> int:
        """What all PEs together send."""
        return sum(hop.sent_values for hop in self.hops)


@lru_cache(maxsize=20_000)
def cheapest_route(
    mesh: Mesh, sizes: tuple[tuple[Rank, int], ...], starts: tuple[Placement, ...], target: Placement
) -> Route | None:
    """From one of the placements `starts` that a tensor has to `target`: fewest values sent, then fewest moves.

    Moves are those of `plan.Move`. A rank whose blocks do not nest in those of the target is gathered and cut again.
    None where there is none: what is complete does not become partial.
    """
    best: dict[Placement, tuple[int, int]] = {}
    queue: list[tuple[int, int, int, Placement, Route]] = []
    serial = 0
    for start in starts:
        heapq.heappush(queue, (0, 0, serial, start, Route(start, ())))
        serial += 1
    while queue:
        values, length, _, here, route = heapq.heappop(queue)
        if here == target:
            return route
        if best.get(here, (values + 1, 0)) <= (values, length):
            continue
        best[here] = (values, length)
        for hop in _hops(mesh, dict(sizes), here, target):
            serial += 1
            longer = Route(route.start, (*route.hops, hop))
            heapq.heappush(queue, (values + hop.sent_values, length + 1, serial, hop.after, longer))
    return None


def _hops(mesh: Mesh, sizes: Mapping[Rank, int], here: Placement, target: Placement) -> Iterator[Hop]:
    yield from _reductions(mesh, sizes, here, target)
    for split in here.splits:
        for length in range(1, len(split.axes) + 1):
            yield _gathered(mesh, sizes, here, split, length)
    for split in target.splits:
        yield from _scattered(mesh, sizes, here, split)


def _reductions(mesh: Mesh, sizes: Mapping[Rank, int], here: Placement, target: Placement) -> Iterator[Hop]:
    """All-reduce over some of the axes over which the target is complete; several at once send less."""
    axes = [axis for axis in mesh.names if axis in here.partial and axis not in target.partial]
    for length in range(1, len(axes) + 1):
        for some in combinations(axes, length):
            after = replace(here, partial=tuple(axis for axis in here.partial if axis not in some))
            values = _values(sizes, here)
            yield _hop(mesh, "all_reduce", some, after, values, values)


def _gathered(mesh: Mesh, sizes: Mapping[Rank, int], here: Placement, split: Split, length: int) -> Hop:
    """All-gather over the last axes of a split."""
    axes = split.axes[-length:]
    after = _without(mesh, here, split, length)
    operand = _values(sizes, here)
    return _hop(mesh, "all_gather", axes, after, operand, operand * mesh.parts(axes), gather=split.rank)


def _scattered(mesh: Mesh, sizes: Mapping[Rank, int], here: Placement, goal: Split) -> Iterator[Hop]:
    """Split a rank over the axes that the target has it split over and that come next."""
    now = here.of(goal.rank)
    done = now.axes if now else ()
    if goal.axes[: len(done)] != done:
        return
    for end in range(len(done) + 1, len(goal.axes) + 1):
        axes = goal.axes[len(done) : end]
        block = goal.block * mesh.parts(goal.axes[end:])
        parts = mesh.parts(axes)
        if now and now.block != block * parts:
            continue
        finer = Split(goal.rank, goal.axes[:end], block)
        kept = tuple(split for split in here.splits if split.rank != goal.rank)
        after = replace(here, splits=(*kept, finer))
        if not here.used & set(axes):
            yield Hop("slice", axes, after, 0, scatter=goal.rank)
        if set(axes) <= set(here.partial) and here.reduction == "sum":
            after = replace(after, partial=tuple(axis for axis in here.partial if axis not in axes))
            result = _values(sizes, after)
            yield _hop(mesh, "reduce_scatter", axes, after, result * parts, result, scatter=goal.rank)
        for other in kept:
            if other.axes[-len(axes) :] == axes:
                moved = _without(mesh, replace(here, splits=(*kept, finer)), other, len(axes))
                operand = _values(sizes, replace(here, splits=(*kept, finer))) * parts
                yield _hop(mesh, "all_to_all", axes, moved, operand, operand, other.rank, goal.rank)


def _without(mesh: Mesh, here: Placement, split: Split, length: int) -> Placement:
    """The placement with `split` no longer over its last axes."""
    left = split.axes[:-length]
    coarser = (Split(split.rank, left, split.block * mesh.parts(split.axes[-length:])),) if left else ()
    return replace(here, splits=(*(s for s in here.splits if s.rank != split.rank), *coarser))


def _values(sizes: Mapping[Rank, int], placement: Placement) -> int:
    return math.prod(local_shape(sizes, placement).values())


def _hop(
    mesh: Mesh,
    kind: Kind,
    axes: tuple[AxisName, ...],
    after: Placement,
    operand: int,
    result: int,
    gather: Rank | None = None,
    scatter: Rank | None = None,
) -> Hop:
    every = sent(kind, mesh.parts(axes), operand, result) * mesh.n_devices
    return Hop(kind, axes, after, int(every), gather, scatter)
