"""What is said to limit an Einsum: what would make it shorter if it were twice as fast."""

import random
from dataclasses import replace

import pytest
from tests.random_specs.nodes import spec_of
from tests.random_specs.problems import draw_problem

import einmap


def drawn(rng):
    """A random machine whose memories take turns, start up, have ports, or keep values on their way."""
    problem = draw_problem(rng)
    for number, node in enumerate(problem["arch"]["nodes"]):
        if node["type"] != "Memory":
            continue
        node.pop("total_latency", None)
        if number:
            node.update(rng.choice(({}, {"buffering": "single"}, {"wind_up": True}, {"buffering": "double"})))
            node.update(rng.choice(({}, {}, {"ports": {"read": 1, "write": 1, "read_write": 0}})))
        for action in node["actions"]:
            action.update(rng.choice(({}, {"startup": 1}, {"startup": 3})))
            action.update(rng.choice(({}, {"pipeline_latency": 1}, {"pipeline_latency": 50})))
    return spec_of(problem)


def twice_as_fast(arch, name):
    leaf = arch.leaves[name]
    actions = [
        replace(a, throughput=2 * a.throughput, startup=a.startup / 2, pipeline_latency=a.pipeline_latency / 2)
        for a in leaf.actions
    ]
    return arch.with_leaf(replace(leaf, actions=tuple(actions)))


def compare(seed):
    """Whether an Einsum takes longer than its busiest component; None where nothing fits or takes time."""
    spec = drawn(random.Random(seed))
    try:
        result = einmap.map_workload(spec, metrics="edp", max_evaluations=100, workers=1)
    except einmap.EinmapError:
        return None
    cost = result.cost
    if not cost.latency:
        return None
    (named,) = cost.limited_by.values()
    helps = set()
    for row in cost.latencies:
        faster = spec.with_altered_archs(lambda arch, name=row.component: twice_as_fast(arch, name))
        if einmap.evaluate(faster, result.mapping).latency < cost.latency * (1 - 1e-9):
            helps.add(row.component)
    assert named
    assert helps <= set(named), seed
    # of several in balance none helps by itself
    assert helps or len(named) > 1, seed
    return bool(cost.longer)


def test_what_limits_an_einsum_makes_it_shorter():
    longer = [compare(seed) for seed in range(12)]
    assert longer.count(True) >= 1
    assert longer.count(False) >= 3


@pytest.mark.slow
def test_what_limits_many_einsums_makes_them_shorter():
    assert [compare(seed) for seed in range(1_000, 1_300)].count(True) >= 50
