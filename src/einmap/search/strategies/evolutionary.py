"""NSGA-II of Optuna (Deb et al., 2002), with one objective: a genetic algorithm that keeps its best."""

from __future__ import annotations

from einmap.optional import require
from einmap.search.strategies.sampled import Sampled, sampler_seed
from einmap.search.strategy import Setup

POPULATION = 50
"""Mappings of a generation."""


class Evolutionary(Sampled):
    """Generations of mappings; parents are crossed number by number."""

    def __init__(self, setup: Setup) -> None:
        optuna = require("optuna", "search")
        sampler = optuna.samplers.NSGAIISampler(population_size=POPULATION, seed=sampler_seed(setup))
        super().__init__(setup, sampler, POPULATION)
