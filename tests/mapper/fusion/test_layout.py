"""Fused mappings are optimal where accesses move lines: against brute force on random cascades."""

import random
from dataclasses import replace

import pytest
from tests.mapper.fusion.problems import draw_problem
from tests.mapper.fusion.test_against_brute_force import agrees
from tests.mapper.layouts import add_layouts

GOALS = ("energy", "latency", "energy_delay_product", "energy,latency")


def compare(seed):
    """Compare the search with brute force on one random cascade; whether some mapping fits."""
    rng = random.Random(seed)
    drawn = draw_problem(rng, small=True)
    add_layouts(rng, drawn.data, drawn.spec.workload)
    problem = replace(drawn, semantics="exact")
    return agrees(problem, rng.choice(GOALS), seed)


def test_optima_are_those_of_brute_force():
    assert sum(compare(seed) for seed in range(6)) >= 4


@pytest.mark.slow
@pytest.mark.fusion
@pytest.mark.parametrize("part", range(4))
def test_optima_of_many_cascades_are_those_of_brute_force(part):
    assert sum(compare(seed) for seed in range(100 + 50 * part, 150 + 50 * part)) >= 25
