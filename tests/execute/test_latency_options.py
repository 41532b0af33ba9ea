"""The simulator judges what changes the latency: random mappings on machines with ports, banks and buffers."""

import json
import random

import pytest
from tests.cascades import valid_case, valid_networks
from tests.execute.agreement import differences, on_their_way

import einmap
from einmap.errors import NotSupportedError

PORTS = ({"read": 1, "write": 1}, {"read_write": 2}, {"read": 1, "read_write": 1}, {"write": 2, "read_write": 1})


def with_options(rng, given):
    """The specification with ports, banks and buffering at random."""
    written = given.to_dict()
    for node in nodes(written["arch"]["nodes"]):
        if node.get("type") == "Memory" and "total_latency" not in node:
            node["buffering"] = rng.choice(("ideal", "double", "single", "single"))
            if node["buffering"] != "single" and rng.random() < 0.5:
                node["wind_up"] = True
            if rng.random() < 0.5:
                node["ports"] = rng.choice(PORTS)
                node["banks"] = {"number": rng.choice((1, 2, 5)), "conflicts": rng.choice(("none", "random"))}
            for action in node["actions"]:
                action["startup"] = rng.choice((0, 0, 2, 9))
        for dimension in node.get("spatial", ()):
            dimension["skew"] = rng.choice(("none", "once", "each_fold"))
    return einmap.loads(json.dumps(written))


def with_pipelines(rng, given):
    """The specification with actions whose values come later."""
    written = given.to_dict()
    for node in nodes(written["arch"]["nodes"]):
        if node.get("type") in ("Memory", "Compute"):
            for action in node["actions"]:
                action["pipeline_latency"] = rng.choice((0, 5, 40, 300))
    return einmap.loads(json.dumps(written))


def nodes(found):
    """All nodes, nested ones included."""
    for node in found:
        yield node
        yield from nodes(node.get("nodes", ()))


def drawn(seed, valid=valid_case):
    """A random mapping with such options and its cost, or None where tiles no longer fit."""
    rng = random.Random(seed)
    spec = with_options(rng, valid(rng)[0])
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
        spec = with_pipelines(rng, valid_case(rng)[0])
        cost = einmap.evaluate(spec)
        found = [d for d in differences(spec, cost, einmap.execute(spec)) if d[0] != "usage"]
        assert found == [], (seed, found)
        longer += bool(cost.longer)
        waiting += any(on_their_way(spec)[1].values())
    assert longer >= 7
    assert waiting >= 1
