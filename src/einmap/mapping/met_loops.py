"""The loops of one Einsum, each with the extent that it meets."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from einmap.einsum.einsum import Einsum
from einmap.mapping.mapping import PlacedNode
from einmap.mapping.nodes import Spatial, Temporal


@dataclass(frozen=True)
class MetLoop:
    """A loop as one Einsum meets it: `extent` is that of the tile around it."""

    placed: PlacedNode
    node: Temporal | Spatial
    variable: str
    shape: int
    initial: int | None
    extent: int

    @property
    def first(self) -> int:
        """Extent of the first tile."""
        return min(self.extent, self.initial or self.shape)

    @property
    def iterations(self) -> int:
        """Number of tiles."""
        return 1 - (-(self.extent - self.first) // self.shape)

    @property
    def largest(self) -> int:
        """Extent of the largest tile."""
        return max(self.first, min(self.shape, self.extent - self.first))


def loops_met(path: Iterable[PlacedNode], einsum: Einsum) -> list[MetLoop]:
    """The loops on the path of `einsum`, each with its variable, tile shapes and the extent that it meets."""
    extents = dict(einsum.bounds)
    loops = []
    for placed in path:
        node = placed.node
        if isinstance(node, Temporal | Spatial):
            variable = node.rank_variable.of(einsum.name)
            shape = node.tile_shape.of(einsum.name)
            assert variable is not None
            assert shape is not None
            initial = node.initial_tile_shape.of(einsum.name) if isinstance(node, Temporal) else None
            bound = MetLoop(placed, node, variable, shape, initial, extents[variable])
            loops.append(bound)
            extents[variable] = bound.largest
    return loops
