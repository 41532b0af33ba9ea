import math

import pytest
from tests.mapper.specs import MAIN, MATMUL, SPECS, compute, container, memory, spec

from einmap.mapper.mapspace.dataplacement import dataplacements
from einmap.mapper.mapspace.lanes.spatial_mappings import spatial_choices
from einmap.mapper.mapspace.mapspace import mapspace_of


def placements_of(given):
    (einsum,) = given.workload.einsums
    return list(dataplacements(einsum, given.arch().path("MAC"), backed_outside=einsum.tensors))


def test_a_buffer_that_may_keep_any_of_three_tensors_has_16_dataplacements():
    # subsets and orders: sum over k of C(3, k) * k!
    given = spec([MAIN, memory("Buf", 100, 1), compute()], MATMUL, {"M": 2, "K": 2, "N": 2})
    assert len(placements_of(given)) == sum(math.comb(3, k) * math.factorial(k) for k in range(4)) == 16


def test_kept_tensors_are_in_every_dataplacement():
    given = spec([MAIN, memory("Buf", 100, 1, {"keep": "A"}), compute()], MATMUL, {"M": 2, "K": 2, "N": 2})
    assert [p.nodes for p in placements_of(given)] == [(("Main", "A"), ("Main", "B"), ("Main", "Z"), ("Buf", "A"))]


def test_constraints_may_speak_of_what_is_held_above():
    nodes = [MAIN, memory("Buf", 100, 1, {"keep": "Main.tensors - Above | A"}), compute()]
    given = spec(nodes, MATMUL, {"M": 2, "K": 2, "N": 2})
    assert len(placements_of(given)) == 1


def test_order_options_leave_only_matching_orders():
    options = {"keep": "All", "tensor_order_options": [["A", "B | Z"]]}
    given = spec([MAIN, memory("Buf", 100, 1, options), compute()], MATMUL, {"M": 2, "K": 2, "N": 2})
    orders = [[t for m, t in p.nodes if m == "Buf"] for p in placements_of(given)]
    assert sorted(orders) == [["A", "B", "Z"], ["A", "Z", "B"]]


def lanes(**dimension):
    nodes = [MAIN, container({"name": "X", "fanout": 4, **dimension}), compute()]
    given = spec(nodes, MATMUL, {"M": 4, "K": 2, "N": 3})
    (einsum,) = given.workload.einsums
    found = spatial_choices(einsum, given.arch().path("MAC"))
    return [{loop.variable: loop.bound for loop in choice} for choice in found]


def test_lanes_stay_within_the_fanout_fullest_first():
    found = lanes()
    assert found[0] in ({"m": 4}, {"m": 2, "k": 2})
    assert {"n": 3} in found
    assert {"m": 4, "k": 2} not in found


def test_reuse_forbids_lanes_over_variables_of_the_tensor():
    assert all(set(choice) <= {"n"} for choice in lanes(reuse="A"))


def test_min_usage_is_hard_where_it_can_be_reached():
    assert all(math.prod(choice.values()) == 4 for choice in lanes(min_usage=1))


def test_min_usage_that_cannot_be_reached_takes_the_best():
    assert [math.prod(c.values()) for c in lanes(min_usage=1, reuse="A")] == [3]


def test_loop_bounds_limit_lanes():
    limit = [{"expression": "m", "operator": "<=", "value": 2}]
    assert max(choice.get("m", 1) for choice in lanes(loop_bounds=limit)) == 2


@pytest.mark.parametrize("name", SPECS)
def test_the_size_counts_the_points(name):
    given = SPECS[name]()
    (einsum,) = given.workload.einsums
    space = mapspace_of(einsum, given.arch(), backed_outside=einsum.tensors, first_partial_matters=False)
    assert space.size == sum(math.prod(d.radix for d in s.digits) for s in space.subspaces) > 0
