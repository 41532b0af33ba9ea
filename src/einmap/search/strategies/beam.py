"""Beam search over partial mappings, guided by a learned cost model.

A mapping is decided from the outside in: nest, use of the fanouts, then digit by digit. A partial mapping is worth
what the model says of the best of some completions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.mapspace.mapspace import Point
from einmap.search.cost_model.cost_model import CostModel
from einmap.search.space.moves import Moves
from einmap.search.strategy import Setup

WIDTH = 8
"""Partial mappings that are kept from one decision to the next."""
CHILDREN = 6
"""Alternatives of a decision that are looked at for each of them."""
COMPLETIONS = 3
"""Completions that a partial mapping is judged by."""
STARTS = 48
"""Subspaces that a search begins with: half of them drawn, half near the best mappings so far."""
FIRST = 64
"""Uniform draws before the first search."""
CHANCE = 0.2
"""Part of the evaluations that go to uniform draws."""
ELITE = 24
"""The best mappings so far whose subspaces are looked at again."""


class Beam:
    """Each round is one beam search; its best complete mappings are evaluated and train the model."""

    def __init__(self, setup: Setup) -> None:
        self.problem, self.space, self.rng = setup.problem, setup.problem.space, setup.rng
        self.model = CostModel.begun_from(setup.model, int(self.rng.integers(2**31)))
        self.moves = Moves(self.space)
        self.tried: set[Point] = set()
        # digits in a subspace that have the factors where a mapping of another one has them, for one beam search
        self.near: dict[tuple[int, Point], tuple[int, ...]] = {}
        self.elite: list[tuple[float, Point]] = []

    def ask(self, n: int) -> Sequence[Point]:
        """The complete mappings that one beam search ends with; uniform draws as long as there is no model."""
        if not self.model.trained:
            return self.space.draw(self.rng, min(n, FIRST))
        free = int(self.rng.binomial(min(n, 2 * WIDTH), CHANCE))
        drawn = self.space.draw(self.rng, max(free, 1))
        best = [point for point in self._search() if point not in self.tried]
        return [*drawn[:free], *best[: n - free]] or drawn[:1]

    def tell(self, points: Sequence[Point], values: Floats) -> None:
        """Learn from what was evaluated."""
        self.model.learn(self.problem, points, values)
        fresh = [(float(v), p) for p, v in zip(points, values, strict=True) if np.isfinite(v) and p not in self.tried]
        self.elite = sorted({*self.elite, *fresh})[:ELITE]
        self.tried.update(points)

    def _search(self) -> list[Point]:
        """One beam search: complete mappings, the most promising first."""
        self.near.clear()
        drawn = self.space.draw_numbers(self.rng, STARTS // 2).tolist()
        near = [self._near(self.elite[geometric(self.rng, 0.15, len(self.elite))][1]) for _ in drawn if self.elite]
        beam: list[Point] = self._best([(number, ()) for number in dict.fromkeys([*drawn, *near])], WIDTH)
        while True:
            children: dict[Point, None] = {}
            for number, prefix in beam:
                digits = self.space.subspace(number).digits
                if len(prefix) == len(digits):
                    children[number, prefix] = None
                    continue
                radix = digits[len(prefix)].radix
                for value in self.rng.permutation(radix)[:CHILDREN].tolist() if radix < 10_000 else self._some(radix):
                    children[number, (*prefix, int(value))] = None
            if all(child in beam for child in children):
                return beam
            beam = self._best(list(children), 2 * WIDTH)

    def _near(self, point: Point) -> int:
        """The subspace of a good mapping, or one that differs in a storage node or in lanes."""
        match int(self.rng.integers(3)):
            case 0:
                return point[0]
            case 1:
                return (self.moves.with_node_changed(point, self.rng) or point)[0]
            case _:
                return (self.moves.with_lanes_changed(point, self.rng) or point)[0]

    def _some(self, radix: int) -> list[int]:
        return [int(self.rng.integers(radix)) for _ in range(CHILDREN)]

    def _best(self, partial: list[Point], n: int) -> list[Point]:
        """The most promising of some partial mappings, in their order of promise."""
        completed = [point for number, prefix in partial for point in self._completed(number, prefix)]
        promise = self.model.predict(self.problem, completed).reshape(-1, COMPLETIONS).min(axis=1)
        return [partial[i] for i in np.argsort(promise, kind="stable")[:n].tolist()]

    def _completed(self, number: int, prefix: tuple[int, ...]) -> list[Point]:
        """Completions: the first at random, the others with the factors where one of the best mappings has them."""
        rest = self.space.subspace(number).digits[len(prefix) :]
        completed = [(number, (*prefix, *(int(self.rng.integers(digit.radix)) for digit in rest)))]
        for _ in range(COMPLETIONS - 1):
            if not self.elite:
                completed.append(completed[0])
                continue
            parent = self.elite[geometric(self.rng, 0.15, len(self.elite))][1]
            if (number, parent) not in self.near:
                near = self.moves.point_near(number, self.moves.spread(parent), self.rng)
                self.near[number, parent] = near[1]
            completed.append((number, (*prefix, *self.near[number, parent][len(prefix) :])))
        return completed


def geometric(rng: np.random.Generator, p: float, n: int) -> int:
    """A number from 0 to n - 1, small ones more often."""
    return min(int(rng.geometric(p)) - 1, n - 1)
