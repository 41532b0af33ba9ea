"""Explicit buffers: one tile of one tensor in one instance of a memory.

Values live in one heap, so that the inner loops can reach all buffers by an offset. Beside each value stand two
flags: `present` (a value is there) and `live` (for outputs: a result has come in, from below or by a fill), and for
outputs how many points of the iteration space have been `added` to it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from einmap.schedule.boxes import Box

type Flags = NDArray[np.uint8]
type Mask = NDArray[np.bool_]
type Values = NDArray[np.float64]
type Counts = NDArray[np.int64]


def volume(box: Box) -> int:
    """Values in a box."""
    total = 1
    for low, high in box:
        total *= high - low
    return total


class Heap:
    """All values of all buffers; space is handed out in blocks and used again."""

    def __init__(self) -> None:
        self.values: Values = np.zeros(1024)
        self.present: Flags = np.zeros(1024, dtype=np.uint8)
        self.live: Flags = np.zeros(1024, dtype=np.uint8)
        self.added: Counts = np.zeros(1024, dtype=np.int64)
        self._used = 0
        self._free: dict[int, list[int]] = {}

    def take(self, size: int) -> int:
        """Offset of a block of `size` values, with all flags down."""
        blocks = self._free.get(size)
        if blocks:
            offset = blocks.pop()
        else:
            offset, self._used = self._used, self._used + size
            while self._used > len(self.values):
                self.values = np.concatenate([self.values, np.zeros_like(self.values)])
                self.present = np.concatenate([self.present, np.zeros_like(self.present)])
                self.live = np.concatenate([self.live, np.zeros_like(self.live)])
                self.added = np.concatenate([self.added, np.zeros_like(self.added)])
        self.present[offset : offset + size] = 0
        self.live[offset : offset + size] = 0
        self.added[offset : offset + size] = 0
        return offset

    def give(self, offset: int, size: int) -> None:
        """Hand a block back."""
        self._free.setdefault(size, []).append(offset)


@dataclass
class Tile:
    """The part of a tensor that is in one instance now: indices `box`, values at `offset` of the heap."""

    heap: Heap
    box: Box
    offset: int = field(init=False)

    def __post_init__(self) -> None:
        self.offset = self.heap.take(volume(self.box))

    @property
    def shape(self) -> tuple[int, ...]:
        """Length of each rank."""
        return tuple(high - low for low, high in self.box)

    def strides(self) -> tuple[int, ...]:
        """Step of each rank in the heap."""
        strides = []
        step = 1
        for low, high in reversed(self.box):
            strides.append(step)
            step *= high - low
        return tuple(reversed(strides))

    def added(self, box: Box) -> Counts:
        """How many points have been added to each value of a part."""
        return self._view(self.heap.added, box)

    def _view[A: (Values, Flags, Counts)](self, store: A, box: Box) -> A:
        whole = store[self.offset : self.offset + volume(self.box)].reshape(self.shape)
        return whole[tuple(slice(a - low, b - low) for (a, b), (low, _) in zip(box, self.box, strict=True))]

    def values(self, box: Box) -> Values:
        """The values of a part."""
        return self._view(self.heap.values, box)

    def present(self, box: Box) -> Flags:
        """Which values of a part are there."""
        return self._view(self.heap.present, box)

    def live(self, box: Box) -> Flags:
        """Which values of a part hold a result."""
        return self._view(self.heap.live, box)

    def free(self) -> None:
        """Give the space back."""
        self.heap.give(self.offset, volume(self.box))
