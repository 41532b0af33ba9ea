"""The search against the enumeration of all plans, with and without limits on memory."""

import random

import pytest
from tests.distribute.drawn_plans import AXES, draw_loops, draw_placements, draw_workload
from tests.distribute.exhaustive import least_cost, least_cost_within, loop_partitions, n_plans, plan_for

from einmap import SpecError
from einmap.distribute.cluster import flat_cluster
from einmap.distribute.cost import communication
from einmap.distribute.cost_model import ClusterCost, operations_per_point, traffic_first
from einmap.distribute.derive import tensor_sizes
from einmap.distribute.lifetimes import peak_memory
from einmap.distribute.mesh import Mesh
from einmap.distribute.plan import Local
from einmap.distribute.request import Context, checked_request, no_place
from einmap.distribute.search.search import NotFound, cheapest, least_memory
from einmap.distribute.search.space import Options, search_space

SMALL = ((2,), (3,), (4,), (2, 2))
MOST = 1500
"""Combinations of ways that are tried one by one."""


def drawn_space(seed, meshes=SMALL, most=MOST, limited=False):
    """A random problem that is small enough to be enumerated: space, cost model, and placements asked for."""
    rng = random.Random(seed)
    while True:
        workload = draw_workload(rng)
        mesh = Mesh(tuple(zip(AXES, rng.choice(meshes), strict=False)))
        free_inputs = rng.random() < 0.5
        placements = draw_placements(rng, workload, mesh) if rng.random() < 0.6 else {}
        loops = draw_loops(rng, workload, mesh) if rng.random() < 0.2 else {}
        sizes = {t: dict(ranks) for t, ranks in tensor_sizes(workload).items()}
        context = Context(workload, mesh, sizes, True, no_place)
        request = checked_request(context, placements, loops)
        cost = rng.choice([traffic_first(mesh), ClusterCost(flat_cluster(mesh, 1e9, 1e-8, 1e9))])
        try:
            bits = dict.fromkeys(workload.tensors, 64.0)
            space = search_space(context, request, cost, bits, Options(free_inputs, limited))
        except SpecError:
            continue  # the loops do not fit
        ends = {
            t: len(readers) + (t in placements and t in workload.producers) for t, readers in workload.consumers.items()
        }
        if n_plans(space) <= most and max(ends.values()) <= 3:
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
            points = product_of(loop.block for loop in step.loops)
            total += cost.compute(mesh, points * operations_per_point(einsum), values * 64.0, 64.0)
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


def check_within_memory(seed):
    space, cost, _ = drawn_space(1000 + seed, meshes=((2,), (3,)), most=40, limited=True)
    readers = space.context.workload.consumers.values()
    n_homes = product_of(len(homes.first) for homes in space.homes.values())
    pairs = any((homes.first != homes.second).any() for homes in space.homes.values())
    if pairs or any(len(names) > 1 for names in readers) or n_homes * n_plans(space) > 2000:
        return False
    free = cheapest(space)
    if isinstance(free, NotFound):
        return False
    most = peak_memory(found_plan(space, free), space.bits).bytes
    least, bound = least_memory(space)
    assert least == pytest.approx(bound, rel=1e-5)
    assert least <= most * (1 + 1e-9)
    assert least_cost_within(space, cost, least * (1 - 1e-5) - 1) == float("inf")
    for limit in {least * (1 + 1e-9), (least + most) / 2, most * (1 - 1e-9)} - {0.0}:
        found = cheapest(space, limit)
        expected = least_cost_within(space, cost, limit)
        assert isinstance(found, NotFound) == (expected == float("inf"))
        if not isinstance(found, NotFound):
            assert found.cost == pytest.approx(expected, rel=1e-6, abs=1e-15)
            assert peak_memory(found_plan(space, found), space.bits).bytes <= limit
    return True


def test_no_plan_of_all_that_keep_to_the_memory_costs_less():
    assert sum(check_within_memory(seed) for seed in range(12)) > 4


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("seed", range(12, 312))
def test_no_plan_of_300_more_problems_that_keeps_to_the_memory_costs_less(seed):
    check_within_memory(seed)
