"""Chains of mappings that move step by step and accept what is worse with some probability (Metropolis et al., 1953).

The energy of a state is the logarithm of its objective, so that a temperature means the same for every problem: a
step that is worse by a factor of e to the temperature is accepted with probability 1 / e.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.mapspace.mapspace import Point
from einmap.search.space.moves import Moves
from einmap.search.strategy import Setup


@dataclass
class State:
    """Where a chain is: a point with the logarithm of its objective; infinite before the first valid mapping."""

    point: Point
    energy: float = math.inf


class Chains:
    """Some chains that step together. Where a chain has no valid mapping yet it takes uniform draws."""

    def __init__(self, setup: Setup, n: int) -> None:
        self.space, self.rng = setup.problem.space, setup.rng
        self.moves = Moves(self.space)
        self.states = [State(point) for point in self.space.draw(self.rng, n)]
        self.stepping: list[int] = []
        self.next = 0

    def propose(self, n: int) -> list[Point]:
        """A step of the next chains, at most one of each."""
        count = min(n, len(self.states))
        self.stepping = [(self.next + i) % len(self.states) for i in range(count)]
        self.next = (self.next + count) % len(self.states)
        return [self._step(self.states[i]) for i in self.stepping]

    def _step(self, state: State) -> Point:
        if math.isinf(state.energy):
            return self.space.draw(self.rng, 1)[0]
        return self.moves.random(state.point, self.rng)

    def settle(self, points: Sequence[Point], values: Floats, temperatures: Floats) -> None:
        """Accept or refuse the steps that were proposed; `temperatures`: one for each chain."""
        with np.errstate(divide="ignore"):
            energies = np.log(np.maximum(values, 1e-300)).tolist()
        for i, point, energy in zip(self.stepping, points, energies, strict=False):
            state = self.states[i]
            worse = energy - state.energy if math.isfinite(energy) else math.inf
            if math.isinf(state.energy) or worse <= 0 or self.rng.random() < math.exp(-worse / temperatures[i]):
                self.states[i] = State(point, energy)
