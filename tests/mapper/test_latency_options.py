"""The mapper is optimal with what changes the latency alone: against brute force on random problems."""

import random

import pytest
from tests.mapper.latency_options import draw, draw_pipelined, draw_skewed
from tests.mapper.problems import spec_of
from tests.mapper.test_optimal import agrees


def compared(seed, most, drawn=draw, presets=("exact", "accelforge")):
    """Compare the search with brute force on one random problem; False when that takes too long."""
    rng = random.Random(seed)
    given = spec_of(drawn(rng))
    goals = rng.choice([["latency"], ["latency"], ["energy_delay_product"], ["energy", "latency"]])
    semantics = rng.choice(presets)
    return agrees(given, goals, semantics, most, seed)


def test_the_optimum_is_that_of_brute_force():
    assert sum(compared(seed, 3_000) for seed in range(30)) >= 10


def test_the_optimum_is_that_of_brute_force_where_lanes_begin_one_after_another():
    assert sum(compared(seed, 3_000, draw_skewed) for seed in range(16)) >= 5


def test_the_optimum_is_that_of_brute_force_where_values_are_on_their_way():
    assert sum(compared(seed, 2_000, draw_pipelined) for seed in range(5000, 5014)) >= 5


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(4))
def test_the_optimum_is_that_of_brute_force_on_many_problems(part):
    assert sum(compared(seed, 100_000) for seed in range(1000 + 100 * part, 1100 + 100 * part)) >= 50
    assert sum(compared(seed, 100_000, draw_skewed) for seed in range(3000 + 50 * part, 3050 + 50 * part)) >= 25
    assert sum(compared(seed, 100_000, draw_pipelined) for seed in range(6000 + 50 * part, 6050 + 50 * part)) >= 25
