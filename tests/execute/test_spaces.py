"""Iteration spaces that are not boxes: the box is walked and counted, points outside compute nothing."""

import random

import numpy as np
import pytest
from tests.execute.agreement import differences
from tests.execute.test_execute import ARCH
from tests.random_specs.cases import valid_spaces

import einmap


def triangle(einsum, sizes, cut, tile=1):
    """One Einsum of m and k on DRAM and GLB, with a constraint; m is cut into tiles above GLB."""
    return einmap.loads(
        f"""
{ARCH}
workload:
  rank_sizes: {sizes}
  bits_per_value: {{All: 8}}
  einsums: [{{{einsum}, iteration_space_shape: ["{cut}"]}}]
mapping:
  nodes:
  - !Storage {{tensors: [A, Z], component: DRAM}}
  - !Temporal {{rank_variable: m, tile_shape: {tile}}}
  - !Storage {{tensors: [A], component: GLB}}
  - !Temporal {{rank_variable: m, tile_shape: 1}}
  - !Temporal {{rank_variable: k, tile_shape: 1}}
  - !Compute {{einsum: Z, component: MAC}}
"""
    )


def test_points_outside_a_triangle_compute_nothing_but_count():
    spec = triangle("einsum: 'Z[m] = A[m, k]'", "{M: 3, K: 3}", "k <= m")
    done = einmap.execute(spec, {"A": np.array([[1, 2, 4], [8, 16, 32], [64, 128, 256]])})
    assert done.tensors["Z"].tolist() == [1, 8 + 16, 64 + 128 + 256]
    assert differences(spec, None, done) == []
    # the box: GLB takes 9 values of A, and the multiplier has 9 steps
    assert done.steps == {"Z": 9}
    assert sum(row.count for row in done.actions if (row.component, row.action) == ("GLB", "write")) == 9


def test_what_no_point_writes_is_zero_for_a_maximum_too():
    spec = triangle("einsum: 'Z[m] = A[m, k]', reduction: max", "{M: 4, K: 3}", "m mod 2 = 0 and m > 0 or k < m - 2")
    a = -np.ones((4, 3))
    assert einmap.execute(spec, {"A": a}).tensors["Z"].tolist() == [0, 0, -1, -1]


@pytest.mark.parametrize("index", ["m + k", "m - k + 2"])
def test_tiles_of_the_box_may_reach_beyond_a_tensor_on_both_sides(index):
    cut = "m + k < 4" if index == "m + k" else "0 <= m - k + 1 and m - k + 1 < 4"
    spec = triangle(f"einsum: 'Z[m] = A[H: {index}]'", "{M: 4, K: 4, H: 6}", cut, tile=2)
    assert differences(spec) == []


def test_an_index_that_only_the_box_has_below_zero_is_executed():
    spec = triangle("einsum: 'Z[m] = A[H: m - k]'", "{M: 3, H: 3}", "0 <= k and k < 2 and k <= m", tile=2)
    done = einmap.execute(spec, {"A": np.array([1, 2, 4])})
    assert done.tensors["Z"].tolist() == [1, 2 + 1, 4 + 2]
    assert differences(spec, None, done) == []


def test_a_copy_writes_the_points_of_its_space_alone():
    spec = triangle("einsum: 'Z[m, k] = A[m, k]', is_copy_operation: true", "{M: 2, K: 2}", "k <= m", tile=2)
    done = einmap.execute(spec, {"A": np.array([[1, 2], [3, 4]])})
    assert done.tensors["Z"].tolist() == [[1, 0], [3, 4]]


def test_dividing_by_zero_gives_what_floating_point_says():
    spec = triangle("einsum: 'Z[m] = 1 / A[m, k]'", "{M: 2, K: 2}", "k <= m")
    done = einmap.execute(spec, {"A": np.array([[0, 1], [2, 4]])})
    assert done.tensors["Z"].tolist() == [np.inf, 0.75]


def wrong(seeds):
    """(seed, first difference) of random cascades with such spaces."""
    drawn = ((seed, valid_spaces(random.Random(seed))) for seed in seeds)
    return [(seed, different) for seed, (spec, cost) in drawn for different in differences(spec, cost)[:1]]


def test_12_random_mappings_of_such_spaces_cost_what_they_do():
    assert wrong(range(12)) == []


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("part", range(8))
def test_2000_random_mappings_of_such_spaces_cost_what_they_do(part):
    assert wrong(range(1_000 + 250 * part, 1_250 + 250 * part)) == []
