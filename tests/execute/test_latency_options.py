"""The simulator judges what changes the latency: random mappings on machines with ports, banks and buffers."""

import json
import random

from tests.cascades import valid_case
from tests.execute.agreement import differences

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


def nodes(found):
    """All nodes, nested ones included."""
    for node in found:
        yield node
        yield from nodes(node.get("nodes", ()))


def drawn(seed):
    """A random mapping with such options and its cost, or None where tiles no longer fit."""
    rng = random.Random(seed)
    spec = with_options(rng, valid_case(rng)[0])
    try:
        return spec, einmap.evaluate(spec)
    except (einmap.CapacityError, NotSupportedError):
        return None


def test_random_mappings_take_as_long_as_their_exchanges_in_turn():
    longer = compared = 0
    for seed in range(45):
        if (case := drawn(seed)) is None:
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
    assert compared >= 25
    assert longer >= 6
