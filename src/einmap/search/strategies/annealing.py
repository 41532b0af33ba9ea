"""Simulated annealing (Kirkpatrick et al., 1983): Metropolis chains that are cooled down over the budget."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.mapspace.mapspace import Point
from einmap.search.strategies.chains import Chains
from einmap.search.strategy import Setup

CHAINS = 4
"""Chains that are cooled together, each by itself."""
HOT, COLD = 1.0, 0.002
"""First and last temperature."""


class Annealing:
    """The temperature falls in geometric progression from the first evaluation of the budget to the last one."""

    def __init__(self, setup: Setup) -> None:
        self.chains = Chains(setup, CHAINS)
        self.budget, self.used = setup.budget.evaluations, 0

    def ask(self, n: int) -> Sequence[Point]:
        """A step of each chain."""
        return self.chains.propose(n)

    def tell(self, points: Sequence[Point], values: Floats) -> None:
        """Accept steps at the temperature of the moment."""
        temperature = HOT * (COLD / HOT) ** (self.used / self.budget)
        self.chains.settle(points, values, np.full(CHAINS, temperature))
        self.used += len(points)
