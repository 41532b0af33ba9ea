"""The best points that a search has found."""

from __future__ import annotations

import numpy as np

from einmap.arrays import Bools, Floats, Ints

ARCHIVE = 4096
"""Points that are made room for at first."""


class Archive:
    """The best points found: `values[i]` the objectives, `paths[i]` plan, lanes and points of the lattice."""

    def __init__(self, n_goals: int, room: int = ARCHIVE) -> None:
        self.values: Floats = np.full((room, n_goals), np.inf)
        self.paths: Ints = np.zeros((room, 2), dtype=np.int64)
        self.n = 0

    def like(self) -> Archive:
        """An empty archive of the same kind of points."""
        empty = Archive(self.values.shape[1], len(self.values))
        empty.widen(self.paths.shape[1] - 2)
        return empty

    def grow(self) -> None:
        """Twice the room."""
        self.values = np.concatenate([self.values, np.full_like(self.values, np.inf)])
        self.paths = np.concatenate([self.paths, np.zeros_like(self.paths)])

    def widen(self, depth: int) -> None:
        """Room for paths of `depth` levels."""
        missing = 2 + depth - self.paths.shape[1]
        if missing > 0:
            self.paths = np.concatenate([self.paths, np.zeros((len(self.paths), missing), dtype=np.int64)], axis=1)

    def beats_each(self, rows: Floats, slack: float) -> Bools:
        """Whether each row is beaten by a point of the archive."""
        limit = _eased(rows, slack)
        beaten = np.zeros(len(rows), dtype=bool)
        for values in self.values[: self.n]:
            beaten |= (values <= limit).all(axis=1)
        return beaten

    def beats(self, values: Floats, slack: float) -> bool:
        """Whether some point is at most as large in everything, but for `slack`."""
        return bool((self.values[: self.n] <= _eased(values, slack)).all(axis=1).any())


def _eased(values: Floats, slack: float) -> Floats:
    """A little more, in proportion; infinities stay."""
    return values + np.where(np.isfinite(values), np.abs(values), 0.0) * slack
