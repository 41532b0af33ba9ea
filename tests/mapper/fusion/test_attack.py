"""Random fused mappings, made better step by step, never beat what is called proven.

Problems are larger than those that the brute force can enumerate: ranks of up to 64, three memories with many nodes above
an intermediate, any number of fused loops.
"""

import math
import random

import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.attack import Attack
from tests.mapper.fusion.combine import GOALS
from tests.mapper.refuted.beaten import beaten
from tests.random_specs.wide import draw_wide

import einmap

TRIES = 300
FEW = 2
MANY = 40


def attacked(seed):
    """Attack one problem; how many valid mappings were drawn."""
    rng = random.Random(seed)
    problem, _ = draw_wide(rng, large=True)
    goal = rng.choice((*GOALS, "energy_delay_product"))
    options = {"max_fused_loops": problem.max_fused_loops, "max_fused_loops_per_rank_variable": problem.per_variable}
    limits = {**options, "share_inputs": False, "max_evaluations": 20_000_000}
    attack = Attack(problem.spec, problem.semantics, rng, problem.max_fused_loops, problem.per_variable)
    try:
        result = einmap.map_workload(problem.spec, metrics=goal, semantics=problem.semantics, **limits)
    except einmap.NoMappingError:
        best, mapping = attack.least(GOALS[goal], TRIES // 4)
        assert math.isinf(best), (seed, goal, mapping)
        return 0
    found = GOALS[goal](result.cost.energy, result.cost.latency)
    best, mapping = attack.least(GOALS[goal], TRIES, result.mapping)
    assert not result.optimal or best >= found * (1 - 1e-9), (seed, goal, found, best, mapping)
    return attack.accepted


@pytest.mark.parametrize("name", ["fused-15", "fused-258", "head-order"])
def test_the_attack_knows_the_mappings_that_beat_what_was_proven(name):
    problem = beaten(name)
    attack = Attack(problem.spec, problem.semantics, random.Random(1), 2, 2)
    energy, latency, _ = attack.evaluated(attack.read(problem.better.mapping))
    assert GOALS[problem.goal](energy, latency) == problem.value(problem.better)


def test_the_attack_finds_what_was_lost():
    problem = beaten("fused-15")
    best, _ = Attack(problem.spec, problem.semantics, random.Random(1)).least(GOALS[problem.goal], 150)
    assert best == problem.value(problem.better)


@few_and_many(
    "seeds, least", (range(FEW), 0), (range(50_000, 50_000 + 5 * MANY), MANY * TRIES / 10), parts=5, part="fusion"
)
def test_random_mappings_do_not_beat_what_is_proven(seeds, least):
    assert sum(attacked(seed) for seed in seeds) > least
