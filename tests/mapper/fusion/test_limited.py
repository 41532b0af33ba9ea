"""A search that is stopped, or has little memory, calls nothing proven that is not the optimum."""

import random

from tests.amounts import few_and_many
from tests.random_specs.by_einsum import draw_by_einsum
from tests.random_specs.features import draw_kinds
from tests.random_specs.fused import draw_problem
from tests.random_specs.nodes import spec_of

import einmap
from einmap.mapper.problem.memory_limit import LEAST, resident
from einmap.mapper.result.result import objective

GOALS = ("energy", "latency", "energy_delay_product")


def drawn(rng):
    """A specification of one Einsum or of several, and options of the call."""
    if rng.random() < 0.3:
        return spec_of(draw_kinds(rng)), {"semantics": rng.choice(("exact", "accelforge"))}
    problem = rng.choice((draw_problem, draw_by_einsum))(rng)
    limits = {"max_fused_loops": problem.max_fused_loops, "max_fused_loops_per_rank_variable": problem.per_variable}
    return problem.spec, {"semantics": problem.semantics, **limits}


def limited(seed):
    """How many searches with limits are called proven nevertheless; all of these, and all bounds, must be right."""
    rng = random.Random(f"limited {seed}")
    spec, options = drawn(rng)
    goal = rng.choice(GOALS)
    try:
        best = einmap.map_workload(spec, metrics=goal, max_evaluations=300_000, **options)
    except einmap.NoMappingError:
        return 0
    if not best.optimal:
        return 0
    least, proven = objective(best.cost, goal), 0
    limits = [{"max_evaluations": rng.choice((1, 3, 10, 100))}, {"max_evaluations": rng.choice((300, 1_000, 5_000))}]
    limits += [
        {"time_limit_s": rng.choice((0, 0.01, 0.1))},
        {"memory_limit": resident() + LEAST + rng.choice((2 * 10**6, 10**7, 10**8))},
    ]
    for limit in limits:
        try:
            result = einmap.map_workload(spec, metrics=goal, **options, **limit)
        except einmap.NoMappingError as error:
            assert "stopped" in str(error) or "memory" in str(error), (seed, limit, str(error))
            continue
        found = objective(result.cost, goal)
        assert found >= least * (1 - 1e-9), (seed, limit)
        assert result.lower_bound is None or result.lower_bound <= least * (1 + 1e-9), (seed, limit)
        assert not result.optimal or found <= least * (1 + 1e-9), (seed, limit, found, least)
        assert not (result.optimal and result.stopped), (seed, limit)
        proven += result.optimal
    return proven


@few_and_many("seeds, least", (range(3), 1), (range(1000, 1120), 60), parts=2, part="fusion")
def test_limits_leave_nothing_wrongly_proven(seeds, least):
    assert sum(limited(seed) for seed in seeds) >= least
