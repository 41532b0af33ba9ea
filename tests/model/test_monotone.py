"""More bandwidth, ports, banks or buffers never raise the latency of a mapping, whatever else the machine has."""

import random
from copy import deepcopy

from tests.amounts import few_and_many
from tests.random_specs.cases import valid_case
from tests.random_specs.features import overlap
from tests.random_specs.nodes import changed, memories, spec_of
from tests.random_specs.simulated import OPTIONS, buffers_and_ports

import einmap
from einmap.errors import NotSupportedError


def drawn(rng):
    """A random mapping on a machine with options of all kinds that go together."""
    spec = changed(rng, valid_case(rng)[0], buffers_and_ports)
    kind = rng.choice(("pipelines", "overlap", "stalls", "neither"))
    if kind == "pipelines":
        return changed(rng, spec, OPTIONS["pipeline_latency"]).to_dict()
    written = spec.to_dict()
    for node in memories(written):
        if kind in ("overlap", "stalls"):
            node["buffering"], node["wind_up"] = "ideal", False
        if kind == "stalls":
            for action in node["actions"]:
                action["startup"] = 0
        node["size"] = "inf"
    if kind == "overlap":
        overlap(rng, written)
    if kind == "stalls":
        memories(written)[-1]["stalls"] = "tile_by_tile"
    return written


def faster(rng, node):
    for action in node["actions"]:
        action["throughput"] = 2 * action["throughput"] if rng.random() < 0.7 else action["throughput"]


def sooner(rng, node):
    for action in node["actions"]:
        for field in ("startup", "pipeline_latency"):
            if action.get(field):
                action[field] = action[field] / rng.choice((2, 10))


def ported(rng, node):
    given = node.get("ports") or {"read_write": 1}
    if "total_latency" not in node:
        which = rng.choice(("read", "write", "read_write"))
        node["ports"] = {**given, which: given.get(which, 0) + 1}


def banked(rng, node):
    if "banks" in node:
        node["banks"] = {**node["banks"], "number": node["banks"]["number"] + rng.choice((1, 3))}


def buffered(rng, node):
    if node.get("buffering") == "single":
        node["buffering"] = rng.choice(("ideal", "double"))
        node["size"] = "inf"


BETTER = (faster, sooner, ported, banked, buffered)


def compared(seed):
    """Whether a machine that is better in one thing is faster; None where the mapping is refused."""
    rng = random.Random(seed)
    written = drawn(rng)
    better = deepcopy(written)
    rng.choice(BETTER)(rng, rng.choice(memories(better)))
    try:
        before, after = (einmap.evaluate(spec_of(one)).latency for one in (written, better))
    except (einmap.CapacityError, NotSupportedError):
        return None
    assert after <= before * (1 + 1e-12), seed
    return after < before


@few_and_many("seeds, least", (range(15), 1), (range(1000, 4000), 300), part="simulator")
def test_better_machines_are_never_slower(seeds, least):
    found = [outcome for seed in seeds if (outcome := compared(seed)) is not None]
    assert len(found) >= 10
    assert sum(found) >= least
