"""Lines of a memory that a tile touches, found from the addresses of its values one by one."""

from __future__ import annotations

from functools import cache

import numpy as np

from einmap.arch.component import Memory
from einmap.errors import NotSupportedError
from einmap.execute.buffers import volume
from einmap.schedule.boxes import Box
from einmap.schedule.routes import Hold, Route


def moved(route: Route, hold: Hold, box: Box | None, amount: float, *, single: bool) -> float:
    """What a station moves for `amount` values of a tile: these, or the lines that they touch where it moves lines.

    `single`: each of the values is asked for by itself, as the compute does. Raises NotSupportedError for a part of a
    tile.
    """
    unit = hold.component
    layout = unit.layouts.get(hold.tensor) if isinstance(unit, Memory) else None
    if layout is None or not amount or single:
        return amount
    if box is None or volume(box) != amount:
        raise NotSupportedError(f"parts of lines of {hold.tensor!r} in {unit.name!r} are not supported yet")
    block_of = dict(
        zip((rank for rank, _ in route.einsum.by_tensor[hold.tensor].projection), layout.block, strict=True)
    )
    return len(_lines(box, tuple(block_of[rank] for rank in route.ranks[hold.tensor])))


@cache
def _lines(box: Box, block: tuple[int, ...]) -> frozenset[tuple[int, ...]]:
    """The lines in which the values of a box lie, by their number along each rank."""
    if not box:
        return frozenset({()})
    indices = np.stack(np.meshgrid(*(np.arange(low, high) for low, high in box), indexing="ij"), axis=-1)
    return frozenset(map(tuple, (indices.reshape(-1, len(box)) // np.array(block)).tolist()))
