"""The mapper is optimal where partial sums are wider than results: against brute force on random problems."""

import random

import pytest
from tests.mapper.latency_options import buffering, ports
from tests.mapper.problems import draw_problem, spec_of
from tests.mapper.test_optimal import agrees

from einmap.errors import NotSupportedError


def problem(rng):
    """A random problem, or None where the output is indexed by sums."""
    drawn = draw_problem(rng)
    for option in rng.sample((ports, buffering), rng.randint(0, 1)):
        option(rng, drawn)
    for node in drawn["arch"]["nodes"]:
        node.pop("wind_up", None)
        if rng.random() < 0.7:
            node.pop("bits_per_value", None)
    drawn["workload"]["partial_bits_per_value"] = {"Z": rng.choice((12, 24, 32))}
    spec = spec_of(drawn)
    try:
        return spec if spec.workload.einsums[0].partial_bits else None
    except NotSupportedError:
        return None


def compared(seed, most):
    """Compare the search with brute force on one random problem; False when that takes too long."""
    rng = random.Random(seed)
    given = problem(rng)
    if given is None:
        return False
    goals = rng.choice([["energy"], ["latency"], ["energy_delay_product"], ["energy", "latency"]])
    return agrees(given, goals, "exact", most, seed)


def test_the_optimum_is_that_of_brute_force():
    assert sum(compared(seed, 3_000) for seed in range(16)) >= 3


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(4))
def test_the_optimum_is_that_of_brute_force_on_many_problems(part):
    assert sum(compared(seed, 100_000) for seed in range(1000 + 100 * part, 1100 + 100 * part)) >= 40
