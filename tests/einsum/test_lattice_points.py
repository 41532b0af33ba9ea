"""Integer points that satisfy linear inequalities, against a count one by one."""

from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap.einsum.spaces.lattice_points import HalfSpace, floor_sum, lattice_points


@given(st.integers(0, 20), st.integers(1, 12), st.integers(-30, 30), st.integers(-50, 50))
def test_a_sum_of_floors(count, scale, slope, offset):
    assert floor_sum(count, scale, slope, offset) == sum((slope * i + offset) // scale for i in range(count))


@st.composite
def cut_boxes(draw):
    extents = tuple(draw(st.lists(st.integers(0, 7), min_size=1, max_size=3)))
    factors = st.tuples(*(st.integers(-5, 5) for _ in extents))
    return extents, draw(st.lists(st.builds(HalfSpace, factors, st.integers(-20, 20)), max_size=4))


@given(cut_boxes())
def test_points_are_those_that_are_found_one_by_one(box):
    extents, planes = box
    inside = [
        point
        for point in product(*map(range, extents))
        if all(
            plane.constant + sum(a * x for a, x in zip(plane.coefficients, point, strict=True)) >= 0 for plane in planes
        )
    ]
    assert lattice_points(extents, planes) == len(inside)


@pytest.mark.parametrize(
    ("size", "planes", "points"),
    [
        (10**9, [HalfSpace((1, -1), 0)], 10**9 * (10**9 + 1) // 2),
        (10**9, [HalfSpace((1, -1), 0), HalfSpace((-1, 1), 2)], 3 * 10**9 - 3),
        (10**9, [HalfSpace((2, -1), 0)], 10**9 + (5 * 10**8 - 1) * 5 * 10**8 + 5 * 10**8 * 10**9 - 5 * 10**8),
        (10**9, [HalfSpace((1, 1), -2 * 10**9)], 0),
        (10**9, [], prod([10**9] * 2)),
    ],
    ids=["triangle", "band", "twice as steep", "nothing", "all"],
)
def test_large_boxes_are_not_visited(size, planes, points):
    assert lattice_points((size, size), planes) == points
