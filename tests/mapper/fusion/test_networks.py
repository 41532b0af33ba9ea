"""Fused mappings are optimal on architectures with networks: against brute force on random cascades."""

import random
from dataclasses import replace

import pytest
from tests.mapper.fusion.problems import draw_problem
from tests.mapper.fusion.test_against_brute_force import agrees
from tests.mapper.networks import HANDED_ON, ROUND, TOPOLOGIES, with_network

GOALS = ("energy", "latency", "energy_delay_product", "energy,latency")


def compare(seed, topologies=TOPOLOGIES):
    """Compare the search with brute force on one random cascade; whether some mapping fits."""
    rng = random.Random(seed)
    drawn = draw_problem(rng, small=True)
    with_network(rng, drawn.data, topologies)
    if all(node["type"] != "Container" for node in drawn.data["arch"]["nodes"]) and rng.random() < 0.8:
        below = drawn.data["arch"]["nodes"][-1]
        below["spatial"] = [{"name": "X", "fanout": rng.choice((2, 3, 4)), "may_reuse": rng.choice(("All", "Inputs"))}]
    problem = replace(drawn, semantics="exact")
    return agrees(problem, rng.choice(GOALS), seed)


def test_optima_are_those_of_brute_force():
    assert sum(compare(seed) for seed in range(4)) >= 2


def test_optima_round_rings_and_on_a_bus_are_those_of_brute_force():
    assert sum(compare(seed, ROUND) for seed in range(3)) >= 1


def test_optima_in_trees_and_systolic_arrays_are_those_of_brute_force():
    assert sum(compare(seed, HANDED_ON) for seed in range(2)) >= 1


@pytest.mark.slow
@pytest.mark.fusion
@pytest.mark.parametrize("part", range(4))
def test_optima_of_many_cascades_are_those_of_brute_force(part):
    assert sum(compare(seed) for seed in range(100 + 50 * part, 150 + 50 * part)) >= 25
    assert sum(compare(seed, ROUND) for seed in range(1100 + 25 * part, 1125 + 25 * part)) >= 12
    assert sum(compare(seed, HANDED_ON) for seed in range(2100 + 25 * part, 2125 + 25 * part)) >= 12
