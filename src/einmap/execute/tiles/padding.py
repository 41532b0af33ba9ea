"""Elements of intermediate tensors that no Einsum writes, though some read them: zeros around what is computed."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from einmap.einsum.einsum import Einsum, TensorAccess
from einmap.einsum.numeric import shapes
from einmap.einsum.workload import Workload
from einmap.execute.tiles.buffers import Mask, Tile


def paddings(workload: Workload, ranks: Mapping[str, tuple[str, ...]]) -> dict[str, Mask]:
    """The elements that no Einsum writes, by intermediate tensor; `ranks`: the order of each tensor's ranks."""
    masks: dict[str, Mask] = {}
    sizes = shapes(workload)
    for tensor in workload.intermediates:
        producer = workload.by_name[workload.producers[tensor]]
        mask = np.ones(sizes[tensor], dtype=bool)
        mask[_written(producer, producer.by_tensor[tensor], ranks[tensor])] = False
        if mask.any():
            masks[tensor] = mask
    return masks


def pad(tile: Tile, padding: Mask) -> None:
    """Mark the zeros of a tensor that lie in a tile as present."""
    here = padding[tuple(slice(low, high) for low, high in tile.box)]
    tile.values(tile.box)[here] = 0.0
    tile.present(tile.box)[here] = 1


def _written(einsum: Einsum, access: TensorAccess, ranks: tuple[str, ...]) -> tuple[Mask, ...]:
    """The indices, rank by rank, of all elements that an Einsum writes (broadcast against each other)."""
    variables = [v for v in einsum.rank_variables if v in access.variables]
    first = dict(einsum.first_values)
    grid = dict(
        zip(variables, np.ix_(*(np.arange(einsum.extents[v]) + first.get(v, 0) for v in variables)), strict=True)
    )
    index_of = dict(access.projection)
    return tuple(
        np.asarray(index_of[rank].constant + sum(a * grid[v] for v, a in index_of[rank].terms)) for rank in ranks
    )
