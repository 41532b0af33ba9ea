"""The compiled parts of the join against plain definitions."""

from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap.mapper import kernels
from einmap.mapper.fusion import compiled
from einmap.mapper.fusion.join import nondominated
from einmap.mapper.request import Others


def is_hopeless(value, others):
    """By the docstring of Others."""
    if not len(others.rows):
        return False
    sums = [[v + r for v, r in zip(value, row, strict=False)] for row in others.rows]
    if others.most >= 0:
        return all(np.prod(own) > others.most for own in sums)
    return any(all(r <= v for v, r in zip(value, row, strict=False)) for row in others.rows)


def arrays(shape, low=0, high=9):
    """Whole numbers, so that sums and comparisons are exact."""
    return st.lists(st.integers(low, high), min_size=int(np.prod(shape)), max_size=int(np.prod(shape))).map(
        lambda values: np.array(values, dtype=np.float64).reshape(shape)
    )


@st.composite
def many_others(draw, n_costs):
    """What others add: known as a product, as points that are reached, or not at all."""
    if draw(st.booleans()):
        rows = draw(arrays((draw(st.integers(0, 3)), n_costs)))
        return Others(rows, float(draw(st.integers(0, 300 if n_costs == 2 else 25))))
    return Others(draw(arrays((draw(st.integers(0, 3)), n_costs), -5, 15)), -1.0)


@given(st.data(), st.integers(1, 2), st.integers(0, 2))
def test_hopeless_is_what_the_docstring_says(data, n_costs, more):
    others = data.draw(many_others(n_costs))
    values = data.draw(arrays((data.draw(st.integers(0, 6)), n_costs + more)))
    expected = [is_hopeless(value, others) for value in values]
    assert kernels.many_hopeless(values, others.rows, others.most).tolist() == expected
    assert others.hopeless(values).tolist() == expected


@pytest.mark.parametrize(
    ("rows", "most", "hopeless"),
    [
        # 3 * 4 is at most 12, 4 * 4 is not
        ([[1.0, 2.0]], 12.0, [False, True]),
        # one neighbouring corner with which it is good enough is enough
        ([[1.0, 2.0], [0.0, 2.0]], 12.0, [False, False]),
        # what is reached, less the others: no better in anything
        ([[2.0, 2.0]], -1.0, [True, True]),
        ([[3.0, 2.0]], -1.0, [False, True]),
        ([[3.0, 2.0], [2.0, 1.0]], -1.0, [True, True]),
        (np.zeros((0, 2)), 12.0, [False, False]),
        (np.zeros((0, 2)), -1.0, [False, False]),
    ],
)
def test_hopeless_of_two_rows(rows, most, hopeless):
    values = np.array([[2.0, 2.0], [3.0, 2.0]])
    assert Others(np.array(rows), most).hopeless(values).tolist() == hopeless


@dataclass(frozen=True)
class Case:
    """Arguments of the kernel `joined`."""

    costs: np.ndarray
    stay: np.ndarray
    peak: np.ndarray
    own_costs: np.ndarray
    usage: np.ndarray
    above: np.ndarray
    kept: np.ndarray
    capacity: np.ndarray
    after: int
    others: Others


@st.composite
def cases(draw):
    """Rows before an Einsum and chains of one option; fewer, as many, or more loops open behind than before."""
    n_costs, m, opened, after = (draw(st.integers(low, high)) for low, high in ((1, 2), (1, 2), (0, 3), (0, 3)))
    left, right = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    fused = max(opened, after) + draw(st.integers(0, 1))
    peak = draw(arrays((left, m, opened), -1, 9))
    # what no Einsum shares so many loops with
    peak[peak < 0] = -np.inf
    return Case(
        draw(arrays((left, n_costs))), draw(arrays((left, m, opened), 0, 5)), peak, draw(arrays((right, n_costs))),
        draw(arrays((right, m), 0, 7)), draw(arrays((right, m, opened), 0, 5)), draw(arrays((right, m, fused), 0, 5)),
        draw(arrays((m,), 5, 16)), after, draw(many_others(n_costs)),
    )  # fmt: skip


def joined_by_definition(case):
    """Rows of (costs, stay, peak, left, right) of each pair that fits and is not hopeless."""
    opened, after, found = case.stay.shape[2], case.after, []
    for i, j in product(range(len(case.costs)), range(len(case.own_costs))):
        stays = case.stay[i, :, -1] if opened else np.zeros(len(case.capacity))
        own = case.usage[j] + stays
        # while each Einsum before runs, what this one keeps above the loops that they share is in use, too
        beside = case.peak[i] + case.above[j]
        cost = case.costs[i] + case.own_costs[j]
        if is_hopeless(cost, case.others) or (own > case.capacity).any() or (beside > case.capacity[:, None]).any():
            continue
        # of those that share more loops than stay open only the most that was in use matters from here on
        stay = [case.kept[j, :, n] + (case.stay[i, :, min(n, opened - 1)] if opened else 0) for n in range(after)]
        peak = [beside[:, n] if n < opened else np.full(len(own), -np.inf) for n in range(after - 1)]
        if after:
            peak.append(np.max([own, *beside.T[after - 1 :]], axis=0))
        found.append((cost, stay, peak, i, j))
    return found


@given(cases())
def test_joined_rows_are_all_pairs_that_fit_and_are_not_hopeless(case):
    costs, stay, peak, left, right = compiled.joined(
        case.costs, case.stay, case.peak, case.own_costs, case.usage, case.above, case.kept, case.capacity, case.after,
        case.others.rows, case.others.most,
    )  # fmt: skip
    expected = joined_by_definition(case)
    assert len(costs) == len(stay) == len(peak) == len(left) == len(right) == len(expected)
    for row, (cost, stays, peaks, i, j) in enumerate(expected):
        assert (int(left[row]), int(right[row])) == (i, j)
        assert (costs[row] == cost).all()
        for level in range(case.after):
            assert (stay[row, :, level] == stays[level]).all()
            assert (peak[row, :, level] == peaks[level]).all()


def test_an_einsum_that_shares_more_loops_with_what_follows():
    # one loop is open before and two behind: what stays above the first is added, what stays above the second is too
    costs, stay, peak, _, _ = compiled.joined(
        np.array([[1.0]]), np.array([[[3.0]]]), np.array([[[5.0]]]), np.array([[2.0]]), np.array([[4.0]]),
        np.array([[[1.0]]]), np.array([[[1.0, 2.0]]]), np.array([7.0]), 2, np.zeros((0, 1)), -1.0,
    )  # fmt: skip
    assert costs.tolist() == [[3]]
    assert stay.tolist() == [[[4, 5]]]
    # the Einsums before used 5 bits, and 1 more is kept above their loop; this one uses 4 beside the 3 that stay
    assert peak.tolist() == [[[6, 7]]]


def unbeaten_by_definition(ranked, limit):
    kept = []
    for i in range(len(ranked)):
        if not any((ranked[k] <= limit[i]).all() for k in kept):
            kept.append(i)
    return kept


@given(st.data(), st.integers(1, 4), st.integers(0, 3))
def test_unbeaten_rows_are_those_of_a_plain_filter(data, columns, slack):
    values = data.draw(arrays((data.draw(st.integers(0, 12)), columns), 0, 4))
    ranked = values[np.lexsort(values.T[::-1])]
    limit = ranked.copy()
    limit[:, 0] += slack
    assert compiled.unbeaten(ranked, limit).tolist() == unbeaten_by_definition(ranked, limit)


@given(st.data(), st.integers(1, 4))
def test_nondominated_rows_are_those_that_no_other_one_beats(data, columns):
    values = data.draw(arrays((data.draw(st.integers(1, 12)), columns), 0, 4))
    values[values == 4] = -np.inf
    kept = nondominated(values, data.draw(st.integers(0, columns)))
    front = {tuple(row) for row in values if not any((o <= row).all() and (o < row).any() for o in values)}
    assert sorted(map(tuple, values[kept])) == sorted(front)


def test_a_row_that_costs_more_and_is_better_by_a_hair_alone_is_dropped():
    rows = np.array([[1.0, 2.0 + 1e-14, 3.0], [2.0, 2.0, 3.0]])
    assert nondominated(rows, 2).tolist() == [0]
    assert nondominated(rows, 1).tolist() == [0, 1]
    # bits are what they are
    assert len(nondominated(rows[:, ::-1] * 1.0, 1)) == 2
    assert len(nondominated(np.array([[1.0, 2.0, 3.0 + 1e-14], [2.0, 2.0, 3.0]]), 2)) == 2
