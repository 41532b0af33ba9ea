"""Code of iteration spaces that are not boxes: a guard around each point, tiles and counts of the box."""

import random

import pytest
from tests.emit.running import needs_compiler, problems, problems_in_c
from tests.execute.test_spaces import triangle
from tests.random_specs.cases import valid_spaces

import einmap
from einmap.errors import NotSupportedError


def test_a_guard_stands_around_the_operation():
    spec = triangle("einsum: 'Z[m] = A[m, k]'", "{M: 4, K: 4}", "k <= m")
    text = einmap.emit(spec, "pseudo")
    assert "        if m0 - k0 >= 0:\n            Z[m0] += GLB_A[0, k0]\n" in text
    assert problems(einmap.emit(spec, "python"), spec) == []


@needs_compiler
@pytest.mark.parametrize(
    "cut",
    ["(m - k) mod 3 = 1 or not (m < 3 and k = 0)", "0 < m + k and m + k < 5", "m*k < 4 and -(m mod 2) < 0 or k = 2"],
)
def test_constraints_mean_the_same_in_all_languages(cut, tmp_path):
    spec = triangle("einsum: 'Z[m] = A[m, k]', reduction: max", "{M: 5, K: 4}", cut, tile=2)
    assert problems(einmap.emit(spec, "python"), spec) == []
    assert problems_in_c(einmap.emit(spec, "c"), spec, tmp_path) == []


@needs_compiler
def test_whole_tensors_have_room_for_tiles_that_reach_beyond(tmp_path):
    spec = triangle("einsum: 'Z[m] = A[H: m + k]'", "{M: 4, K: 4, H: 4}", "m + k < 4 and k >= 0 and k < 4", tile=2)
    text = einmap.emit(spec, "python")
    assert "A = np.pad(A, ((0, 3),))" in text
    assert problems(text, spec) == []
    assert problems_in_c(einmap.emit(spec, "c"), spec, tmp_path) == []


@needs_compiler
def test_a_maximum_over_a_window_without_its_padding_reads_nothing_beside_the_tensor(tmp_path):
    cut = "0 <= k and k < 3 and 0 <= 2*m + k - 1 and 2*m + k - 1 < 6"
    spec = triangle("einsum: 'Z[m] = A[H: 2*m + k - 1]', reduction: max", "{M: 4, H: 6}", cut, tile=2)
    text = einmap.emit(spec, "python")
    assert "A = np.pad(A, ((1, 2),))" in text
    assert problems(text, spec) == []
    assert problems_in_c(einmap.emit(spec, "c"), spec, tmp_path) == []
    assert "mvin(GLB_A, A[2*m1*M0 - 1:2*m1*M0 + 4])" in einmap.emit(spec, "pseudo")


def test_python_of_20_random_mappings_moves_what_is_counted():
    for seed in range(20):
        spec, cost = valid_spaces(random.Random(seed))
        assert problems(einmap.emit(spec, "python"), spec, cost) == [], seed


@needs_compiler
@pytest.mark.parametrize("seed", range(5))
def test_c_of_5_random_mappings_moves_what_is_counted(seed, tmp_path):
    spec, cost = valid_spaces(random.Random(seed))
    assert problems_in_c(einmap.emit(spec, "c"), spec, tmp_path, cost) == []


@needs_compiler
@pytest.mark.slow
@pytest.mark.emit
@pytest.mark.parametrize("part", range(5))
def test_250_random_mappings_move_what_is_counted(part, tmp_path):
    for seed in range(1_000 + 50 * part, 1_050 + 50 * part):
        spec, cost = valid_spaces(random.Random(seed))
        try:
            text = einmap.emit(spec, "python")
        except NotSupportedError:
            continue  # gaps in a maximum
        assert problems(text, spec, cost) == [], seed
        assert problems_in_c(einmap.emit(spec, "c"), spec, tmp_path, cost) == [], seed
