"""Fused mappings are optimal on architectures with networks: against brute force on random cascades."""

import random
from dataclasses import replace

import pytest
from tests.mapper.fusion.problems import draw_problem
from tests.mapper.fusion.test_against_brute_force import agrees
from tests.mapper.networks import with_network

GOALS = ("energy", "latency", "energy_delay_product", "energy,latency")


def compare(seed):
    """Compare the search with brute force on one random cascade; whether some mapping fits."""
    rng = random.Random(seed)
    drawn = draw_problem(rng, small=True)
    with_network(rng, drawn.data)
    if all(node["type"] != "Container" for node in drawn.data["arch"]["nodes"]) and rng.random() < 0.8:
        below = drawn.data["arch"]["nodes"][-1]
        below["spatial"] = [{"name": "X", "fanout": rng.choice((2, 3, 4)), "may_reuse": rng.choice(("All", "Inputs"))}]
    problem = replace(drawn, semantics="exact")
    return agrees(problem, rng.choice(GOALS), seed)


def test_optima_are_those_of_brute_force():
    assert sum(compare(seed) for seed in range(8)) >= 5


@pytest.mark.slow
@pytest.mark.fusion
@pytest.mark.parametrize("part", range(4))
def test_optima_of_many_cascades_are_those_of_brute_force(part):
    assert sum(compare(seed) for seed in range(100 + 50 * part, 150 + 50 * part)) >= 25
