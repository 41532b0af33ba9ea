"""Einsums for which the same text means something else are not taken for each other: against brute force.

All results are kept in one directory, so that a kept one that is taken for another specification is noticed, too.
"""

import math
import random

from tests.amounts import few_and_many
from tests.mapper.fusion.test_against_brute_force import GOALS, tried
from tests.mapper.test_optimal import covers
from tests.random_specs.by_einsum import draw_by_einsum

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


@few_and_many("seeds, least", (range(4), 2), (range(1000, 1400), 70), parts=4, part="fusion")
def test_what_differs_by_einsum_is_searched_for_each(seeds, least, tmp_path):
    assert [compare(seed, tmp_path) for seed in seeds].count(True) >= least
