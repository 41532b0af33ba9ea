"""Einsums that tables cannot search: what is fused nevertheless, and what is claimed of it."""

import pytest
from tests.mapper.refuted.beaten import beaten, problem
from tests.mapper.specs import container, memory

import einmap
from einmap.model.fusion import fusion_of

BEATEN = ("fallback-two-outputs", "fallback-lanes-at-outermost", "fallback-total-latency")


@pytest.mark.parametrize("name", BEATEN)
def test_what_beat_a_proven_result_is_found_or_named_as_not_searched(name):
    spec = problem(name)
    result, given = einmap.map_workload(spec, metrics="energy"), einmap.evaluate(beaten(name).better)
    assert result.lower_bound <= given.energy
    assert result.cost.energy <= given.energy
    assert fusion_of(result.mapping, spec).fused
    # the energy does not depend on the odd latency, since nothing leaks: there the search is as good as any
    assert result.optimal == (name == "fallback-total-latency")
    assert bool(result.not_searched) == (not result.optimal)


def test_scattered_outputs_let_what_they_read_stay_inside():
    spec = problem("fallback-scatter")
    result = einmap.map_workload(spec, metrics="energy")
    assert fusion_of(result.mapping, spec).fused
    assert result.cost.energy < einmap.map_workload(spec, metrics="energy", fuse=False).cost.energy
    assert "tile by tile" in result.not_searched[0]
    assert "output 'Z' is indexed by sums" in result.reason


@pytest.mark.parametrize("fuse", [True, pytest.param(False, marks=[pytest.mark.slow, pytest.mark.mapper])])
def test_what_cannot_be_counted_is_named_and_the_rest_is_searched(fuse):
    spec = problem("fallback-scatter")
    nodes = spec.get("arch.nodes")
    inner = [container({"name": "X", "fanout": 2}), memory("L2", 64, 1, {"keep": "Z", "may_keep": "All"})]
    spec = spec.set("arch.nodes", [*nodes[:2], *inner, *nodes[2:]])
    result = einmap.map_workload(spec, metrics="energy", fuse=fuse)
    assert not result.optimal
    assert any(text.startswith("mappings of Z that cannot be counted") for text in result.not_searched)
    assert 0 < result.lower_bound <= result.cost.energy
