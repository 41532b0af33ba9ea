"""No loop in time stands above a tensor if a later reader below it waits for what is reduced over its rank."""

import random

import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.test_against_brute_force import GOALS, agrees
from tests.random_specs.fused import draw_problem

from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.problem.options import read_options
from einmap.spec.spec import Spec

SOFTMAX = {
    # a maximum that the exponential waits for; sums that are read after the last use of what they add up
    "safe": (["S[m,p] = Q[m,e] * K[p,e]", "G[m] = S[m,p]", "N[m,p] = S[m,p] * G[m]", "A[m,f] = N[m,p] * V[p,f]"], {("S", "P")}),
    "plain": (["S[m,p] = Q[m,e] * K[p,e]", "D[m] = S[m,p]", "A[m,f] = S[m,p] * V[p,f]", "Z[m,f] = A[m,f] * D[m]"], set()),
    # the Einsum that waits is not a user of S, but runs before the last one
    "through another": (["S[m,p] = Q[m,p]", "G[m] = S[m,p]", "W[m] = G[m]", "Z[m,p] = S[m,p] * B[m]"], {("S", "P")}),
    "read behind": (["S[m,p] = Q[m,p]", "G[m] = S[m,p]", "Z[m,p] = S[m,p] * B[m]", "W[m] = G[m]"], set()),
    "in blocks": (["S[m,j,i] = Q[m,j,i]", "L[m,j] = S[m,j,i]", "N[m,j,i] = S[m,j,i] * L[m,j]"], {("S", "I")}),
    "another name": (["S[m,p] = Q[m,p]", "G[M: a] = S[M: a, P: b]", "Z[m,p] = S[m,p] * G[m]"], {("S", "P")}),
}  # fmt: skip
OTHERS = {
    "safe": (("X[m,n] = A[m] * B[n]", "Y[m] = X[m,n]", "Z[m,n] = X[m,n] * Y[m]", "W[m] = Z[m,n]"), {"M": "s", "N": "s"}),
    "of columns": (("X[m,n] = A[m,n]", "Y[n] = X[m,n]", "Z[m,n] = X[m,n] * Y[n]"), {"M": "n", "N": "n"}),
    "through another": (("X[m,n] = A[m,n]", "Y[m] = X[m,n]", "V[m] = Y[m]", "Z[m,n] = X[m,n] * V[m]"), {"M": "s", "N": "s"}),
    "both ways": (("X[m,n] = A[m,n]", "Y[m] = X[m,n]", "V[n] = X[m,n] * Y[m]", "Z[m,n] = X[m,n] * V[n]"), {"M": "s", "N": "s"}),
}  # fmt: skip
NAMES = ("softmax", "residual of a matmul", *OTHERS)


def problem_of(einsums):
    sizes = dict.fromkeys("MPEFJI", 4)
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums}
    spec = Spec.from_dict({"arch": draw_problem(random.Random(0)).data["arch"], "workload": workload})
    return CascadeProblem(spec, read_options(spec, metrics="energy", workers=1))


@pytest.mark.parametrize("name", SOFTMAX)
def test_ranks_are_those_that_a_later_reader_waits_for(name):
    einsums, ranks = SOFTMAX[name]
    assert problem_of(einsums).awaited == ranks


@few_and_many("seeds", (range(2),), ((2, *range(1_000, 1_600)),), parts=6, part="fusion")
def test_optima_of_cascades_that_wait_are_those_of_brute_force(seeds):
    waiting = 0
    for seed in seeds:
        rng = random.Random(seed)
        problem = draw_problem(rng, NAMES, small=True, more=OTHERS)
        waiting += bool(CascadeProblem(problem.spec, read_options(problem.spec, metrics="energy", workers=1)).awaited)
        agrees(problem, rng.choice(GOALS), seed)
    assert waiting > len(seeds) / 2
