"""What a storage node costs where memories move whole lines (`arch.layout`), for every use of the lanes at a time.

With perfect factors the tiles of a tensor at a point of the lattice begin at multiples of their tile shapes, whatever
the order of loops and whoever runs them. So the lines that they touch in all depend on nothing but the point, as the
values do that fill a node; and where a memory stands above all lanes, what it costs is linear in them. Of an output two
numbers count: the lines of all fills, and those of the first fill of each tile, which brings no results.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from math import prod
from typing import Any

import numpy as np

from einmap.arch.component import Leaf, Memory
from einmap.arch.layout import Layout
from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Relevance
from einmap.errors import NotSupportedError
from einmap.mapper.mapspace.tile_lattice import Lattice
from einmap.model.counting.lines import lines_touched
from einmap.model.counting.reuse import Group, groups_of
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
    leaves: tuple[Leaf, ...]
    lattice: Lattice
    _known: dict[tuple[str, Layout], tuple[Floats, Floats]] = field(init=False, default_factory=dict)

    def layout(self, tensor: str, level: int) -> Layout | None:
        """How a tensor lies in the memory at a level; None where values are moved one by one."""
        leaf = self.leaves[level]
        return leaf.layouts.get(tensor) if isinstance(leaf, Memory) else None

    def weights(self, tensor: str, exchange: Chain) -> Floats:
        """The KINDS of numbers of the node at the end of an exchange, a row each, in values, for each point."""
        rows = np.zeros((KINDS, self.lattice.size))
        for i, level in enumerate((exchange[0], exchange[-1])):
            layout = self.layout(tensor, level)
            if layout is not None:
                rows[2 * i], rows[2 * i + 1] = self.lines(tensor, layout)
        return rows

    def lines(self, tensor: str, layout: Layout) -> tuple[Floats, Floats]:
        """What lines hold that all fills, and the first fills of each tile, move: values, for each point.

        Raises NotSupportedError for too many tiles.
        """
        key = tensor, layout
        if key not in self._known:
            access = self.einsum.by_tensor[tensor]
            once = np.full(self.lattice.size, float(layout.values))
            for group in groups_of(access):
                once = once * self._of_group(tensor, layout, group)
            every = once.copy()
            for i, axis in enumerate(self.lattice.axes):
                if access.relevance(axis.variables[0]) is Relevance.NONE:
                    every *= axis.sizes[-1] / self.lattice.shapes(i)
            self._known[key] = every, once
        return self._known[key]

    def _of_group(self, tensor: str, layout: Layout, group: Group) -> Floats:
        """Lines along the ranks of a group, summed over all tiles, for each point."""
        lattice, first = self.lattice, dict(self.einsum.first_values)
        ranks = tuple(
            (index.constant, tuple((group.variables.index(v), a) for v, a in index.terms), block, 0)
            for (_, index), block in zip(self.einsum.by_tensor[tensor].projection, layout.block, strict=True)
            if any(v in group.variables for v, _ in index.terms)
        )
        axes = [lattice.axis_of[v] for v in group.variables if v in lattice.axis_of]
        sizes = [lattice.axes[axis].sizes for axis in axes]
        table = np.empty(prod(map(len, sizes)))
        for number, shapes in enumerate(product(*sizes)):
            shape_of = dict(zip(axes, shapes, strict=True))
            variables = tuple(
                (first.get(v, 0), self.einsum.extents[v], ((shape, shape, ALL, False),))
                for v in group.variables
                for shape in [shape_of[lattice.axis_of[v]] if v in lattice.axis_of else 1]
            )
            lines = lines_touched(variables, ranks)
            if lines is None:
                raise NotSupportedError(
                    f"too many tiles of {tensor!r} to count the lines that they touch",
                    hint="leave the tensor out of `layout`",
                )
            table[number] = lines
        place: Any = np.zeros(lattice.size, dtype=np.int64)
        for axis in axes:
            place = place * len(lattice.axes[axis].sizes) + lattice.coord[:, axis]
        at_points: Floats = table[place]
        return at_points
