"""Bytes that come into a cache while fast code runs: those of every reuse that does not fit, whatever nodes say.

Where loops are spread over cores, bytes are those of one core.

A cache holds what was used last. Values that the turns of a loop share are there in the next turn if all that one turn
touches fits (the distance of a reuse: Mattson et al., "Evaluation techniques for storage hierarchies", 1970; for nests
of loops Wolf and Lam, "A data locality optimizing algorithm", 1991), and if no set of the cache gets more lines of the
array than it has ways: rows that lie a multiple of `size / ways` apart share one set.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import ceil, inf, prod
from typing import Literal

from einmap.emit.fast.nest import Held, Loop, Nest

LINE = 64
"""Bytes of a line of the caches."""
WAYS = 8
"""Lines of a set: of L1 and L2 of Zen 4 and of Intel's cores since Haswell, or near them."""
MOST_ROWS = 256
"""Rows of a dimension that are counted set by set; more of them spread as these do."""


@dataclass(frozen=True, slots=True)
class Array:
    """An array in memory: a tensor that is read or written in its place, what is packed, and its copy.

    `pack`: the step of the nest that packs it, -1 where none does.
    """

    tensor: str
    kind: Literal["place", "source", "copy"]
    pack: int = -1


class Reuse:
    """The nest's arrays, and what each part of the nest touches of them. `value_bytes`: of a value of each tensor."""

    def __init__(self, nest: Nest, value_bytes: Mapping[str, float]) -> None:
        self.nest, self.value_bytes = nest, value_bytes
        self.projections = {a.tensor: a.projection for a in nest.einsum.accesses}
        self.extents = [dict(nest.einsum.bounds)]
        """Values of each rank variable inside the first steps of the nest."""
        for step in nest.steps:
            here = self.extents[-1]
            cut = {step.variable: min(here[step.variable], step.tile)} if isinstance(step, Loop) else {}
            self.extents.append(here | cut)
        self._take_one_core()
        self.arrays = tuple(self._arrays())

    def _take_one_core(self) -> None:
        """Extents of one core: of a rank variable that is spread further in, its part.

        Of 1,024 rows by 512, then by 256 on two cores: 512, 256 and 256.
        """
        for depth, step in enumerate(self.nest.steps):
            if isinstance(step, Loop) and step.lanes:
                for outside in self.extents[: depth + 1]:
                    outside[step.variable] = ceil(outside[step.variable] * step.tile / step.extent)

    def packed_part(self, array: Array) -> float:
        """Which part of what it reads of a copy a core packs: all cores pack a copy that is there for all of them."""
        step = self.nest.steps[array.pack]
        if not isinstance(step, Held) or step.packed is None or not self.nest.is_shared(step.packed):
            return 1.0
        return 1 / prod(s.iterations for s in self.nest.loops if s.lanes) / self.part(array)

    def part(self, array: Array) -> float:
        """The part of a copy that one core reads, where it is there once for several cores."""
        spread = [s for s in self.nest.steps[max(array.pack, 0) :] if isinstance(s, Loop) and s.lanes]
        return prod(s.tile / s.extent for s in spread if s.variable in self.nest.ranks[array.tensor])

    def _arrays(self) -> Iterator[Array]:
        for place, step in enumerate(self.nest.steps):
            if isinstance(step, Held) and step.packed is not None:
                yield Array(step.tensor, "source", place)
                yield Array(step.tensor, "copy", place)
        yield from (Array(t, "place") for t in sorted(self.nest.in_place))
        yield Array(self.nest.output, "place")

    def footprint(self, array: Array, depth: int) -> float:
        """Bytes of the lines of an array that the steps from `depth` on touch."""
        if array.kind == "source" and array.pack < depth:
            return 0
        size = self.value_bytes[array.tensor]
        if array.kind == "copy":
            layout = self.nest.packed[array.tensor].layout
            tile = {v: n for v, n, _ in layout.tile}
            ranks = self.nest.ranks[array.tensor]
            inside = prod(max(tile.get(v, 1), self.extents[depth][v]) for v in ranks)
            return size * (layout.size * self.part(array) if array.pack >= depth else inside)
        shape, whole = self._shape(array, depth), self.nest.shapes[array.tensor]
        row, rows = shape[-1], 1
        for n, full in zip(reversed(shape[:-1]), reversed(whole[1:]), strict=True):
            row, rows = (row * n, 1) if rows == 1 and row % full == 0 else (row, rows * n)
        return rows * LINE * ceil(row * size / LINE)

    def total(self, depth: int) -> float:
        """Bytes that the steps from `depth` on touch of all arrays."""
        return sum(self.footprint(a, depth) for a in self.arrays)

    def bytes_into(self, cache: float, *, warm: bool) -> dict[Array, float]:
        """Bytes of each array that come into a cache of so many bytes. `warm`: the same nest has run just before."""
        steps = self.nest.steps
        if warm and self.total(0) <= cache:
            return dict.fromkeys(self.arrays, 0.0)
        found = {a: 0.0 if a.kind == "source" else self.footprint(a, len(steps)) for a in self.arrays}
        for depth in reversed(range(len(steps))):
            step = steps[depth]
            if isinstance(step, Loop):
                self._turn(step, depth, cache, found)
            elif step.packed is not None:
                self._pack(depth, cache, found)
        return found

    def _turn(self, loop: Loop, depth: int, cache: float, found: dict[Array, float]) -> None:
        """From one turn of a loop to all of them; a core takes one turn of a loop that is spread over cores."""
        if loop.lanes:
            return
        fits = self.total(depth + 1) <= cache
        for array in self.arrays:
            is_kept = fits and not self.is_crowded(array, depth + 1, cache)
            moves = loop.variable in self.nest.ranks[array.tensor] and not (array.kind == "copy" and array.pack > depth)
            all_turns = loop.iterations * found[array]
            if not moves:
                found[array] = found[array] if is_kept else all_turns
            else:  # neighbouring tiles of an image overlap
                found[array] = min(all_turns, self.footprint(array, depth)) if is_kept else all_turns

    def _pack(self, depth: int, cache: float, found: dict[Array, float]) -> None:
        """Bytes that packing reads and writes; the tiles find the copy where packing left it, if both fit."""
        (source, copy) = (a for a in self.arrays if a.pack == depth)
        found[source] = self.footprint(source, depth)
        written = self.footprint(copy, depth)
        if found[source] + written > cache:
            found[copy] += written
        else:
            found[copy] = written if self.total(depth) <= cache else max(written, found[copy])

    def is_crowded(self, array: Array, depth: int, cache: float) -> bool:
        """Whether the rows that steps from `depth` on touch need more lines of one set of the cache than it has."""
        if array.kind == "copy" or (array.kind == "source" and array.pack < depth) or cache == inf:
            return False
        sets = max(1, int(cache / WAYS / LINE))
        shape, whole = self._shape(array, depth), self.nest.shapes[array.tensor]
        size = self.value_bytes[array.tensor]
        stride, starts = size * whole[-1], Counter({0: 1})
        for n, full in zip(reversed(shape[:-1]), reversed(whole[:-1]), strict=True):
            moved = Counter[int]()
            for i in range(min(n, MOST_ROWS)):
                for place, count in starts.items():
                    moved[(place + int(i * stride) // LINE) % sets] += count
            starts, stride = moved, stride * full
            if len(starts) == sets:
                return False
        lines = -(-int(shape[-1] * size) // LINE)
        if lines >= sets:
            return False
        fullest = Counter[int]()
        for place, count in starts.items():
            for line in range(lines):
                fullest[(place + line) % sets] += count
        return max(fullest.values()) > WAYS

    def _shape(self, array: Array, depth: int) -> list[int]:
        return [index.extent(self.extents[depth]) for _, index in self.projections[array.tensor]]
