"""A learned cost model: gradient-boosted trees from features of a mapping to its objective.

A saved model is what it was trained on: a table of numbers, from which loading trains it again. So a file that comes
from elsewhere runs no code, as a pickled model would.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from einmap.arrays import Floats
from einmap.errors import SpecError
from einmap.mapper.mapspace.mapspace import Point
from einmap.optional import require
from einmap.search.features import features
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
LARGEST_FILE = 100_000_000
"""Bytes of a saved model."""


def scale(problem: SearchProblem) -> float:
    """What objectives are divided by, so that those of different workloads can be compared."""
    return problem.compulsory if 0 < problem.compulsory < np.inf else float(problem.einsum.n_computes)


@dataclass
class CostModel:
    """Predicts log2 of the objective over `scale`. `rows`, `targets`: what it is trained on; inf: not valid.

    `known`: how many of them, the first ones, come from elsewhere (`begun_from`).
    """

    rows: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    targets: Floats = field(default_factory=lambda: np.zeros(0))
    seed: int = 0
    known: int = 0
    _trees: Any = None
    _trained_on: int = 0

    @staticmethod
    def begun_from(other: CostModel | None, seed: int) -> CostModel:
        """A model that begins with what another one was trained on, or with nothing."""
        model = CostModel(seed=seed)
        if other is not None:
            model.learn_rows(other.rows, other.targets)
            model.known, model._trained_on = len(model.targets), 0
        return model

    @property
    def trained(self) -> bool:
        """Whether it can predict."""
        return self._trees is not None

    def learn(self, problem: SearchProblem, points: Sequence[Point], values: Floats) -> None:
        """Take evaluated mappings in; the trees are grown anew once a quarter more were evaluated here."""
        targets = np.log2(np.maximum(values, 1e-300) / scale(problem))
        self.learn_rows(features(problem, points), targets)

    def learn_rows(self, rows: Floats, targets: Floats) -> None:
        """Take rows of features with log2 of the objective over `scale` in."""
        if len(self.targets) and rows.shape[1] != self.rows.shape[1]:
            raise SpecError(
                f"the saved cost model has {self.rows.shape[1]} features of a mapping, this architecture has "
                f"{rows.shape[1]}",
                hint="a model can be used on the architecture that it was trained on",
            )
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
        rows = features(problem, points)
        if rows.shape[1] != self.rows.shape[1]:
            raise SpecError(
                f"the saved cost model has {self.rows.shape[1]} features of a mapping, this architecture has "
                f"{rows.shape[1]}",
                hint="a model can be used on the architecture that it was trained on",
            )
        with _one_thread():
            predictions: Floats = self._trees.predict(rows)
        return predictions

    def to_bytes(self) -> bytes:
        """The file of the model."""
        stream = io.BytesIO()
        np.savez_compressed(stream, rows=self.rows.astype(np.float32), targets=self.targets)
        return stream.getvalue()


def _one_thread() -> AbstractContextManager[Any]:
    """Trees of some thousand rows are grown by one thread: several wait for each other longer than they work."""
    limits: AbstractContextManager[Any] = _thread_pools().limit(limits=1, user_api="openmp")
    return limits


@cache
def _thread_pools() -> Any:
    return require("threadpoolctl", "search").ThreadpoolController()


def load_cost_model(path: str | Path, seed: int = 0) -> CostModel:
    """A saved model, trained again. Raises SpecError for a file that is not one."""
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_FILE:
            raise ValueError(f"more than {LARGEST_FILE:,} bytes")
        with np.load(io.BytesIO(file.read_bytes()), allow_pickle=False) as arrays:
            rows, targets = np.asarray(arrays["rows"], np.float64), np.asarray(arrays["targets"], np.float64)
        if rows.ndim != 2 or targets.shape != rows.shape[:1] or not np.isfinite(targets).any():
            raise ValueError("its arrays do not fit together")
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise SpecError(f"cannot read a cost model from {str(path)!r}: {error}") from None
    model = CostModel(rows, targets, seed)
    model.train()
    return model
