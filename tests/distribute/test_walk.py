"""A Metropolis walk over plans: never below the least cost, which it reaches where there is little to choose."""

from dataclasses import replace
from itertools import pairwise, product
from random import Random

import numpy as np
import pytest
from tests.distribute.test_every_plan import drawn, space_of

from einmap import SpecError, load
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement, flat_cluster
from einmap.distribute.costs.cost import plan_cost
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.distribute.plans.lifetimes import peak_memory
from einmap.distribute.search.memory import memory_limits
from einmap.distribute.search.problem import selection_problem
from einmap.distribute.search.search import cheapest
from einmap.distribute.selection.problem import Selection
from einmap.distribute.walk.energies import OverlappedEnergies, SummedEnergies
from einmap.distribute.walk.starts import at_random, data_parallel
from einmap.distribute.walk.walk import HOMES, WalkOptions, walk

MESHES = ((2,), (3,), (4,), (2, 2))


def attention(mesh=(("x", 2), ("y", 2)), **options):
    workload = load("attention", define={"N_TOKENS": 64, "D_IN": 64, "HEADS": 4}).workload
    cluster = flat_cluster(Mesh(mesh), 1e9, 1e-6, 1e12)
    return Planning(workload, PlanRequest(Mesh(mesh), cluster, **options))


@pytest.mark.parametrize("homes", HOMES)
@pytest.mark.parametrize("seed", range(20))
def test_no_walk_is_below_the_least_cost_and_each_reaches_it_on_tiny_problems(seed, homes):
    space = space_of(drawn(500 + seed, ((2,), (3,)), most_einsums=1))
    least = cheapest(space).cost
    walked = walk(space, WalkOptions(3000, seed, beta=0.1, homes=homes))
    assert walked.found.cost == pytest.approx(least, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("seed", range(12))
def test_no_walk_over_a_cascade_is_below_the_least_cost(seed):
    space = space_of(drawn(seed, MESHES))
    least = cheapest(space).cost
    for homes in HOMES:
        walked = walk(space, WalkOptions(300, seed, homes=homes))
        assert all(cost >= least * (1 - 1e-9) for _, cost in walked.trace)
        assert walked.found.bound <= least * (1 + 1e-9)
        assert [count for count, _ in walked.trace] == sorted({count for count, _ in walked.trace})
        assert all(after < before for (_, before), (_, after) in pairwise(walked.trace))


def test_the_same_seed_walks_the_same_way_and_another_one_elsewhere():
    space = attention().space()
    first, again, other = (walk(space, WalkOptions(400, seed)) for seed in (7, 7, 8))
    assert first.trace == again.trace
    assert first.found.choice == again.found.choice
    assert first.trace != other.trace


def test_what_a_walk_keeps_up_is_what_a_choice_costs_and_needs():
    space = attention().space(limited=True)
    problem = selection_problem(space)
    limits = tuple(memory_limits(space, problem, 20e3))
    selection = Selection(problem.selection.nodes, problem.selection.edges, limits)
    bare = problem.selection
    energies = SummedEnergies(selection)
    rng = Random(3)
    choice = list(at_random(space, problem, rng))
    energies.begin(tuple(choice))
    for _ in range(300):
        node = rng.randrange(len(choice))
        changes = {node: rng.randrange(len(bare.nodes[node]))}
        energy = energies.changed(changes)
        changed = [changes.get(position, strategy) for position, strategy in enumerate(choice)]
        cost = bare.cost(changed)
        assert energy.cost == pytest.approx(cost, rel=1e-9)
        if np.isfinite(cost):
            assert energy.excess == pytest.approx(max(0.0, selection.excess(changed) / 20e3), abs=1e-9)
            energies.take()
            choice = changed


def test_data_parallel_leaves_weights_whole_and_splits_the_tokens():
    sizes = {"N_TOKENS": 64, "D_MODEL": 32, "D_FF": 64, "BITS": 16}
    planning = Planning(
        load("feed_forward", define=sizes).workload,
        PlanRequest(Mesh((("x", 4), ("y", 2))), flat_cluster(Mesh((("x", 4), ("y", 2))), 1e9, 0, 1e12)),
    )
    space = planning.space()
    choice = data_parallel(space, selection_problem(space))
    for number, name in enumerate(planning.workload.einsum_names):
        loops = {loop.variable: set(loop.axes) for loop in space.ways[name].choices[choice[number]].loops if loop.axes}
        assert loops == {"m": {"x", "y"}}


def test_a_plan_that_is_dearer_by_the_best_cost_is_taken_as_metropolis_says():
    # with a small beta all steps are taken but the impossible ones, with a large one none that is dearer
    space = attention().space()
    hot, cold = (walk(space, WalkOptions(1000, 0, beta=beta)) for beta in (1e-6, 1e6))
    assert hot.accepted > 700
    assert cold.accepted < 300


@pytest.mark.parametrize("homes", HOMES)
def test_a_walk_keeps_to_the_memory(homes):
    workload = load("feed_forward", define={"N_TOKENS": 64, "D_MODEL": 64, "D_FF": 256, "BITS": 16}).workload
    mesh = Mesh((("x", 4),))
    request = PlanRequest(mesh, flat_cluster(mesh, 1e9, 1e-6, 1e12))
    free = plan_workload(workload, request).best
    limited = replace(request, memory=0.5 * free.peak.bytes)
    exact = plan_workload(workload, limited).best
    walked = plan_workload(workload, replace(limited, walk=WalkOptions(3000, homes=homes))).best
    assert peak_memory(walked.plan, walked.bits).bytes <= limited.memory
    assert exact.proven
    assert walked.cost >= exact.cost * (1 - 1e-9) > free.cost
    assert walked.bound <= exact.cost


def test_a_walk_over_time_with_overlap_finds_what_its_plan_takes():
    request = attention(walk=WalkOptions(200, overlap=True)).request
    planned = plan_workload(attention().workload, request)
    best = planned.best
    assert best.cost == plan_cost(best.plan, request.cluster, best.bits).overlapped_latency
    assert not best.proven


def test_a_walk_over_time_with_overlap_finds_the_least_on_a_tiny_problem():
    pe = ProcessingElement(((64, 1e9),))
    cluster = Cluster(pe, (("x", Link(1e9, 1e-7)),))
    workload = load("feed_forward", define={"N_TOKENS": 4, "D_MODEL": 8, "D_FF": 8, "BITS": 16}).workload
    planning = Planning(workload, PlanRequest(Mesh((("x", 2),)), cluster))
    space = planning.space()
    problem = selection_problem(space)
    walked = walk(space, WalkOptions(800, 1, beta=3, homes="walk", overlap=True), cluster=cluster)
    energies = OverlappedEnergies(space, problem.nodes, problem.selection, cluster, None)
    sizes = [range(len(costs)) for costs in problem.selection.nodes]
    some = [choice for number, choice in enumerate(product(*sizes)) if number % 97 == 0]
    assert walked.found.cost <= min(energies.begin(choice).cost for choice in some[:800]) * (1 + 1e-9)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: WalkOptions(0), "a walk of 0 evaluations"),
        (lambda: WalkOptions(beta=0), "beta is 0"),
        (lambda: WalkOptions(homes="folow"), "did you mean 'follow'"),
        (lambda: attention(metric="memory", walk=WalkOptions()), "not memory"),
        (lambda: attention(metric="bytes", walk=WalkOptions(overlap=True)), "time small, not bytes"),
        (lambda: walk(attention().space(), WalkOptions(overlap=True)), "on a cluster"),
    ],
)
def test_options_that_make_no_sense_are_told(make, message):
    with pytest.raises(SpecError, match=message):
        make()
