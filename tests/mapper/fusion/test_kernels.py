"""The compiled parts of the join against plain definitions."""

from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap.mapper.fusion.paths import label_kernels
from einmap.mapper.fusion.paths.kernel_records import Comparison, JoinedEdges, Labels, Limits, PackedChains
from einmap.mapper.objective import objective_kernels
from einmap.mapper.problem.request import Remainder


def is_hopeless(value, remainder):
    """By the docstring of Others."""
    if not len(remainder.rows):
        return False
    sums = [[v + r for v, r in zip(value, row, strict=False)] for row in remainder.rows]
    if remainder.most >= 0:
        return all(np.prod(own) > remainder.most for own in sums)
    return any(all(r <= v for v, r in zip(value, row, strict=False)) for row in remainder.rows)


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
        return Remainder(rows, float(draw(st.integers(0, 300 if n_costs == 2 else 25))))
    return Remainder(draw(arrays((draw(st.integers(0, 3)), n_costs), -5, 15)), -1.0)


@given(st.data(), st.integers(1, 2), st.integers(0, 2))
def test_hopeless_is_what_the_docstring_says(data, n_costs, more):
    remainder = data.draw(many_others(n_costs))
    values = data.draw(arrays((data.draw(st.integers(0, 6)), n_costs + more)))
    expected = [is_hopeless(value, remainder) for value in values]
    assert objective_kernels.many_exceed_cutoff(values, remainder.rows, remainder.most).tolist() == expected
    assert remainder.exceeds_cutoff(values).tolist() == expected


@pytest.mark.parametrize(
    ("rows", "most", "exceeds_cutoff"),
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
def test_hopeless_of_two_rows(rows, most, exceeds_cutoff):
    values = np.array([[2.0, 2.0], [3.0, 2.0]])
    assert Remainder(np.array(rows), most).exceeds_cutoff(values).tolist() == exceeds_cutoff


@dataclass(frozen=True)
class Case:
    """Arguments of the kernel `joined` for one edge. `opened`, `after`: loops before and behind it."""

    costs: np.ndarray
    stay: np.ndarray
    peak: np.ndarray
    own_costs: np.ndarray
    used: np.ndarray
    passing: np.ndarray
    kept: np.ndarray
    born: np.ndarray
    dying: np.ndarray
    capacity: np.ndarray
    opened: int
    after: int
    remainder: Remainder

    def joined(self, kind: int = 0, added: np.ndarray | None = None, tie: float = 0.0, work: int = 100):
        """Costs, stay, peak, and numbers of what is left; `work`: pairs at a time."""
        one = np.ones(1, dtype=np.int64)
        m, fused = self.born.shape
        rows = self.remainder.rows
        none = np.zeros((0, *self.stay.shape[1:]))
        back = np.zeros((len(self.costs), 3), dtype=np.int64)
        chains = PackedChains(
            one * kind, one * fused, np.array([0, len(self.own_costs)]), self.own_costs, self.used,
            np.array([0, m * fused * len(self.kept)]), self.kept.ravel(), np.array([0, m * fused]),
            self.born.ravel(), self.dying.ravel(),
        )  # fmt: skip
        at = np.zeros(2, dtype=np.int64)
        labels = Labels(np.zeros(2, dtype=np.int64), self.costs[:0], none, none, back[:0])
        while at[0] == 0:
            labels = label_kernels.joined(
                at,
                labels,
                Labels(np.array([0, len(self.costs)]), self.costs, self.stay, self.peak, back),
                JoinedEdges(
                    back[:1], one * self.opened, one * self.after, self.passing[None], none if added is None else added
                ),
                chains,
                Limits(self.capacity, rows[None], one * len(rows), one * float(self.remainder.most)),
                Comparison(np.eye(self.costs.shape[1]), tie),
                work,
            )
        first, *found = labels
        assert at.tolist() == [1, 0]
        assert first.tolist() == [0, len(found[0])]
        return found


def padded(values, widest, filler):
    """With columns for loops that are not open."""
    rest = np.full((*values.shape[:2], widest - values.shape[2]), filler)
    return np.concatenate([values, rest], axis=2)


@st.composite
def cases(draw):
    """Rows before an Einsum and chains of one option; fewer, as many, or more loops open behind than before."""
    n_costs, m, opened, after = (draw(st.integers(low, high)) for low, high in ((1, 2), (1, 2), (0, 3), (0, 3)))
    left, right = draw(st.integers(1, 30)), draw(st.integers(1, 3))
    fused = max(opened, after) + draw(st.integers(0, 1))
    stay, peak = (draw(arrays((2, m, opened), low, high))[np.arange(left) % 2] for low, high in ((0, 5), (-1, 9)))
    # what no Einsum shares so many loops with
    peak[peak < 0] = -np.inf
    return Case(
        draw(arrays((3, n_costs)))[np.arange(left) % 3], padded(stay, fused, 0.0), padded(peak, fused, -np.inf),
        draw(arrays((right, n_costs))), draw(arrays((right, m), 0, 5)), draw(arrays((m,), 0, 2)),
        draw(arrays((right, m, fused), 0, 4)), draw(arrays((m, fused), 0, 1)), draw(arrays((m, fused), 0, 1)),
        draw(arrays((m,), 5, 16)), opened, after, draw(many_others(n_costs)),
    )  # fmt: skip


def joined_by_definition(case):
    """Rows of (costs, stay, peak, left, right) of each pair that fits and is not beyond the cutoff."""
    opened, after, found = case.opened, case.after, []
    for i, j in product(range(len(case.costs)), range(len(case.own_costs))):
        stays = case.stay[i, :, opened - 1] if opened else np.zeros(len(case.capacity))
        own = case.used[j] + case.passing + stays
        # while each Einsum before runs, what this one keeps above the loops that they share is in use, too
        beside = (case.peak[i] + case.kept[j] + case.born)[:, :opened]
        cost = case.costs[i] + case.own_costs[j]
        if is_hopeless(cost, case.remainder) or (own > case.capacity).any() or (beside > case.capacity[:, None]).any():
            continue
        # of those that share more loops than stay open only the most that was in use matters from here on
        kept = case.kept[j] + case.dying
        stay = [kept[:, n] + (case.stay[i, :, min(n, opened - 1)] if opened else 0) for n in range(after)]
        peak = [beside[:, n] if n < opened else np.full(len(own), -np.inf) for n in range(after - 1)]
        if after:
            peak.append(np.max([own, *beside.T[after - 1 :]], axis=0))
        found.append((cost, stay, peak, i, j))
    return found


@given(cases())
def test_joined_rows_are_those_that_no_other_pair_that_fits_and_is_not_hopeless_beats(case):
    costs, stay, peak, number = case.joined()
    # levels that are not open behind mean nothing
    rows = (
        np.concatenate([costs, *(own[:, :, : case.after].reshape(len(costs), -1) for own in (stay, peak))], axis=1)
        if len(costs)
        else costs
    )
    of = {
        (i, j): np.concatenate([c, np.ravel(np.transpose(s)), np.ravel(np.transpose(p))])
        for c, s, p, i, j in joined_by_definition(case)
    }
    assert of or not len(rows)
    for row, (i, _, j) in zip(rows, number.tolist(), strict=True):
        assert (row == of[i, j]).all()
    for i, own in enumerate(rows):
        assert not any((other <= own).all() for k, other in enumerate(rows) if k != i)
    for own in of.values():
        assert (rows <= own).all(axis=1).any()


@given(cases())
def test_pairs_one_row_at_a_time_are_joined_to_the_same_rows(case):
    # space of levels that are not open behind means nothing
    (costs, _, _, numbers), (all_costs, _, _, all_numbers) = case.joined(work=0), case.joined(work=1000)
    assert costs.tolist() == all_costs.tolist()
    assert numbers.tolist() == all_numbers.tolist()


def by_hand(**changes):
    """One row and one chain: one loop is open before and two behind."""
    case = Case(
        np.array([[1.0]]), np.array([[[3.0, 0.0]]]), np.array([[[5.0, -np.inf]]]), np.array([[2.0]]),
        np.array([[3.0]]), np.array([1.0]), np.array([[[1.0, 2.0]]]), np.zeros((1, 2)), np.zeros((1, 2)),
        np.array([7.0]), 1, 2, Remainder(np.zeros((0, 1)), -1.0),
    )  # fmt: skip
    return replace(case, **changes)


def test_an_einsum_that_shares_more_loops_with_what_follows():
    costs, stay, peak, _ = by_hand().joined()
    assert costs.tolist() == [[3]]
    # what stays above the first loop is added, what stays above the second is too
    assert stay.tolist() == [[[4, 5]]]
    # the Einsums before used 5 bits, and 1 more is kept above their loop; this one uses 4 beside the 3 that stay
    assert peak.tolist() == [[[6, 7]]]
    assert not len(by_hand(capacity=np.array([6.0])).joined()[0])


def test_chains_that_are_not_known_take_no_space():
    costs, *_ = by_hand(capacity=np.array([0.0]), opened=1, after=0).joined(kind=1)
    assert costs.tolist() == [[3]]


def test_the_tensor_of_a_copy_that_is_left_out_is_in_use_beside_what_ran_before():
    case = by_hand(own_costs=np.array([[0.0]]), after=1)
    costs, stay, peak, _ = case.joined(kind=2, added=np.array([[[2.0, 0.0]]]))
    assert costs.tolist() == [[1]]
    assert stay[:, :, 0].tolist() == [[3]]
    assert peak[:, :, 0].tolist() == [[7]]
    assert not len(case.joined(kind=2, added=np.array([[[3.0, 0.0]]]))[0])


def test_a_row_that_is_better_by_a_hair_alone_is_dropped():
    # both cost the same but for a hair, and the second one leaves more room
    costs, kept = np.array([[1.0], [1.0 + 1e-14]]), np.array([[[1.0, 2.0]], [[1.0, 2.0 - 1e-14]]])
    case = by_hand(own_costs=costs, kept=kept, used=np.array([[3.0], [3.0]]))
    assert len(case.joined(tie=0.0)[0]) == 2
    # bits are what they are
    assert len(case.joined(tie=1e-12)[0]) == 2
    same = replace(case, kept=kept[[0, 0]])
    assert same.joined(tie=1e-12)[3].tolist() == [[0, 0, 0]]
    # the first one came first
    later = replace(same, own_costs=costs[::-1].copy())
    assert later.joined(tie=1e-12)[3].tolist() == [[0, 0, 0]]
    assert later.joined(tie=0.0)[3].tolist() == [[0, 0, 1]]
