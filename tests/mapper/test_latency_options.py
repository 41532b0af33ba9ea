"""The mapper is optimal with what changes the latency alone: against brute force on random problems."""

import random

import pytest
from tests.mapper.latency_options import draw, draw_pipelined, draw_skewed
from tests.mapper.problems import spec_of
from tests.mapper.test_optimal import covers, front

import einmap


def compared(seed, most, drawn=draw, presets=("exact", "accelforge")):
    """Compare the search with brute force on one random problem; False when that takes too long."""
    rng = random.Random(seed)
    given = spec_of(drawn(rng))
    goals = rng.choice([["latency"], ["latency"], ["energy_delay_product"], ["energy", "latency"]])
    semantics = rng.choice(presets)
    theirs, result = front(given, goals, semantics=semantics, brute_force=True, max_evaluations=most)
    if result is None or not result.optimal:
        # nothing fits, or it takes too long to try everything
        return False
    ours, result = front(given, goals, semantics=semantics)
    assert covers(ours, theirs), (seed, ours, theirs)
    assert covers(theirs, ours), (seed, ours, theirs)
    assert result is not None
    assert result.optimal
    for found in result.front:
        again = einmap.evaluate(given, found.mapping, semantics=semantics)
        assert (again.energy, again.latency) == (found.cost.energy, found.cost.latency)
    return all(part["brute_force"] is None for part in result.stats.by_einsum.values())


def test_the_optimum_is_that_of_brute_force():
    assert sum(compared(seed, 3_000) for seed in range(60)) >= 20


def test_the_optimum_is_that_of_brute_force_where_lanes_begin_one_after_another():
    assert sum(compared(seed, 3_000, draw_skewed) for seed in range(40)) >= 12


def test_the_optimum_is_that_of_brute_force_where_values_are_on_their_way():
    assert sum(compared(seed, 2_000, draw_pipelined) for seed in range(5000, 5025)) >= 10


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(4))
def test_the_optimum_is_that_of_brute_force_on_many_problems(part):
    assert sum(compared(seed, 100_000) for seed in range(1000 + 100 * part, 1100 + 100 * part)) >= 50
    assert sum(compared(seed, 100_000, draw_skewed) for seed in range(3000 + 50 * part, 3050 + 50 * part)) >= 25
    assert sum(compared(seed, 100_000, draw_pipelined) for seed in range(6000 + 50 * part, 6050 + 50 * part)) >= 25
