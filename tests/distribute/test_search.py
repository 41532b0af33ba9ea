"""The search against the enumeration of all plans of its space, for drawn placements and loops."""

import random

import pytest
from tests.distribute.drawn_plans import AXES, draw_loops, draw_placements, draw_workload
from tests.distribute.exhaustive import least_cost, loop_partitions, n_plans, plan_for

from einmap import SpecError
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.costs.cost import communication
from einmap.distribute.costs.cost_model import ClusterCost, LocalWork, operations_per_point, traffic_first
from einmap.distribute.derive import tensor_sizes
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.request import Context, checked_request, no_place
from einmap.distribute.plans.plan import Local
from einmap.distribute.search.search import NotFound, cheapest
from einmap.distribute.search.space import Options, search_space

SMALL = ((2,), (3,), (4,), (2, 2))
MOST = 1500
"""Combinations of ways that are tried one by one."""


def drawn_space(seed):
    """A random problem that is small enough to be enumerated: space, cost model, and placements asked for."""
    rng = random.Random(seed)
    while True:
        workload = draw_workload(rng)
        mesh = Mesh(tuple(zip(AXES, rng.choice(SMALL), strict=False)))
        free_inputs = rng.random() < 0.5
        placements = draw_placements(rng, workload, mesh) if rng.random() < 0.6 else {}
        loops = draw_loops(rng, workload, mesh) if rng.random() < 0.2 else {}
        sizes = {t: dict(ranks) for t, ranks in tensor_sizes(workload).items()}
        context = Context(workload, mesh, sizes, True, no_place)
        request = checked_request(context, placements, loops)
        cost = rng.choice([traffic_first(mesh), ClusterCost(flat_cluster(mesh, 1e9, 1e-8, 1e9))])
        try:
            bits = dict.fromkeys(workload.tensors, 64.0)
            space = search_space(context, request, cost, bits, Options(free_inputs))
        except SpecError:
            continue  # the loops do not fit
        ends = {
            t: len(readers) + (t in placements and t in workload.producers) for t, readers in workload.consumers.items()
        }
        if n_plans(space) <= MOST and max(ends.values()) <= 3:
            return space, cost, request


def allowed_ends(space, request):
    """Where graph inputs may begin and results must end; None: anywhere."""
    workload = space.context.workload
    ends = {}
    for tensor in workload.tensors:
        homes = space.homes[tensor]
        if tensor in request.placements:
            ends[tensor] = [homes.paths.places.number[request.placements[tensor]]]
        elif tensor in workload.producers and workload.consumers[tensor]:
            ends[tensor] = [None]
        else:
            ends[tensor] = sorted({int(number) for number in homes.first})
    return ends


def check_against_enumeration(seed):
    space, cost, request = drawn_space(seed)
    found = cheapest(space)
    least = least_cost(space, cost, allowed_ends(space, request))
    if isinstance(found, NotFound):
        assert found.proven
        assert least == float("inf")
        return
    assert found.cost == pytest.approx(least, rel=1e-9, abs=1e-15)
    assert found.proven
    for einsum in space.context.workload.einsums:
        if einsum.name not in request.loops:
            offered = {
                tuple((loop.variable, loop.axes) for loop in choice.loops if loop.is_split)
                for choice in space.ways[einsum.name].choices
            }
            assert offered <= loop_partitions(space, einsum)
    check_cost_of_plan(space, cost, found)


def check_cost_of_plan(space, cost, found):
    """What the search says of a plan is what the plan costs."""
    plan = found_plan(space, found)
    mesh, total = plan.mesh, 0.0
    for row in communication(plan):
        total += cost.move(row.kind, mesh, row.axes, row.operand_bytes * 8, row.result_bytes * 8)
    for step in plan.steps:
        if isinstance(step, Local):
            einsum = plan.workload.find(step.einsum)
            values = sum(product_of(plan.by_name[name].shape) for _, name in (*step.operands, *step.results))
            extents = tuple(loop.block for loop in step.loops)
            operations = product_of(extents) * operations_per_point(einsum)
            total += cost.of(einsum).compute(mesh, LocalWork(extents, operations, operations, values * 64.0, 64.0))
    assert found.cost == pytest.approx(total, rel=1e-6)


def found_plan(space, found):
    at = {t: space.homes[t].paths.places.number[homes[0]] for t, homes in found.homes.items()}
    return plan_for(space, at, found.actions)


def product_of(numbers):
    total = 1
    for number in numbers:
        total *= number
    return total


@pytest.mark.parametrize("seed", range(24))
def test_no_plan_of_all_costs_less(seed):
    check_against_enumeration(seed)


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("seed", range(24, 324))
def test_no_plan_of_300_more_problems_costs_less(seed):
    check_against_enumeration(seed)
