"""Uniform draws, from all mappings or from the valid ones."""

from __future__ import annotations

from collections.abc import Sequence

from einmap.arrays import Floats
from einmap.mapper.mapspace.mapspace import Point
from einmap.search.strategy import Setup

ROUNDS = 200
"""Batches of draws that may hold no valid mapping before draws are given that are not valid."""
SMALLEST, LARGEST = 128, 8_192
"""Draws of a batch; there are more where few are valid."""


class RandomDraws:
    """Every mapping of the mapspace has the same probability, whether it fits or not."""

    def __init__(self, setup: Setup) -> None:
        self.space, self.rng = setup.problem.space, setup.rng

    def ask(self, n: int) -> Sequence[Point]:
        """`n` draws."""
        return self.space.draw(self.rng, n)

    def tell(self, points: Sequence[Point], values: Floats) -> None:
        """Nothing depends on values."""


class PrunedDraws:
    """Every valid mapping has the same probability: draws that do not fit are thrown away, and are not evaluations."""

    def __init__(self, setup: Setup) -> None:
        self.problem, self.rng = setup.problem, setup.rng
        self.waiting: list[Point] = []
        self.at_once = SMALLEST

    def ask(self, n: int) -> Sequence[Point]:
        """`n` valid draws; what was drawn last where next to nothing is valid."""
        for _ in range(ROUNDS):
            if len(self.waiting) >= n:
                break
            drawn = self.problem.space.draw(self.rng, self.at_once)
            fits = self.problem.fits(drawn)
            self.waiting += [point for point, valid in zip(drawn, fits.tolist(), strict=True) if valid]
            if len(self.waiting) < n:
                # few are valid: many at once share the templates of their nests
                self.at_once = min(2 * self.at_once, LARGEST)
        if not self.waiting:
            return self.problem.space.draw(self.rng, n)
        asked, self.waiting = self.waiting[:n], self.waiting[n:]
        return asked

    def tell(self, points: Sequence[Point], values: Floats) -> None:
        """Nothing depends on values."""
