"""The least excess over limits, against every choice there is."""

from dataclasses import replace

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.distribute.test_wide_selection import drawn, every_choice

from einmap import Spec
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.best import best_plan
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.distribute.selection.least_excess import is_excess_alone, least_excess, without_too_much
from einmap.distribute.selection.problem import Edge, Selection
from einmap.progress import Progress


def excess_alone(seed, unit=1.0):
    """A drawn problem in which only the excess costs something, its limits halved or 0."""
    problem = drawn(seed)
    nodes = tuple(np.where(np.isfinite(costs), 0.0, np.inf) for costs in problem.nodes)
    edges = tuple(Edge(e.first, e.second, np.where(np.isfinite(e.costs), 0.0, np.inf)) for e in problem.edges)
    limits = tuple(
        replace(
            limit,
            limit=unit * (limit.limit // 2 if seed % 2 else 0),
            nodes={node: unit * usage for node, usage in limit.nodes.items()},
            edges={edge: unit * usage for edge, usage in limit.edges.items()},
        )
        for limit in problem.limits
    )
    return Selection(nodes, edges, limits, excess_cost=2.0)


@pytest.mark.parametrize("seed", range(40))
def test_the_least_excess_is_found_and_proven(seed):
    problem = excess_alone(seed, unit=3.0)
    if not problem.limits:
        assert not is_excess_alone(problem)
        return
    assert is_excess_alone(problem)
    least = min(every_choice(problem).values(), default=np.inf)
    selected = least_excess(problem, 20)
    assert (selected.cost, selected.bound) == (least, least)
    if selected.choice is not None:
        assert problem.cost(selected.choice) == least


@pytest.mark.parametrize("seed", range(40))
def test_what_is_too_much_is_in_no_choice_within_the_limits(seed):
    problem = drawn(seed)
    pruned = without_too_much(problem)
    kept = {} if pruned is None else every_choice(pruned)
    assert kept == every_choice(problem)


def test_some_strategies_are_too_much():
    counts = [0, 0]
    for seed in range(40):
        problem = drawn(seed)
        pruned = without_too_much(problem)
        for number, one in enumerate((problem, pruned)):
            counts[number] += 0 if one is None else sum(int(np.isfinite(costs).sum()) for costs in one.nodes)
    assert counts[1] < counts[0]


@few_and_many("seeds", (range(3),), (range(3, 10),), part="distribute")
def test_a_stopped_search_has_a_bound_that_holds(seeds):
    stopped = Progress()
    stopped.stop()
    for seed in seeds:
        problem = excess_alone(seed)
        if problem.limits:
            selected = least_excess(problem, 20, stopped)
            assert selected.bound <= min(every_choice(problem).values(), default=np.inf) <= selected.cost
            assert selected.choice is None or problem.cost(selected.choice) == selected.cost


def test_the_least_memory_of_two_einsums_on_three_axes_is_proven():
    workload = {
        "rank_sizes": {"M": 5, "N": 16, "P": 16},
        "bits_per_value": {"All": 32},
        "einsums": ["T0[n, p] = I0[m, n] * J0[m, p]", "T1[n, p] = T0[n, p] * I1[p]"],
    }
    mesh = Mesh((("x", 2), ("y", 2), ("z", 2)))
    request = PlanRequest(mesh, flat_cluster(mesh, 1e11, 1e-6, 1e14), "memory")
    best = best_plan(Planning(Spec.from_dict({"workload": workload}).workload, request))
    assert best.proven
    assert best.chosen.peak.bytes == best.least_peak == 416
