"""The mapper is optimal where accesses move lines: against brute force on random problems."""

import random

import pytest
from tests.mapper.layouts import add_layouts
from tests.mapper.problems import draw_problem, spec_of
from tests.mapper.test_optimal import agrees

import einmap


def compared(seed, most, inside=0.0):
    """Compare the search with brute force on one random problem; False when that takes too long.

    `inside`: how often memories that fanouts spread may have layouts, too; these are searched mapping by mapping.
    """
    rng = random.Random(seed)
    problem = draw_problem(rng)
    add_layouts(rng, problem, spec_of(problem).workload, inside=rng.random() < inside)
    given = spec_of(problem)
    goals = rng.choice([["energy"], ["latency"], ["energy_delay_product"], ["energy", "latency"]])
    try:
        return agrees(given, goals, "exact", most, seed)
    except einmap.SpecError:
        return False  # a value is longer than a line


def test_the_optimum_is_that_of_brute_force():
    assert sum(compared(seed, 2_000) for seed in range(24)) >= 10


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(4))
def test_the_optimum_is_that_of_brute_force_on_many_problems(part):
    assert sum(compared(seed, 20_000, inside=0.1) for seed in range(1000 + 100 * part, 1100 + 100 * part)) >= 40
