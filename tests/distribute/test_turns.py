"""Einsums in turns: blocks of what would be gathered go round a ring of PEs, with the same result and the same bytes."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from tests.distribute.checking import check_run
from tests.distribute.drawn_plans import draw
from tests.distribute.shipped import shipped_plan

from einmap import SpecError, load
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.costs.cost import communication, plan_cost
from einmap.distribute.derive import distribute_workload
from einmap.distribute.placements.request import Turns
from einmap.distribute.plans.lifetimes import peak_memory
from einmap.distribute.plans.plan import Local
from einmap.distribute.rewrites.turns import in_turns

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


def test_cannon_sends_every_tile_but_those_of_one_row_or_column_once_and_then_on_to_each_other_pe():
    """Golub and Van Loan, Matrix computations, 4th edition, 1.6.4; Grama et al., Introduction to parallel computing, 2nd
    edition, 8.2.2: an alignment and steps of one tile of A and one of B, with side - 1 of them where tiles do not return.
    """
    side, a, b = 4, 8 * 16 / 16, 16 * 24 / 16
    plan = shipped_plan(("matmul", "matmul_cannon"), {**SIZES, "S": side}, side * side)
    rows = {(row.tensor, len(row.axes)): row for row in communication(plan)}
    aligned = (side - 1) / side
    assert {key: (row.kind, row.count, row.sent_bytes / 8) for key, row in rows.items()} == {
        ("A", 2): ("shift", 1, aligned * a),
        ("B", 2): ("shift", 1, aligned * b),
        ("A", 1): ("shift", side - 1, a),
        ("B", 1): ("shift", side - 1, b),
    }
    assert plan_cost(plan).sent_bytes / 8 == (aligned + side - 1) * (a + b)
    assert plan_cost(plan).points == 8 * 16 * 24 / 16
    assert agrees(plan)


@pytest.mark.parametrize(("x", "devices", "panels"), [(2, 4, 4), (2, 8, 2), (4, 8, 4), (4, 16, 2)])
def test_summa_sends_as_much_as_gathering_rows_and_columns_at_once_and_holds_two_panels(x, devices, panels):
    """van de Geijn and Watts, SUMMA, 1997, section 4: each PE gets its rows of A and its columns of B, panel by panel."""
    y = devices // x
    plan = shipped_plan(("matmul", "matmul_summa"), {**SIZES, "X": x, "PANELS": panels}, devices)
    rows, columns = 8 / x * 16, 16 * 24 / y
    sent = dict.fromkeys("AB", 0.0)
    for row in communication(plan):
        assert row.kind == "all_gather"
        sent[row.tensor] += row.total_sent_bytes / 8
    assert sent == {"A": (y - 1) / y * rows, "B": (x - 1) / x * columns}
    assert sum(row.count for row in communication(plan)) == 2 * panels
    gathered = [buffer for buffer in plan.buffers if buffer.name.startswith("AG")]
    assert [np.prod(buffer.shape) for buffer in gathered] == [rows / panels] * 2
    assert agrees(plan)


def test_panels_are_gathered_while_the_one_before_is_computed():
    plan = shipped_plan(("matmul", "matmul_summa"), {**SIZES, "PANELS": 2}, 4)
    machine = Cluster(ProcessingElement(((64, 1e6),)), (("x", Link(1e6, 0.0)), ("y", Link(1e6, 0.0))))
    gather_a, gather_b = (values / 2 / 2 * 8 / 1e6 for values in (4 * 16, 16 * 12))
    product = 2 * (4 * 12 * 8) / 1e6
    assert gather_a < gather_b < product
    cost = plan_cost(plan, machine)
    # the first panels are waited for, the second ones are not: rows of A and columns of B use links of their own
    assert cost.overlapped_latency == pytest.approx(gather_b + 2 * product)
    assert cost.latency == pytest.approx(gather_a + gather_b + 2 * product)


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
                for axes, panels in product([(name,) for name in plan.mesh.names] + [plan.mesh.names], (None, 2)):
                    try:
                        yield in_turns(plan, Turns((step.einsum,), variable, axes, panels))
                    except SpecError:
                        continue


def without_overlap(seed):
    drawn = draw(seed)
    return distribute_workload(drawn.workload, drawn.mesh, drawn.placements, loops=drawn.loops)


@pytest.mark.parametrize(
    "seeds", [range(0, 60, 2), pytest.param(range(60, 300), marks=[pytest.mark.slow, pytest.mark.distribute])]
)
def test_whatever_can_run_in_turns_has_the_same_result_and_sends_as_much(seeds):
    found = 0
    for seed in seeds:
        plan = without_overlap(seed)
        for turned in possible(plan):
            assert agrees(turned, seed)
            if not any(row.kind == "shift" and len(row.axes) > 1 for row in communication(turned)):
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
    panels = [{"einsums": ["Z"], "over": {"k": "x"}, "panels": 3}]
    assert "no 3 equal panels: 4 values lie together" in refused(panels, {"Z": {"n": "x"}}, A={"K": "x"}, B={"N": "x"})
    panels[0]["panels"] = 1
    assert "a number of panels from 2 on, found 1" in refused(panels)
    assert "expected a list of einsums and over" in refused({"Z": {"m": "x"}})
    twice = refused(asked * 2, {"Z": {"n": "x"}}, **gathered)
    assert "Einsum 'Z' is in a loop already" in twice
