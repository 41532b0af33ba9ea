"""Options of all kinds together: each combination is exact, as the simulator sees it, or refused with its place."""

import json
import math
import random
from collections import Counter

import pytest
from tests.cascades import REFUSALS, draw_case, draw_networks
from tests.execute.agreement import differences
from tests.execute.test_latency_options import nodes, with_options, with_pipelines
from tests.execute.test_layout import with_layouts
from tests.execute.test_partial_sums import with_partial_sums
from tests.execute.test_pipelines import is_even, pipelined, simulated_latency

import einmap
from einmap.errors import ManyErrors, NotSupportedError


def memories(written):
    return [node for node in nodes(written["arch"]["nodes"]) if node.get("type") == "Memory"]


def stalled(rng, spec):
    """The specification with a memory that stalls tile by tile."""
    written = spec.to_dict()
    rng.choice(memories(written)[1:] or memories(written))["stalls"] = "tile_by_tile"
    return einmap.loads(json.dumps(written))


def overlapping(rng, spec):
    """The specification with Einsums that overlap, on a machine that does not leak."""
    written = spec.to_dict()
    for node in nodes(written["arch"]["nodes"]):
        if "leak_power" in node and rng.random() < 0.95:
            node["leak_power"] = 0
    written["model"] = {**written.get("model", {}), "overlap_einsums": True}
    return einmap.loads(json.dumps(written))


OPTIONS = {
    "buffers and ports": with_options,
    "pipeline_latency": with_pipelines,
    "layout": with_layouts,
    "partial sums": with_partial_sums,
    "stalls": stalled,
    "overlap": overlapping,
}


def drawn(seed):
    """A random mapping with some options, and which these are; None where nothing is left of it."""
    rng = random.Random(seed)
    kinds = set()
    case, kind = draw_case(rng), rng.choice(("network", "Pipeline", "neither"))
    if kind == "network":
        case = draw_networks(rng)
        kinds.add(kind)
    elif kind == "Pipeline" and pipelined(rng, case):
        kinds.add(kind)
    try:
        spec = einmap.loads(json.dumps(case))
        einmap.evaluate(spec)
    except (*REFUSALS, einmap.SpecError):
        return None
    for kind in rng.sample(sorted(OPTIONS), rng.randint(1, 3)):
        kinds.add(kind)
        spec = OPTIONS[kind](rng, spec)
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
