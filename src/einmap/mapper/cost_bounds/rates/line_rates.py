"""Cost of a storage node where memories move whole lines (`arch.layout`), for every use of the lanes at a time.

With perfect factors the tiles of a tensor at a point of the lattice begin at multiples of their tile shapes, whatever
the order of loops and whoever runs them. So the lines that they touch in all depend on nothing but the point, as the
values do that fill a node; and where a memory stands above all lanes, what it costs is linear in them. Of an output two
numbers count: the lines of all fills, and those of the first fill of each tile, which brings no results.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from einmap.arch.component import Compute, Leaf, Memory
from einmap.arch.layout import Layout
from einmap.arch.tree import Architecture
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.mapper.mapspace.tile_lattice import Lattice
from einmap.model.counting.lines import LineCounts
from einmap.model.counting.path import EinsumPath, Loop, Station
from einmap.model.counting.reuse import VariableTiles
from einmap.model.counting.tiles import ALL

type Chain = tuple[int, ...]
KINDS = 4
"""Numbers of a node: lines of all fills and of first fills, in the parent's memory and then in its own."""


def moves_lines(leaves: tuple[Leaf, ...]) -> bool:
    """Whether some memory of a path moves lines."""
    return any(isinstance(leaf, Memory) and leaf.layout for leaf in leaves)


def in_lines(einsum: Einsum, leaves: tuple[Leaf, ...]) -> frozenset[str]:
    """Rank variables of tensors that some memory of a path moves in lines: their tile shapes matter one by one."""
    layouts = [leaf.layouts for leaf in leaves if isinstance(leaf, Memory)]
    tensors = [access for access in einsum.accesses if any(access.tensor in layout for layout in layouts)]
    return frozenset[str]().union(*(access.variables for access in tensors))


@dataclass(eq=False)
class LineRates:
    """Lines at all points of a lattice."""

    einsum: Einsum
    arch: Architecture
    leaves: tuple[Leaf, ...]
    lattice: Lattice
    _known: dict[tuple[str, Layout], tuple[Floats, Floats]] = field(init=False, default_factory=dict)

    def layout(self, tensor: str, level: int) -> Layout | None:
        """How a tensor lies in the memory at a level; None where values are moved one by one."""
        leaf = self.leaves[level]
        return leaf.layouts.get(tensor) if isinstance(leaf, Memory) else None

    def weights(self, tensor: str, exchange: Chain) -> Floats:
        """The KINDS of numbers of the node at the end of an exchange, a row each, for each point."""
        rows = np.zeros((KINDS, self.lattice.size))
        for i, level in enumerate((exchange[0], exchange[-1])):
            layout = self.layout(tensor, level)
            if layout is not None:
                rows[2 * i], rows[2 * i + 1] = self.lines(tensor, layout)
        return rows

    def lines(self, tensor: str, layout: Layout) -> tuple[Floats, Floats]:
        """Lines that all fills, and the first fills of each tile, move, for each point.

        Raises NotSupportedError for too many tiles.
        """
        key = tensor, layout
        if key not in self._known:
            access, lattice = self.einsum.by_tensor[tensor], self.lattice
            shapes = {v: lattice.shapes(axis).astype(np.int64) for v, axis in lattice.axis_of.items()}
            loops = tuple(Loop(v, shapes.get(v, 1), None, i, (i,)) for i, v in enumerate(sorted(access.variables)))
            unit = self.leaves[-1]
            assert isinstance(unit, Compute)
            compute = Station(unit, len(self.leaves) - 1, len(loops), ())
            path = EinsumPath(self.einsum, self.arch, self.leaves, loops, {}, compute, {})
            counts = LineCounts(path, access, VariableTiles(path), layout, 0)
            once = np.broadcast_to(np.float64(1) * counts.relevant((ALL,) * len(loops)), lattice.size)
            every = once.copy()
            for i, axis in enumerate(lattice.axes):
                if access.relevance(axis.variables[0]) is Relevance.NONE:
                    every *= axis.sizes[-1] / lattice.shapes(i)
            self._known[key] = every, once
        return self._known[key]
