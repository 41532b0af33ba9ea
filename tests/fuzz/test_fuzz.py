"""Inputs changed at random, on every surface: each call ends in a result or a located error within its limits.

`python -m tests.fuzz SEED INDEX` shows a call and makes it.
"""

import pytest
from tests.fuzz import surfaces, workers

SEED = "1"
ALL = 100_000
FEW = 160
HEAVY = {"search", "given_mapping"}
"""Surfaces that compile or search."""


def said(failure, seed):
    return f"python -m tests.fuzz {seed} {failure.index}  # {failure.surface} {failure.where}\n{failure.text}"


def test_a_sample_of_calls():
    """In this process: without limits, but quickly."""
    seen = {name: {"result": 0, "error": 0} for name in surfaces.SHARES}
    for index in range(FEW):
        name, call = surfaces.call_of("sample", index)
        if name not in HEAVY:
            try:
                seen[name][surfaces.ended(name, call)] += 1
            except Exception as error:
                raise AssertionError(f"python -m tests.fuzz sample {index}") from error
    ends = [seen[name] for name in surfaces.SHARES if name not in HEAVY]
    assert all(sum(counts.values()) for counts in ends)
    assert sum(counts["result"] for counts in ends) > FEW / 10


def test_a_call_that_takes_too_long_or_too_much_is_a_failure(monkeypatch):
    """The limits are real: a call without end, one that takes memory, one that kills its process."""
    monkeypatch.setenv("FUZZ_SURFACE", "misbehaving")
    tally = workers.run("0", 0, 3, n_workers=1, limit=1)
    assert [failure.where.split()[0] for failure in tally.failures] == ["_TooLongError", "MemoryError", "DIED"]
    assert tally.failures[2].index == 2


@pytest.mark.slow
@pytest.mark.hostile
def test_all_calls(capsys):
    tally = workers.run(SEED, 0, ALL)
    with capsys.disabled():
        print()
        workers.report(tally, surfaces.SHARES)
    assert not tally.failures, "\n\n".join(said(failure, SEED) for failure in tally.failures[:10])
    assert sum(tally.ends.values()) == ALL
