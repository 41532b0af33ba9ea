"""A census counts what brute force finds, and its estimates enclose it."""

import math
from collections import Counter

import numpy as np
import pytest
from tests.mapper.specs import SPECS, two_level

import einmap
from einmap.search.census import take_census, wilson
from einmap.search.experiment import Question
from einmap.search.problem import problem_of
from einmap.search.space import space


def question(spec):
    return Question(spec, spec.workload.einsums[0].name, "energy_delay_product", "exact")


@pytest.fixture(scope="module")
def whole():
    return take_census(question(two_level(sizes={"M": 2, "K": 2, "N": 1})), 10_000, workers=1)


def test_a_small_mapspace_is_covered_and_agrees_with_single_evaluations(whole):
    assert whole.complete
    assert whole.sample.drawn == whole.problem.space.size
    edps, accesses = [], Counter()
    for number in np.flatnonzero(whole.problem.space.sizes).tolist():
        subspace = whole.problem.space.subspace(number)
        for digits in subspace.points_at(np.arange(subspace.size)).tolist():
            point = (number, tuple(digits))
            if not math.isfinite(whole.problem.evaluate([point])[0]):
                continue
            cost = einmap.evaluate(whole.problem.spec.with_mapping(whole.problem.space.decode(point)))
            edps.append(cost.edp)
            counts = cost.count_by("component", "action")
            accesses[counts["Main", "read"] + counts["Main", "write"]] += 1
    assert np.allclose(whole.values, sorted(edps), rtol=1e-12)
    assert (whole.least_traffic.least, whole.least_traffic.count) == (min(accesses), accesses[min(accesses)])
    assert whole.values[0] == pytest.approx(whole.optimum.value)


def test_draws_estimate_what_covering_counts():
    asked = question(SPECS["toll"]())
    exact, drawn = take_census(asked, 20_000, workers=1), take_census(asked, 1_500, workers=1)
    assert exact.complete and not drawn.complete
    assert drawn.n_valid == 1_500
    assert drawn.valid.low <= exact.valid.value <= drawn.valid.high
    # three standard deviations of the rank of a median of 1,500
    low, high = exact.quantiles((0.46, 0.54))
    assert low <= drawn.quantiles((0.5,))[0] <= high
    assert sum(count for _, _, count in drawn.histogram()) == 1_500
    assert take_census(asked, 1_500, workers=1).to_dict() | {"seconds": 0} == drawn.to_dict() | {"seconds": 0}


def test_the_size_of_a_mapspace_that_is_not_listed_is_estimated_with_an_interval(monkeypatch):
    spec = SPECS["lanes with reuse"]()
    exact = problem_of(spec).space
    monkeypatch.setattr(space, "MOST_PAIRS", len(exact.sizes) // 4)
    part = problem_of(spec).space
    assert part.truncated and part.size < exact.size
    value, low, high = part.estimated_size
    assert low <= exact.size <= high
    assert low <= value <= high


def test_intervals_of_parts_follow_wilson():
    # 10 of 100: (0.1 + z^2/200 -+ z sqrt(0.09/100 + z^2/40000)) / (1 + z^2/100)
    assert (wilson(10, 100).low, wilson(10, 100).high) == pytest.approx((0.05523, 0.17437), abs=1e-5)
    assert wilson(0, 50).low == 0.0
