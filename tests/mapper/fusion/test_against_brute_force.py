"""Optima and fronts of random small cascades are those of the brute force over all fused mappings.

Cascades are of two sorts. Those of problems.py were written by hand. They had no halo beside a rank that both Einsums
share, no reader of a part of an intermediate, hardly any memory that keeps everything, so that several nodes of one
Einsum stand above an intermediate, bits by tensor but never by memory, and no `tile_shape`, `tensor_order_options`,
`back` or third memory. Those of wide.py are drawn freely, with all of that.
"""

import math
import random

from tests.amounts import few_and_many
from tests.mapper.fusion.combine import front, optimum
from tests.mapper.test_optimal import covers
from tests.random_specs.fused import GATHERS, draw_problem
from tests.random_specs.wide import draw_wide

import einmap

GOALS = ("energy", "latency", "energy_delay_product", "energy,latency")
KINDS = {
    "1 levels", "2 levels", "3 levels", "2 Einsums", "3 Einsums", "element-wise", "halo", "stride", "renamed", "residual",
    "loops: 0", "loops: 1", "loops: 2", "loops: 3", "loops: inf", "loops over one variable", "fanout", "toll", "bits",
    "bits of a memory", "tile_shape", "orders", "constraints of moves",
}  # fmt: skip


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


def agrees(problem, goal, seed):
    """Compare the search with brute force on one cascade; whether some mapping fits."""
    ours, theirs = searched(problem, goal), tried(problem, goal)
    assert covers(ours, theirs), (seed, ours, theirs)
    workload = problem.spec.workload
    # where each Einsum has its own buffer, the search also knows inner nodes of inputs that several Einsums have in common
    joint = problem.semantics == "accelforge" and workload.shared - workload.intermediates
    assert joint or covers(theirs, ours), (seed, ours, theirs)
    return bool(ours)


def compare(seed, wide=False):
    rng = random.Random(seed)
    problem = draw_wide(rng)[0] if wide else draw_problem(rng, small=seed % 2 == 1)
    agrees(problem, rng.choice(GOALS), seed)


@few_and_many("seeds", (range(2),), ((2, *range(1_000, 1_400)),), parts=8, part="fusion")
def test_optima_of_random_cascades_are_those_of_brute_force(seeds):
    for seed in seeds:
        compare(seed)


def test_every_kind_of_problem_is_drawn():
    drawn = [draw_wide(random.Random(seed))[1] for seed in range(1_000)]
    for kind in KINDS:
        assert sum(kind in kinds for kinds in drawn) >= 5, kind
    assert frozenset().union(*drawn) == KINDS


@few_and_many("seeds", (range(2),), ((2, *range(20_000, 21_800)),), parts=18, part="fusion")
def test_optima_of_cascades_of_all_kinds_are_those_of_brute_force(seeds):
    for seed in seeds:
        compare(seed, wide=True)


def compare_gathers(seed):
    rng = random.Random(seed)
    return agrees(draw_problem(rng, tuple(GATHERS), small=True), rng.choice(GOALS), seed)


@few_and_many("seeds, least", (range(4), 3), (range(1_000, 1_120), 0), parts=3, part="fusion")
def test_optima_of_random_cascades_with_gathers_are_those_of_brute_force(seeds, least):
    assert sum(compare_gathers(seed) for seed in seeds) >= least
