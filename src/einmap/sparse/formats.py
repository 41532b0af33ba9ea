"""Formats of sparse tiles: values and bits of metadata that a tile takes, rank by rank.

A format is a list of levels, outermost first, each of one rank or of several that are flattened. A level with fibers of
`d` positions stores (Sze et al., Efficient Processing of Deep Neural Networks, chapter 8; Wu et al., Sparseloop, 2022):

- `U`: nothing; each position has a fiber, or a value, of its own
- `CP`, coordinates: `bits` for each position that is not empty
- `B`, a bitmask: `bits`, one, for each position
- `RLE`, run lengths: `bits` for each position that is not empty
- `UOP`, offset pairs: `bits` for each position and one more

Below `U` there is a fiber for each position, below the others one for each position that is not empty.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

from einmap.arrays import Amounts, Wholes

type Kind = Literal["U", "CP", "B", "RLE", "UOP"]
type Parts = Callable[[Sequence[int]], Amounts]
"""Indices of some ranks of a tile, by their positions, at which its other ranks hold a nonzero."""

NAMED: dict[str, tuple[tuple[Kind, ...], str]] = {
    "uncompressed": (("U",), "all values, zeros as well; ranks are flattened"),
    "bitmask": (("B",), "a bit for each value, and the nonzeros; ranks are flattened"),
    "rle": (("RLE",), "for each nonzero the zeros before it; ranks are flattened"),
    "coo": (("CP",), "for each nonzero its coordinates; ranks are flattened"),
    "csr": (("UOP", "CP"), "offsets of the first rank, coordinates of the others, which are flattened"),
    "csc": (("UOP", "CP"), "as csr, with the last rank first"),
    "csf": (("CP",), "coordinates, rank by rank"),
}
"""Formats by name: kinds of their levels, and what they store."""


@dataclass(frozen=True)
class Level:
    """One level: its kind, the positions of its ranks in the tensor, and bits of one coordinate, run or offset."""

    kind: Kind
    ranks: tuple[int, ...]
    bits: int


@dataclass(frozen=True)
class Stored:
    """Space of a tile in a format, or of several: values, and bits of metadata."""

    values: Amounts
    metadata: Amounts


@dataclass(frozen=True)
class Format:
    """Levels of a tensor, outermost first."""

    levels: tuple[Level, ...]

    @property
    def is_compressed(self) -> bool:
        """Whether zeros are left out: the last level tells which positions have a value."""
        return self.levels[-1].kind != "U"

    def stored(self, size: Sequence[Wholes], parts: Parts) -> Stored:
        """Values and metadata of tiles; means of `parts` give means, since all is linear in them."""
        fibers: Any = 1.0
        bits: Any = 0.0
        ranks: list[int] = []
        for level in self.levels:
            ranks += level.ranks
            positions = fibers * prod(size[rank] for rank in level.ranks)
            filled = parts(ranks)
            match level.kind:
                case "CP" | "RLE":
                    bits += filled * level.bits
                case "B":
                    bits += positions * level.bits
                case "UOP":
                    bits += (positions + fibers) * level.bits
                case "U":
                    pass
            fibers = positions if level.kind == "U" else filled
        return Stored(fibers, bits)

    def most(self, size: Sequence[int], nonzeros: int) -> Stored:
        """Values and metadata of a tile of a shape with so many nonzeros, wherever these are, at most."""
        return self.stored(size, lambda ranks: min(nonzeros, prod(size[rank] for rank in ranks)))


def coordinate_bits(positions: int) -> int:
    """Bits that tell one of so many positions."""
    return max(0, positions - 1).bit_length()


def format_of(kinds: Sequence[tuple[Kind, tuple[int, ...], int | None]], shape: Sequence[int]) -> Format:
    """A format of a tensor; where bits are left out, those that coordinates and offsets in the whole tensor need.

    An offset tells how many values come before.
    """
    levels = []
    for kind, ranks, given in kinds:
        if given is not None:
            bits = given
        elif kind == "UOP":
            bits = prod(shape).bit_length()
        else:
            bits = 1 if kind == "B" else coordinate_bits(prod(shape[rank] for rank in ranks))
        levels.append(Level(kind, ranks, bits))
    return Format(tuple(levels))


def named_format(name: str, shape: Sequence[int]) -> Format:
    """The format of a name for a tensor of a shape; `name` is one of `NAMED`, and `csr` and `csc` need two ranks."""
    kinds, _ = NAMED[name]
    ranks = tuple(range(len(shape)))
    if name == "csc":
        ranks = (ranks[-1], *ranks[:-1])
    if name == "csf":
        return format_of([("CP", (rank,), None) for rank in ranks], shape)
    groups = (ranks,) if len(kinds) == 1 else (ranks[:1], ranks[1:])
    return format_of([(kind, group, None) for kind, group in zip(kinds, groups, strict=True)], shape)
