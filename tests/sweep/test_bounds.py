"""Points that are ruled out by a bound: the front stays as it is."""

from hypothesis import given, settings
from hypothesis import strategies as st

from einmap import load, map_workload, sweep
from einmap.sweep.bounds import Least
from einmap.sweep.result import front_of

AXES = [
    {"name": "clock", "path": "arch.MAC.actions.compute.throughput", "values": [1e9, 0.25e9, 0.5e9]},
    {"name": "mac", "path": "arch.MAC.actions.compute.energy", "values": [1e-12, 1e-10, 1e-9]},
    {"name": "area", "path": "arch.MAC.area", "values": [1e-9, 2e-9]},
]
WORKLOADS = [
    {"name": "a", "files": ["matmul"], "define": {"M": 8, "K": 8, "N": 8}},
    {"name": "b", "files": ["matmul"], "define": {"M": 8, "K": 4, "N": 4}},
]


def test_the_front_is_that_of_the_full_grid_and_points_are_left_out():
    definition = {"specs": ["simple"], "axes": AXES, "workloads": WORKLOADS, "metric": "energy",
                  "objectives": ["energy", "latency", "area"]}  # fmt: skip
    every = list(sweep(definition, workers=0))
    bounded = list(sweep(definition, workers=0, bounds=True))
    assert [r.number for r in bounded] == [r.number for r in every]
    left_out = [r for r in bounded if r.status == "ruled out"]
    assert len(left_out) == 8  # the two larger energies at the two slower clocks, whatever the area
    assert left_out[0].reason == f"point {left_out[0].better} costs less than this one can"
    assert front_of(bounded) == front_of(every) != []
    numbers = {r.number for r in left_out}
    assert [r for r in bounded if r.number not in numbers] == [r for r in every if r.number not in numbers]


SIZES = st.sampled_from([1, 2, 4, 6])


@settings(max_examples=8, deadline=None)
@given(SIZES, SIZES, SIZES, st.sampled_from([1e9, 64e9]), st.sampled_from([0, 0.01]))
def test_no_mapping_costs_less_than_the_bound(m, k, n, rate, leak):
    spec = load("simple", "matmul", define={"M": m, "K": k, "N": n})
    spec = spec.set("arch.nodes.MAC.actions.compute.throughput", rate).set("arch.nodes.GlobalBuffer.leak_power", leak)
    least = Least.of(spec)
    for metric in ("energy", "latency"):
        cost = map_workload(spec, metrics=metric, workers=1).cost
        assert cost.energy - cost.leak_energy >= least.dynamic * (1 - 1e-9)
        assert cost.leak_energy >= least.leak * (1 - 1e-9)
        assert cost.latency >= least.latency * (1 - 1e-9) > 0


def test_inputs_of_several_einsums_may_be_read_once():
    """X is read by three Einsums; the mapper may copy it."""
    spec = load("simple", "attention_single_head")
    least = Least.of(spec)
    assert least.dynamic > 0
    cost = map_workload(spec, metrics="energy", max_evaluations=2000).cost
    assert cost.energy >= least.dynamic + least.leak
