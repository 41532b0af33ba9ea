"""Elements of intermediate tensors that no Einsum writes, though some read them: zeros around what is computed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.workload import Workload
from einmap.execute.tiles.buffers import Mask, Tile
from einmap.schedule.boxes import Box
from einmap.schedule.spaces import space_mask


@dataclass(frozen=True)
class Padding:
    """The elements in `box` of an intermediate tensor that no Einsum writes, though some may read them: zeros."""

    box: Box
    mask: Mask

    def fill(self, tile: Tile) -> None:
        """Mark the zeros that lie in a tile as present."""
        here = self.mask[tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(tile.box, self.box, strict=True))]
        tile.values(tile.box)[here] = 0.0
        tile.present(tile.box)[here] = 1


def paddings(
    workload: Workload, reaches: Mapping[str, Box], ranks: Mapping[str, tuple[str, ...]]
) -> dict[str, Padding]:
    """By intermediate tensor, where there are such elements. `ranks`: the order of each tensor's ranks."""
    found: dict[str, Padding] = {}
    for tensor in workload.intermediates:
        producer = workload.by_name[workload.producers[tensor]]
        mask = np.ones(tuple(high - low for low, high in reaches[tensor]), dtype=bool)
        mask[_written(producer, producer.by_tensor[tensor], ranks[tensor], reaches[tensor])] = False
        if mask.any():
            found[tensor] = Padding(reaches[tensor], mask)
    return found


def _written(einsum: Einsum, access: TensorAccess, ranks: tuple[str, ...], reach: Box) -> tuple[Mask, ...]:
    """The places in `reach`, rank by rank, of all elements that an Einsum writes (broadcast against each other)."""
    variables = [v for v in einsum.rank_variables if v in access.variables]
    first = dict(einsum.first_values)
    steps = np.ix_(*(np.arange(einsum.extents[v]) + first.get(v, 0) for v in variables))
    grid = dict(zip(variables, steps, strict=True))
    index_of = dict(access.projection)
    places = tuple(
        np.asarray(index_of[rank].constant - low + sum(a * grid[v] for v, a in index_of[rank].terms))
        for rank, (low, _) in zip(ranks, reach, strict=True)
    )
    inside = space_mask(einsum)
    if inside is None:
        return places
    some = inside.any(axis=tuple(i for i, v in enumerate(einsum.rank_variables) if v not in variables))
    here = np.broadcast_to(some, tuple(einsum.extents[v] for v in variables))
    return tuple(np.broadcast_to(place, here.shape)[here] for place in places)
