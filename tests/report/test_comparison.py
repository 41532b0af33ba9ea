"""Model against execution: what is a mismatch, how far outputs are off, what the report and its pictures show."""

import math
from dataclasses import replace

import numpy as np
import pytest
from tests.model.test_arrays import outer
from tests.model.test_systolic import array

from einmap import evaluate, load
from einmap.execute.execute import execute
from einmap.execute.results.result import CountRow, Event, Execution, OccupancyRow
from einmap.model.cost import ActionRow, LatencyRow
from einmap.report.costs.cost_report import to_text
from einmap.report.executions.comparison import ComparedCount, compare, largest_errors, model_steps, output_errors
from einmap.report.executions.occupancy import Series, series_of
from einmap.report.executions.plots import MOST_CHANGES, occupancy_png, plotted_occupancy
from einmap.report.executions.simulation import course, exact, output_line, simulation_report
from einmap.report.trace.events import csv_of, written_events

SPEC = load("simple", "matmul", "simple_matmul", define={"M": 16, "K": 8, "N": 16})
COST = evaluate(SPEC, semantics="exact")
PNG = b"\x89PNG\r\n\x1a\n"

A = np.arange(128.0).reshape(16, 8)
B = A.T % 7
BY_HAND = Execution(
    # Z = A B, every count as the model has it
    tensors={"Z": A @ B},
    inputs={"A": A, "B": B},
    actions=tuple(CountRow(r.einsum, r.component, r.tensor, r.action, r.count) for r in COST.actions if r.count),
    per_instance={("Z", "MAC", None, "compute"): {(): 2048}},
    usage={row.component: row.usage for row in COST.memory_usage},
    occupancy=(OccupancyRow(0, "GlobalBuffer", 1024.0), OccupancyRow(1024, "GlobalBuffer", 1536.0)),
    steps={"Z": 2048},
    calls={},
)


def changed(component, action, by=1.0) -> Execution:
    """BY_HAND with other counts of one action."""
    rows = tuple(
        replace(row, count=row.count + by) if (row.component, row.action) == (component, action) else row
        for row in BY_HAND.actions
    )
    return replace(BY_HAND, actions=rows)


def series(capacity=math.inf, *changes, end=4) -> Series:
    steps, bits = zip(*(changes or [(0, 8.0), (2, 0.0), (3, 4.0)]), strict=True)
    return Series("GLB", capacity, np.array(steps), np.array(bits, float), end)


# numbers


def test_equal_numbers_are_no_mismatch():
    found = compare(SPEC, COST, BY_HAND)
    assert (found.agrees, found.mismatches, found.max_abs_error, found.max_relative_error) == (True, (), 0, 0)
    assert [(r.component, r.model, r.simulated) for r in found.steps] == [("MAC", 2048, 2048)]
    assert len(found.actions) == len(BY_HAND.actions)
    assert [row.component for row in found.usage] == ["MainMemory", "GlobalBuffer"]


def test_a_count_that_is_off_by_one_is_a_mismatch():
    (row,) = compare(SPEC, COST, changed("MAC", "compute")).mismatches
    assert row == ComparedCount("Z", "MAC", None, "compute", 2048, 2049)
    assert row.difference == 1


def test_actions_of_one_side_only_count_as_zero_on_the_other():
    missing = replace(BY_HAND, actions=BY_HAND.actions[1:])
    (row,) = compare(SPEC, COST, missing).mismatches
    assert (row.model, row.simulated) == (BY_HAND.actions[0].count, 0)
    more = replace(BY_HAND, actions=(*BY_HAND.actions, CountRow("Z", "MainMemory", "Z", "read", 8)))
    found = compare(SPEC, COST, more)
    assert found.mismatches == (ComparedCount("Z", "MainMemory", "Z", "read", 0, 8),)
    assert found.actions[-1] == found.mismatches[0]


def test_rows_of_zero_and_leakage_are_left_out():
    zero = replace(BY_HAND, actions=(*BY_HAND.actions, CountRow("Z", "MainMemory", "Z", "read", 0.0)))
    leaking = replace(COST, actions=(*COST.actions, ActionRow("Z", "MAC", None, "leak", None, 1.0)))
    assert compare(SPEC, leaking, zero).actions == compare(SPEC, COST, BY_HAND).actions


@pytest.mark.parametrize(
    ("model", "simulated", "agrees"),
    [
        (1e12, 1e12 + 1, False),  # whole numbers: exactly
        (8 / 3, 8 / 3 * (1 + 1e-12), True),
        (8.0, 8.0 * (1 + 1e-12), True),  # sums of 1/3 need not be whole
        (8 / 3, 8 / 3 + 1e-6, False),
    ],
)
def test_only_numbers_that_are_not_whole_may_differ_by_rounding(model, simulated, agrees):
    assert ComparedCount("Z", "GLB", "A", "read", model, simulated).agrees is agrees


def test_peak_usage_and_steps_are_compared_too():
    other = replace(BY_HAND, usage={**BY_HAND.usage, "GlobalBuffer": 0.5}, steps={"Z": 1024})
    usage, steps = compare(SPEC, COST, other).mismatches
    assert (usage.einsum, usage.component, usage.tensor, usage.action, usage.simulated) == (
        "", "GlobalBuffer", None, "usage", 0.5,
    )  # fmt: skip
    assert steps == ComparedCount("Z", "MAC", None, "steps", 2048, 1024)


def test_one_bit_of_a_large_memory_is_a_mismatch():
    bits = 2**30
    assert not ComparedCount("", "GLB", None, "usage", 0.5, 0.5 + 1 / bits).agrees


def test_steps_are_unknown_where_seconds_do_not_tell_them():
    assert model_steps(SPEC, LatencyRow("Z", "MAC", 2048e-9)) == 2048
    assert model_steps(SPEC, LatencyRow("Z", "GlobalBuffer", 1.0)) is None
    fast = SPEC.set("arch.nodes.MAC.actions.compute.throughput", "inf")
    assert model_steps(fast, LatencyRow("Z", "MAC", 0.0)) is None
    found = compare(fast, evaluate(fast), BY_HAND)
    assert (found.agrees, found.steps) == (True, ())
    assert found.to_dict()["steps"] == {"Z": {"model": None, "simulated": 2048}}


def test_instances_and_action_scales_are_taken_out_of_steps():
    scaled = SPEC.set("workload.n_instances", 3).set("arch.nodes.MAC.actions_scale", 2)
    (row,) = (row for row in evaluate(scaled).latencies if row.component == "MAC")
    assert model_steps(scaled, row) == 2048


@pytest.mark.parametrize("skew", ["none", "once", "each_fold"])
def test_lanes_that_wait_for_values_of_a_systolic_array_do_no_steps(skew):
    # 3 folds of 40 steps; by each fold 7 + 3 more pass before the last lane is done
    spec = array(folds=3, skew=skew, edge=0.3).set("workload.n_instances", 2).set("arch.nodes.MAC.actions_scale", 3)
    found = compare(spec, evaluate(spec), execute(spec))
    assert [(row.component, row.model, row.simulated) for row in found.steps] == [("MAC", 120, 120)]
    assert found.agrees


def test_routes_over_networks_are_compared():
    # results of the last lane of 4 x 4 go to the first place: 3 steps each way, and one more into the lane
    spec = outer()
    execution = execute(spec)
    found = compare(spec, evaluate(spec), execution)
    assert found.agrees
    assert [(row.einsum, row.component, row.action, row.model) for row in found.routes] == [
        ("Z", "Noc", "longest route", 8),
        ("Z", "Noc", "busiest link", execution.link_traffic["Z", "Noc"]),
    ]
    longer = compare(spec, evaluate(spec), replace(execution, longest_route={("Z", "Noc"): 9}))
    assert [(row.action, row.difference) for row in longer.mismatches] == [("longest route", 1)]
    assert longer.to_dict()["routes"][0]["simulated"] == 9


# outputs


def test_a_wrong_element_makes_the_output_wrong():
    wrong = A @ B
    wrong[3, 4] += 2
    found = compare(SPEC, COST, replace(BY_HAND, tensors={"Z": wrong}))
    assert (found.agrees, found.mismatches, found.max_abs_error) == (False, (), 2)
    assert "Z: DIFFERS from the plain einsum, max error 2" in output_line(found.outputs[0])


def test_rounding_is_not_wrong():
    found = compare(SPEC, COST, replace(BY_HAND, tensors={"Z": (A @ B) * (1 + 1e-15)}))
    assert found.agrees
    assert 0 < found.max_relative_error < 1e-14
    assert "equal to the plain einsum but for rounding" in output_line(found.outputs[0])


def test_what_is_left_of_cancelling_values_is_judged_by_the_large_ones():
    right = np.array([1000.0, 1e-12])
    assert largest_errors(np.array([1000.0, 2e-12]), right) == (pytest.approx(1e-12), pytest.approx(1e-12))
    assert largest_errors(np.array([1000.0, 0.5]), right)[1] == pytest.approx(0.5)


def test_infinities_and_nan_equal_themselves_and_nothing_else():
    odd = np.array([math.inf, -math.inf, math.nan, 1.0])
    assert largest_errors(odd, odd.copy()) == (0, 0)
    assert largest_errors(np.array([math.nan]), np.array([1.0])) == (math.inf, math.inf)
    assert largest_errors(np.array([math.inf]), np.array([-math.inf])) == (math.inf, math.inf)
    assert largest_errors(np.array([1.0]), np.array([0.0])) == (1.0, math.inf)
    assert largest_errors(np.zeros(0), np.zeros(0)) == (0, 0)


def test_a_missing_or_misshapen_tensor_is_wrong():
    right = {"Z": np.zeros((2, 3))}
    assert [row.max_abs_error for row in output_errors({}, right)] == [math.inf]
    assert [row.agrees for row in output_errors({"Z": np.zeros((3, 2))}, right)] == [False]


# the document and the report


def test_the_document_holds_both_numbers_of_every_row():
    found = compare(SPEC, COST, changed("MAC", "compute")).to_dict()
    row = {"einsum": "Z", "component": "MAC", "tensor": None, "action": "compute", "model": 2048, "simulated": 2049}
    assert found["mismatches"] == [row]
    assert row in found["actions"]
    assert (found["schema"], found["max_relative_error"], found["max_abs_error"]) == (1, 0, 0)
    assert found["usage"][0] == {"component": "MainMemory", "model": 0, "simulated": 0}
    assert found["steps"] == {"Z": {"model": 2048, "simulated": 2048}}


def report_of(execution, width=80) -> str:
    return to_text(simulation_report(compare(SPEC, COST, execution), execution, SPEC, width), width)


def test_the_report_says_that_all_agrees_in_one_line_and_shows_the_numbers():
    text = report_of(BY_HAND)
    assert "Z: equal to the plain einsum, max error 0\n" in text
    assert "model and execution agree in all 13 numbers\n" in text
    assert [line.split() for line in text.splitlines() if " steps " in line] == [
        ["MAC", "-", "steps", "2,048", "2,048", "-"]
    ]
    assert [line for line in text.splitlines() if len(line) > 80] == []


def test_mismatches_come_first_with_their_sign():
    text = report_of(changed("MAC", "compute", by=-3))
    assert "model and execution differ in 1 of 13 numbers\n" in text
    counts = text[text.index("Counts") :].splitlines()
    assert counts[2].split() == ["MAC", "-", "compute", "2,048", "2,045", "-3"]


def test_counts_are_shown_with_all_digits():
    assert [exact(n) for n in (0, 1234567890, 2.5, math.inf)] == ["0", "1,234,567,890", "2.5", "inf"]


# occupancy


def test_a_series_begins_empty_and_ends_with_the_last_operation():
    late = replace(BY_HAND, occupancy=(OccupancyRow(100, "GlobalBuffer", 64.0),))
    main, buffer = series_of(late, SPEC)
    assert (main.memory, main.peak, math.isinf(main.capacity_bits)) == ("MainMemory", 0, True)
    assert (list(buffer.steps), list(buffer.bits), buffer.end) == ([0, 100], [0, 64], 2048)


def test_peaks_of_intervals_see_what_is_carried_over_and_short_peaks():
    assert list(series().peaks(2)) == [8, 4]
    assert list(series().peaks(4)) == [8, 8, 0, 4]
    assert list(series(math.inf, (0, 1.0), (1, 9.0), (1, 2.0)).peaks(4)) == [1, 9, 2, 2]
    assert list(series(math.inf, (0, 1.0), (4, 9.0)).peaks(2)) == [1, 9]
    assert max(series().peaks(7)) == 8


def test_the_course_is_as_high_as_the_peak_and_blank_where_nothing_is_held():
    assert course(series(), 4) == "██ ▄"
    assert course(series(), 4, ".#") == "## ."
    assert course(series(math.inf, (0, 0.0)), 4) == "    "


@pytest.mark.parametrize("capacity", [math.inf, 8.0, 16.0, 1e9])
def test_a_picture_is_drawn_for_any_capacity(capacity):
    assert occupancy_png((series(capacity), series(capacity, (0, 0.0))), "title").startswith(PNG)


def test_a_picture_of_many_changes_shows_the_peaks_of_intervals():
    many = [(i, float(i % 5)) for i in range(2 * MOST_CHANGES)]
    assert occupancy_png((series(8.0, *many, end=2 * MOST_CHANGES),), "title").startswith(PNG)


def test_an_execution_has_a_picture():
    assert plotted_occupancy(BY_HAND, SPEC).startswith(PNG)


# events

EVENTS = (
    Event(0, "GlobalBuffer", (), "A", "write", 64, ((0, 7), (8, 15))),
    Event(64, "Register", (0, 3), "Z", "read", 1, ()),
)


def test_events_are_lines_of_csv():
    assert csv_of(EVENTS).splitlines() == [
        "step,component,instance,tensor,action,count,tile",
        "0,GlobalBuffer,,A,write,64,0..7 8..15",
        "64,Register,0 3,Z,read,1,",
    ]


def test_events_are_rows_of_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    (tmp_path / "out.parquet").write_bytes(written_events(EVENTS, tmp_path / "out.parquet"))
    first, second = parquet.read_table(tmp_path / "out.parquet").to_pylist()
    assert first["tile"] == [{"first": 0, "last": 7}, {"first": 8, "last": 15}]
    assert (second["step"], second["component"], second["instance"], second["count"]) == (64, "Register", [0, 3], 1)


# real ones

EXAMPLES = {
    "matmul": (("simple", "matmul", "simple_matmul"), {"M": 16, "K": 8, "N": 16}),
    "ragged": (("simple", "matmul", "simple_matmul"), {"M": 40, "K": 8, "N": 37}),
    "fused": (("simple", "matmul_chain", "simple_matmul_chain_fused"), {}),
    "unfused": (("simple", "matmul_chain", "simple_matmul_chain_unfused"), {}),
    "tpu": (("tpu_v4i", "matmul", "tpu_v4i_matmul"), {"M": 64, "K": 160, "N": 130}),
}


@pytest.mark.parametrize(("names", "define"), EXAMPLES.values(), ids=EXAMPLES)
def test_the_model_agrees_with_the_execution_of_shipped_examples(names, define):
    spec = load(*names, define=define)
    found = compare(spec, evaluate(spec, semantics="exact"), execute(spec))
    assert (found.mismatches, found.max_abs_error) == ((), 0)
    assert found.agrees
