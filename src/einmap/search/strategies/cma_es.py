"""CMA-ES of Optuna (Hansen and Ostermeier, 2001): draws from a normal distribution that follows what is good."""

from __future__ import annotations

from einmap.optional import require
from einmap.search.strategies.sampled import Sampled, sampler_seed
from einmap.search.strategy import Setup

POPULATION = 20
"""Mappings between two changes of the distribution."""


class CmaEs(Sampled):
    """Mean and covariance of a normal distribution over vectors move to the better half of each population."""

    def __init__(self, setup: Setup) -> None:
        optuna = require("optuna", "search")
        require("cmaes", "search")
        sampler = optuna.samplers.CmaEsSampler(
            seed=sampler_seed(setup), popsize=POPULATION, warn_independent_sampling=False
        )
        super().__init__(setup, sampler, POPULATION)
