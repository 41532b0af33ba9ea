"""Layers that follow one another: the result of each lies as the input of the next one does."""

from dataclasses import replace

import pytest

from einmap import SpecError, load
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.engines import engine_named
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement, default_cluster
from einmap.distribute.costs.cost import communication, plan_cost
from einmap.distribute.placements.mesh import Mesh
from einmap.distribute.planner.document import distribution_document
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import PlanRequest
from einmap.distribute.read import plan_of
from einmap.spec.spec import Spec

MESH = Mesh((("x", 4),))
CLUSTER = Cluster(ProcessingElement(((32, 1e12),), memory_bandwidth=1e12), (("x", Link(100e9, 1e-9)),))
LAYER = (
    "U{0}[m, s] = {1}[m, d] * V{0}[d, s]",
    "W{0}[m, d] = relu(U{0}[m, s]) * R{0}[s, d]",
    "X{2}[m, d] = X{0}[m, d] + W{0}[m, d]",
)


def stack(layers, **workload):
    einsums = [line.format(number, f"X{number}", number + 1) for number in range(layers) for line in LAYER]
    sizes = {"M": 2, "D": 256, "S": 512}
    spec = {"rank_sizes": sizes, "bits_per_value": {"All": 32}, "einsums": einsums, **workload}
    return Spec.from_dict(workload=spec).workload


def planned(workload, mesh=MESH, **options):
    return plan_workload(workload, PlanRequest(mesh, CLUSTER, **options)).best


def sent(plan):
    return sum(row.total_sent_bytes for row in communication(plan))


def test_a_result_that_lies_as_an_input_costs_what_the_best_common_placement_does():
    layer = stack(1)
    places = ["replicated", {"M": ["x"]}, {"D": ["x"]}]
    each = [planned(layer, placements={"X0": place, "X1": place}).cost for place in places]
    best = planned(layer, same={"X1": "X0"})
    assert best.proven
    assert best.cost == pytest.approx(min(each), rel=1e-9)
    assert best.homes["X1"][-1] == best.homes["X0"][0]
    # left to itself it ends in parts, which the next layer would have to gather
    assert planned(layer).cost < best.cost
    limited = planned(layer, same={"X1": "X0"}, memory=best.peak.bytes - 1)
    assert limited.homes["X1"][-1] == limited.homes["X0"][0]
    assert limited.cost >= best.cost


def test_ends_match_on_two_axes():
    mesh = Mesh((("x", 2), ("y", 2)))
    links = tuple((axis, Link(100e9, 1e-9)) for axis in "xy")
    cluster = Cluster(CLUSTER.pe, links)
    best = plan_workload(stack(1), PlanRequest(mesh, cluster, same={"X1": "X0"})).best
    spots = [[], ["x"], ["y"], ["x", "y"], ["y", "x"]]
    costs = []
    for m in spots:
        for d in spots:
            if not set(m) & set(d):
                place = {rank: axes for rank, axes in (("M", m), ("D", d)) if axes} or "replicated"
                request = PlanRequest(mesh, cluster, placements={"X0": place, "X1": place})
                costs.append(plan_workload(stack(1), request).best.cost)
    assert best.proven
    assert best.cost == pytest.approx(min(costs), rel=1e-9)


def test_a_stack_costs_as_many_times_as_it_has_layers():
    layer = planned(stack(1, n_instances=3))
    assert planned(stack(1), same={"X1": "X0"}).cost == pytest.approx(layer.cost)
    whole = planned(stack(3), same={"X3": "X0"})
    assert whole.cost == pytest.approx(3 * layer.cost, rel=1e-9)
    assert sent(whole.plan) == pytest.approx(3 * sent(layer.plan))


@pytest.mark.parametrize("layers", [2, 3])
def test_a_stack_of_planned_layers_sends_that_many_times_what_one_does(layers):
    layer = planned(stack(1, n_instances=layers))
    asked = distribution_document(layer)["distribution"]
    homes, loops = {}, {}
    for number in range(layers):
        homes |= {f"{name[0]}{int(name[1:]) + number}": place for name, place in asked["placements"].items()}
        loops |= {f"{name[0]}{int(name[1:]) + number}": spread for name, spread in asked["loops"].items()}
    lines = [line.format(number, f"X{number}", number + 1) for number in range(layers) for line in LAYER]
    sizes = {"M": 2, "D": 256, "S": 512}
    spec = {
        "workload": {"rank_sizes": sizes, "bits_per_value": {"All": 32}, "einsums": lines},
        "distribution": {"mesh": {"x": 4}, "placements": homes, "loops": loops, "dtype": "float32"},
    }
    plan = plan_of(Spec.from_dict(**spec))
    inputs = sample_inputs(plan.workload, 0, plan.dtype)
    outputs = engine_named("local").run(plan, inputs).outputs
    assert all(one.agrees for one in check_outputs(plan.workload, inputs, outputs, plan.dtype))
    assert sent(plan) == layers * sent(layer.plan) > 0
    assert plan_cost(plan, CLUSTER).latency == pytest.approx(layers * plan_cost(layer.plan, CLUSTER).latency)


@pytest.mark.parametrize(("name", "result", "tensor"), [("llama3_8b", "O", "X"), ("gpt3_6.7b", "FFB", "I")])
def test_ends_of_shipped_layers_match_where_they_are_repeated(name, result, tensor):
    workload = replace(load(name).workload, n_instances=2)
    mesh = Mesh((("x", 8),))
    requests = [PlanRequest(mesh, default_cluster(mesh), same=same) for same in ({}, None, {result: tensor})]
    alone, repeated, asked = (plan_workload(workload, request).best for request in requests)
    assert repeated.proven
    assert repeated.homes[result][-1] == repeated.homes[tensor][0]
    assert alone.cost < repeated.cost == asked.cost


def test_what_cannot_match_is_refused():
    layer = stack(1)
    with pytest.raises(SpecError, match="'U0' is not a result"):
        planned(layer, same={"U0": "X0"})
    with pytest.raises(SpecError, match="'W0' is not a graph input"):
        planned(layer, same={"X1": "W0"})
    with pytest.raises(SpecError, match="'X1' has the shape 2x256, 'V0' 256x512"):
        planned(layer, same={"X1": "V0"})
