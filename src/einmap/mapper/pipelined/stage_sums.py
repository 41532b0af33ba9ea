"""Pareto fronts of energy and latency, with where each row comes from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from einmap.arrays import Bools, Floats
from einmap.mapper.pareto_sums import nondominated


@dataclass
class OriginFront[T]:
    """Rows of (J, s) that no other one beats. `judged`: which of the two columns matter."""

    judged: tuple[int, ...]
    values: Floats = field(default_factory=lambda: np.zeros((0, 2)))
    origins: list[T] = field(default_factory=list)

    def beats(self, rows: Floats) -> Bools:
        """Whether each row is no better than one that is there."""
        beaten = np.zeros(len(rows), dtype=bool)
        columns = list(self.judged)
        for known in self.values:
            beaten |= (known[columns] <= rows[:, columns]).all(axis=1)
        return beaten

    def add(self, rows: Floats, origins: Sequence[T]) -> None:
        """Take in rows; those that others beat go."""
        values = np.concatenate([self.values, rows])
        every = [*self.origins, *origins]
        kept = nondominated(values[:, list(self.judged)])
        self.values, self.origins = values[kept], [every[i] for i in kept]
