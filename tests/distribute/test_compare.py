"""Predicted, executed and compiled communication side by side."""

from dataclasses import replace

import pytest

from einmap.distribute.backends.compare import after_compilation, matches
from einmap.distribute.backends.observed_collectives import Collective, merged, predicted
from einmap.distribute.placements.mesh import Groups
from einmap.distribute.plans.collectives import Traffic

PAIRS = ((0, 1), (2, 3))
SUM = Traffic("all_reduce", "Z", ("y",), Groups(((2, 1),), ((2, 2),)), 1, 80, 80, 80.0)
FOUND = Collective("all_reduce", PAIRS, 80, 80, 1)


def test_equal_collectives_of_several_tensors_are_one_row_with_the_sum_of_their_counts():
    traffic = [SUM, replace(SUM, tensor="Y", count=3), replace(SUM, tensor="X", operand_bytes=8, result_bytes=8)]
    rows = matches(traffic, [replace(FOUND, count=4), replace(FOUND, operand_bytes=8, result_bytes=8)])
    assert [(row.tensors, row.axes, row.predicted, row.lowered) for row in rows] == [
        (("Z", "Y"), ("y",), 4, 4),
        (("X",), ("y",), 1, 1),
    ]
    assert all(row.agrees for row in rows)


@pytest.mark.parametrize(
    "other",
    [
        replace(FOUND, kind="all_gather"),
        replace(FOUND, groups=((0, 2), (1, 3))),
        replace(FOUND, operand_bytes=88),
        replace(FOUND, result_bytes=88),
    ],
)
def test_whatever_differs_is_both_missing_and_not_predicted(other):
    rows = matches([SUM], [other])
    assert [(row.predicted, row.lowered, row.agrees) for row in rows] == [(1, 0, False), (0, 1, False)]


def test_a_different_count_is_a_difference():
    (row,) = matches([SUM], [replace(FOUND, count=2)])
    assert not row.agrees


def test_slices_are_no_communication():
    assert predicted([replace(SUM, kind="slice")]) == ()


def test_equal_collectives_are_merged_and_those_that_never_run_left_out():
    assert merged([FOUND, replace(FOUND, count=2), replace(FOUND, kind="shift", count=0)]) == (replace(FOUND, count=3),)


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ([FOUND], [FOUND], [""]),
        ([FOUND], [replace(FOUND, groups=((3, 2), (1, 0)))], [""]),
        ([replace(FOUND, count=3)], [replace(FOUND, operand_bytes=240)], ["several merged into one"]),
        ([FOUND], [replace(FOUND, operand_bytes=40, count=2)], ["one cut into several"]),
        ([replace(FOUND, count=3)], [FOUND], ["repeated or unused ones dropped"]),
        ([FOUND], [replace(FOUND, operand_bytes=160)], ["more is sent than asked for"]),
        ([FOUND], [replace(FOUND, kind="shift")], ["dropped, or replaced by others", "takes the place of others"]),
        ([FOUND], [], ["dropped, or replaced by others"]),
    ],
)
def test_what_the_compiler_did_is_told(before, after, why):
    assert [row.why for row in after_compilation(before, after)] == why
