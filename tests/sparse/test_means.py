"""Expected counts against the mean of runs on masks that are drawn."""

import random

import numpy as np
import pytest
from tests.sparse.problems import draw_sparse, modelled, run, simulated

FEW, MANY = range(0, 200), range(10_000, 12_000)
"""Seeds of masks; those of the second look have nothing to do with those of the first."""
SURE = 3.0
"""Standard errors of the mean by which a count may differ."""
UNSEEN = 9
"""What comes so many times in all runs on average is missing from all of them once in 8,000 times."""
QUICK = (2,)


def problem(rng):
    """A small random specification with random zeros that save something, and its cost."""
    while True:
        spec, cost = draw_sparse(rng, known=False)
        is_small = max(e.n_computes for e in spec.workload.einsums) < 400
        if is_small and any(s.saves and s.is_mean for s in spec.sparsity.values()):
            return spec, cost


def far_off(spec, expected, seeds):
    """Counts whose mean over runs is more than SURE standard errors from what is expected, with both."""
    runs = [simulated(spec, run(spec, seed=n)) for n in seeds]
    found = {}
    for key in {*expected, *(key for one in runs for key in one)}:
        counts = np.array([one.get(key, 0) for one in runs])
        error = counts.std(ddof=1) / len(runs) ** 0.5
        right = expected.get(key, 0)
        rare = UNSEEN / len(runs) if error == 0 else 0
        if abs(counts.mean() - right) > SURE * error + rare + 1e-9 * max(1, right):
            found[key] = counts.mean(), error, right
    return found


@pytest.mark.parametrize(
    "seed",
    [pytest.param(n, marks=() if n in QUICK else (pytest.mark.slow, pytest.mark.simulator)) for n in range(200)],
)
def test_expected_counts_are_means_over_masks(seed):
    """Within three standard errors over 200 masks.

    Of thousands of counts some are further off by chance: these have to be within three over 2,000 masks of their own.
    """
    spec, cost = problem(random.Random(seed))
    expected = modelled(spec, cost)
    doubtful = far_off(spec, expected, FEW)
    if doubtful:
        again = far_off(spec, expected, MANY)
        assert not {key: again[key] for key in doubtful if key in again}
