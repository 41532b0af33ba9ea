"""Formats of sparse tiles: values and bits of metadata that a tile takes, rank by rank.

A format is a list of levels, outermost first, each of one rank or of several that are flattened. A level with fibers of
`d` positions stores (Sze et al., Efficient Processing of Deep Neural Networks, chapter 8; Wu et al., Sparseloop, 2022):

- `U`: nothing; each position has a fiber, or a value, of its own
- `CP`, coordinates: `bits` for each position that is not empty
- `B`, a bitmask: `bits`, one, for each position
- `RLE`, run lengths: `bits` for each position that is not empty
- `UOP`, offset pairs: `bits` for each position and one more
- `ELL`, a fixed number of coordinates (ELLPACK): `bits` for each of `entries` slots. Those that no position fills are
  padding, which stands behind the last position of a fiber. Tiles with fewer positions have so many slots. Levels
  further out are `U`

Below `U` there is a fiber for each position, below `ELL` one for each slot, below the others one for each position that
is not empty.

Ranks may be cut into blocks: M by 4 into `M / 4`, which block, and `M % 4`, where in it. Positions of ranks in levels
are then those of their parts (`Format.parts_of`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod
from typing import Any, Literal, Protocol

import numpy as np

from einmap.arrays import Amounts, Wholes

type Kind = Literal["U", "CP", "B", "RLE", "UOP", "ELL"]
type Parts = Callable[[Sequence[int]], Amounts]
"""Indices of some ranks of a tile, by their positions, at which its other ranks hold a nonzero."""
type Written = tuple[Kind, tuple[int, ...], int | None, int | None]
"""Kind, positions of ranks, bits and entries of a level, None where these are left out."""

NAMED: dict[str, tuple[tuple[Kind, ...], str]] = {
    "uncompressed": (("U",), "all values, zeros as well; ranks are flattened"),
    "bitmask": (("B",), "a bit for each value, and the nonzeros; ranks are flattened"),
    "rle": (("RLE",), "for each nonzero the zeros before it; ranks are flattened"),
    "coo": (("CP",), "for each nonzero its coordinates; ranks are flattened"),
    "csr": (("UOP", "CP"), "offsets of the first rank, coordinates of the others, which are flattened"),
    "csc": (("UOP", "CP"), "as csr, with the last rank first"),
    "csf": (("CP",), "coordinates, rank by rank"),
    "ellpack": (("U", "ELL"), "for each index of the first rank as many coordinates of the others as any needs"),
}
"""Formats by name: kinds of their levels, and what they store."""


@dataclass(frozen=True)
class Level:
    """One level: its kind, the positions of its ranks, and bits of one coordinate, run or offset.

    `entries`: slots of a fiber of `ELL`; `fits`: whether these are as many as the fullest fiber of the tensor needs.
    """

    kind: Kind
    ranks: tuple[int, ...]
    bits: int
    entries: int = 0
    fits: bool = False


@dataclass(frozen=True)
class Stored:
    """Space of a tile in a format, or of several: values, and bits of metadata."""

    values: Amounts
    metadata: Amounts


class Parted(Protocol):
    """Boxes that are parts of the tiles of a memory: what a format asks about them; ranks by their positions."""

    @property
    def size(self) -> Sequence[Wholes]:
        """Lengths of the boxes."""

    @property
    def tile_size(self) -> Sequence[Wholes]:
        """Lengths of the tiles."""

    def filled(self, ranks: Sequence[int], wide: Sequence[int] = ()) -> Amounts:
        """Indices of some ranks at which the others hold a nonzero; along the ranks `wide` those of the tiles."""

    def at_end(self, ranks: Sequence[int]) -> Amounts:
        """1 where a box reaches the end of its tile along some ranks, else 0."""


@dataclass(frozen=True)
class Format:
    """Levels of a tensor, outermost first. `blocks`: by rank the length of its blocks, 1: not cut; empty: none is."""

    levels: tuple[Level, ...]
    blocks: tuple[int, ...] = ()

    @property
    def is_compressed(self) -> bool:
        """Whether zeros may be left out: a level tells which positions have something."""
        return any(level.kind != "U" for level in self.levels)

    @cached_property
    def dense(self) -> tuple[int, ...]:
        """Ranks of the last levels that tell nothing, below one that does: what is stored has all their positions."""
        found: list[int] = []
        for level in reversed(self.levels):
            if level.kind != "U":
                return tuple(found)
            found += level.ranks
        return ()

    @cached_property
    def is_plain(self) -> bool:
        """Whether either all values are stored, or those that are not zero, and ranks are whole."""
        return not (self.blocks or self.dense or any(level.kind == "ELL" for level in self.levels))

    @property
    def is_padded(self) -> bool:
        """Whether fibers have a fixed number of entries."""
        return any(level.kind == "ELL" for level in self.levels)

    def stored(self, size: Sequence[Wholes], parts: Parts, tiles: int = 1) -> Stored:
        """Values and metadata of tiles in a plain format; means of `parts` give means, since all is linear in them.

        `tiles`: how many of one shape `parts` adds up.
        """
        fibers: Any = float(tiles)
        bits: Any = 0.0
        ranks: list[int] = []
        for level in self.levels:
            ranks += level.ranks
            positions = fibers * prod(size[rank] for rank in level.ranks)
            filled = parts(ranks)
            bits = bits + _bits(level, fibers, positions, filled)
            fibers = positions if level.kind == "U" else filled
        return Stored(fibers, bits)

    def parted(self, boxes: Parted) -> Stored:
        """Values and metadata of boxes of tiles; means of what `boxes` tell give means."""
        fibers: Any = 1.0
        bits: Any = 0.0
        ranks: list[int] = []
        for level in self.levels:
            ranks += level.ranks
            positions = fibers * prod(boxes.size[rank] for rank in level.ranks)
            if level.kind == "U":
                fibers = positions
                continue
            filled = boxes.filled(ranks)
            if level.kind == "ELL":
                slots = np.minimum(level.entries, prod(boxes.tile_size[rank] for rank in level.ranks))
                padding = fibers * slots - boxes.filled(ranks, level.ranks)
                filled = filled + boxes.at_end(level.ranks) * padding
            bits = bits + _bits(level, fibers, positions, filled)
            fibers = filled
        return Stored(fibers, bits)

    def most(self, size: Sequence[int], nonzeros: int) -> Stored:
        """Values and metadata of a tile of a shape with so many nonzeros at most, wherever these are; plain formats."""
        return self.stored(size, lambda ranks: min(nonzeros, prod(size[rank] for rank in ranks)))

    def parts_of(self, shape: Sequence[int]) -> tuple[int, ...]:
        """Lengths of the ranks of levels: of each rank its length, or how many blocks and the length of one."""
        return cut_shape(shape, self.blocks)


def _bits(level: Level, fibers: Any, positions: Any, filled: Any) -> Any:
    match level.kind:
        case "CP" | "RLE" | "ELL":
            return filled * level.bits
        case "B":
            return positions * level.bits
        case "UOP":
            return (positions + fibers) * level.bits
        case "U":
            return 0.0


def cut_shape(shape: Sequence[int], blocks: Sequence[int]) -> tuple[int, ...]:
    """Lengths of ranks, of a rank that is cut into blocks how many there are and the length of one."""
    found: list[int] = []
    for length, block in zip(shape, blocks or [1] * len(shape), strict=True):
        found += [length] if block == 1 else [length // block, block]
    return tuple(found)


def coordinate_bits(positions: int) -> int:
    """Bits that tell one of so many positions."""
    return max(0, positions - 1).bit_length()


def format_of(kinds: Sequence[Written], shape: Sequence[int], blocks: Sequence[int] = ()) -> Format:
    """A format of a tensor; where bits are left out, those that coordinates and offsets in the whole tensor need.

    An offset tells how many values come before, or how many blocks that are stored whole. Entries that are left out are
    all positions of a fiber, until `fitting` says how many it needs.
    """
    parts = cut_shape(shape, blocks)
    dense = Format(tuple(Level(kind, ranks, 0) for kind, ranks, _, _ in kinds)).dense
    counted = prod(n for rank, n in enumerate(parts) if rank not in dense)
    levels = []
    for kind, ranks, given, entries in kinds:
        positions = prod(parts[rank] for rank in ranks)
        bits = given
        if bits is None:
            bits = counted.bit_length() if kind == "UOP" else 1 if kind == "B" else coordinate_bits(positions)
        fits = kind == "ELL" and entries is None
        levels.append(Level(kind, ranks, bits, (entries or positions) if kind == "ELL" else 0, fits))
    return Format(tuple(levels), tuple(blocks))


def named_format(name: str, shape: Sequence[int], blocks: Sequence[int] = (), entries: int | None = None) -> Format:
    """The format of a name for a tensor of a shape, of its blocks where it is cut, each of which is stored whole.

    `name` is one of `NAMED`; `csr`, `csc` and `ellpack` need two ranks.
    """
    kinds, _ = NAMED[name]
    outer, inner, n = list[int](), list[int](), 0
    for block in blocks or [1] * len(shape):
        outer.append(n)
        inner += [] if block == 1 else [n + 1]
        n += 1 if block == 1 else 2
    if name == "csc":
        outer = [outer[-1], *outer[:-1]]
    groups = [(rank,) for rank in outer] if name == "csf" else [tuple(outer)]
    if len(kinds) == 2:
        groups = [tuple(outer[:1]), tuple(outer[1:])]
    all_kinds = kinds * len(groups) if name == "csf" else kinds
    written: list[Written] = [(kind, group, None, entries) for kind, group in zip(all_kinds, groups, strict=True)]
    return format_of([*written, ("U", tuple(inner), None, None)] if inner else written, shape, blocks)
