"""Limits on tile shapes (`tensors.tile_shape`), for many choices at a time."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Memory, Toll
from einmap.arch.constraint import Comparison
from einmap.mapper.mapspace.mapspace import Subspace
from einmap.model.counting.path import EinsumPath, Station


def tile_limits(path: EinsumPath, subspace: Subspace, points: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which points keep the limits of every memory and toll, at its first node."""
    allowed = np.ones(len(points), dtype=bool)
    limited = _limited_holders(path)
    if not limited:
        return allowed
    shapes = subspace.shapes(points)
    for station, limits in limited:
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
