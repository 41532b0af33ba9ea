"""Room that tiles take in their formats: of the fullest tile that can occur, and on average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from einmap.arch.component import Memory
from einmap.model.cost import TileRow
from einmap.model.counting.path import EinsumPath, Station, applies
from einmap.model.counting.reuse import TensorCounts
from einmap.model.counting.tiles import LARGEST, SKIP
from einmap.model.occupancy.occupancy import Buffer
from einmap.sparse.blocks import mean_stored, most_stored
from einmap.sparse.formats import Stored
from einmap.sparse.savings import Sparsity

_TILE_BYTES = 1024
"""Bytes of what is kept of a tile, about."""


def tile_rows(
    path: EinsumPath, sparsity: Sparsity, counts: Mapping[str, TensorCounts]
) -> list[tuple[Station, TileRow]]:
    """The largest tile of each tensor that a memory stores in a format."""
    return [
        (station, _row(path, sparsity, counts[tensor], station))
        for tensor, stations in path.stations.items()
        for station in stations
        if (station.component.name, tensor) in sparsity.formats
    ]


def _row(path: EinsumPath, sparsity: Sparsity, counts: TensorCounts, station: Station) -> TileRow:
    memory, tensor = station.component, counts.access.tensor
    assert isinstance(memory, Memory)
    size = largest(path, counts, station, sparsity.ranks[tensor])
    mean, most = mean_and_most(sparsity, memory.name, tensor, size)
    width = memory.bits[tensor]
    inside = 0 if memory.name in sparsity.own_metadata else 1
    dense = prod(size) * width
    expected, worst = (float(tile.values * width + tile.metadata * inside) for tile in (mean, most))
    return TileRow(path.einsum.name, memory.name, tensor, dense, expected, worst)


def mean_and_most(sparsity: Sparsity, memory: str, tensor: str, size: Sequence[int]) -> tuple[Stored, Stored]:
    """Room of a tile of a shape in the format of a memory: on average, and of the fullest one."""
    key = "tile", memory, tensor, tuple(size)
    found: tuple[Stored, Stored] | None = sparsity.kept.get(key)
    if found is None:
        fmt, density = sparsity.formats[memory, tensor], sparsity.densities[tensor]
        found = mean_stored(fmt, density, size), most_stored(fmt, density, size)
        sparsity.kept.keep(key, found, _TILE_BYTES)
    return found


def largest(path: EinsumPath, counts: TensorCounts, station: Station, ranks: Sequence[str]) -> list[int]:
    """Lengths of the largest tile that a station holds, in the order of `ranks`."""
    takes = tuple(LARGEST if applies(loop, station) else SKIP for loop in path.loops)
    extents = {v: max(int(extent) for extent, _ in counts.tiles.of(v, takes)) for v in path.einsum.rank_variables}
    by_rank = dict(counts.access.projection)
    return [by_rank[rank].extent(extents) for rank in ranks]


def stored(buffers: Sequence[Buffer], rows: Sequence[tuple[Station, TileRow]]) -> tuple[Buffer, ...]:
    """Buffers with room for the fullest tile in its format."""
    worst = {(station.address, row.tensor): row.worst for station, row in rows}
    return tuple(
        replace(b, bits=worst[b.address, b.tensor] * b.factor) if (b.address, b.tensor) in worst else b for b in buffers
    )
