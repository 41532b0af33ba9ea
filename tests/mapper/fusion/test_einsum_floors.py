"""Searches of Einsums by themselves bound cascades from below, more closely than tables do where buffers are small."""

import math
import random

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.random_specs.fused import draw_problem
from tests.random_specs.wide import draw_wide

import einmap
from einmap.mapper.fusion.refinement.einsum_floors import floors_in_time, raise_floor
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.problem.options import read_options
from einmap.progress import Progress

GOALS = ("energy", "latency", "energy_delay_product")


def whole(search):
    """The sums of the floors over the Einsums."""
    floors = floors_in_time(search, Progress())
    pairs = zip(search.workload.einsums, search.firsts, strict=True)
    return sum(search.times(einsum) * floors.get(first, np.zeros(len(search.goals))) for einsum, first in pairs)


@few_and_many("seeds", (range(20),), (range(1_000, 1_400),), parts=8, part="fusion")
def test_no_fused_mapping_costs_less_than_the_einsums_by_themselves(seeds):
    bounded = 0
    for seed in seeds:
        rng = random.Random(seed)
        problem = draw_wide(rng)[0] if seed % 2 else draw_problem(rng, small=True)
        goal = rng.choice(GOALS)
        limits = {
            "max_fused_loops": problem.max_fused_loops,
            "max_fused_loops_per_rank_variable": problem.per_variable,
            "share_inputs": False,
        }
        search = FusedSearch(
            problem.spec, read_options(problem.spec, metrics=goal, semantics=problem.semantics, **limits)
        )
        search.prepare(Progress())
        try:
            best = einmap.map_workload(problem.spec, metrics=goal, semantics=problem.semantics, **limits)
        except einmap.NoMappingError:
            continue
        sums = whole(search)
        bound, value = (
            math.prod(sums),
            {"energy": best.cost.energy, "latency": best.cost.latency}.get(goal, best.cost.edp),
        )
        assert bound <= value * (1 + 1e-9), (seed, bound, value)
        bounded += bound > 0
    assert bounded * 2 > len(seeds)


def full_buffer():
    """A matrix product whose buffer has room for a row of A and nothing beside it: 16 of 128 bits are for Z."""
    text = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, tensors: {keep: ~Intermediates, may_keep: All}, actions: [
      {name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]}
  - !Memory {name: GLB, size: 128, leak_power: 0, tensors: {keep: ~weights}, actions: [
      {name: read, energy: 0, throughput: inf}, {name: write, energy: 0, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 0, throughput: inf}]}
workload:
  rank_sizes: {M: 16, K: 16, N: 16, O: 16}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "Y[m, k] = A[m, n] * V[n, k]", renames: {weights: V}}
  - {einsum: "Z[m, o] = Y[m, k] * W[k, o]", renames: {weights: W}}
"""
    return einmap.loads(text)


def test_a_floor_knows_that_tensors_share_a_buffer():
    spec = full_buffer()
    search = FusedSearch(spec, read_options(spec, metrics="energy"))
    search.prepare(Progress())
    member = search.members[1]
    classes = dict(member.chains.signature_classes)
    raised = [raise_floor(member.chains, each, Progress()) for each in classes]
    assert any(raised)
    for each, rows in classes.items():
        assert (member.chains.signature_classes[each] >= rows).all()


TWO_INPUTS = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, tensors: {keep: ~Intermediates, may_keep: All}, actions: [
      {name: read, energy: 9, throughput: 1}, {name: write, energy: 9, throughput: 1}]}
  - !Memory {name: GLB, size: 128, leak_power: 0, tensors: {keep: ~weights}, actions: [
      {name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  rank_sizes: {M: 16, K: 4, N: 4, P: 16}
  bits_per_value: {All: 8}
  einsums:
  - {einsum: "X[m, n] = A[m, k] * V[k, n]", renames: {weights: V}}
  - {einsum: "Y[n, p] = B[n, k] * W[k, p]", renames: {weights: W}}
  - {einsum: "Z[m, p] = X[m, n] * Y[n, p]", renames: {weights: Nothing}}
"""


def test_a_signature_class_of_which_nothing_fits_is_none():
    # loops over n alone may stand above both X and Y: 16 values of one of them fill the buffer
    spec = einmap.loads(TWO_INPUTS)
    search = FusedSearch(spec, read_options(spec, metrics="energy_delay_product"))
    search.prepare(Progress())
    chains = search.members[2].chains
    classes = list(chains.signature_classes)
    raised = {each: raise_floor(chains, each, Progress()) for each in classes}
    gone = [each for each in classes if each not in chains.signature_classes]
    assert [dict(each)[0] == dict(each)[1] == "GLB" for each in classes] == [each in gone for each in classes]
    assert gone and all(raised[each] for each in gone)
    search.steeper(0.5)
    assert 0 < search.least_value() <= einmap.map_workload(spec, metrics="energy_delay_product").cost.edp


@pytest.mark.parametrize("goal", GOALS)
def test_a_search_that_is_stopped_at_once_has_a_bound(goal):
    spec = einmap.load("simple", "feed_forward", define={"N_TOKENS": 64, "D_MODEL": 32, "D_FF": 64})
    best = einmap.map_workload(spec, metrics=goal)
    stopped = Progress()
    stopped.stop()
    found = einmap.map_workload(spec, metrics=goal, progress=stopped)
    assert found.stopped
    assert found.lower_bound * (1 - 1e-9) <= getattr(best.cost, {"energy_delay_product": "edp"}.get(goal, goal))
    assert found.lower_bound > 0
