"""Limits on tile shapes (`tensors.tile_shape`): on a lattice, as rows for a kernel, and for points of a mapspace."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.arch.component import Memory, Toll
from einmap.arch.constraint import Comparison, Placement
from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.mapspace.mapspace import Subspace
from einmap.mapper.mapspace.tile_lattice import Lattice
from einmap.model.counting.path import EinsumPath, Station

OPERATORS = ("==", "<=", ">=", "<", ">", "multiple_of", "one_of")
"""As `sparse_kernels.keeps` numbers them."""


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


def within_limits(placement: Placement | None, lattice: Lattice) -> Bools:
    """The points of a lattice of tile shapes that keep the limits of one memory, (points,)."""
    kept: Bools = np.ones(lattice.size, dtype=bool)
    for limit in placement.tile_shape if placement is not None else ():
        kept &= limit.holds_each(lattice.extents)
    return kept


def limit_rows(placement: Placement | None, lattice: Lattice) -> tuple[Ints, Ints, Floats]:
    """The limits of one memory as `sparse_kernels.keeps` takes them.

    A row for each limit: begin and end of its axes, number of its operator, whether it limits a product, begin and end
    of its values, (limits, 6); the axes of all rows; the values of all rows.
    """
    rows: list[tuple[int, int, int, int, int, int]] = []
    axes: list[int] = []
    values: list[float] = []
    for limit in placement.tile_shape if placement is not None else ():
        begin = len(axes)
        axes += [lattice.axis_of[v] for v in sorted(limit.variables) if v in lattice.axis_of]
        product, first = limit.is_product, len(values)
        absent = len(limit.variables) - (len(axes) - begin)
        if absent and (not product or len(axes) == begin) and not limit.holds({}):
            # variables of bound 1 break it: nothing fits
            rows.append((0, 1, OPERATORS.index("<"), 0, first, first + 1))
            axes, values = axes or [0], [*values, 0.0]
            continue
        values += map(float, limit.values or (limit.value,))
        rows.append((begin, len(axes), OPERATORS.index(limit.comparison), int(product), first, len(values)))
    return (
        np.array(rows, dtype=np.int64).reshape(len(rows), 6),
        np.array(axes, dtype=np.int64),
        np.array(values, dtype=np.float64),
    )
