"""Fused mappings are optimal with each feature of a machine: against brute force on random cascades."""

import random
from dataclasses import replace

import pytest
from tests.amounts import amounts
from tests.mapper.fusion.test_against_brute_force import GOALS, agrees
from tests.random_specs.features import OPTIONS, buffering, layouts, partial_sums
from tests.random_specs.fused import draw_problem
from tests.random_specs.networks import HANDED_ON, ROUND, TOPOLOGIES, with_network

from einmap.errors import NotSupportedError

TIMES = ("latency", "latency", "energy_delay_product", "energy,latency")


def some_options(rng, tree):
    """What changes the latency alone."""
    for option in rng.sample(OPTIONS, rng.randint(1, len(OPTIONS))):
        option(rng, tree)


def networks(topologies):
    def added(rng, tree):
        with_network(rng, tree, topologies)
        nodes = tree["arch"]["nodes"]
        if all(node["type"] != "Container" for node in nodes) and rng.random() < 0.8:
            reuse = {"fanout": rng.choice((2, 3, 4)), "may_reuse": rng.choice(("All", "Inputs"))}
            nodes[-1]["spatial"] = [{"name": "X", **reuse}]

    return added


def networks_in_turn(rng, tree):
    """Networks beside memories that take turns with what is below."""
    buffering(rng, tree)
    networks((*TOPOLOGIES, *ROUND, *HANDED_ON))(rng, tree)


FEATURES = {
    "layouts": (layouts, GOALS, (range(2), 1), (range(100, 300), 25)),
    "latency options": (some_options, TIMES, (range(2), 1), (range(100, 300), 25)),
    "networks": (networks(TOPOLOGIES), GOALS, (range(2), 1), (range(100, 300), 25)),
    "rings and a bus": (networks(ROUND), GOALS, (range(2), 1), (range(1100, 1200), 12)),
    "trees and systolic arrays": (networks(HANDED_ON), GOALS, (range(2), 1), (range(2100, 2200), 12)),
    "networks and turns": (networks_in_turn, TIMES, (range(2), 1), (range(3100, 3200), 12)),
    "partial sums": (partial_sums, GOALS, (range(2), 1), (range(100, 300), 25)),
}
"""How each is put into a problem, metrics, and how many problems are compared of which seeds, always and in slow tests."""
ROWS = [
    row for name, (*_, few, many) in FEATURES.items() for row in amounts(few, many, parts=4, part="fusion", of=name)
]


def compare(seed, feature):
    """Compare the search with brute force on one random cascade; whether some mapping fits."""
    rng = random.Random(seed)
    put, goals, *_ = FEATURES[feature]
    problem = draw_problem(rng, small=True)
    put(rng, problem.data)
    if feature != "latency options":
        problem = replace(problem, semantics="exact")
    goal = rng.choice(goals)
    try:
        fits = agrees(problem, goal, seed)
    except NotSupportedError:
        assert feature == "partial sums"  # of outputs that are indexed by sums
        return False
    return fits and (feature != "partial sums" or any(einsum.partial_bits for einsum in problem.spec.workload.einsums))


@pytest.mark.parametrize(("feature", "seeds", "least"), ROWS)
def test_optima_are_those_of_brute_force(feature, seeds, least):
    assert sum(compare(seed, feature) for seed in seeds) >= least
