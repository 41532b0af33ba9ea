"""Limits on tile shapes (`tensors.tile_shape`), for many choices at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Memory, Toll
from einmap.arch.constraint import Comparison
from einmap.mapper.mapspace.mapspace import Subspace
from einmap.model.counting.path import EinsumPath, Station


def tile_limits(path: EinsumPath, subspace: Subspace, points: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which points keep the limits of every memory and toll, at its first node."""
    if not _limited_holders(path):
        return np.ones(len(points), dtype=bool)
    return shapes_within_limits(path, subspace.shapes(points), len(points))


def shapes_within_limits(path: EinsumPath, shapes: Sequence[Any], n: int) -> NDArray[np.bool_]:
    """Which of `n` choices keep the limits; `shapes`: for each loop of the path a tile shape, or `n` of them."""
    allowed = np.ones(n, dtype=bool)
    for station, limits in _limited_holders(path):
        extents: dict[str, Any] = dict(path.einsum.extents)
        for loop, shape in zip(path.loops, shapes, strict=True):
            above = loop.position < station.position if loop.level is None else loop.level <= station.level
            if above:
                extents[loop.variable] = shape
        for limit in limits:
            allowed &= limit.holds_each(extents)
    return allowed


def _limited_holders(path: EinsumPath) -> list[tuple[Station, tuple[Comparison, ...]]]:
    first: dict[str, Station] = {}
    for stations in path.stations.values():
        for station in stations:
            name = station.component.name
            if name not in first or station.position < first[name].position:
                first[name] = station
    limited = []
    for station in first.values():
        placement = station.component.placement if isinstance(station.component, Memory | Toll) else None
        if placement is not None and placement.tile_shape:
            limited.append((station, placement.tile_shape))
    return limited
