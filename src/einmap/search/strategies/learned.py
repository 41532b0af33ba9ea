"""A cost model that is trained on the way chooses what is evaluated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.mapspace.mapspace import Point
from einmap.search.cost_model.cost_model import CostModel
from einmap.search.space.moves import Moves
from einmap.search.strategy import Setup

FIRST = 64
"""Uniform draws before the first choice, where no model was learned elsewhere."""
DRAWS, STEPS = 256, 512
"""Candidates of a round: uniform draws, and random neighbours of the best mappings so far."""
ELITE = 32
"""Nests whose best mappings so far are parents: with several of one nest, all would soon be near one local optimum."""
TWICE = 0.3
"""Part of the neighbours that are two moves away, such as a node and the lanes that go with it."""
CHANCE = 0.1
"""Part of the evaluations that go to uniform draws, whatever the model says of them."""
AT_ONCE = 32
"""Evaluations between two looks at the model."""


class Learned:
    """Of many candidates those are evaluated that the model takes for the best, and a few at random."""

    def __init__(self, setup: Setup) -> None:
        self.problem, self.rng = setup.problem, setup.rng
        self.moves = Moves(self.problem.space)
        self.model = CostModel.begun_from(setup.model, int(self.rng.integers(2**31)))
        self.tried: set[Point] = set()
        self.best: dict[tuple[int, int], tuple[float, Point]] = {}
        self.elite: list[tuple[float, Point]] = []

    def ask(self, n: int) -> Sequence[Point]:
        """Untried candidates that the model takes for the best; uniform draws as long as there is no model."""
        if not self.model.trained:
            return self.problem.space.draw(self.rng, min(n, FIRST))
        count = min(n, AT_ONCE)
        free = int(self.rng.binomial(count, CHANCE))
        drawn = self.problem.space.draw(self.rng, DRAWS)
        steps = [self._neighbour() for _ in range(STEPS)] if self.elite else []
        candidates = [point for point in dict.fromkeys([*steps, *drawn[free:]]) if point not in self.tried]
        if not candidates:
            return drawn[:count]
        order = np.argsort(self.model.predict(self.problem, candidates), kind="stable")
        return [*drawn[:free], *(candidates[i] for i in order[: count - free].tolist())] or drawn[:count]

    def _neighbour(self) -> Point:
        """A mapping near one of the parents, better ones more often."""
        parent = self.elite[min(int(self.rng.geometric(0.15)) - 1, len(self.elite) - 1)][1]
        near = self.moves.random(parent, self.rng)
        return self.moves.random(near, self.rng) if self.rng.random() < TWICE else near

    def tell(self, points: Sequence[Point], values: Floats) -> None:
        """Learn from what was evaluated."""
        self.model.learn(self.problem, points, values)
        self.tried.update(points)
        for value, point in zip(values.tolist(), points, strict=True):
            if np.isfinite(value):
                part, nest, _ = self.problem.space.place(point[0])
                found = (value, point)
                self.best[part, nest] = min(found, self.best.get((part, nest), found))
        self.elite = sorted(self.best.values())[:ELITE]
