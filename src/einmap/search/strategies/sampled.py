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


class _Sampled:
    """A study of Optuna that minimises the logarithm of the objective, `at_once` mappings at a time.

    `kind`: a class of `optuna.samplers`, with its arguments beside the seed.
    """

    kind = ""
    arguments: dict[str, Any]
    at_once = 1

    def __init__(self, setup: Setup) -> None:
        optuna = require("optuna", "search")
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.genome = Genome(setup.problem.space)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            seed = int(setup.rng.integers(2**31))
            sampler = getattr(optuna.samplers, self.kind)(seed=seed, **self.arguments)
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


class Bayesian(_Sampled):
    """Tree-structured Parzen estimators (Bergstra et al., 2011): draws where good mappings are dense, bad ones not."""

    kind, arguments = "TPESampler", {"n_startup_trials": 20}


class Evolutionary(_Sampled):
    """NSGA-II (Deb et al., 2002), with one objective: generations whose parents are crossed number by number."""

    kind, arguments, at_once = "NSGAIISampler", {"population_size": 50}, 50
