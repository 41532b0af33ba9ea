"""A mapping without a search: valid where one exists, whatever the size of the mapspace."""

import random

import pytest
from tests.amounts import some
from tests.fuzz.seeds import TINY
from tests.random_specs.nodes import spec_of
from tests.random_specs.problems import draw_problem

import einmap
from einmap.mapper.independent.first import first_mapping
from einmap.mapper.problem.request import Request
from einmap.model.counting.semantics import semantics_named


def first_of(spec, semantics):
    einsum = spec.workload.einsums[0]
    request = Request(("energy",), semantics_named(semantics))
    found = [
        first_mapping(einsum, spec.arch(), request, "energy", spec.workload.n_instances, token, 1_000).mappings
        for token in (einmap.Progress().within(0), einmap.Progress())
    ]
    return [mapping for mappings in found for mapping in mappings]


@pytest.mark.parametrize("seed", some(4, range(40)))
def test_there_is_a_first_mapping_just_where_a_search_finds_one(seed):
    spec = spec_of(draw_problem(random.Random(seed)))
    for semantics in ("exact", "accelforge"):
        found = first_of(spec, semantics)
        try:
            best = einmap.map_workload(spec, metrics="energy", semantics=semantics)
        except einmap.NoMappingError:
            assert not found
        else:
            costs = [einmap.evaluate(spec, mapping, semantics=semantics, strict=True).energy for mapping in found]
            assert best.cost.energy * (1 - 1e-9) <= costs[1] <= costs[0]


def test_one_evaluation_is_enough_for_a_mapping_with_lanes():
    """Of many columns of cost those of memories below the lanes are chosen by the plan."""
    spec = einmap.loads(TINY)
    found = einmap.map_workload(spec, max_evaluations=1)
    assert found.cost.energy >= einmap.map_workload(spec, metrics="energy").cost.energy
