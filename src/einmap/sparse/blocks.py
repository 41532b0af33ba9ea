"""Room of boxes in formats with blocks, with padding, or with dense tiles below a level that tells.

A box is a part of the tile that a memory holds. Of a block that has a nonzero in the tile the box takes all positions
that lie in it, zeros as well. Padding of a fiber is taken with the last position of the fiber in the tile.

Boxes are cut as ranks are: along a rank in blocks they are whole blocks, or lie in one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod
from typing import Any

import numpy as np

from einmap.arrays import Amounts, Wholes
from einmap.errors import NotSupportedError, SpecError
from einmap.sparse.densities import Along, Density, Structured
from einmap.sparse.formats import Format, Level, Stored, cut_shape
from einmap.sparse.known import Known

type Boxes = tuple[Along, Along]
"""First indices and lengths, rank by rank."""


def stored(fmt: Format, density: Density, low: Along, size: Along, tile: Boxes | None = None) -> Stored:
    """Values and bits of metadata that boxes take on average; `tile`: the tiles of which they are parts, or themselves.

    Raises NotSupportedError where boxes cut blocks.
    """
    if fmt.is_plain:
        return fmt.stored(size, lambda ranks: density.parts(low, size, ranks))
    boxes = cut_boxes(low, size, fmt.blocks)
    tiles = boxes if tile is None else cut_boxes(*tile, fmt.blocks)
    return fmt.parted(Parts(cut_density(density, fmt.blocks), fmt.dense, boxes, tiles))


def mean_stored(fmt: Format, density: Density, size: Sequence[int]) -> Stored:
    """`stored` of a tile of a shape: of known zeros the mean over tiles laid side by side."""
    if fmt.is_plain:
        return fmt.stored(size, lambda ranks: mean_parts(density, size, ranks))
    cut = cut_density(density, fmt.blocks)
    _, parts = cut_boxes([0] * len(size), size, fmt.blocks)
    whole = [int(n) for n in parts]
    return fmt.parted(Alone(whole, lambda ranks: mean_parts(cut, whole, ranks)))


def most_stored(fmt: Format, density: Density, size: Sequence[int]) -> Stored:
    """Values and metadata of the fullest tile of a shape that can occur, at most."""
    if fmt.is_plain:
        return fmt.most(size, density.most(size))
    cut = cut_density(density, fmt.blocks)
    _, parts = cut_boxes([0] * len(size), size, fmt.blocks)
    whole = [int(n) for n in parts]
    return fmt.parted(Alone(whole, lambda ranks: _most_parts(cut, whole, ranks)))


def _most_parts(density: Density, size: Sequence[int], ranks: Sequence[int]) -> int:
    """Indices of some ranks of a tile at which its other ranks hold a nonzero, at most."""
    found = min(density.most(size), prod(size[rank] for rank in ranks))
    if isinstance(density, Known):
        spanned = tuple(
            rank for rank, whole in enumerate(density.shape) if rank not in ranks and size[rank] == whole > 1
        )
        if spanned:
            found = min(found, density.without(spanned).most([1 if r in spanned else n for r, n in enumerate(size)]))
    return found


def mean_parts(density: Density, size: Sequence[int], kept: Sequence[int]) -> float:
    """Indices of some ranks at which the other ranks of a tile hold a nonzero, on average.

    Of known zeros over tiles that are laid side by side; of others it does not matter which tile of a shape is told.
    """
    if not isinstance(density, Known):
        return float(density.parts([0] * len(size), size, kept))
    tiles = prod(-(-whole // max(1, n)) for whole, n in zip(density.shape, size, strict=True))
    return density.laid(size, kept) / tiles


@dataclass(frozen=True)
class Parts:
    """Boxes in tiles, cut as ranks are. `dense`: ranks of which blocks are stored whole."""

    density: Density
    dense: Sequence[int]
    boxes: Boxes
    tiles: Boxes

    @property
    def size(self) -> Sequence[Wholes]:
        """Lengths of the boxes."""
        return self.boxes[1]

    @property
    def tile_size(self) -> Sequence[Wholes]:
        """Lengths of the tiles."""
        return self.tiles[1]

    def filled(self, ranks: Sequence[int], wide: Sequence[int] = ()) -> Amounts:
        """Indices of some ranks at which the others hold a nonzero; along `wide` those of the tiles."""
        taken = [self.tiles if rank in wide or rank in self.dense else self.boxes for rank in range(len(self.size))]
        low, size = ([one[end][rank] for rank, one in enumerate(taken)] for end in (0, 1))
        return self.density.parts(low, size, ranks)

    def at_end(self, ranks: Sequence[int]) -> Amounts:
        """1 where a box reaches the end of its tile along some ranks, else 0."""
        found: Any = 1.0
        for rank in ranks:
            own, whole = (low[rank] + size[rank] for low, size in (self.boxes, self.tiles))
            found = found * np.where(np.equal(own, whole), 1.0, 0.0)
        return found if np.ndim(found) else float(found)


@dataclass(frozen=True)
class Laid(Parts):
    """Boxes of one shape laid side by side in tiles, on average over them; both begin with blocks."""

    def at_end(self, ranks: Sequence[int]) -> Amounts:
        """The part of the boxes that reach the end of their tile along some ranks."""
        found: Amounts = prod([self.size[rank] / self.tile_size[rank] for rank in ranks])
        return found


def laid_stored(fmt: Format, density: Density, size: Along, tile: Along) -> Stored:
    """Values and metadata of boxes of a shape, on average over those that are laid side by side in a tile.

    Neither cuts blocks (`keeps_blocks`), those of a structured density included.
    """
    zeros = [0] * len(size)
    if fmt.is_plain:
        return fmt.stored(size, lambda ranks: density.parts(zeros, size, ranks))
    cut = cut_density(density, fmt.blocks)
    return fmt.parted(Laid(cut, fmt.dense, cut_boxes(zeros, size, fmt.blocks), cut_boxes(zeros, tile, fmt.blocks)))


def keeps_blocks(fmt: Format, size: Along) -> Any:
    """Whether tiles laid side by side are whole blocks of a format, or parts of one, along each rank."""
    found: Any = True
    for n, block in zip(size, fmt.blocks, strict=False):
        length = np.maximum(n, 1)
        found = found & ((length % block == 0) | (block % length == 0))
    return found


@dataclass(frozen=True)
class Alone:
    """One tile by itself. `parts`: indices of some ranks at which the others hold a nonzero."""

    size: Sequence[int]
    parts: Callable[[Sequence[int]], float]

    @property
    def tile_size(self) -> Sequence[int]:
        """Lengths of the tile."""
        return self.size

    def filled(self, ranks: Sequence[int], wide: Sequence[int] = ()) -> float:  # noqa: ARG002
        """Indices of some ranks at which the others hold a nonzero."""
        return self.parts(ranks)

    def at_end(self, ranks: Sequence[int]) -> float:  # noqa: ARG002
        """1: a tile reaches its own end."""
        return 1.0


def cut_boxes(low: Along, size: Along, blocks: Sequence[int]) -> Boxes:
    """Boxes along ranks that are cut into blocks. Raises NotSupportedError for boxes that begin or end in several."""
    begins: list[Wholes] = []
    lengths: list[Wholes] = []
    for a, n, block in zip(low, size, blocks or [1] * len(size), strict=True):
        if block == 1:
            begins.append(a)
            lengths.append(n)
            continue
        begin, length = np.asarray(a), np.asarray(n)
        within = begin % block
        is_whole = (within == 0) & (length % block == 0)
        if not np.all(is_whole | (within + length <= block) | (length == 0)):
            raise NotSupportedError(
                f"tiles that cut blocks of {block} of a format are not supported yet",
                hint="choose tile shapes that blocks divide, or that divide blocks",
            )
        there = np.minimum(length, 1)
        begins += [_plain(begin // block), _plain(np.where(is_whole, 0, within))]
        lengths += [
            _plain(np.where(is_whole, length // block, there)),
            _plain(np.where(is_whole, block * there, length)),
        ]
    return begins, lengths


def _plain(values: Any) -> Wholes:
    """A number for an array of no axes."""
    found: Wholes = values if values.ndim else int(values)
    return found


def cut_density(density: Density, blocks: Sequence[int]) -> Density:
    """The density of a tensor whose ranks are cut into blocks; those of a structured one lie in those of the format."""
    if not blocks:
        return density
    shape = cut_shape(density.shape, blocks)
    if isinstance(density, Known):
        return density.reshaped(shape)
    if isinstance(density, Structured):
        along = density.rank + sum(block > 1 for block in blocks[: density.rank + 1])
        return replace(density, shape=shape, rank=along)
    return replace(density, shape=shape)


def fitting(fmt: Format, density: Density, tensor: str) -> Format:
    """A format of a tensor with as many entries as its fullest fiber needs, where they are not given.

    Raises SpecError where entries that are given are too few for zeros that are known, or for those of an average
    fiber, and where blocks of a structured density do not lie in blocks of the format.
    """
    if isinstance(density, Structured) and fmt.blocks and fmt.blocks[density.rank] % density.m:
        block = fmt.blocks[density.rank]
        if block > 1:
            raise SpecError(
                f"{density.n} of {density.m} neighbours of {tensor!r} are nonzero, and blocks of {block} cut them",
                hint=f"choose blocks that {density.m} divides",
            )
    if not fmt.is_padded:
        return fmt
    levels = []
    for place, level in enumerate(fmt.levels):
        if level.kind == "ELL":
            least, most = _fullest(fmt, density, place)
            if level.fits:
                level = replace(level, entries=max(1, most))  # noqa: PLW2901
            elif level.entries < least:
                about = "the fullest fiber" if isinstance(density, Known) else "an average fiber"
                places = "1 place that is" if least == 1 else f"{least} places that are"
                entries = "1 entry" if level.entries == 1 else f"{level.entries} entries"
                raise SpecError(
                    f"{about} of {tensor!r} has {places} not empty, and {entries}",
                    hint=f"entries: {most}",
                )
        levels.append(level)
    return replace(fmt, levels=tuple(levels))


def _fullest(fmt: Format, density: Density, place: int) -> tuple[int, int]:
    """Positions that are not empty of a fiber of a level: those that there are for certain, and at most."""
    level: Level = fmt.levels[place]
    cut = cut_density(density, fmt.blocks)
    outer = [rank for one in fmt.levels[:place] for rank in one.ranks]
    fiber = [1 if rank in outer else n for rank, n in enumerate(cut.shape)]
    if isinstance(cut, Known):
        rest = tuple(rank for rank in range(len(fiber)) if rank not in outer and rank not in level.ranks)
        most = cut.without(rest).most([1 if rank in rest else n for rank, n in enumerate(fiber)])
        return most, most
    mean = float(cut.parts([0] * len(fiber), fiber, level.ranks))
    return ceil(mean - 1e-9), _most_parts(cut, fiber, level.ranks)
