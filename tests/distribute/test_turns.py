"""Einsums in turns: blocks of what would be gathered go round a ring of PEs, with the same result and the same bytes."""

from dataclasses import replace

import numpy as np
import pytest
from tests.distribute.checking import check_run
from tests.distribute.drawn_plans import draw
from tests.distribute.shipped import shipped_plan

from einmap import SpecError, load
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.check import check_outputs, sample_inputs
from einmap.distribute.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.cost import communication, plan_cost
from einmap.distribute.derive import distribute_workload
from einmap.distribute.lifetimes import peak_memory
from einmap.distribute.plan import Local
from einmap.distribute.request import Turns
from einmap.distribute.schedules.turns import in_turns

SIZES = {"M": 8, "K": 16, "N": 24}
ROTATED = {"rotate_a": ("A", 8 * 16, "all_gather_a"), "rotate_b": ("B", 16 * 24, None)}


def agrees(plan, seed=0):
    inputs = sample_inputs(plan.workload, seed, plan.dtype)
    return all(
        one.agrees for one in check_outputs(plan.workload, inputs, LocalEngine().run(plan, inputs).outputs, plan.dtype)
    )


@pytest.mark.parametrize("devices", [2, 4, 8])
@pytest.mark.parametrize("name", ROTATED)
def test_a_rotated_operand_sends_all_blocks_but_one_as_its_all_gather_does(name, devices):
    tensor, values, _ = ROTATED[name]
    plan = shipped_plan(("matmul", f"matmul_{name}"), SIZES, devices)
    (row,) = communication(plan)
    assert (row.kind, row.tensor, row.axes, row.count) == ("shift", tensor, ("x",), devices - 1)
    assert row.sent_bytes == values / devices * 8
    assert plan_cost(plan).sent_bytes == (devices - 1) / devices * values * 8


def test_a_pe_never_holds_all_of_what_travels():
    rotated, gathered = (shipped_plan(("matmul", f"matmul_{name}"), SIZES, 4) for name in ("rotate_a", "all_gather_a"))
    assert plan_cost(rotated).sent_bytes == plan_cost(gathered).sent_bytes
    assert max(np.prod(b.shape) for b in rotated.buffers if b.tensor == "A") == 8 * 16 / 4
    large = {"M": 512, "K": 1024, "N": 64}
    rotated, gathered = (shipped_plan(("matmul", f"matmul_{name}"), large, 8) for name in ("rotate_a", "all_gather_a"))
    assert peak_memory(rotated).bytes < peak_memory(gathered).bytes


def test_a_turn_takes_the_longer_of_its_shift_and_its_product():
    plan = shipped_plan(("matmul", "matmul_rotate_a"), SIZES, 4)
    for bandwidth in (1e3, 1e9):
        machine = Cluster(ProcessingElement(((64, 1e6),)), (("x", Link(bandwidth, 0.0)),))
        cost = plan_cost(plan, machine)
        block = 2 * 16 * 8 / bandwidth
        product = 2 * (2 * 16 * 6) / 1e6
        assert cost.latency == pytest.approx(3 * max(block, product) + product)
        assert cost.communication_seconds == pytest.approx(3 * block)
        assert cost.overlapped_latency == pytest.approx(cost.latency)


def possible(plan):
    """All turns of one Einsum over one of its rank variables that the plan allows."""
    for step in plan.steps:
        if isinstance(step, Local):
            for variable in plan.workload.find(step.einsum).rank_variables:
                for axes in [(name,) for name in plan.mesh.names] + [plan.mesh.names]:
                    try:
                        yield in_turns(plan, Turns((step.einsum,), variable, axes))
                    except SpecError:
                        continue


def without_overlap(seed):
    drawn = draw(seed)
    return distribute_workload(drawn.workload, drawn.mesh, drawn.placements, loops=drawn.loops)


@pytest.mark.parametrize(
    "seeds", [range(0, 60, 2), pytest.param(range(60, 500), marks=[pytest.mark.slow, pytest.mark.distribute])]
)
def test_whatever_can_run_in_turns_has_the_same_result_and_sends_as_much(seeds):
    found = 0
    for seed in seeds:
        plan = without_overlap(seed)
        for turned in possible(plan):
            assert agrees(turned, seed)
            assert plan_cost(turned).sent_bytes == pytest.approx(plan_cost(plan).sent_bytes)
            found += 1
    assert found > 5


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("seed", range(100))
def test_it_is_so_on_jax(engine, seed):
    for turned in possible(replace(without_overlap(seed), dtype="float32")):
        check_run(engine, turned, seed)


def refused(turns, loops=None, **placements):
    workload = load("matmul", define=SIZES).workload
    with pytest.raises(SpecError) as problem:
        distribute_workload(workload, {"x": 4}, placements, loops=loops, turns=turns)
    return str(problem.value)


def test_what_cannot_run_in_turns_is_said():
    gathered = {"A": {"M": "x"}, "B": {"N": "x"}}
    asked = [{"einsums": ["Z"], "over": {"m": "x"}}]
    assert "nothing that Z read is all-gathered over x for them alone" in refused(
        asked, {"Z": {"n": "x"}}, B={"N": "x"}
    )
    assert "'m' of 'Z' is split over x" in refused(asked, {"Z": {"m": "x"}}, **gathered)
    assert "no Einsum 'Y'" in refused([{"einsums": ["Y"], "over": {"m": "x"}}])
    assert "no rank variable 'q'" in refused([{"einsums": ["Z"], "over": {"q": "x"}}])
    assert "the mesh has no axis 'w'" in refused([{"einsums": ["Z"], "over": {"m": "w"}}])
    assert "expected one rank variable, found m, n" in refused([{"einsums": ["Z"], "over": {"m": "x", "n": "x"}}])
    assert "'Z' is named twice" in refused([{"einsums": ["Z", "Z"], "over": {"m": "x"}}])
    assert "expected einsums and over" in refused([{"einsum": ["Z"], "over": {"m": "x"}}])
    assert "expected a list of einsums and over" in refused({"Z": {"m": "x"}})
    twice = refused(asked * 2, {"Z": {"n": "x"}}, **gathered)
    assert "Einsum 'Z' is in a loop already" in twice
