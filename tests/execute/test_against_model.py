"""The simulator judges the model: random mappings must cost what they do."""

import random

import pytest
from tests.cascades import valid_case
from tests.execute.agreement import differences

import einmap


def disagreements(seeds):
    """(seed, first difference) of every random case whose execution and model disagree."""
    found = []
    for seed in seeds:
        spec, cost = valid_case(random.Random(seed))
        try:
            execution = einmap.execute(spec)
        except einmap.SpecError as refused:
            # a tensor indexed below 0 can be counted but not stored
            assert "indexes rank" in str(refused), seed
            continue
        different = differences(spec, cost, execution)
        if different:
            found.append((seed, different[0]))
    return found


@pytest.mark.parametrize("part", range(6))
def test_300_random_mappings_cost_what_they_do(part):
    assert disagreements(range(50 * part, 50 * part + 50)) == []


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("part", range(40))
def test_10000_random_mappings_cost_what_they_do(part):
    assert disagreements(range(1_000 + 250 * part, 1_000 + 250 * part + 250)) == []
