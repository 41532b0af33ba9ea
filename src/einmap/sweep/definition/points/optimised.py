"""Points that Optuna proposes from what earlier ones cost.

Multi-objective tree-structured Parzen estimator (Ozaki, Tanigaki, Watanabe, Onishi, "Multiobjective tree-structured
Parzen estimator for computationally expensive optimization problems", GECCO 2020) over the positions of the axes.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from einmap.optional import require
from einmap.sweep.definition.points.grid import Grid

AT_ONCE = 8
"""Points that are proposed together: what is proposed depends on the seed, not on how many processes there are."""
MOST_TRIES = 200
"""Places around a proposal that is known or left out by a condition, before the next point of a sample is taken."""
_REFUSED = "refused"


@dataclass
class Optimised:
    """At most `total` different points of a grid for so many objectives."""

    grid: Grid
    total: int
    seed: int
    objectives: int
    ended: bool = False
    _study: Any = None
    _batch: list[int] = field(default_factory=list)
    """Proposed and not yet given."""
    _trials: dict[int, Any] = field(default_factory=dict)
    """Of points under way."""
    _told: dict[int, tuple[float, ...] | None] = field(default_factory=dict)
    _waiting: dict[int, tuple[float, ...] | None] = field(default_factory=dict)
    """Objectives of the points under way; they are handed on for all points together, in their order."""
    _spare: Iterator[int] = field(init=False)

    def __post_init__(self) -> None:
        spare = self.grid.sample(self.total, self.seed)
        self.first, self._spare = spare[0], iter(spare)
        self._random = np.random.default_rng(self.seed)
        optuna = require("optuna", "search")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        with _quiet():
            sampler = optuna.samplers.TPESampler(
                seed=self.seed, multivariate=True, constant_liar=True, constraints_func=_constraints
            )
            self._failed = optuna.trial.TrialState.FAIL
            self._study = optuna.create_study(directions=["minimize"] * self.objectives, sampler=sampler)
        kinds = optuna.distributions
        self._distributions = {
            f"x{i:02}": kinds.CategoricalDistribution(tuple(range(count)))
            if any(isinstance(value, str) for value in dimension[0].values)
            else kinds.IntDistribution(0, count - 1)
            for i, (dimension, count) in enumerate(zip(self.grid.dimensions, self.grid.shape, strict=True))
        }

    def next(self) -> int | None:
        """A point of the batch; None until all of the last batch are told."""
        if not self._batch and not self._trials and not self.ended:
            self._propose()
        return self._batch.pop(0) if self._batch else None

    def tell(self, number: int, values: tuple[float, ...] | None) -> None:
        """Told for a batch at once, so that the order in which points are finished does not matter."""
        self._waiting[number] = values
        if len(self._waiting) == len(self._trials):
            for each, trial in self._trials.items():
                self._told[each] = self._waiting[each]
                self._tell(trial, self._waiting[each])
            self._trials.clear()
            self._waiting.clear()

    def _propose(self) -> None:
        with _quiet():
            for _ in range(min(AT_ONCE, self.total - len(self._told))):
                trial = self._study.ask(self._distributions)
                indices = [trial.params[name] for name in self._distributions]
                number = self.grid.number(indices)
                if not self._is_free(number):
                    self._study.tell(trial, state=self._failed)
                    free = self._near(indices)
                    if free is None:
                        break
                    number, trial = free, self._enqueued(free)
                self._trials[number] = trial
        self._batch = list(self._trials)
        self.ended = not self._batch

    def _is_free(self, number: int) -> bool:
        return number not in self._told and number not in self._trials and self.grid.keeps(number)

    def _near(self, indices: list[int]) -> int | None:
        """A free point, the nearer the better; None where there is none."""
        counts = np.array(self.grid.shape)
        for tries in range(MOST_TRIES):
            far = 1 + tries // len(counts)
            moved = np.array(indices) + self._random.integers(-far, far, len(counts), endpoint=True)
            number = self.grid.number([int(index) for index in np.clip(moved, 0, counts - 1)])
            if self._is_free(number):
                return number
        return next((number for number in self._spare if self._is_free(number)), None)

    def _enqueued(self, number: int) -> Any:
        """A trial of this point."""
        names = list(self._distributions)
        self._study.enqueue_trial(dict(zip(names, self.grid.indices(number), strict=True)))
        return self._study.ask(self._distributions)

    def _tell(self, trial: Any, values: tuple[float, ...] | None) -> None:
        with _quiet():
            if values is None:
                # worse than all: Optuna learns from points without a cost only where they break a constraint
                trial.set_user_attr(_REFUSED, 1.0)
                known = [told for told in self._told.values() if told is not None]
                values = tuple(map(max, zip(*known, strict=True))) if known else (1.0,) * self.objectives
            self._study.tell(trial, list(values))


def _constraints(trial: Any) -> tuple[float]:
    return (trial.user_attrs.get(_REFUSED, 0.0),)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Optuna's warnings that a part of it is new."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
