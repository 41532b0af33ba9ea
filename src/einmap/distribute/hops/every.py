"""All moves between placements of a tensor."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from einmap.distribute.hops.collective import collective_hops, finer_splits
from einmap.distribute.hops.halo import halo_hops
from einmap.distribute.hops.hop import Hop
from einmap.distribute.hops.part_of_mesh import part_hops
from einmap.distribute.hops.permute import permute_hops
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import Placement, Split
from einmap.einsum.spaces.projection import Rank


def every_hop(
    mesh: Mesh, sizes: Mapping[Rank, int], splits: Sequence[Split], placements: Sequence[Placement]
) -> Iterator[tuple[Placement, Hop]]:
    """Each placement of a tensor with each move from there; some lead to a placement that is not among these.

    `sizes`: of the tensor's ranks; `splits`: those that its ranks may have.
    """
    # first, since of equal moves the first is taken: a reduction on a part sends half of what an all-reduce does
    yield from part_hops(mesh, sizes, placements)
    finer = finer_splits(splits)
    for here in placements:
        for hop in collective_hops(mesh, sizes, finer, here):
            yield here, hop
    yield from halo_hops(mesh, sizes, placements)
    yield from permute_hops(mesh, sizes, placements)


def hops_between(mesh: Mesh, sizes: Mapping[Rank, int], before: Placement, after: Placement) -> tuple[Hop, ...]:
    """The single moves that bring a tensor from one placement to another; there may be several kinds, or none."""
    collectives = (
        hop for hop in collective_hops(mesh, sizes, finer_splits(after.splits), before) if hop.after == after
    )
    permutes = (hop for here, hop in permute_hops(mesh, sizes, (before, after)) if here == before)
    halos = (hop for here, hop in halo_hops(mesh, sizes, (before, after)) if here == before)
    parts = (hop for here, hop in part_hops(mesh, sizes, (before, after)) if here == before)
    return (*collectives, *halos, *parts, *permutes)
