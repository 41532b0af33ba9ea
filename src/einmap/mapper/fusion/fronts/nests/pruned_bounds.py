"""Lower bounds of what a listing left out because it was too costly, so that it need not be made anew for nothing."""

from __future__ import annotations

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.objective import objective_kernels
from einmap.mapper.problem.request import Remainder

MOST_ROWS = 32
"""Rows that are kept; of more the last one stands for several."""


class PrunedBounds:
    """Bounds of what was left out: each of its objectives is no less than those of some row."""

    def __init__(self, goals: int) -> None:
        self.rows: Floats = np.full((MOST_ROWS, goals), np.inf)
        self.n = 0

    def add(self, values: Floats) -> None:
        """Rows of objectives that no mapping that was left out is below."""
        self.n = objective_kernels.keep_least(self.rows, self.n, values)

    def stays_out(self, remainder: Remainder | None) -> bool:
        """Whether all of it is too costly beside these, too."""
        return not self.n or (remainder is not None and bool(remainder.exceeds_cutoff(self.rows[: self.n]).all()))
