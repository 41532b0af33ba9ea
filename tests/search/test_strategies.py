"""One suite for all strategies: none beats the proven optimum, each keeps its budget and repeats itself by seed."""

import importlib.util
import math

import numpy as np
import pytest
from tests.mapper.specs import SPECS, two_level

import einmap
from einmap.errors import SpecError
from einmap.search.problem import problem_of
from einmap.search.run import search
from einmap.search.strategy import BUILT_IN, Budget, register, strategy_names

NEEDS = {"evolutionary": "optuna", "bayesian": "optuna", "learned": "sklearn", "tree": "sklearn"}
STRATEGIES = [
    pytest.param(
        name, marks=pytest.mark.skipif(importlib.util.find_spec(NEEDS.get(name, "numpy")) is None, reason="extra")
    )
    for name in BUILT_IN
]
EVALUATIONS = {"bayesian": 60, "learned": 120, "tree": 120, "evolutionary": 400}


@pytest.fixture(scope="module")
def tiny():
    return problem_of(two_level(sizes={"M": 2, "K": 2, "N": 2}))


@pytest.fixture(scope="module")
def small():
    return problem_of(SPECS["lanes with reuse"]())


@pytest.mark.parametrize("name", STRATEGIES)
def test_no_strategy_beats_the_optimum_nor_its_budget_and_a_seed_gives_one_history(small, name):
    best, n = small.optimum(), 70
    first, second = (search(small, name, Budget(n), seed=3) for _ in range(2))
    assert first.points == second.points
    assert np.array_equal(first.values, second.values)
    assert first.best_value >= best.value * (1 - 1e-9)
    assert len(first.values) == len(first.seconds) == (1 if name == "optimal" else n)
    # what a history says of a mapping is what the model says of it
    mapping = first.best_mapping
    cost = einmap.evaluate(small.spec.with_mapping(mapping))
    assert cost.energy * cost.latency == pytest.approx(first.best_value, rel=1e-9)


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_strategy_comes_to_the_optimum_of_a_tiny_mapspace(tiny, name):
    budget = Budget(EVALUATIONS.get(name, 1_000))
    assert search(tiny, name, budget).best_value == pytest.approx(tiny.optimum().value, rel=1e-9)


def test_exhaustive_visits_every_mapping_once(tiny):
    result = search(tiny, "exhaustive", Budget(10**6))
    assert result.exhausted
    assert len({*result.points}) == len(result.points) == tiny.space.size


def test_pruned_draws_are_valid_and_plain_ones_are_not_all(small):
    assert np.isfinite(search(small, "random-pruned", Budget(100)).values).all()
    assert not np.isfinite(search(small, "random", Budget(100)).values).all()


def test_a_budget_of_seconds_ends_a_run_before_its_evaluations(small):
    assert 0 < len(search(small, "random", Budget(10**9, 0.05)).values) < 10**9


@pytest.mark.parametrize("budget", [Budget(0), Budget(10, 0.0), Budget(10, math.nan)])
def test_a_budget_of_nothing_is_refused(small, budget):
    with pytest.raises(SpecError, match="budget"):
        search(small, "random", budget)


def test_an_unknown_strategy_is_refused_with_a_suggestion(small):
    with pytest.raises(SpecError, match="unknown strategy 'annealin'") as error:
        search(small, "annealin", Budget(10))
    assert "annealing" in (error.value.hint or "")


def test_a_name_that_is_taken_is_refused():
    with pytest.raises(SpecError, match="already"):
        register("random")
    assert "random" in strategy_names()
