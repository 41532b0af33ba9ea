"""Tiles of formats with blocks, padding or dense tiles: what their parts take depends on the whole tile.

A part of such a tile is paid for with the node that it fills, and the tile stands further out. So a search takes one
window of tiles for granted after another, as it does with chances (`windows`): within it the memory holds one of them,
and a part takes no less than it does of the best of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from einmap.arrays import Bools, Floats, Ints
from einmap.mapper.cost_bounds.coefficients import Chain
from einmap.mapper.cost_bounds.zeros.looking import LookingPricer, Tile
from einmap.model.batch.zero_tables import Moved

MOST_TILES = 2_000
"""Shapes of a tensor's tile beyond which parts of them are not told apart."""
MOST_PARTS = 500_000
"""Shapes of a tile, each with the shapes of its parts, that are told apart."""


@dataclass(frozen=True, eq=False)
class Tiles:
    """Shapes of a tensor's tile. `of_point`: which one each point has, by its place in the order of `shapes`."""

    shapes: Ints
    of_point: Ints

    def __len__(self) -> int:
        """How many there are."""
        return len(self.shapes)


@dataclass(frozen=True, eq=False)
class Parts:
    """Pairs of a part and a tile that may hold it, by place in the order of tiles; those of a part are neighbours.

    `begins`: the first pair of each part.
    """

    tile: Ints
    begins: Ints
    moved: Moved

    def within(self, first: int, end: int) -> tuple[Moved, float]:
        """Values and metadata of each part, of the tiles from the first to before the last; and the greatest spread."""
        inside = (first <= self.tile) & (self.tile < end)
        least = [self._least(inside, rows) for rows in (self.moved.values, self.moved.metadata)]
        most = [-self._least(inside, -rows) for rows in (self.moved.most, self.moved.metadata)]
        spread = max(_ratio(a, b) for a, b in zip(most, least, strict=True))
        there = np.isfinite(least[0])
        values, metadata = (np.where(there, rows, 0.0) for rows in least)
        return Moved(values, np.where(there, most[0], 0.0), metadata), spread

    def _least(self, inside: Bools, rows: Floats) -> Floats:
        found: Floats = np.minimum.reduceat(np.where(inside, rows, np.inf), self.begins)
        return found


def _ratio(most: Floats, least: Floats) -> float:
    there = np.isfinite(least) & (most > least)
    with np.errstate(divide="ignore"):
        return float((most[there] / least[there]).max(initial=1.0))


@dataclass(eq=False)
class TilesPricer(LookingPricer):
    """Coefficients with zeros: parts of tiles. `remembered`: what was worked out so far."""

    remembered: dict[tuple[object, ...], Any] = field(kw_only=True, default_factory=dict)

    @property
    def shapes(self) -> dict[str, Any]:
        """Tile shape of each rank variable, for each point."""
        key = ("shapes",)
        if key not in self.remembered:
            shapes: dict[str, Any] = dict(self.einsum.bounds)
            self.remembered[key] = shapes | {v: self.lattice.shapes(axis) for v, axis in self.lattice.axis_of.items()}
        found: dict[str, Any] = self.remembered[key]
        return found

    def extents_at_points(self, tensor: str) -> list[Ints]:
        """Lengths of a tensor's tile, rank by rank, for each point."""
        size = (self.lattice.size,)
        extents = self.tables.extents(tensor, self.shapes)
        return [np.broadcast_to(np.asarray(n).astype(np.int64), size) for n in extents]

    def tiles(self, memory: str, tensor: str) -> Tiles:
        """Shapes of a tensor's tile; those of which a memory stores least for each position come first."""
        key = "tiles", memory, tensor, self.tables.mark(memory, tensor)
        if key not in self.remembered:
            rows = np.stack(self.extents_at_points(tensor), axis=1)
            shapes, of_point = np.unique(rows, axis=0, return_inverse=True)
            ranks = list(shapes.T)
            alone = self.tables.moved(memory, tensor, ranks, ranks)
            order = np.lexsort((alone.metadata, alone.values))
            place = np.empty(len(order), dtype=np.int64)
            place[order] = np.arange(len(order))
            self.remembered[key] = Tiles(shapes[order], place[of_point.ravel()])
        found: Tiles = self.remembered[key]
        return found

    def parts(self, memory: str, tensor: str) -> Parts | None:
        """Values and metadata of parts of tiles; None where these are too many."""
        key = "parts", memory, tensor, self.tables.mark(memory, tensor)
        if key not in self.remembered:
            self.remembered[key] = self._parts(memory, tensor)
        found: Parts | None = self.remembered[key]
        return found

    def _parts(self, memory: str, tensor: str) -> Parts | None:
        tiles = self.tiles(memory, tensor)
        if len(tiles) > MOST_TILES or not self.tables.has_plain_indices(tensor):
            return None
        holds = np.ones((len(tiles), len(tiles)), dtype=bool)
        for lengths in tiles.shapes.T:
            holds &= lengths[None, :] % lengths[:, None] == 0
        part, tile = np.nonzero(holds)
        if len(part) > MOST_PARTS:
            return None
        moved = self.tables.moved(memory, tensor, list(tiles.shapes[part].T), list(tiles.shapes[tile].T))
        return Parts(tile, np.flatnonzero(np.diff(part, prepend=-1)), moved)

    def lists_tiles(self, memory: str, tensor: str) -> bool:
        """Whether tiles that a memory may hold are listed with all parts of them."""
        return self.parts(memory, tensor) is not None

    def tiles_of(self, tile: Tile) -> Tiles:
        """Shapes of the tiles of a place."""
        return self.tiles(self.leaves[tile.parent].name, tile.tensor)

    def top_of(self, tile: Tile) -> int:
        """The place of the whole tensor in the order of tiles."""
        return int(self.tiles_of(tile).of_point[self.lattice.top])

    def has_parts(self, tile: Tile) -> Bools:
        """Points at which the node that is filled with parts of a tile cuts no blocks."""
        memory = self.leaves[tile.parent].name
        found: Bools = self.tables.keeps_blocks(memory, tile.tensor, self.extents_at_points(tile.tensor))
        return found

    def stored(self, tensor: str, exchange: Chain, level: int) -> Moved:
        """Values and metadata for each position that an exchange moves, as a memory stores them, at each point."""
        mark = self.tables.mark(self.leaves[level].name, tensor)
        key = "stored", tensor, level, exchange[0], exchange[-1], self._window(tensor, exchange, level), mark
        if key not in self.remembered:
            self.remembered[key] = self._stored(tensor, exchange, level)
        found: Moved = self.remembered[key]
        return found

    def _window(self, tensor: str, exchange: Chain, level: int) -> tuple[int, int] | None:
        """The window of the tiles of which an exchange moves parts; None where nothing is taken for granted."""
        for tile, window in (self.windows or {}).items():
            if isinstance(tile, Tile) and (tile.tensor, tile.parent, tile.child) == (tensor, level, exchange[-1]):
                return window
        return None

    def _stored(self, tensor: str, exchange: Chain, level: int) -> Moved:
        memory = self.leaves[level].name
        tiles = self.tiles(memory, tensor)
        if level == exchange[-1]:
            ranks = list(tiles.shapes.T)
            moved = self.tables.moved(memory, tensor, ranks, ranks)
        elif (parts := self.parts(memory, tensor)) is not None:
            moved, _ = parts.within(*(self._window(tensor, exchange, level) or (0, len(tiles))))
        else:
            ranks = list(tiles.shapes.T)
            moved = self.tables.least_moved(memory, tensor, ranks)
        return Moved(*(rows[tiles.of_point] for rows in moved))

    def spread_of(self, tile: Tile) -> float:
        """The greatest number of a part in the window of a place by the least one."""
        assert self.windows is not None
        first, end = self.windows[tile]
        parts = self.parts(self.leaves[tile.parent].name, tile.tensor)
        if end - first <= 1 or parts is None:
            return 1.0
        key = "spread", tile, first, end, self.tables.mark(self.leaves[tile.parent].name, tile.tensor)
        if key not in self.remembered:
            self.remembered[key] = parts.within(first, end)[1]
        found: float = self.remembered[key]
        return found
