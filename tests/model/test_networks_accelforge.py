"""Hops of AccelForge 1.0.467 on networks, measured there: `tests/golden/networks.jsonl`.

Two grids, two rows, a row of switches; then random loops in time and over lanes around two networks, tensors that cross
both among them. `tests/golden/arrays.jsonl`: memories of several units over an array of 4 x 4 lanes, measured there as well.
"""

import json
from pathlib import Path

import pytest
from tests.model.worked import accelforge, counts, latencies, usages

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = [json.loads(line) for line in (GOLDEN / "networks.jsonl").read_text().splitlines()]
ARRAYS = [json.loads(line) for line in (GOLDEN / "arrays.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case['note']}" for i, case in enumerate(CASES)])
def test_hops_are_those_of_the_peer(case):
    found = {
        (name, tensor): n
        for (_, tensor, name, action), n in counts(accelforge(case["spec"])).items()
        if action == "hop"
    }
    expected = {(name, tensor): n for name, hops in case["hops"].items() for tensor, n in hops.items() if n}
    assert found == expected
    assert expected


@pytest.mark.parametrize("case", ARRAYS, ids=[case["note"] for case in ARRAYS])
def test_counts_and_space_of_units_are_those_of_the_peer(case):
    cost = accelforge(case["spec"])
    found = {f"{name}|{tensor}|{action}": n for (_, tensor, name, action), n in counts(cost).items()}
    assert found == case["counts"]
    assert usages(cost)["Buf"] == case["usage"]
    assert latencies(cost, "Z")["Buf"] == case["latency"]
