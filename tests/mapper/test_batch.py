"""The batch evaluator and `evaluate` must agree: same formulas, arrays here and integers there."""

import numpy as np
import pytest
from tests.mapper.specs import SPECS

import einmap
from einmap.mapper.mapspace.mapspace import mapspace_of
from einmap.model.batch.batch import Batch
from einmap.model.counting.semantics import PRESETS


def space_of(spec, semantics):
    (einsum,) = spec.workload.einsums
    return mapspace_of(einsum, spec.arch(), backed_outside=einsum.tensors, first_partial_matters=semantics.lowering)


@pytest.mark.parametrize("preset", sorted(PRESETS))
@pytest.mark.parametrize("name", SPECS)
def test_a_batch_costs_what_evaluate_says(name, preset):
    compared(name, preset, subspaces=10, points_each=5)


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("preset", sorted(PRESETS))
@pytest.mark.parametrize("name", SPECS)
def test_large_batches_cost_what_evaluate_says(name, preset):
    compared(name, preset, subspaces=100, points_each=6)


def compared(name, preset, subspaces, points_each):
    semantics = PRESETS[preset]
    spec = SPECS[name]()
    space = space_of(spec, semantics)
    rng = np.random.default_rng(1)
    filled = [s for s in space.subspaces if s.size]
    for index in rng.permutation(len(filled))[:subspaces]:
        subspace = filled[index]
        points = subspace.random_points(rng, points_each)
        batch = Batch(subspace.template, space.einsum, space.arch, semantics)
        cost = batch.evaluate(subspace.shapes(points), len(points))
        for row, point in enumerate(points):
            mapping = subspace.mapping(tuple(int(x) for x in point))
            try:
                single = einmap.evaluate(spec, mapping, semantics)
            except einmap.CapacityError:
                assert not cost.fits[row], einmap.dump_mapping(mapping)
                continue
            assert cost.fits[row], einmap.dump_mapping(mapping)
            assert cost.energy[row] == pytest.approx(single.energy, rel=1e-12), einmap.dump_mapping(mapping)
            assert cost.latency[row] == pytest.approx(single.latency, rel=1e-12), einmap.dump_mapping(mapping)
            assert not [note for note in single.notes if "must" in note.text or "breaks" in note.text]


@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_points_and_mappings_name_each_other(preset):
    space = space_of(SPECS["lanes with reuse"](), PRESETS[preset])
    rng = np.random.default_rng(3)
    for _ in range(20):
        point = space.sample(rng)
        mapping = space.decode(point)
        again = space.encode(mapping)
        assert again is not None
        assert space.decode(again) == mapping


def test_neighbours_differ_by_one_factor_and_stay_in_the_space():
    space = space_of(SPECS["two levels"](), PRESETS["exact"])
    point = space.sample(np.random.default_rng(5))
    around = space.neighbours(point)
    assert around
    assert point not in around
    for other in around:
        assert all(0 <= digit < d.radix for digit, d in zip(other[1], space.subspaces[other[0]].digits, strict=True))
