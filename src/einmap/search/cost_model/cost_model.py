"""A learned cost model: gradient-boosted trees from features of a mapping to its objective."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from einmap.arrays import Floats
from einmap.errors import SpecError
from einmap.mapper.mapspace.mapspace import Point
from einmap.optional import require
from einmap.search.cost_model.features import features, n_features, parts_of
from einmap.search.problem import SearchProblem

PENALTY = 3.0
"""How far above the worst valid mapping one that is not valid is taken to be, in powers of two."""
TREES = 60
"""Trees of a model; 150 that learn half as fast rank as well, and take two and a half times as long."""
GROWTH = 1.25
"""How many times as many mappings there are when the trees are grown anew."""
MOST_ROWS = 20_000
"""Mappings that a model is trained on at most: the newest."""
MOST_WEIGHT = 10.0
"""How many mappings of other workloads one of the problem itself counts for at most."""
LEAST = 1e-300
"""Objectives below count for as much: a logarithm has no zero."""


def scale(problem: SearchProblem) -> float:
    """Divisor of objectives, which makes those of different workloads comparable."""
    return problem.compulsory if 0 < problem.compulsory < np.inf else float(problem.einsum.n_computes)


type Learnt = tuple[NDArray[np.floating[Any]], NDArray[np.floating[Any]]]
"""Training data of a model: a row of features for each mapping, and log2 of its objective over `scale`."""


def training_data(problem: SearchProblem, points: Sequence[Point], values: Floats) -> tuple[Floats, Floats]:
    """Training data from evaluated mappings: a row of features for each, and log2 of its objective over `scale`.

    `values`: objectives (J, s, J*s); inf, and so its target, where a mapping is not valid.
    """
    return features(problem, points), np.log2(np.maximum(values, LEAST) / scale(problem))


@dataclass
class CostModel:
    """Predicts log2 of the objective over `scale`. `rows`, `targets`: what it is trained on; inf: not valid.

    `parts`: memories and fanouts of the architecture that the rows are of; none as long as there are no rows.
    `known`: how many of the rows, the first ones, come from elsewhere (`begun_from`).
    """

    rows: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    targets: Floats = field(default_factory=lambda: np.zeros(0))
    parts: tuple[str, ...] = ()
    seed: int = 0
    known: int = 0
    _trees: Any = None
    _trained_on: int = 0

    @staticmethod
    def begun_from(other: CostModel | None, seed: int) -> CostModel:
        """A model that begins with what another one was trained on, or with nothing."""
        model = CostModel(seed=seed)
        if other is not None:
            model.parts = other.parts
            model.learn_rows(other.rows, other.targets)
            model.known, model._trained_on = len(model.targets), 0
        return model

    @property
    def trained(self) -> bool:
        """Whether it can predict."""
        return self._trees is not None

    def learn(self, problem: SearchProblem, points: Sequence[Point], values: Floats) -> None:
        """Take evaluated mappings in; the trees are grown anew once a quarter more were evaluated here."""
        self.check(problem)
        self.parts = parts_of(problem)
        self.learn_rows(*training_data(problem, points, values))

    def check(self, problem: SearchProblem) -> None:
        """Raises SpecError where the model was learned on another architecture."""
        here = parts_of(problem)
        if self.parts and self.parts != here:
            raise SpecError(
                f"the cost model was learned on an architecture with {_listed(self.parts)}, this one has "
                f"{_listed(here)}",
                hint="a model serves other workloads on the architecture that it was learned on",
            )
        if self.parts and self.rows.shape[1] != n_features(problem):
            raise SpecError(
                f"the cost model has {self.rows.shape[1]} features of a mapping, expected {n_features(problem)}"
            )

    def learn_rows(self, rows: Floats, targets: Floats) -> None:
        """Take rows of features with log2 of the objective over `scale` in."""
        self.rows = np.concatenate([self.rows.reshape(-1, rows.shape[1]), rows])
        self.targets = np.concatenate([self.targets, targets])
        surplus = max(len(self.targets) - MOST_ROWS, 0)
        self.rows, self.targets, self.known = self.rows[surplus:], self.targets[surplus:], max(self.known - surplus, 0)
        own = len(self.targets) - self.known
        if np.isfinite(self.targets).any() and own >= max(20, GROWTH * self._trained_on):
            self.train()

    def train(self) -> None:
        """Grow the trees. Raises SpecError where scikit-learn is missing."""
        ensemble = require("sklearn.ensemble", "search")
        valid = np.isfinite(self.targets)
        worst = float(self.targets[valid].max())
        targets = np.where(valid, self.targets, worst + PENALTY)
        trees = ensemble.HistGradientBoostingRegressor(
            max_iter=TREES, learning_rate=0.2, min_samples_leaf=5, random_state=self.seed
        )
        own = len(targets) - self.known
        # a few evaluations of the problem itself say more of it than many of others
        weights = np.ones(len(targets))
        weights[self.known :] = min(max(self.known / max(own, 1), 1.0), MOST_WEIGHT)
        with _one_thread():
            self._trees = trees.fit(self.rows, targets, sample_weight=weights)
        self._trained_on = own

    def predict(self, problem: SearchProblem, points: Sequence[Point]) -> Floats:
        """log2 of the objective over `scale` for each point, as far as the model can tell."""
        self.check(problem)
        rows = features(problem, points)
        with _one_thread():
            predictions: Floats = self._trees.predict(rows)
        return predictions


def _listed(parts: Sequence[str]) -> str:
    """The first of some names."""
    return ", ".join(parts[:8]) + (", ..." if len(parts) > 8 else "")


def _one_thread() -> AbstractContextManager[Any]:
    """Trees of some thousand rows are grown by one thread: several wait for each other longer than they work."""
    limits: AbstractContextManager[Any] = _thread_pools().limit(limits=1, user_api="openmp")
    return limits


@cache
def _thread_pools() -> Any:
    return require("threadpoolctl", "search").ThreadpoolController()
