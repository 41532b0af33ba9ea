"""A tile written out in a format, fiber by fiber."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from einmap.arrays import Bools
from einmap.sparse.formats import Level


def encoded(levels: Sequence[Level], tile: Bools) -> tuple[int, int]:
    """Values and bits of metadata of a tile; `tile`: true where a value is nonzero, ranks in the tensor's order."""
    order = [rank for level in levels for rank in level.ranks]
    fibers, below = np.ascontiguousarray(tile.transpose(order)).reshape(1, -1), tile.size
    bits = 0
    for level in levels:
        positions = int(np.prod([tile.shape[rank] for rank in level.ranks], dtype=np.int64))
        below //= positions
        inside = fibers.reshape(len(fibers), positions, below)
        filled = inside.any(axis=2)
        if level.kind == "B":
            bits += level.bits * filled.size
        elif level.kind == "UOP":
            bits += sum(level.bits * (len(fiber) + 1) for fiber in filled)
        elif level.kind in ("CP", "RLE"):
            bits += level.bits * int(filled.sum())
        further = inside.reshape(filled.size, below)
        fibers = further if level.kind == "U" else further[filled.ravel()]
    return len(fibers), bits
