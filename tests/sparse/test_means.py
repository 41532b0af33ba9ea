"""Expected counts against the mean of runs on masks that are drawn."""

import random

import numpy as np
import pytest
from tests.sparse.problems import draw_sparse, modelled, run, simulated

RUNS = 200
SURE = 4.5
"""Standard errors of the mean by which a count may differ: thousands of counts are compared."""


@pytest.mark.parametrize("seed", [pytest.param(n, marks=[pytest.mark.slow, pytest.mark.simulator]) for n in range(60)])
def test_expected_counts_are_means_over_masks(seed):
    rng = random.Random(seed)
    while True:
        spec, cost = draw_sparse(rng, known=False)
        is_small = max(e.n_computes for e in spec.workload.einsums) < 400
        if is_small and any(s.saves and s.is_mean for s in spec.sparsity.values()):
            break
    runs = [simulated(spec, run(spec, seed=n)) for n in range(RUNS)]
    expected = modelled(spec, cost)
    for key in {*expected, *(key for one in runs for key in one)}:
        counts = np.array([one.get(key, 0) for one in runs])
        error = counts.std(ddof=1) / len(runs) ** 0.5
        # a count that never varied may vary with a chance that few runs do not show
        assert abs(counts.mean() - expected.get(key, 0)) <= SURE * error + 1e-9 + 0.02 * expected.get(key, 0) * (
            not error
        ), key
