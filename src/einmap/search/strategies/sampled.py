"""Samplers of Optuna as strategies: mappings are vectors of numbers (`genome`)."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.mapspace.mapspace import Point
from einmap.optional import require
from einmap.search.space.genome import Genome
from einmap.search.strategy import Setup

INVALID = 1e3
"""The logarithm that a mapping that is not valid counts for."""


class Sampled:
    """A study of Optuna that minimises the logarithm of the objective."""

    def __init__(self, setup: Setup, sampler: Any, at_once: int) -> None:
        optuna = require("optuna", "search")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.genome = Genome(setup.problem.space)
        self.at_once = at_once
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.study = optuna.create_study(sampler=sampler, direction="minimize")
        unit = optuna.distributions.FloatDistribution(0.0, 1.0)
        self.names = [f"x{i:03}" for i in range(self.genome.length)]
        self.distributions = dict.fromkeys(self.names, unit)
        self.trials: list[Any] = []

    def ask(self, n: int) -> Sequence[Point]:
        """The points of the next trials."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.trials = [self.study.ask(self.distributions) for _ in range(min(n, self.at_once))]
        return [self.genome.point([trial.params[name] for name in self.names]) for trial in self.trials]

    def tell(self, points: Sequence[Point], values: Floats) -> None:  # noqa: ARG002
        """The outcome of each trial."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for trial, value in zip(self.trials, values.tolist(), strict=False):
                self.study.tell(trial, float(np.log(max(value, 1e-300))) if np.isfinite(value) else INVALID)


def sampler_seed(setup: Setup) -> int:
    """A seed for a sampler, from the one source of chance."""
    return int(setup.rng.integers(2**31))
