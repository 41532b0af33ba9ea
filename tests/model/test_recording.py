"""Recorded formulas give what the formulas give, to the last bit."""

import numpy as np
import pytest
from tests.mapper.specs import SPECS

import einmap
from einmap.model.batch.batch import RECORD_AT, Batch
from einmap.model.batch.recording import NotRecordable, Recorded, Recording, Tape
from einmap.search.problem import problem_of

SHIPPED = {"nvdla conv": ("nvdla", "conv"), "eyeriss conv": ("eyeriss", "conv"), "simba conv": ("simba", "conv")}


@pytest.mark.parametrize("name", [*SHIPPED, *SPECS])
def test_a_template_that_comes_back_costs_what_its_formulas_say(name):
    spec = einmap.load(*SHIPPED[name]) if name in SHIPPED else SPECS[name]()
    problem = problem_of(spec, einsum=spec.workload.einsums[0].name)
    rng = np.random.default_rng(0)
    recorded = 0
    for number in problem.space.draw_numbers(rng, 4).tolist():
        subspace = problem.space.subspace(number)
        points = subspace.random_points(rng, 6)
        table = np.array([subspace.shapes_of(point) for point in points.tolist()])
        assert np.array_equal(table.T, subspace.shapes(points))
        batch = Batch(subspace.template, problem.einsum, problem.arch, problem.semantics)
        costs = [batch.evaluate_few(table) for _ in range(RECORD_AT + 1)]
        whole = batch.evaluate(list(table.T), len(table))
        for cost in costs:
            assert np.array_equal(cost.energy, whole.energy)
            assert np.array_equal(cost.latency, whole.latency)
            assert np.array_equal(cost.fits, whole.fits)
        recorded += batch._recording is not None
    assert recorded


def test_each_operation_is_written_down_once_and_only_what_is_needed_is_repeated():
    tape = Tape(2)
    a, b = tape.inputs()
    product, again, _ = a * b, a * b, a - b
    recording = Recording(tape, (np.maximum(product + again, 7), np.where(a < b, a, -b), 5))
    assert len(recording.columns[0]) == 7  # *, +, maximum, <, the negative, a pair, a choice
    assert recording.repeat((2.0, 3.0)) == [12.0, 2.0, 5]
    assert recording.repeat((3.0, 1.0)) == [7, -1.0, 5]


@pytest.mark.parametrize(
    "asks", [bool, float, len, np.sqrt, np.asarray, lambda x: [1][x], lambda x: x.shape, lambda x: x + np.ones(2)]
)
def test_what_asks_for_a_number_is_refused(asks):
    (value,) = Tape(1).inputs()
    assert isinstance(value, Recorded)
    with pytest.raises((NotRecordable, TypeError)):
        asks(value)
