"""Fused mappings are optimal where partial sums are wider than results: against brute force on random cascades."""

import random
from dataclasses import replace

import pytest
from tests.mapper.fusion.problems import draw_problem
from tests.mapper.fusion.test_against_brute_force import agrees

from einmap.errors import NotSupportedError

GOALS = ("energy", "latency", "energy_delay_product", "energy,latency")


def compare(seed):
    """Compare the search with brute force on one random cascade; whether some mapping fits."""
    rng = random.Random(seed)
    drawn = draw_problem(rng, small=True)
    drawn.data["workload"]["partial_bits_per_value"] = {"Outputs": rng.choice((24, 32))}
    problem, goal = replace(drawn, semantics="exact"), rng.choice(GOALS)
    try:
        fits = agrees(problem, goal, seed)
    except NotSupportedError:
        return False
    return fits and any(einsum.partial_bits for einsum in problem.spec.workload.einsums)


def test_optima_are_those_of_brute_force():
    assert sum(compare(seed) for seed in range(6)) >= 3


@pytest.mark.slow
@pytest.mark.fusion
@pytest.mark.parametrize("part", range(4))
def test_optima_of_many_cascades_are_those_of_brute_force(part):
    assert sum(compare(seed) for seed in range(100 + 50 * part, 150 + 50 * part)) >= 25
