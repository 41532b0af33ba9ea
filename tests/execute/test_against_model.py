"""The simulator judges the model: random mappings must cost what they do."""

import random

import pytest
from tests.amounts import some
from tests.execute.agreement import differences
from tests.random_specs.cases import draw_windows, evaluated, storage_nodes, valid_case, valid_networks, valid_windows

import einmap


def disagreements(seeds, drawn=valid_case):
    """(seed, first difference) of every random case whose execution and model disagree."""
    found = []
    for seed in seeds:
        spec, cost = drawn(random.Random(seed))
        try:
            execution = einmap.execute(spec)
        except einmap.SpecError as refused:
            # where some points would index a tensor below 0 it can be counted, but not stored or executed
            assert "indexes rank" in str(refused), seed
            continue
        different = [d for d in differences(spec, cost, execution) if not is_upper_bound(spec, d)]
        if different:
            found.append((seed, different[0]))
    return found


def is_upper_bound(spec, difference):
    """Usage where Einsums use different parts of one input: the largest common tile need not meet the other tiles'."""
    kind, _, model, simulated = (*difference, None)[:4]
    workload = spec.workload
    shared = [t for t, users in workload.users.items() if t not in workload.producers and len(users) > 1]
    return kind == "usage" and bool(shared) and model > simulated


@pytest.mark.parametrize("part", some(3, range(3), "simulator"))
def test_75_random_mappings_cost_what_they_do(part):
    assert disagreements(range(25 * part, 25 * part + 25)) == []


def test_25_random_mappings_with_networks_cost_what_they_do():
    assert disagreements(range(25), valid_networks) == []


def test_random_mappings_cross_their_networks():
    costs = [valid_networks(random.Random(seed))[1] for seed in range(40)]
    assert sum(any(row.action == "hop" for row in cost.actions) for cost in costs) >= 7


def test_25_random_mappings_with_sliding_windows_cost_what_they_do():
    assert disagreements(range(25), valid_windows) == []


def test_sliding_windows_often_save_traffic():
    saved = 0
    for seed in range(40):
        case = draw_windows(random.Random(seed))
        found = evaluated(case)
        for node in storage_nodes(case["mapping"]["nodes"]):
            node["sliding_window"] = False
        plain = evaluated(case)
        if found is not None and plain is not None:
            assert found[1].energy <= plain[1].energy
            saved += found[1].energy < plain[1].energy
    assert saved >= 3


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("part", range(10))
def test_2500_random_mappings_with_sliding_windows_cost_what_they_do(part):
    assert disagreements(range(1_000 + 250 * part, 1_000 + 250 * part + 250), valid_windows) == []


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("part", range(10))
def test_2500_random_mappings_with_networks_cost_what_they_do(part):
    assert disagreements(range(1_000 + 250 * part, 1_000 + 250 * part + 250), valid_networks) == []


@pytest.mark.slow
@pytest.mark.simulator
@pytest.mark.parametrize("part", range(40))
def test_10000_random_mappings_cost_what_they_do(part):
    assert disagreements(range(1_000 + 250 * part, 1_000 + 250 * part + 250)) == []
