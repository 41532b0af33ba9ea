"""Regions of two costs that are bounded by weighted sums: their corners, least products, and what has no hope."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from einmap.mapper.fusion.paths.lower_envelope import corners, least_products, slope_at_best, worth
from einmap.mapper.fusion.refinement.front_listing import RefinementRequest
from einmap.mapper.problem.request import Remainder

UNITS = np.eye(2)
seeds = st.integers(0, 2**32 - 1).map(np.random.default_rng)


def united(several):
    """What has no hope with any of them."""
    return RefinementRequest(remainder=[*several]).united()


def weights_of(slopes, first=1.0):
    """The unit weights, then one for each slope."""
    return np.concatenate([UNITS, [[first, first * slope] for slope in slopes]])


def random_weights(rng):
    slopes = np.exp(rng.uniform(-3, 3, rng.integers(0, 6)))
    return np.concatenate([UNITS, np.stack([np.ones(len(slopes)), slopes], axis=1) * rng.uniform(0.5, 2)])


def points_and_least(rng, weights):
    """A few points, and the least of each weighted sum; some costs may be nothing."""
    points = np.exp(rng.uniform(-1, 3, (rng.integers(1, 8), 2)))
    if rng.integers(4) == 0:
        points[:, rng.integers(2)] -= points.min()
    points = np.maximum(points, 0)
    return points, (points @ weights.T).min(axis=0)


def within(rng, weights, least, n):
    """Random points of the region, half of them on its edge."""
    points = least[:2] + rng.exponential(2 * least.max() + 1, (n, 2)) * rng.integers(0, 2, (n, 2))
    missing = (least[2:] - points @ weights[2:].T) / weights[2:, 0]
    points[:, 0] += np.maximum(missing.max(axis=1, initial=0), 0) + rng.exponential(1, n) * rng.integers(0, 2, n)
    return points


def least_product_by_scan(weights, least):
    """The least product along the edge of the region, y by y; with finer steps it only falls."""
    ends = (least[2:] - weights[2:, 0] * least[0]) / weights[2:, 1]
    most = max(ends.max(initial=0.0), least[1])
    y = np.concatenate([np.linspace(least[1], most, 20_001), np.geomspace(1e-3, 1, 20_001) * most])
    y = y[y >= least[1]]
    lines = (least[2:, None] - weights[2:, 1:] * y) / weights[2:, :1]
    return float((np.maximum(least[0], lines.max(axis=0, initial=0.0)) * y).min())


@given(seeds)
def test_least_products_are_those_that_a_scan_finds(rng):
    weights = random_weights(rng)
    least = np.stack([points_and_least(rng, weights)[1] for _ in range(5)])
    scanned = [least_product_by_scan(weights, row) for row in least]
    found = least_products(weights, least)
    assert (found <= np.array(scanned) * (1 + 1e-9) + 1e-12).all()
    assert found == pytest.approx(scanned, rel=2e-3, abs=1e-6)


@given(seeds)
def test_least_products_hold_where_sums_do_not_belong_together(rng):
    # some sums are larger than any point with the others has them
    weights = random_weights(rng)
    least = rng.uniform(0, 10, (5, len(weights)))
    scanned = [least_product_by_scan(weights, row) for row in least]
    found = least_products(weights, least)
    assert (found <= np.array(scanned) * (1 + 1e-9) + 1e-12).all()
    assert found == pytest.approx(scanned, rel=2e-3, abs=1e-6)


def test_the_least_product_by_hand():
    weights = weights_of([1.0, 4.0])
    # x >= 1, y >= 2, x + y >= 6: corners (4, 2) and (1, 5)
    assert least_products(weights, np.array([[1.0, 2.0, 6.0, 0.0]])) == pytest.approx([5])
    # x + 4 y >= 16 passes through (4, 3), and (10, 1.5) is not a corner
    assert least_products(weights, np.array([[4.0, 2.0, 0.0, 16.0]])) == pytest.approx([12])
    assert least_products(UNITS, np.array([[2.0, 3.0], [0.0, 5.0]])) == pytest.approx([6, 0])


@given(seeds)
def test_no_point_of_the_region_has_a_product_below_all_corners_whatever_is_added(rng):
    weights = random_weights(rng)
    _, least = points_and_least(rng, weights)
    (found,) = corners(weights, least[None])
    assert (found @ weights.T >= least * (1 - 1e-9) - 1e-9).all()
    for added in (np.zeros(2), *rng.exponential(5, (6, 2)) * rng.integers(0, 2, (6, 2))):
        products = (within(rng, weights, least, 200) + added).prod(axis=1)
        assert products.min() >= (found + added).prod(axis=1).min() * (1 - 1e-9) - 1e-9


@given(seeds)
def test_the_best_corner_has_the_least_product(rng):
    weights = random_weights(rng)
    least = np.stack([points_and_least(rng, weights)[1] for _ in range(4)])
    best = [found.prod(axis=1).min() for found in corners(weights, least)]
    assert least_products(weights, least) == pytest.approx(best, abs=1e-9)


def test_corners_by_hand():
    # x >= 1, y >= 1, x + y >= 4, x + 4 y >= 10
    (found,) = corners(weights_of([1.0, 4.0]), np.array([[1.0, 1.0, 4.0, 10.0]]))
    assert {(6, 1), (2, 2), (1, 3)} <= set(map(tuple, found.tolist()))
    # the lines say nothing that the least costs do not say
    (found,) = corners(weights_of([1.0, 4.0]), np.array([[3.0, 2.0, 5.0, 11.0]]))
    assert found.tolist() == [[3, 2]]
    (found,) = corners(np.eye(1), np.array([[3.0]]))
    assert found.tolist() == [[3]]


def test_points_between_corners_are_no_corners():
    # x + y >= 4 and x + y / 4 >= 2.5 and x + 4 y >= 9: the last two meet below the first one
    (found,) = corners(weights_of([1.0, 0.25, 4.0]), np.array([[1.0, 1.0, 4.0, 2.5, 9.0]]))
    assert found == pytest.approx(np.array([[5, 1], [7 / 3, 5 / 3], [2, 2], [1, 6]]))


@given(seeds)
def test_there_are_no_more_corners_than_sums(rng):
    weights = random_weights(rng)
    _, least = points_and_least(rng, weights)
    (found,) = corners(weights, least[None])
    assert len(found) <= len(weights) - 1
    assert (np.diff(found[:, 0]) < 0).all()
    assert (np.diff(found[:, 1]) > 0).all()


def test_nothing_has_hope_where_nothing_fits():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (found, _) = corners(weights_of([0.5, 2.0]), np.array([[np.inf] * 4, [1.0, 1.0, 2.0, 3.0]]))
    assert Remainder(found, 100.0).exceeds_cutoff(np.array([[0.0, 0.0], [1.0, 1.0]])).all()


# what one cost is worth in terms of the other


@given(seeds)
def test_a_part_that_is_beaten_in_its_worth_is_part_of_nothing_better(rng):
    weights = random_weights(rng)
    points, least = points_and_least(rng, weights)
    best = points[points.prod(axis=1).argmin()]
    most = best.prod() * rng.choice([1.0, 1.01, 1.5, 10.0])
    ways = worth(corners(weights, least[None])[0], most)
    # wholes up to the limit: some in the region, and some on its edge
    y = np.linspace(least[1], min(most / max(least[0], 1e-3), 20 * best[1]), 400)
    lines = (least[2:, None] - weights[2:, 1:] * y) / weights[2:, :1]
    edge = np.stack([np.maximum(least[0], lines.max(axis=0, initial=0.0)), y], axis=1)
    wholes = np.concatenate([within(rng, weights, least, 200), points, edge])
    wholes = wholes[wholes.prod(axis=1) <= most]
    # what may stand in place of a part of them costs little more of one and less of the other
    along = np.array([[1.0, -1.0], [-1.0, 1.0]])[rng.integers(0, 2, len(wholes))] * ways[rng.integers(0, 2), ::-1]
    changes = along * rng.exponential(0.01, (len(wholes), 1)) * (wholes.max() + 1) - rng.uniform(0, 1e-6)
    remainder = wholes + changes
    kept = (remainder >= 0).all(axis=1) & (remainder @ weights.T >= least * (1 - 1e-9)).all(axis=1)
    beaten = (changes @ ways.T <= 0).all(axis=1) & kept
    assert (remainder[beaten].prod(axis=1) <= wholes[beaten].prod(axis=1) * (1 + 1e-9)).all()
    # what costs less in both is always better, what costs more in both never
    assert (np.sign(changes @ ways.T)[(changes < 0).all(axis=1)] <= 0).all()
    assert (np.sign(changes @ ways.T)[(changes > 0).all(axis=1)] >= 0).all()


def test_what_a_cost_is_worth_by_hand():
    # corners (4, 1), (2, 2), (1, 4); products up to 4 have an x from 1 to 4 and a y from 1 to 4, too
    points = np.array([[4.0, 1.0], [2.0, 2.0], [1.0, 4.0]])
    assert worth(points, 4.0) == pytest.approx(np.array([[1 / 4, 1], [1, 1 / 4]]))
    # (4, 1.5) and (1.8, 5) are above 5. On the ways from there to (2, 2) products are y (10 - 4 y) and y (32 - y) / 15
    points = np.array([[4.0, 1.5], [2.0, 2.0], [1.8, 5.0]])
    y, x = (10 + np.sqrt(100 - 80)) / 8, 10 / (32 - np.sqrt(32**2 - 4 * 75))
    assert worth(points, 5.0) == pytest.approx(np.array([[y * y / 5, 1], [1, x * x / 5]]), rel=1e-4)


def test_without_a_limit_or_corners_below_it_only_less_of_both_is_better():
    points = np.array([[4.0, 1.0], [2.0, 2.0]])
    for most in (3.9, np.inf, 0.0):
        assert sorted(worth(points, most).tolist()) == [[0, 1], [1, 0]]


# a new weight at the best corner


@given(seeds)
def test_a_new_weight_never_lowers_the_bound(rng):
    weights = np.concatenate([UNITS, [[1.0, slope] for slope in (1 / 16, 1 / 4, 1.0, 4.0, 16.0)]])
    points, least = points_and_least(rng, weights)
    before = float(least_products(weights, least[None])[0])
    for _ in range(4):
        slope = slope_at_best(weights, least)
        if slope is None:
            break
        weights = np.concatenate([weights, [[1.0, slope]]])
        least = (points @ weights.T).min(axis=0)
        after = float(least_products(weights, least[None])[0])
        assert before <= after * (1 + 1e-12)
        assert after <= points.prod(axis=1).min() * (1 + 1e-9)
        before = after


def test_a_new_weight_lifts_the_best_corner():
    points = np.array([[1.0, 9.0], [3.0, 3.0], [7.0, 2.0]])
    weights = weights_of([1.0])
    least = (points @ weights.T).min(axis=0)
    assert least.tolist() == [1, 2, 6]
    # corners (4, 2) and (1, 5): the one with less of the first cost is best, and lies on the line of the weight one
    assert least_products(weights, least[None]) == pytest.approx([5])
    slope = slope_at_best(weights, least)
    assert slope == 0.25
    weights = weights_of([1.0, slope])
    least = (points @ weights.T).min(axis=0)
    assert least[3] == 3.25
    assert least_products(weights, least[None]) == pytest.approx([8])
    # now (4, 2) is best, the end of the line at the least of the second cost
    assert slope_at_best(weights, least) == 4


def test_between_two_lines_the_new_weight_is_between_theirs():
    # x + y >= 4 and x + 4 y >= 10 meet at (2, 2), which is best where both costs are not much less
    weights, least = weights_of([1.0, 4.0]), np.array([1.9, 1.6, 4.0, 10.0])
    (found,) = corners(weights, least[None])
    assert found[[0, -1]] == pytest.approx(np.array([[3.6, 1.6], [1.9, 2.1]]))
    # the ends are better than the middle: a product is concave along a line
    assert slope_at_best(weights, least) == 0.25
    # a region with one corner inside: x + y >= 4 and x + y / 4 >= 2.5 and x + 4 y >= 10 around (2, 2)
    points = np.array([[2.0, 2.0], [1.5, 12.0], [12.0, 1.5]])
    least = (points @ weights_of([1.0, 0.25, 4.0]).T).min(axis=0)
    assert least.tolist() == [1.5, 1.5, 4, 2.5, 10]
    assert least_products(weights_of([1.0, 0.25, 4.0]), least[None]) == pytest.approx([4])
    assert slope_at_best(weights_of([0.25, 4.0]), least[[0, 1, 3, 4]]) == 1


def test_no_new_weight_makes_one_of_the_costs_next_to_nothing():
    # a corner at the least of the second cost asks for a steeper weight, until the first one hardly counts
    slopes, least = [1.0], [3.0, 2.0, 5.0]
    while (slope := slope_at_best(weights_of(slopes), np.array(least))) is not None:
        slopes, least = [*slopes, slope], [*least, 3 + 2 * slope]
    assert 2**16 < 2 * slopes[-1] / 3 <= 2**20


def test_no_new_weight_is_as_good_as_one_that_is_there():
    points = np.array([[2.0, 2.0], [1.5, 12.0], [12.0, 1.5]])
    # the best corner is (2, 2), where a weight of one would be between the others
    for slopes in ([0.25, 1.0, 4.0], [0.25, 1 / 1.01, 4.0]):
        weights = weights_of(slopes)
        assert slope_at_best(weights, (points @ weights.T).min(axis=0)) is None
    # there is no slope to begin with
    assert slope_at_best(UNITS, np.array([1.0, 2.0])) is None


# what the other Einsums add


def cloud(rng, least, n):
    """Random points that are not below the least of each cost."""
    return least[:2] + rng.exponential(10, (n, 2)) * rng.integers(0, 2, (n, 2)) * rng.uniform(0, 1, (n, 1))


@given(seeds)
def test_what_is_hopeless_costs_no_less_than_beyond(rng):
    weights = random_weights(rng)
    _, least = points_and_least(rng, weights)
    rows = rng.exponential(3, (rng.integers(1, 4), 2)) * rng.integers(0, 2, 2)
    remainder = Remainder(rows, float(rng.exponential(40)))
    points = cloud(rng, least, 300)
    points = points[(points @ weights.T >= least).all(axis=1) & remainder.exceeds_cutoff(points)]
    assert (points @ weights.T >= remainder.beyond(weights, least) * (1 - 1e-9)).all()


@given(seeds)
def test_beyond_is_reached_where_one_point_is_added(rng):
    weights = random_weights(rng)
    # the sums say no more than the least costs
    least = rng.uniform(0.1, 5, 2) @ weights.T
    remainder = Remainder(rng.uniform(0, 5, (1, 2)), float(rng.exponential(60)))
    y = least[1] + np.concatenate([[0], np.geomspace(1e-3, 1e4, 20_000)])
    x = np.maximum(remainder.most / (y + remainder.rows[0, 1]) - remainder.rows[0, 0], least[0])
    reached = (weights @ np.array([x, y])).min(axis=1)
    assert remainder.beyond(weights, least)[2:] == pytest.approx(reached[2:], rel=1e-3)


@given(seeds)
def test_beyond_one_cost_is_reached(rng):
    rows, least = rng.uniform(0, 5, (rng.integers(1, 4), 1)), rng.uniform(0, 5, 1)
    remainder = Remainder(rows, float(rng.uniform(0, 20)))
    (beyond,) = remainder.beyond(np.eye(1), least)
    assert beyond >= least[0]
    values = rng.uniform(least[0], 20, (200, 1))
    assert (values[remainder.exceeds_cutoff(values)] >= beyond * (1 - 1e-12)).all()
    just = np.array([[beyond + 1e-9]])
    assert remainder.exceeds_cutoff(just).all()


def test_beyond_by_hand():
    # with 2 more it is above 10 from 8 on, with 3 more from 7 on
    assert Remainder(np.array([[2.0], [3.0]]), 10.0).beyond(np.eye(1), np.array([5.0])) == [8]
    assert Remainder(np.array([[2.0], [3.0]]), 10.0).beyond(np.eye(1), np.array([9.0])) == [9]
    weights = weights_of([1.0, 4.0])
    least = np.array([1.0, 1.0, 2.0, 5.0])
    # (x + 1) (y + 1) >= 16: x + y is least at (3, 3), x + 4 y at (7, 1)
    found = Remainder(np.array([[1.0, 1.0]]), 16.0).beyond(weights, least)
    assert found.tolist() == [1, 1, 6, 11]
    # what is not below (5, 1) begins where (5 + 1) (y + 1) = 16
    found = Remainder(np.array([[1.0, 1.0]]), 16.0).beyond(weights, np.array([5.0, 1.0, 6.0, 9.0]))
    assert found == pytest.approx([5, 1, 5 + 16 / 6 - 1, 11])
    # all of it is beyond the cutoff: what it costs at least is known already
    assert Remainder(np.array([[1.0, 1.0]]), 4.0).beyond(weights, least).tolist() == least.tolist()
    # it has to be beyond the cutoff with each of two: x (y + 3) >= 16 and (x + 3) y >= 16, each for itself at least 2 * 4 - 3
    two = Remainder(np.array([[0.0, 3.0], [3.0, 0.0]]), 16.0).beyond(weights_of([1.0]), np.array([1.0, 1.0, 2.0]))
    assert two == pytest.approx([1, 1, 5])


def test_nothing_is_beyond_where_nothing_is_known():
    weights, least = weights_of([1.0]), np.array([1.0, 1.0, 2.0])
    assert np.isinf(Remainder(np.zeros((0, 2)), 16.0).beyond(weights, least)).all()
    assert np.isinf(Remainder(np.array([[1.0, 1.0]]), -1.0).beyond(weights, least)).all()


def test_what_others_add_may_be_nothing():
    # both costs may be nothing, but not where the product is large
    found = Remainder(np.zeros((1, 2)), 1e6).beyond(weights_of([1.0]), np.zeros(3))
    assert found.tolist() == [0, 0, 2e3]


@given(seeds, st.integers(1, 2))
def test_no_hope_with_any_of_several_others(rng, n_costs):
    most = float(rng.uniform(1, 60))
    several = [Remainder(rng.uniform(0, 6, (rng.integers(1, 4), n_costs)), most) for _ in range(rng.integers(1, 4))]
    values = rng.uniform(0, 8, (50, n_costs))
    together = united(several)
    assert together.exceeds_cutoff(values).tolist() == [
        all(remainder.exceeds_cutoff(row[None])[0] for remainder in several) for row in values
    ]
    assert united([*several, None]) is None


@given(seeds)
def test_by_what_is_reached_only_what_is_hopeless_everywhere_is_hopeless(rng):
    reached = rng.uniform(0, 10, (3, 2))
    several = [Remainder(reached - rng.uniform(0, 5, 2), -1.0) for _ in range(3)]
    values = rng.uniform(-5, 10, (50, 2))
    found = united(several).exceeds_cutoff(values)
    assert not (found & ~np.all([remainder.exceeds_cutoff(values) for remainder in several], axis=0)).any()


def test_a_place_where_less_is_added_keeps_what_another_one_rules_out():
    several = [Remainder(np.array([[5.0]]), -1.0), Remainder(np.array([[10.0]]), -1.0)]
    assert united(several).exceeds_cutoff(np.array([[7.0], [11.0]])).tolist() == [False, True]


def test_no_weight_helps_where_nothing_fits():
    assert slope_at_best(weights_of([1.0]), np.full(3, np.inf)) is None
