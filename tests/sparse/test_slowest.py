"""The busiest lane where zeros are random: placements counted by hand, all masks of small tensors, means of runs."""

from itertools import combinations

import numpy as np
import pytest
from tests.machines import machine, workload
from tests.nests import nest

import einmap
from einmap.errors import NotSupportedError, SpecError
from einmap.execute.execute import execute
from einmap.model.sparsity.slowest import mean_of_most, most_boxes

ON_A = "savings: [{at: MAC, do: skip, on: A}]"
ON_BOTH = "savings: [{at: MAC, do: skip, on: A | B}]"
PRODUCT = "Z[m, n] = A[m, k] * B[n, k]"


def product(sizes, loops, sparsity, *, lanes="slowest", array="Array: X 8", einsum=PRODUCT):
    """A product of matrices with registers in each lane."""
    text = machine(f"Main inf 1/1 @inf / {array} / Reg inf 1/1 @8 / MAC 1 @1") + workload(sizes, einsum)
    return einmap.loads(
        text + nest(f"Main: A B Z / {loops} / Z @ MAC") + f"\nsparsity: {{lanes: {lanes}, {sparsity}}}\n"
    )


def busy(spec, component="MAC"):
    return {row.component: row.latency for row in einmap.evaluate(spec).latencies}[component]


def test_two_lanes_of_two_values():
    # 2 nonzeros in 4 places: 4 of 6 placements leave one in each lane, 2 both in one of them
    def spec(lanes):
        return product("M: 2, N: 1, K: 2", "m 1 @ Array.X / n 1 / k 1", f"densities: {{A: 0.5}}, {ON_A}", lanes=lanes)

    assert busy(spec("slowest")) == pytest.approx((4 * 1 + 2 * 2) / 6)
    assert busy(spec("mean")) == 1


def test_two_lanes_that_skip_tiles():
    # lanes along k with rows of 2 values: 4 rows of A in 2 lanes; a lane skips its part of B where its 2 values are zero.
    # Of 28 ways to place 2 nonzeros in 8 places 16 have one in each lane (1 tile), 12 both in one: 8 in 2 tiles, 4 in 1
    spec = product(
        "M: 2, N: 3, K: 4",
        "k 2 @ Array.X / m 1 / Reg: B / n 1 / k 1",
        "densities: {A: 0.25}, savings: [{at: Main, do: skip, tensors: B, on: A}]",
    )
    tiles = (16 * 1 + 8 * 2 + 4 * 1) / 28
    assert busy(spec) == pytest.approx(6 * tiles)  # each tile has 3 x 2 operations
    assert busy(spec, "Reg") == pytest.approx(2 * 6 * tiles)  # 6 values of 8 bits are written and read, at 8 a second


def all_masks(values, nonzeros, lanes, boxes, volume):
    most = []
    for places in combinations(range(values), nonzeros):
        mask = np.zeros(values, dtype=bool)
        mask[list(places)] = True
        most.append(mask[: lanes * boxes * volume].reshape(lanes, boxes, volume).any(axis=2).sum(axis=1).max())
    return np.mean(most)


@pytest.mark.parametrize(
    "case", [(4, 2, 2, 2, 1), (8, 3, 2, 2, 2), (9, 4, 3, 1, 3), (12, 5, 3, 2, 2), (11, 9, 2, 2, 2)]
)
def test_the_mean_over_all_masks_is_exact(case):
    assert most_boxes(*case) == pytest.approx(all_masks(*case))


def test_independent_lanes():
    def most(means, relative, cap, times=None):
        return mean_of_most(np.array(means), relative, times or [1] * len(means), cap)

    assert most([0.5], 1.0, 1.0, [2]) == pytest.approx(0.75)  # two coins
    assert most([1.0], 0.5, 2.0, [2]) == pytest.approx(2 - 1 / 16 - 9 / 16)  # two pairs of coins
    assert most([0.5, 3.0], 0.0, 4.0) == 3
    # the largest of two normal numbers is 1 / sqrt(pi) standard deviations above the mean
    assert most([10_000.0], 1e-4, 1e6, [2]) == pytest.approx(10_000 + 100 / np.pi**0.5, abs=0.01)


RANDOM = {
    "one tensor, few values": ("M: 8, N: 2, K: 8", "m 1 @ Array.X", "{A: 0.3}", ON_A, 0),
    "one tensor, many values": ("M: 64, N: 1, K: 64", "m 8 @ Array.X / m 1", "{A: 0.02}", ON_A, 0.02),
    "shared values": ("M: 8, N: 4, K: 16", "m 1 @ Array.X", "{A: 0.3, B: 0.4}", ON_BOTH, 0.04),
    "lanes that add": ("M: 6, N: 6, K: 16", "k 2 @ Array.X / m 1", "{A: 0.3, B: 0.4}", ON_BOTH, 0.04),
    "two fanouts": ("M: 8, N: 8, K: 16", "m 2 @ Array.X / n 2 @ Array.Y / m 1", "{A: 0.3, B: 0.4}", ON_BOTH, 0.04),
}
"""Sizes, loops over lanes, densities, saving, and by what part the mean may be off."""
ARRAY = "!Container {name: Array, spatial: [{name: X, fanout: 8}, {name: Y, fanout: 4}]}"


def random_product(name, lanes="slowest"):
    sizes, loops, densities, saving, _ = RANDOM[name]
    return product(sizes, f"{loops} / n 1 / k 1", f"densities: {densities}, {saving}", lanes=lanes, array=ARRAY)


def most_of_a_lane(spec, loops, seed):
    """Products that the busiest lane does not skip, on masks that are drawn."""
    rng, sizes = np.random.default_rng(seed), spec.bindings.rank_sizes
    densities = spec.sparsity["Z"].densities
    masks = [densities[t].draw(rng) if t in densities else np.ones(tuple(sizes[t].values()), bool) for t in "AB"]
    done = masks[0][:, None, :] & masks[1][None, :, :]
    for axis, v in enumerate("mnk"):
        tile = next(
            (int(loop.split()[1]) for loop in loops.split(" / ") if "@" in loop and loop[0] == v), done.shape[axis]
        )
        done = np.add.reduceat(done.astype(int), range(0, done.shape[axis], tile), axis=axis)
    return done.max()


@pytest.mark.parametrize("name", RANDOM)
def test_the_busiest_lane_is_the_mean_over_masks(name):
    spec, off = random_product(name), RANDOM[name][-1]
    runs = np.array([most_of_a_lane(spec, RANDOM[name][1], seed) for seed in range(400)])
    error = runs.std(ddof=1) / len(runs) ** 0.5
    assert abs(busy(spec) - runs.mean()) <= 3 * error + off * runs.mean()
    assert busy(random_product(name, "mean")) < runs.mean() - 10 * error


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("name", RANDOM)
def test_the_busiest_lane_is_the_mean_of_runs(name):
    spec, off = random_product(name), RANDOM[name][-1]
    runs = np.array([execute(spec, seed=seed).steps["Z"] for seed in range(200)])
    error = runs.std(ddof=1) / len(runs) ** 0.5
    assert abs(busy(spec) - runs.mean()) <= 3 * error + off * runs.mean()


def test_lanes_read_nonzeros_of_their_own():
    # each lane's register holds a row of 4 values; 4 nonzeros in 8 places: 36 of 70 placements are 2 and 2, 32 are 3 and 1
    spec = product(
        "M: 2, N: 5, K: 4",
        "m 1 @ Array.X / Reg: A / n 1 / k 1",
        "densities: {A: 0.5}, formats: {Reg: {A: [{format: CP, ranks: [M, K], bits: 0}]}}",
    )
    most = (36 * 2 + 32 * 3 + 2 * 4) / 70
    assert busy(spec, "Reg") == pytest.approx((1 + 5) * 8 * most / 8)  # written once, read five times
    assert busy(spec) == 20  # operations are not saved


def test_nothing_changes_where_zeros_are_not_random():
    saved = "m 1 @ Array.X / n 1 / k 1"
    for densities in ("{A: 1}", "{A: {uniform: 0.5, seed: 3}}", "{A: {structured: [1, 2]}}"):
        sparsity = f"densities: {densities}, {ON_A}"
        means = product("M: 8, N: 2, K: 8", saved, sparsity, lanes="mean")
        assert einmap.evaluate(product("M: 8, N: 2, K: 8", saved, sparsity)) == einmap.evaluate(means)


def test_what_is_not_known_is_said():
    with pytest.raises(NotSupportedError, match="'A', which is indexed by sums"):
        busy(
            product(
                "P: 8, R: 2",
                "p 1 @ Array.X / r 1",
                f"densities: {{A: 0.5}}, {ON_A}",
                einsum="Z[p] = A[H: p + r] * B[r]",
            )
        )
    with pytest.raises(SpecError, match="unknown way 'slow'") as caught:
        busy(product("M: 8, N: 2, K: 8", "m 1 @ Array.X / n 1 / k 1", f"densities: {{A: 0.5}}, {ON_A}", lanes="slow"))
    assert "sparsity.lanes" in str(caught.value.at)
