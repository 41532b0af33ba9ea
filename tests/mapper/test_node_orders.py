"""Orders of storage nodes that are left out are never better than those that are listed."""

import random

import pytest
from tests.mapper.test_recurrences import RNN, problem

import einmap
from einmap.mapper.fusion.steps import with_steps
from einmap.mapper.mapspace.dataplacement import dataplacements
from einmap.mapper.mapspace.node_orders import NodeOrders


def orders(spec, einsum, backed_outside, **fields):
    """Nodes of the buffer in each dataplacement, with the orders of `fields` alone."""
    of, path = spec.workload.by_name[einsum], spec.arch(einsum).path("MAC")
    some = NodeOrders(of, path, frozenset(), frozenset(), frozenset(), **fields) if fields else None
    found = dataplacements(of, path, backed_outside=backed_outside, top="Main", node_orders=some)
    return [tuple(t for memory, t in placement.nodes if memory == "Buffer") for placement in found]


def test_inner_nodes_that_all_loops_index_stand_in_one_order():
    spec = problem(einsums=RNN)
    every = orders(spec, "H", frozenset("PRH"))
    few = orders(spec, "H", frozenset("PRH"), variable=None, token=None)
    assert {frozenset(order) for order in every} == {frozenset(order) for order in few}
    assert len(few) == len({frozenset(order) for order in few}) < len(every)


def test_a_node_that_a_loop_does_not_index_keeps_all_places():
    # U[m, n] is the same for all t, H[t, m] for all n, R[t, n] for all m
    spec = problem(einsums=RNN)
    assert orders(spec, "R", frozenset("HUR"), variable=None, token=None) == orders(spec, "R", frozenset("HUR"))


def test_right_below_the_token_is_not_above_it():
    spec, steps = with_steps(problem(), readers=False, fuse=True)
    token = steps.of["R"].token
    einsum, path = spec.workload.by_name["R"], spec.arch("R").path("MAC")
    admits = NodeOrders(einsum, path, frozenset("HR"), frozenset(), frozenset(), "t", token).admits
    assert admits((("Main", "U"), ("Buffer", token)), ("Buffer", "H"))
    # above the loop over the steps one order is enough
    assert admits((("Main", "U"), ("Buffer", "H")), ("Buffer", "R"))
    assert not admits((("Main", "U"), ("Buffer", "R")), ("Buffer", "H"))


SAMPLES = ["R[t, b] = H[S: t, b] * U[t]", "H[S: t + 1, b] = P[t, b] + R[t, b]"]


@pytest.mark.parametrize(
    ("room", "metric", "fields"),
    [(4, "energy", {}), (7, "latency", {}), (5, "energy", {"einsums": SAMPLES, "B": 2, "T": 4})],
)
def test_the_best_mapping_of_all_orders_is_that_of_those_listed(room, metric, fields, monkeypatch):
    given = problem(random.Random(room), room, **fields)
    few = einmap.map_workload(given, metrics=metric)
    monkeypatch.setattr(NodeOrders, "admits", lambda _self, _above, _node: True)
    every = einmap.map_workload(given, metrics=metric)
    assert few.optimal
    assert every.optimal
    assert getattr(few.cost, metric) == pytest.approx(getattr(every.cost, metric))
    assert few.stats.templates < every.stats.templates / 2
