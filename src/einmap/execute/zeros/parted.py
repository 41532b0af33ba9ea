"""Parts of tiles in formats with blocks or padding, written out fiber by fiber.

Tiles are laid into whole blocks, of which what is outside of the tile is not there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from einmap.arrays import Bools, Ints
from einmap.errors import SpecError
from einmap.schedule.boxes import Box
from einmap.sparse.formats import Format, cut_shape


@dataclass(frozen=True, eq=False)
class PartedTile:
    """A tile of a memory in a format. `nonzero`: where its values are nonzero; `box`: its place in the tensor."""

    fmt: Format
    nonzero: Bools
    box: Box

    def taken(self, box: Box) -> tuple[int, int]:
        """Values and bits of metadata that a part of the tile takes. Raises SpecError for a fiber that is too full."""
        here = np.zeros(self.nonzero.shape, dtype=bool)
        here[self._within(box)] = True
        order = [rank for level in self.fmt.levels for rank in level.ranks]
        there, here = (self._cut(a).transpose(order).ravel() for a in (np.ones_like(self.nonzero), here))
        full = self._stored.transpose(order).ravel()
        fibers, bits = np.stack([there, here, full])[:, None, :], 0
        below = fibers.shape[2]
        for level in self.fmt.levels:
            positions = int(np.prod([self._stored.shape[rank] for rank in level.ranks], dtype=np.int64))
            below //= positions
            fibers = fibers.reshape(3, -1, positions, below)
            there, here, full = fibers
            asked = here.any(axis=2)
            filled = (full & here).any(axis=2)
            further = [fibers[:, asked if level.kind == "U" else filled]]
            if level.kind == "B":
                bits += level.bits * int(asked.sum())
            elif level.kind == "UOP":
                bits += level.bits * int(asked.sum() + len(asked))
            elif level.kind == "ELL":
                further += [self._padding(level.entries, fiber) for fiber in fibers.swapaxes(0, 1)]
            fibers = np.concatenate(further, axis=1)
            if level.kind in ("CP", "RLE", "ELL"):
                bits += level.bits * fibers.shape[1]
        return fibers.shape[1], bits

    @cached_property
    def singles(self) -> tuple[Ints, Ints]:
        """Values and bits of metadata that each value of the tile takes by itself: 0, 1, or padding as well."""
        full, there = self._stored.astype(np.int64), self._cut(np.ones_like(self.nonzero))
        fibers, bits = np.ones_like(full), np.zeros_like(full)
        for level in self.fmt.levels:
            if level.kind == "U":
                continue
            if level.kind in ("B", "UOP"):
                bits += level.bits * (fibers if level.kind == "B" else 2 * fibers)
            padding: Ints = np.zeros_like(full)
            if level.kind == "ELL":
                slots: Ints = np.minimum(level.entries, there.sum(axis=level.ranks, keepdims=True))
                filled = full.sum(axis=level.ranks, keepdims=True)
                padding = self._is_last(there, level.ranks) * (slots - filled)
            fibers = full + padding
            if level.kind in ("CP", "RLE", "ELL"):
                bits += level.bits * fibers
        return self._uncut(fibers), self._uncut(bits)

    def _is_last(self, there: Bools, axes: Sequence[int]) -> Ints:
        """1 at the last place of the tile along some axes, else 0."""
        found: Ints = np.ones((1,) * there.ndim, dtype=np.int64)
        for axis in axes:
            last = np.flatnonzero(there.any(axis=tuple(a for a in range(there.ndim) if a != axis))).max()
            shape = [-1 if a == axis else 1 for a in range(there.ndim)]
            found = found * (np.arange(there.shape[axis]) == last).reshape(shape)
        return found

    def _uncut(self, values: Ints) -> Ints:
        """Values of the tile of an array with an axis for each part of a rank."""
        whole = values.reshape([high - low for low, high in self._blocks])
        return whole[tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(self.box, self._blocks, strict=True))]

    def _padding(self, entries: int, fiber: Bools) -> Bools:
        """Fibers of padding that stand behind a fiber: for each slot that nothing fills one without nonzeros."""
        there, here, full = fiber  # each of positions, then what is below
        last = int(np.flatnonzero(there.any(axis=1)).max(initial=-1))
        below = here.any(axis=0)
        if last < 0 or not here[last].any():
            return np.zeros((3, 0, fiber.shape[2]), dtype=bool)
        filled = int((full & below).any(axis=1).sum())
        slots = min(entries, int(there.any(axis=1).sum()))
        if filled > slots:
            raise SpecError(
                f"a fiber with {filled} entries that are not empty does not fit into the {slots} of its format",
                hint=f"entries: {filled}, or other zeros",
            )
        empty = np.stack([there.any(axis=0), below, np.zeros_like(below)])[:, None, :]
        return np.repeat(empty, slots - filled, axis=1)

    @cached_property
    def _blocks(self) -> Box:
        """The smallest box of whole blocks around the tile."""
        blocks = self.fmt.blocks or (1,) * len(self.box)
        return tuple((low // n * n, -(-high // n) * n) for (low, high), n in zip(self.box, blocks, strict=True))

    def _within(self, box: Box) -> tuple[slice, ...]:
        """Indices of a part in the tile."""
        return tuple(slice(low - a, high - a) for (low, high), (a, _) in zip(box, self.box, strict=True))

    def _cut(self, values: Bools) -> Bools:
        """Values of the tile with an axis for each part of a rank, false outside of the tile."""
        found = np.zeros([high - low for low, high in self._blocks], dtype=bool)
        found[tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(self.box, self._blocks, strict=True))] = values
        return found.reshape(cut_shape(found.shape, self.fmt.blocks))

    @cached_property
    def _stored(self) -> Bools:
        """Which values of the tile are stored: those of blocks that have a nonzero; without padding."""
        cut = self._cut(self.nonzero)
        if not self.fmt.is_compressed:
            return self._cut(np.ones_like(self.nonzero))
        there = self._cut(np.ones_like(self.nonzero))
        return cut.any(axis=self.fmt.dense, keepdims=True) & there
