"""Tables of zeros where formats are left open: the least over those that are left, place by place.

A place is a memory with a tensor. A search parts what is left as it parts windows of chances: with several formats left
at a place, what is stored there costs no more than in the cheapest of them, and with one it is what that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from math import inf, prod
from typing import Any

import numpy as np

from einmap.arrays import Bools, Ints
from einmap.model.batch.zero_tables import Moved, ZeroTables
from einmap.sparse.blocks import mean_stored
from einmap.sparse.formats import Format

type Place = tuple[str, str]


@dataclass(frozen=True)
class OpenTables(ZeroTables):
    """Chances, and the least of what formats take. `alternatives`: by place; `left`: numbers of those that are left.

    `sparsity` has the first ones that are left. `each`: tables of one alternative at a place, for all who ask.
    `widths`: bits of a value at places where its metadata cost as much for each bit, or less.
    """

    alternatives: Mapping[Place, tuple[Format, ...]] = field(kw_only=True)
    left: Mapping[Place, tuple[int, ...]] = field(kw_only=True)
    widths: Mapping[Place, float] = field(kw_only=True, default_factory=dict)
    each: dict[tuple[Place, int], ZeroTables] = field(kw_only=True, default_factory=dict)
    _whole: dict[tuple[Place, int, float], float] = field(kw_only=True, default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether several formats are left at some place."""
        return any(len(numbers) > 1 for numbers in self.left.values())

    def only(self, place: Place, numbers: tuple[int, ...]) -> OpenTables:
        """These tables with some of the alternatives at a place."""
        formats = {**self.sparsity.formats, place: self.alternatives[place][numbers[0]]}
        return replace(self, sparsity=replace(self.sparsity, formats=formats), left={**self.left, place: numbers})

    def spread(self, widths: Callable[[Place], float]) -> tuple[float, Place | None]:
        """Where formats that are left differ most, by the bits of a whole tensor, the greatest by the least."""
        found: tuple[float, Place | None] = 0.0, None
        for place, numbers in self.left.items():
            if len(numbers) > 1:
                bits = [self._bits(place, n, widths(place)) for n in numbers]
                ratio = max(bits) / min(bits) if min(bits) else inf
                found = max(found, (ratio, place), key=lambda pair: pair[0])
        return found

    def halves(self, place: Place, width: float) -> tuple[OpenTables, OpenTables]:
        """These tables with the formats that take least of a whole tensor, and with the others; of several left."""
        order = tuple(sorted(self.left[place], key=lambda n: (self._bits(place, n, width), n)))
        half = (len(order) + 1) // 2
        return self.only(place, order[:half]), self.only(place, order[half:])

    def _bits(self, place: Place, number: int, width: float) -> float:
        if (place, number, width) not in self._whole:
            density = self.sparsity.densities[place[1]]
            whole = mean_stored(self.alternatives[place][number], density, density.shape)
            self._whole[place, number, width] = float(whole.values * width + whole.metadata)
        return self._whole[place, number, width]

    def _of(self, memory: str, tensor: str) -> list[ZeroTables]:
        """Tables of the alternatives that are left at a place; none where it is not open."""
        place, found = (memory, tensor), list[ZeroTables]()
        for number in self.left.get(place, ()):
            if (place, number) not in self.each:
                formats = {**self.sparsity.formats, place: self.alternatives[place][number]}
                self.each[place, number] = ZeroTables(self.einsum, replace(self.sparsity, formats=formats))
            found.append(self.each[place, number])
        return found

    # as they are asked for

    def formats_of(self, memory: str, tensor: str) -> tuple[Format, ...]:
        """Formats in which a memory may store a tensor."""
        place = memory, tensor
        if place not in self.left:
            return super().formats_of(memory, tensor)
        return tuple(self.alternatives[place][n] for n in self.left[place])

    def mark(self, memory: str, tensor: str) -> tuple[int, ...]:
        """Numbers of the formats that are left at a place; none where it is not open."""
        return self.left.get((memory, tensor), ())

    def kept(self, memory: str, tensor: str) -> float:
        """Values stored for each position, at least."""
        each = self._of(memory, tensor)
        return min(one.kept(memory, tensor) for one in each) if each else super().kept(memory, tensor)

    def metadata(self, memory: str, tensor: str, extents: Sequence[Any]) -> Any:
        """Bits of metadata of a tile, at least."""
        each = self._of(memory, tensor)
        if not each:
            return super().metadata(memory, tensor, extents)
        of_each = [0.0 if one.is_parted(memory, tensor) else one.metadata(memory, tensor, extents) for one in each]
        width = self.widths.get((memory, tensor))
        if width is None:
            return reduce(np.minimum, of_each)
        # the least of values and metadata together: what is beyond the fewest values
        bits, fewest = width * prod(np.asarray(n, dtype=np.float64) for n in extents), self.kept(memory, tensor)
        more = ((one.kept(memory, tensor) - fewest) * bits + own for one, own in zip(each, of_each, strict=True))
        return reduce(np.minimum, more)

    def share(self, memory: str, tensor: str, extents: Sequence[Any]) -> Any:
        """Bits of metadata for each position of the largest tile that a memory holds, at least."""
        each = self._of(memory, tensor)
        if not each:
            return super().share(memory, tensor, extents)
        return reduce(np.minimum, [one.share(memory, tensor, extents) for one in each])

    def room(self, memory: str, tensor: str, extents: Sequence[Any], width: float) -> Any:
        """Bits that the fullest tile of a shape takes in a memory, at least; `width`: bits of a value."""
        each = self._of(memory, tensor)
        if not each:
            return super().room(memory, tensor, extents, width)
        return reduce(np.minimum, [one.room(memory, tensor, extents, width) for one in each])

    def is_parted(self, memory: str, tensor: str) -> bool:
        """Whether one format is left, in which what a memory moves depends on the tile that it holds."""
        each = self._of(memory, tensor)
        if not each:
            return super().is_parted(memory, tensor)
        return len(each) == 1 and each[0].is_parted(memory, tensor)

    def keeps_blocks(self, memory: str, tensor: str, extents: Sequence[Any]) -> Bools:
        """Whether tiles of these lengths cut no blocks of the one format that is left."""
        each = self._of(memory, tensor)
        return each[0].keeps_blocks(memory, tensor, extents) if each else super().keeps_blocks(memory, tensor, extents)

    def moved(self, memory: str, tensor: str, extents: Sequence[Any], held: Sequence[Any]) -> Moved:
        """Values and metadata of boxes out of tiles, in the one format that is left."""
        each = self._of(memory, tensor)
        if each:
            return each[0].moved(memory, tensor, extents, held)
        return super().moved(memory, tensor, extents, held)

    def least_moved(self, memory: str, tensor: str, size: Sequence[Ints]) -> Moved:
        """Values and metadata of boxes, wherever they lie, in the one format that is left."""
        each = self._of(memory, tensor)
        return each[0].least_moved(memory, tensor, size) if each else super().least_moved(memory, tensor, size)


def combinations_of(tables: ZeroTables) -> int:
    """How many combinations of formats are left."""
    return prod(len(numbers) for numbers in tables.left.values()) if isinstance(tables, OpenTables) else 1
