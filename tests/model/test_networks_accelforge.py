"""Hops of AccelForge 1.0.467 on networks, measured there: `tests/golden/networks.jsonl`.

Two grids, two rows, a row of switches; then random loops in time and over lanes around two networks, tensors that cross
both among them.
"""

import json
from pathlib import Path

import pytest
from tests.model.worked import accelforge, counts

CASES = [json.loads(line) for line in (Path(__file__).parents[1] / "golden/networks.jsonl").read_text().splitlines()]


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
