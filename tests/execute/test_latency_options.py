"""The simulator judges what changes the latency: random mappings on machines with ports, banks and buffers."""

import random

import pytest
from tests.execute.agreement import differences, on_their_way
from tests.random_specs.cases import valid_case, valid_networks
from tests.random_specs.nodes import changed
from tests.random_specs.simulated import OPTIONS, buffers_and_ports

import einmap
from einmap.errors import NotSupportedError


def drawn(seed, valid=valid_case):
    """A random mapping with such options and its cost, or None where tiles no longer fit."""
    rng = random.Random(seed)
    spec = changed(rng, valid(rng)[0], buffers_and_ports)
    try:
        return spec, einmap.evaluate(spec)
    except (einmap.CapacityError, NotSupportedError):
        return None


@pytest.mark.parametrize(
    ("seeds", "valid", "least"),
    [
        (range(15), valid_case, 7),
        (range(15), valid_networks, 10),
        pytest.param(range(1000, 1400), valid_networks, 250, marks=[pytest.mark.slow, pytest.mark.simulator]),
    ],
)
def test_random_mappings_take_as_long_as_their_exchanges_in_turn(seeds, valid, least):
    longer = compared = 0
    for seed in seeds:
        if (case := drawn(seed, valid)) is None:
            continue
        spec, cost = case
        try:
            execution = einmap.execute(spec)
        except einmap.SpecError:
            continue
        found = [d for d in differences(spec, cost, execution) if d[0] != "usage"]
        assert found == [], (seed, found)
        compared += 1
        longer += bool(cost.longer)
    assert compared >= least
    assert longer >= 1


def test_values_are_on_their_way_as_long_as_the_nodes_that_they_pass_take():
    longer = waiting = 0
    for seed in range(100, 118):
        rng = random.Random(seed)
        spec = changed(rng, valid_case(rng)[0], OPTIONS["pipeline_latency"])
        cost = einmap.evaluate(spec)
        found = [d for d in differences(spec, cost, einmap.execute(spec)) if d[0] != "usage"]
        assert found == [], (seed, found)
        longer += bool(cost.longer)
        waiting += any(on_their_way(spec)[1].values())
    assert longer >= 7
    assert waiting >= 1
