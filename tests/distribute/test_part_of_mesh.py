"""Tensors that a part of the mesh holds: sent from there, summed up there, along trees of permutes."""

import random
import re

import pytest
from tests.distribute.checking import check_run
from tests.distribute.drawn_plans import draw_placements, draw_workload
from tests.distribute.routes import cheapest_route
from tests.machines import workload

from einmap import Spec, SpecError, loads, plan_of
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cluster import flat_cluster
from einmap.distribute.costs.cost import communication
from einmap.distribute.costs.cost_model import ClusterCost
from einmap.distribute.derive import distribute_workload
from einmap.distribute.hops.part_of_mesh import broadcast_rounds, reduce_rounds
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.placements.placement import Placement, Split
from einmap.distribute.plans.plan import Local

ON_0, ON_1 = {"on": {"y": 0}}, {"on": {"y": 1}}
TEXT = """
distribution:
  mesh: {x: 2, y: 3}
  placements: {A: {M: x, on: {y: 1}}, B: {on: {y: 1}}, Z: {M: x, on: {y: 1}}}
""" + workload("M: 8, K: 6, N: 4", "Z[m, n] = A[m, k] * B[k, n]", bits="All: 64")


def matmul(placements, mesh=None, loops=None, cost=None):
    spec = {"rank_sizes": {"M": 8, "K": 6, "N": 4}, "bits_per_value": {"All": 64}}
    workload = Spec.from_dict(workload={**spec, "einsums": ["Z[m, n] = A[m, k] * B[k, n]"]}).workload
    return distribute_workload(workload, mesh or {"x": 2, "y": 3}, placements, loops=loops, cost=cost)


def sent(plan):
    """Kinds, axes, and values that all PEs together send."""
    n = plan.mesh.n_devices
    return [(t.kind, t.tensor, t.axes, pytest.approx(t.total_sent_bytes / 8 * n)) for t in communication(plan)]


def agree(plan):
    inputs = sample_inputs(plan.workload, 0)
    return all(c.agrees for c in check_outputs(plan.workload, inputs, LocalEngine().run(plan, inputs).outputs))


@pytest.mark.parametrize("parts", range(1, 10))
@pytest.mark.parametrize("root", [0, 1, 8])
def test_a_tree_reaches_every_pe_once_in_as_few_rounds_as_can_be(parts, root):
    root %= parts
    have = {root}
    for pairs in broadcast_rounds(parts, root):
        assert {sender for sender, _ in pairs} <= have
        assert not {receiver for _, receiver in pairs} & have
        have |= {receiver for _, receiver in pairs}
    assert have == set(range(parts))
    assert 2 ** len(broadcast_rounds(parts, root)) < 2 * parts or parts == 1
    # addends go the same way back
    sums = [{place} for place in range(parts)]
    for pairs in reduce_rounds(parts, root):
        for sender, receiver in pairs:
            assert not sums[receiver] & sums[sender]
            sums[receiver] |= sums[sender]
            sums[sender] = set()
    assert sums[root] == set(range(parts))


def test_a_broadcast_sends_a_block_to_each_pe_but_the_first_in_each_group():
    # A in blocks of 4 x 6 over x, on 2 PEs: to 2 more PEs of each group
    plan = matmul({"A": {"M": "x", **ON_1}, "Z": {"M": "x", "N": "y"}}, loops={"Z": {"m": "x", "n": "y"}})
    assert sent(plan) == [("broadcast", "A", ("y",), 2 * 2 * 4 * 6)]
    (row,) = communication(plan)
    assert row.rounds == (((1, 2),), ((1, 0),))
    assert agree(plan)


def test_a_reduction_sends_an_addend_of_each_pe_but_the_one_that_gets_the_sum():
    loops = {"Z": {"m": "x", "k": "y"}}
    mesh = Mesh((("x", 2), ("y", 3)))
    asked = {"A": {"M": "x", "K": "y"}, "B": {"K": "y"}, "Z": {"M": "x", **ON_0}}
    # in time a ring of three, which sends twice as much in all, is faster than two messages one after another
    assert [kind for kind, *_ in sent(matmul(asked, mesh, loops))] == ["all_reduce"]
    plan = matmul(asked, mesh, loops, ClusterCost(flat_cluster(mesh, 1e9, 0.0, 1e12), "bytes"))
    assert sent(plan) == [("reduce", "Z", ("y",), 2 * 2 * 4 * 4)]
    (row,) = communication(plan)
    assert row.rounds == (((2, 0),), ((1, 0),))
    assert agree(plan)


def test_what_stays_on_a_part_sends_nothing_and_other_pes_hold_nothing():
    plan = plan_of(loads(TEXT))
    assert communication(plan) == ()
    (local,) = (step for step in plan.steps if isinstance(step, Local))
    assert {plan.by_name[name].placement.on for _, name in (*local.operands, *local.results)} == {(("y", 1),)}
    assert agree(plan)


def test_a_tensor_may_be_on_one_pe_only():
    plan = matmul({"A": {"on": {"x": 1, "y": 2}}, "Z": {"M": "x", "N": "y"}})
    rows = sent(plan)
    assert sorted(axes for kind, _, axes, _ in rows) == [("x",), ("y",)]
    assert {kind for kind, *_ in rows} == {"broadcast"}
    assert agree(plan)


def test_routes_from_and_to_a_part_are_the_cheapest():
    mesh, sizes = Mesh((("x", 2), ("y", 4))), (("M", 8),)
    part, whole = Placement(on=(("y", 0),)), Placement()

    def route(start, end):
        return [(hop.kind, hop.sent_values) for hop in cheapest_route(mesh, sizes, (start,), end).hops]

    assert route(part, whole) == [("broadcast", 2 * 3 * 8)]
    assert route(whole, part) == [("slice", 0)]
    assert route(Placement(partial=("y",)), part) == [("reduce", 2 * 3 * 8)]
    assert route(Placement(partial=("y",), reduction="max"), part) == [("reduce", 2 * 3 * 8)]
    # what is cut before it is sent
    assert route(part, Placement((Split("M", ("x",), 4),))) == [("slice", 0), ("broadcast", 2 * 3 * 4)]


def drawn(seed):
    """Random placements, some of them on a part of the mesh."""
    rng = random.Random(seed)
    workload = draw_workload(rng)
    mesh = Mesh(tuple(zip("xy", rng.choice([(2, 2), (2, 3), (4, 2), (2, 4)]), strict=True)))
    asked = draw_placements(rng, workload, mesh)
    for tensor, place in asked.items():
        free = [a for a, size in mesh.axes if a not in {x for axes in place.values() for x in axes}]
        if free and rng.random() < 0.7:
            asked[tensor] = {**place, "on": {free[0]: rng.randrange(mesh.size(free[0]))}}
    cost = ClusterCost(flat_cluster(mesh, 1e9, 0.0, 1e12), rng.choice(["bytes", "time"]))
    return distribute_workload(workload, mesh, asked, cost=cost)


def test_drawn_plans_compute_what_the_workload_says():
    plans = [drawn(seed) for seed in range(25)]
    assert all(agree(plan) for plan in plans)
    assert {"broadcast", "reduce"} <= {row.kind for plan in plans for row in communication(plan)}


def test_they_send_what_is_predicted(engine):
    for seed in range(40, 45):
        check_run(engine, drawn(seed), seed)


@pytest.mark.slow
@pytest.mark.distribute
def test_a_hundred_more_send_what_is_predicted(engine):
    for seed in range(100, 200):
        check_run(engine, drawn(seed), seed)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"on": {"y": 3}}, "the position along 'y' must be a whole number from 0 to 2, found 3"),
        ({"on": {"y": "0"}}, "the position along 'y' must be a whole number from 0 to 2, found '0'"),
        ({"on": {"z": 0}}, "the mesh has no axis 'z'"),
        ({"on": "y"}, "expected a dictionary of mesh axes and one position along each"),
        ({"M": "y", "on": {"y": 0}}, "mesh axis 'y' is used twice in the placements of 'A'"),
    ],
)
def test_parts_that_there_are_not_are_told(value, message):
    with pytest.raises(SpecError, match=re.escape(message)):
        matmul({"A": value})
