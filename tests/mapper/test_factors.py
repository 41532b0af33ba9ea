import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from einmap.numbers import _unranked, divisors, n_compositions, prime_factors, rank, unrank


@given(st.integers(1, 100_000))
def test_prime_factors_multiply_to_the_number(n):
    assert math.prod(p**e for p, e in prime_factors(n)) == n


@given(st.integers(1, 5_000))
def test_divisors_are_all_numbers_that_divide(n):
    assert divisors(n) == [d for d in range(1, n + 1) if n % d == 0]


@given(st.integers(0, 7), st.integers(1, 5))
def test_every_composition_has_one_rank(total, parts):
    n = n_compositions(total, parts)
    rows = unrank(np.arange(n), total, parts)
    assert len({tuple(row) for row in rows}) == n
    assert (rows.sum(axis=1) == total).all()
    assert [rank([int(x) for x in row]) for row in rows] == list(range(n))


def test_computed_compositions_equal_those_of_the_table():
    ranks = np.arange(n_compositions(6, 4))
    assert (_unranked(ranks, 6, 4) == unrank(ranks, 6, 4)).all()


def test_no_loop_leaves_only_the_empty_composition():
    assert (n_compositions(0, 0), n_compositions(3, 0)) == (1, 0)
