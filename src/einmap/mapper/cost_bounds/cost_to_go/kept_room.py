"""Room of freed tables, for later ones: the first touch of a page of memory takes longer than what is written there."""

from __future__ import annotations

from threading import Lock

import numpy as np

from einmap.arrays import Floats

MOST_KEPT = 128_000_000
"""Bytes that are kept."""
MUCH_LARGER = 4
"""How many times as much room than asked for may be taken."""


class KeptRoom:
    """Arrays whose numbers nobody needs any more. Threads may share it."""

    def __init__(self) -> None:
        self._kept: list[Floats] = []
        """The smallest first."""
        self._lock = Lock()

    def take(self, n: int) -> Floats:
        """An array of at least `n` numbers, whatever these are."""
        with self._lock:
            for i, room in enumerate(self._kept):
                if n <= len(room) <= MUCH_LARGER * n:
                    return self._kept.pop(i)
        return np.empty(n)

    def give(self, room: Floats) -> None:
        """Keep an array that nobody looks at any more; where these are too many the smallest are freed."""
        with self._lock:
            self._kept = sorted([*self._kept, room], key=len)
            while self.kept_bytes > MOST_KEPT:
                del self._kept[0]

    @property
    def kept_bytes(self) -> int:
        """How many bytes are kept."""
        return sum(room.nbytes for room in self._kept)

    def clear(self) -> None:
        """Free all."""
        with self._lock:
            self._kept = []


KEPT_ROOM = KeptRoom()
"""Of all searches of this process; cleared when the outermost one ends."""
