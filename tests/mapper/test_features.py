"""The mapper is optimal with each feature of a machine: against brute force on random problems of one Einsum."""

import random

import pytest
from tests.amounts import amounts, few_and_many
from tests.mapper.test_optimal import agrees
from tests.random_specs import features, networks
from tests.random_specs.nodes import spec_of
from tests.random_specs.problems import draw_problem

import einmap
from einmap.errors import NotSupportedError

BOTH, EXACT = ("exact", "accelforge"), ("exact",)
TIMES = (["latency"], ["latency"], ["energy_delay_product"], ["energy", "latency"])
GOALS = (["energy"], ["latency"], ["energy_delay_product"], ["energy", "latency"])


def layouts(rng):
    """Memories that move lines; those that fanouts spread, which are searched mapping by mapping, seldom."""
    problem = draw_problem(rng)
    features.layouts(rng, problem, inside=rng.random() < 0.1)
    return problem


def partial_sums(rng):
    """Partial sums that are wider than results; None where there are none."""
    problem = draw_problem(rng)
    features.put(rng, problem, *rng.sample(("ports", "buffering"), rng.randint(0, 1)))
    for node in problem["arch"]["nodes"]:
        node.pop("wind_up", None)
        if rng.random() < 0.7:
            node.pop("bits_per_value", None)
    problem["workload"]["partial_bits_per_value"] = {"Z": rng.choice((12, 24, 32))}
    return problem if spec_of(problem).workload.einsums[0].partial_bits else None


def networks_in_turn(rng):
    """Networks beside memories that take turns with what is below."""
    problem = networks.draw(rng, (*networks.TOPOLOGIES, *networks.ROUND, *networks.HANDED_ON))
    return features.put(rng, problem, "buffering", *rng.sample(("ports", "startup", "skew"), rng.randint(0, 1)))


FEATURES = {
    "latency options": (features.draw_options, TIMES, BOTH, (range(5), 3_000, 1), (range(1000, 1400), 100_000, 50)),
    "skew": (features.draw_skewed, TIMES, BOTH, (range(8), 3_000, 2), (range(3000, 3200), 100_000, 25)),
    "pipelines": (
        features.draw_pipelined, TIMES, BOTH, (range(5000, 5004), 2_000, 1), (range(6000, 6200), 100_000, 25),
    ),
    "networks": (networks.draw, TIMES, EXACT, (range(3), 3_000, 1), (range(1000, 1400), 100_000, 50)),
    "rings and a bus": (networks.draw_round, TIMES, EXACT, (range(3), 3_000, 1), (range(2000, 2200), 30_000, 25)),
    "trees and systolic arrays": (
        networks.draw_handed_on, TIMES, EXACT, (range(3), 2_000, 1), (range(3000, 3200), 30_000, 25),
    ),
    "networks and turns": (networks_in_turn, TIMES, EXACT, (range(6), 1_000, 1), (range(4000, 4400), 30_000, 50)),
    "layouts": (layouts, GOALS, EXACT, (range(4), 2_000, 1), (range(1000, 1400), 20_000, 40)),
    "partial sums": (partial_sums, GOALS, EXACT, (range(5), 3_000, 1), (range(1000, 1400), 100_000, 40)),
}  # fmt: skip
"""How each is drawn, metrics, presets; seeds, mappings at most and problems compared at least, always and in slow tests."""
ROWS = [row for name, (*_, few, many) in FEATURES.items() for row in amounts(few, many, parts=4, of=name)]


def compared(seed, most, draw, presets=EXACT, metrics=TIMES):
    """Compare the search with brute force on one random problem; False where there is none or that takes too long."""
    rng = random.Random(seed)
    problem, goals = draw(rng), rng.choice(metrics)
    return problem is not None and agrees(spec_of(problem), goals, rng.choice(presets), most, seed)


def of_feature(seed, most, feature):
    draw, metrics, presets, *_ = FEATURES[feature]
    try:
        return compared(seed, most, draw, presets, metrics)
    except NotSupportedError:
        assert feature == "partial sums"  # of an output that is indexed by sums
    except einmap.SpecError:
        assert feature == "layouts"  # a value is longer than a line
    return False


@pytest.mark.parametrize(("feature", "seeds", "most", "least"), ROWS)
def test_the_optimum_is_that_of_brute_force(feature, seeds, most, least):
    assert sum(of_feature(seed, most, feature) for seed in seeds) >= least


def of_pair(names, most):
    """Compare the search with brute force on a problem with two features; what came of it, in a word."""
    rng = random.Random(str(names))
    try:
        given = spec_of(features.draw(rng, *names))
        return "compared" if agrees(given, rng.choice(TIMES), "exact", most, names) else "too large"
    except (NotSupportedError, einmap.SpecError):
        return "refused"


@few_and_many("pairs, most, share", (features.PAIRS[48::72], 500, 0.3), (features.PAIRS, 20_000, 0.3), parts=4)
def test_the_optimum_with_two_features_is_that_of_brute_force(pairs, most, share):
    found = [of_pair(names, most) for names in pairs]
    assert found.count("compared") >= share * len(found)
