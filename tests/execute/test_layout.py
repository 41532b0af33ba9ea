"""The simulator judges lines: it finds those of each tile from the addresses of its values, on random mappings."""

import json
import random

from tests.cascades import valid_case
from tests.execute.agreement import differences
from tests.execute.test_latency_options import nodes

import einmap
from einmap.errors import NotSupportedError


def with_layouts(rng, given):
    """The specification with layouts at random, and interleaved banks or memories that take turns."""
    written = given.to_dict()
    ranks = {
        access.tensor: [rank for rank, _ in access.projection] for e in given.workload.einsums for access in e.accesses
    }
    takes_turns = rng.random() < 0.4
    for node in nodes(written["arch"]["nodes"]):
        if node.get("type") == "Memory" and rng.random() < 0.7:
            layout = node["layout"] = {"line": rng.choice((64, 96, 100, 256)), "order": {}, "block": {}}
            for tensor, names in ranks.items():
                if not names or rng.random() < 0.3:
                    continue
                if rng.random() < 0.6:
                    layout["order"][tensor] = rng.sample(names, len(names))
                else:
                    layout["block"][tensor] = {rng.choice(names): rng.choice((1, 2, 3))}
            if not layout["order"] and not layout["block"]:
                del node["layout"]
            elif "total_latency" not in node and not takes_turns and rng.random() < 0.6:
                node["banks"] = {"number": rng.choice((1, 2, 3, 4)), "conflicts": "interleaved"}
                if rng.random() < 0.4:
                    tensor = rng.choice([*layout["order"], *layout["block"]])
                    node["banks"]["interleave"] = {tensor: {rng.choice(ranks[tensor]): rng.choice((0, 1, 2, 3))}}
            elif "total_latency" not in node and takes_turns and rng.random() < 0.4:
                node["buffering"] = "single"
            if rng.random() < 0.5 and "layout" in node:
                layout["lanes"] = "together"
    return einmap.loads(json.dumps(written))


def drawn(seed):
    """A random mapping with layouts and its cost, or None where that is not counted."""
    rng = random.Random(seed)
    try:
        spec = with_layouts(rng, valid_case(rng)[0])
        return spec, einmap.evaluate(spec)
    except (einmap.SpecError, einmap.CapacityError, NotSupportedError):
        return None


def test_random_mappings_move_the_lines_that_their_values_lie_in():
    compared = 0
    for seed in range(30):
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
    assert compared >= 15
