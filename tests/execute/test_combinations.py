"""Options of all kinds together: each combination is exact, as the simulator sees it, or refused with its place."""

import math
import random
from collections import Counter

import pytest
from tests.execute.agreement import differences
from tests.execute.test_pipelines import is_even, simulated_latency
from tests.random_specs.cases import REFUSALS, draw_case, draw_networks
from tests.random_specs.nodes import changed, spec_of
from tests.random_specs.simulated import OPTIONS, a_pipeline

import einmap
from einmap.errors import ManyErrors, NotSupportedError


def drawn(seed):
    """A random mapping with some options, and which these are; None where nothing is left of it."""
    rng = random.Random(seed)
    kinds = set()
    case, kind = draw_case(rng), rng.choice(("network", "Pipeline", "neither"))
    if kind == "network":
        case = draw_networks(rng)
        kinds.add(kind)
    elif kind == "Pipeline" and a_pipeline(rng, case):
        kinds.add(kind)
    try:
        spec = spec_of(case)
        einmap.evaluate(spec)
    except (*REFUSALS, einmap.SpecError):
        return None
    for kind in rng.sample(sorted(OPTIONS), rng.randint(1, 3)):
        kinds.add(kind)
        spec = changed(rng, spec, OPTIONS[kind])
    return spec, kinds


def judged(seed):
    """What becomes of a random combination, and what is in it: "exact", "refused", or None where tiles do not fit."""
    if (found := drawn(seed)) is None:
        return None
    spec, kinds = found
    try:
        cost = einmap.evaluate(spec)
    except NotSupportedError as refusal:
        problems = refusal.problems if isinstance(refusal, ManyErrors) else (refusal,)
        assert all(problem.at is not None and problem.at.path for problem in problems), (seed, refusal.message)
        return "refused", kinds
    except (einmap.CapacityError, einmap.SpecError):
        return None  # halves that are too small, lines that are too short
    execution = einmap.execute(spec)
    for kind, *what in differences(spec, cost, execution):
        # what takes turns is a lower bound where turns stall (tests/model/test_stalls.py compares slots), and visits to
        # what stages hand on count as large as the largest
        bound = {"Einsum latency": "stalls", "usage": "Pipeline"}.get(kind)
        assert bound in kinds, (seed, kinds, kind, what)
        assert what[1] > what[2], (seed, what)
    by_einsum = cost.latency_by_einsum.values()
    if "Pipeline" in kinds:
        seconds = (
            simulated_latency(spec, execution) if kinds <= {"Pipeline", "partial sums"} and is_even(spec) else None
        )
        assert seconds is None or math.isclose(cost.latency, seconds, rel_tol=1e-9), seed
    else:
        least = max(by_einsum) if "overlap" in kinds else sum(by_einsum)
        assert least * (1 - 1e-9) <= cost.latency <= sum(by_einsum) * (1 + 1e-9), seed
    return "exact", kinds


def outcomes(seeds):
    """How often each option is in a combination that is exact, and how many are refused."""
    exact, refused = Counter(), 0
    for seed in seeds:
        if (found := judged(seed)) is not None:
            refused += found[0] == "refused"
            exact.update([*found[1], len(found[1])] if found[0] == "exact" else ())
    return exact, refused


FOUND = (593, 1403)
"""Combinations that once were not exact: what takes turns, or overlaps, beside banks among which lines are dealt out."""


def test_combinations_are_exact_or_refused_with_their_place():
    exact, refused = outcomes((*FOUND, *range(30)))
    assert exact.keys() >= {"network", *OPTIONS}
    assert exact[2] + exact[3] >= 3
    assert refused >= 10


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("part", range(4))
def test_many_combinations_are_exact_or_refused_with_their_place(part):
    exact, _ = outcomes(range(1000 + 500 * part, 1500 + 500 * part))
    assert exact.keys() >= {"network", "Pipeline", *OPTIONS}
    assert exact[2] + exact[3] + exact[4] >= 50
