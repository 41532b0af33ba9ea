"""Metropolis chains at a ladder of temperatures that exchange their states (Swendsen and Wang, 1986)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.mapspace.mapspace import Point
from einmap.search.strategies.chains import Chains
from einmap.search.strategy import Setup

CHAINS = 8
"""Chains, each at a temperature of its own."""
COLDEST, HOTTEST = 0.005, 1.0
"""Ends of the ladder; temperatures between them are in geometric progression."""


class Metropolis:
    """Cold chains improve what hot chains find: neighbours on the ladder exchange states after each round."""

    def __init__(self, setup: Setup) -> None:
        self.rng = setup.rng
        self.chains = Chains(setup, CHAINS)
        self.temperatures: Floats = np.geomspace(COLDEST, HOTTEST, CHAINS)

    def ask(self, n: int) -> Sequence[Point]:
        """A step of each chain."""
        return self.chains.propose(n)

    def tell(self, points: Sequence[Point], values: Floats) -> None:
        """Accept steps, then exchange the states of neighbours where that makes the pair as likely."""
        self.chains.settle(points, values, self.temperatures)
        states = self.chains.states
        for i in reversed(range(CHAINS - 1)):
            cold, hot = states[i].energy, states[i + 1].energy
            if math.isinf(hot):
                continue
            gain = (cold - hot) * (1 / self.temperatures[i] - 1 / self.temperatures[i + 1]) if cold < math.inf else 1.0
            if gain >= 0 or self.rng.random() < math.exp(gain):
                states[i], states[i + 1] = states[i + 1], states[i]
