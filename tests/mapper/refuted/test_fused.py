"""Fused mappings that beat what was called proven, and the judge that must know them.

Which kind was missing in the random comparison of tests/mapper/fusion is said at each.
"""

import pytest
from tests.mapper.fusion.combine import optimum
from tests.mapper.refuted.beaten import beaten

FUSED = (
    # A producer whose rank variables are alike for it, where its reader has a halo over one of them and shares a loop
    # over the other: the convolution's only other rank was never one of its intermediate.
    "fused-15",
    # Two Einsums that order the same loops around nodes of their own: two loops or more were drawn seldom, on memories
    # that keep everything hardly ever, and with sizes that made the order one of many equally good ones.
    "fused-258",
    "head-order",
)


@pytest.mark.parametrize("name", FUSED)
def test_nothing_beats_what_is_called_proven(name):
    problem = beaten(name)
    result = problem.search()
    assert result.optimal
    found = problem.value(result.spec.with_mapping(result.mapping))
    assert found <= problem.value(problem.better)
    limits = (problem.options.get(key) for key in ("max_fused_loops", "max_fused_loops_per_rank_variable"))
    most, per_variable = (given or default for given, default in zip(limits, (float("inf"), 1), strict=True))
    best = optimum(problem.spec, problem.goal, problem.semantics, most, per_variable)
    assert found == pytest.approx(best, rel=1e-9)
