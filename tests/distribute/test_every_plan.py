"""The planner against every plan there is, from the definitions: all loops, all placements, all sequences of moves."""

import random
from math import prod

import pytest
from tests.distribute.drawn_plans import AXES, draw_placements, draw_workload
from tests.distribute.every_plan import INF, World, least_cost, least_cost_within
from tests.distribute.routes import cheapest_route
from tests.distribute.test_search import found_plan

from einmap import Spec
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.costs.cost_model import ClusterCost, traffic_first
from einmap.distribute.derive import context_of
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import Placement
from einmap.distribute.placements.request import Request, checked_request
from einmap.distribute.plans.lifetimes import peak_memory
from einmap.distribute.search.search import NotFound, cheapest, thriftiest
from einmap.distribute.search.space import Options, search_space
from einmap.einsum.numeric import rank_sizes

MOST = 20_000
"""Combinations of ways that are tried one by one."""


def drawn(seed, meshes, most_einsums=9):
    """The first random problem from this seed on whose indices are plain and that is small enough."""
    rng = random.Random(seed)
    while True:
        workload = draw_workload(rng)
        mesh = Mesh(tuple(zip(AXES, rng.choice(meshes), strict=False)))
        model = rng.choice([traffic_first(mesh), ClusterCost(flat_cluster(mesh, 1e9, 1e-8, 1e9))])
        world = World(workload, mesh, model, starts=draw_inputs(rng, workload, mesh))
        plain = all(
            str(index) in einsum.extents
            for einsum in workload.einsums
            for access in einsum.accesses
            for _, index in access.projection
        )
        if plain and len(workload.einsums) <= most_einsums and prod(len(w) for w in world.ways.values()) <= MOST:
            return world


def space_of(world, limited=False):
    context = context_of(world.workload, world.mesh)
    bits = dict.fromkeys(world.workload.tensors, world.bits)
    request = Request(world.starts, {}, frozenset())
    return search_space(context, request, world.model, bits, Options(True, limited))


def draw_inputs(rng, workload, mesh):
    """Placements of some graph inputs, now and then."""
    if rng.random() < 0.6:
        return {}
    asked = draw_placements(rng, workload, mesh)
    sizes = rank_sizes(workload)
    whole = {
        tensor: {rank: axes for rank, axes in ranks.items() if sizes[tensor].get(rank, 1) > 1}
        for tensor, ranks in asked.items()
        if tensor not in workload.producers
    }
    return checked_request(context_of(workload, mesh), whole).placements


def check_without_limit(seed):
    world = drawn(seed, ((2,), (3,), (4,), (2, 2)))
    found = cheapest(space_of(world))
    assert found.cost == pytest.approx(least_cost(world), rel=1e-9, abs=1e-15)
    assert found.proven


@pytest.mark.parametrize("seed", range(12))
def test_no_plan_at_all_costs_less(seed):
    check_without_limit(seed)


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("seed", range(12, 312))
def test_no_plan_at_all_of_300_more_problems_costs_less(seed):
    check_without_limit(seed)


def check_within_memory(seed):
    world = drawn(10_000 + seed, ((2,), (3,), (4,)), most_einsums=3)
    space = space_of(world, limited=True)
    most = peak_memory(found_plan(space, cheapest(space)), space.bits).bytes
    least = thriftiest(space).cost
    compared = 0
    for limit in sorted({least * (1 - 1e-5) - 1, least * (1 + 1e-9), (least + most) / 2, most * (1 - 1e-9)}):
        found = cheapest(space, limit)
        if isinstance(found, NotFound):
            assert least_cost_within(world, limit) in (INF, None)
            continue
        below = found.cost * (1 - 1e-9)
        everything = least_cost_within(world, limit, below)
        assert everything in (below, None), f"{found.cost} within {limit}, but {everything} is reached"
        assert peak_memory(found_plan(space, found), space.bits).bytes <= limit
        compared += everything is not None
    return compared


def test_no_plan_at_all_that_keeps_to_the_memory_costs_less():
    assert sum(check_within_memory(seed) for seed in range(8)) > 12


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("seed", range(8, 308))
def test_no_plan_at_all_of_300_more_problems_that_keeps_to_the_memory_costs_less(seed):
    check_within_memory(seed)


def test_a_dearer_move_that_needs_less_memory_is_taken_where_nothing_else_fits():
    # 8 addends: an all-reduce needs 8 + 8 values, a reduce-scatter and an all-gather, one move more, 8 + 4
    sizes = {"M": 8, "K": 4}
    spec = {"rank_sizes": sizes, "bits_per_value": {"All": 64}, "einsums": ["Z[m] = A[k, m] * B[k]"]}
    workload = Spec.from_dict(workload=spec).workload
    mesh = Mesh((("x", 2),))
    context = context_of(workload, mesh)
    request = checked_request(context, {"A": {"K": "x"}, "B": {"K": "x"}, "Z": "replicated"})
    bits = dict.fromkeys(workload.tensors, 64.0)
    space = search_space(context, request, traffic_first(mesh), bits, Options(True, limited=True))
    limit = 8 * (16 + 2 + 8 + 4)
    found = cheapest(space, limit)
    assert peak_memory(found_plan(space, found), bits).bytes == limit
    assert cheapest(space, limit - 1) == NotFound(True)


def test_the_cheapest_route_on_4_by_4_is_the_shortest_sequence_for_all_223_pairs():
    workload = matrix(16, 32)
    world = World(workload, Mesh((("x", 4), ("y", 4))), Sent())
    places = world.moves["T"]
    pairs = 0
    for start in places:
        reached = shortest_from(places, start)
        for end in places:
            route = cheapest_route(world.mesh, (("M", 16), ("N", 32)), (start,), end)
            assert (route is None) == (end not in reached)
            if route is not None and start != end:
                pairs += 1
                assert route.sent_values == reached[end]
                assert route.start == start
                assert route.hops[-1].after == end
    assert pairs == 223


class Sent:
    """Values that all PEs together send, as the books say of rings."""

    def move(self, kind, mesh, axes, operand, result, senders=1.0):
        if kind == "permute":
            return operand / 64 * senders * mesh.n_devices
        n = mesh.parts(axes)
        share = {"all_gather": result, "reduce_scatter": operand, "all_reduce": 2 * operand, "all_to_all": operand}
        return share[kind] / 64 * (n - 1) / n * mesh.n_devices


def matrix(m, n):
    """A sum `T` of that shape, which may lie in parts."""
    einsums = ["T[m, n] = A[m, n, k]"]
    sizes = {"M": m, "N": n, "K": 2}
    return Spec.from_dict(workload={"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums}).workload


def shortest_from(moves, start: Placement):
    """The least cost of each placement that can be reached, one move more at a time until nothing changes."""
    reached = {start: 0.0}
    changed = True
    while changed:
        changed = False
        for here in list(reached):
            for _, after, price in moves[here]:
                if reached[here] + price < reached.get(after, INF):
                    reached[after] = reached[here] + price
                    changed = True
    return reached
