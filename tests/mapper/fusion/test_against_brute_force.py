"""Optima and fronts of random small cascades are those of the brute force over all fused mappings."""

import math
import random

import pytest
from tests.mapper.fusion.combine import front, optimum
from tests.mapper.fusion.problems import draw_problem

import einmap

GOALS = ("energy", "latency", "energy_delay_product", "energy,latency")
IN_FAST_TESTS = 25
IN_SLOW_TESTS = 50


def searched(problem, goal):
    """Objectives of the mappings found, empty when there is none; all of them proven."""
    limits = {
        "max_fused_loops": problem.max_fused_loops,
        "max_fused_loops_per_rank_variable": problem.per_variable,
        "share_inputs": False,
    }
    try:
        result = einmap.map_workload(problem.spec, metrics=goal, semantics=problem.semantics, **limits)
    except einmap.NoMappingError:
        return []
    assert result.optimal
    found = []
    for one in result.front:
        again = einmap.evaluate(problem.spec, one.mapping, semantics=problem.semantics)
        assert (again.energy, again.latency) == (one.cost.energy, one.cost.latency)
        values = {"energy": again.energy, "latency": again.latency, "energy_delay_product": again.edp}
        found.append(tuple(values[name] for name in goal.split(",")))
    return found


def tried(problem, goal):
    """The same by trying everything."""
    limits = problem.semantics, problem.max_fused_loops, problem.per_variable
    if goal == "energy,latency":
        return front(problem.spec, *limits)
    best = optimum(problem.spec, goal, *limits)
    return [] if math.isinf(best) else [(best,)]


def covers(ours, theirs):
    """Whether each of their points is matched or beaten by one of ours."""
    return all(
        any(all(o <= t * (1 + 1e-9) + 1e-12 for o, t in zip(mine, other, strict=True)) for mine in ours)
        for other in theirs
    )


def compare(seed):
    rng = random.Random(seed)
    problem = draw_problem(rng, small=seed % 2 == 1)
    goal = rng.choice(GOALS)
    ours, theirs = searched(problem, goal), tried(problem, goal)
    assert covers(ours, theirs), (seed, ours, theirs)
    workload = problem.spec.workload
    # where each Einsum has its own buffer, the search also knows inner nodes of inputs that several Einsums have in common
    joint = problem.semantics == "accelforge" and workload.shared - workload.intermediates
    assert joint or covers(theirs, ours), (seed, ours, theirs)


def test_optima_of_random_cascades_are_those_of_brute_force():
    for seed in range(IN_FAST_TESTS):
        compare(seed)


@pytest.mark.slow
@pytest.mark.fusion
@pytest.mark.parametrize("part", range(8))
def test_optima_of_many_random_cascades_are_those_of_brute_force(part):
    for seed in range(1_000 + IN_SLOW_TESTS * part, 1_000 + IN_SLOW_TESTS * (part + 1)):
        compare(seed)
