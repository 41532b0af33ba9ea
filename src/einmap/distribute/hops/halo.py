"""Halos: what an Einsum reads through a window such as `p + r` beyond the block of a PE, got from the next PE.

Each PE sends the first coordinates of its block that the PE before it lacks. A halo that is wider than a block takes
several moves, each of which fetches from the next PE what that has fetched before.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from einmap.distribute.hops.hop import Hop
from einmap.distribute.hops.routes import Routes
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import Placement, Split, actual_values, values_of
from einmap.distribute.plans.collectives import Pairs
from einmap.einsum.spaces.projection import Rank


def halo_hops(
    mesh: Mesh, sizes: Mapping[Rank, int], placements: Sequence[Placement]
) -> Iterator[tuple[Placement, Hop]]:
    """Each placement with each move from there to another one of `placements` that differs in one halo only.

    A smaller halo is a slice, which is free; one that is larger by a block at most is got from the next PE.
    """
    alike: dict[Placement, list[tuple[Placement, Split]]] = {}
    for placement in placements:
        for split in placement.splits:
            alike.setdefault(_with(placement, replace(split, halo=0)), []).append((placement, split))
    for some in alike.values():
        for here, now in some:
            for after, then in some:
                if now.rank == then.rank and 0 < then.halo - now.halo <= now.block:
                    yield here, _fetched(mesh, sizes, here, after, then)
                elif now.rank == then.rank and then.halo < now.halo:
                    values = values_of(sizes, here), values_of(sizes, after)
                    yield here, Hop("slice", then.axes, after, *values, 0, scatter=then.rank)


def halo_pairs(parts: int) -> Pairs:
    """Who sends to whom among so many PEs in a row: each to the one before it."""
    return tuple((place, place - 1) for place in range(1, parts))


def fetched(source: Placement, target: Placement, rank: Rank) -> tuple[int, int]:
    """Where what is sent begins in the sender's buffer, along the rank of the halo, and how many coordinates it has."""
    before, after = source.of(rank), target.of(rank)
    assert before is not None and after is not None
    return before.halo, after.halo - before.halo


def _with(placement: Placement, split: Split) -> Placement:
    others = tuple(other for other in placement.splits if other.rank != split.rank)
    return replace(placement, splits=(*others, split))


def _fetched(mesh: Mesh, sizes: Mapping[Rank, int], here: Placement, after: Placement, then: Split) -> Hop:
    _, count = fetched(here, after, then.rank)
    values = values_of(sizes, after) // then.room * count
    parts = mesh.parts(then.axes)
    senders = (parts - 1) * mesh.n_devices // parts
    part = senders / mesh.n_devices
    routes = Routes(
        tuple(mesh.size(axis) for axis in then.axes), (halo_pairs(parts),), _sent_parts(mesh, sizes, here, then)
    )
    return Hop(
        "halo", then.axes, after, values, values, senders * values, gather=then.rank, senders=part, routes=routes
    )


def _sent_parts(mesh: Mesh, sizes: Mapping[Rank, int], here: Placement, then: Split) -> tuple[float, ...]:
    """Which part of what each PE sends is not padding, by position over the axes of the split."""
    (now,) = (split for split in here.splits if split.rank == then.rank)
    others = replace(here, splits=tuple(split for split in here.splits if split.rank != then.rank))
    count = then.halo - now.halo
    begins = (place * now.block + now.halo for place in range(mesh.parts(then.axes)))
    there = [min(max(sizes[then.rank] - begin, 0), count) / count for begin in begins]
    filled = actual_values(mesh, sizes, others) / values_of(sizes, others)
    return tuple(part * filled for part in there)
