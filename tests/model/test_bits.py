"""With all options off, results are those of the version before ports, banks, buffers and layouts, to the last bit.

`bits` of each golden specification: a digest of energy, latency and all rows under both presets, as commit 8598cad
computed them.
"""

import hashlib
import json
from pathlib import Path

import pytest

import einmap

GOLDEN = Path(__file__).parents[1] / "golden"
CASES = [
    json.loads(line) for name in ("exact.jsonl", "evaluate.jsonl") for line in (GOLDEN / name).read_text().splitlines()
]


def digest(case):
    """The first half of the SHA-256 of what both presets give, with floats as hexadecimal digits."""
    found = hashlib.sha256()
    for semantics in ("exact", "accelforge"):
        try:
            spec = einmap.loads("\n".join(case[key] for key in case if key.endswith("_yaml")))
            found.update(json.dumps(bits(einmap.evaluate(spec, semantics=semantics))).encode())
        except einmap.EinmapError as problem:
            found.update(json.dumps(type(problem).__name__).encode())
    return found.hexdigest()[:16]


def bits(cost):
    rows = [
        (r.einsum, r.component, r.tensor, r.action, None if r.count is None else float(r.count).hex(), exact(r.energy))
        for r in cost.actions
    ]
    rows += [(r.einsum, r.component, exact(r.latency)) for r in cost.latencies]
    rows += [(r.component, exact(r.usage)) for r in cost.memory_usage]
    return [exact(cost.energy), exact(cost.latency), rows]


def exact(number):
    return float(number).hex()


def changed(cases):
    return [case["id"] for case in cases if digest(case) != case["bits"]]


def test_results_without_options_are_what_they_were():
    assert len(CASES) == 416
    assert changed(CASES[::26]) == []


@pytest.mark.slow
@pytest.mark.simulator
def test_all_results_without_options_are_what_they_were():
    assert changed(CASES) == []
