"""Tree-structured Parzen estimators of Optuna (Bergstra et al., 2011)."""

from __future__ import annotations

from einmap.optional import require
from einmap.search.strategies.sampled import Sampled, sampler_seed
from einmap.search.strategy import Setup


class Bayesian(Sampled):
    """Each mapping is drawn where good ones are dense and bad ones are not."""

    def __init__(self, setup: Setup) -> None:
        optuna = require("optuna", "search")
        sampler = optuna.samplers.TPESampler(seed=sampler_seed(setup), n_startup_trials=20)
        super().__init__(setup, sampler, 1)
