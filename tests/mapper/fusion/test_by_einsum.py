"""Einsums for which the same text means something else are not taken for each other: against brute force.

All results are kept in one directory, so that a kept one that is taken for another specification is noticed, too.
"""

import math
import random

import pytest
from tests.mapper.fusion.by_einsum import draw_by_einsum
from tests.mapper.fusion.test_against_brute_force import GOALS, covers, tried

import einmap


def compare(seed, cache):
    """Compare the search with brute force on one cascade: whether it is proven, None where nothing fits."""
    rng = random.Random(f"by einsum {seed}")
    problem, goal = draw_by_einsum(rng), rng.choice(GOALS)
    limits = {
        "max_fused_loops": problem.max_fused_loops, "max_fused_loops_per_rank_variable": problem.per_variable,
        "share_inputs": False, "semantics": problem.semantics,
    }  # fmt: skip
    theirs = tried(problem, goal)
    try:
        result = einmap.map_workload(problem.spec, metrics=goal, cache=cache, **limits)
    except einmap.NoMappingError:
        assert theirs == [], seed
        return None
    names = goal.replace("energy_delay_product", "edp").split(",")
    ours = [tuple(getattr(found.cost, name) for name in names) for found in result.front]
    for found in result.front:
        assert einmap.evaluate(problem.spec, found.mapping, semantics=problem.semantics, strict=True) == found.cost, (
            seed
        )
    workload = problem.spec.workload
    # where each Einsum has its own buffer, the search also knows inner nodes of inputs that several Einsums have in common
    joint = problem.semantics == "accelforge" and workload.shared - workload.intermediates
    assert joint or covers(theirs, ours), (seed, goal, ours, theirs)
    if result.optimal:
        assert covers(ours, theirs), (seed, goal, ours, theirs)
        again = einmap.map_workload(problem.spec, metrics=goal, cache=cache, **limits)
        assert again == result
        assert again.cached or result.not_searched or result.stopped, seed
    elif len(names) == 1:
        assert (result.lower_bound or 0) <= min(theirs, default=(math.inf,))[0] * (1 + 1e-9), (seed, goal)
    return result.optimal


def test_what_differs_by_einsum_is_searched_for_each(tmp_path):
    assert [compare(seed, tmp_path) for seed in range(8)].count(True) >= 5


@pytest.mark.slow
@pytest.mark.fusion
@pytest.mark.parametrize("part", range(4))
def test_what_differs_by_einsum_is_searched_for_each_of_many_cascades(part, tmp_path):
    found = [compare(seed, tmp_path) for seed in range(1000 + 100 * part, 1100 + 100 * part)]
    assert found.count(True) >= 70
