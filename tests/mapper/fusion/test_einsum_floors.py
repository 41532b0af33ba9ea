"""Searches of Einsums by themselves bound cascades from below, more closely than tables do where buffers are small."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.random_specs.fused import draw_problem
from tests.random_specs.wide import draw_wide

import einmap
from einmap.mapper.cost_bounds.before_plans import floors
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.refinement import einsum_floors
from einmap.mapper.fusion.refinement import floors_with_room as room
from einmap.mapper.fusion.refinement.einsum_floors import (
    TOLERANCE,
    TRIED,
    floors_before_plans,
    floors_in_time,
    is_bounded_alone,
    least_alone,
    least_by_tables,
    raise_floor,
    raised_with,
)
from einmap.mapper.fusion.refinement.floors_with_room import TOLERANCE as OF_FLOORS
from einmap.mapper.fusion.refinement.floors_with_room import FloorsBeforePlans, floors_with_room
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.request import Remainder
from einmap.progress import Progress

GOALS = ("energy", "latency", "energy_delay_product")


def by_search(search):
    """The sums of the floors over the Einsums."""
    floors = floors_in_time(search, Progress())
    pairs = zip(search.workload.einsums, search.firsts, strict=True)
    return sum(search.times(einsum) * floors.get(first, np.zeros(len(search.goals))) for einsum, first in pairs)


def before_plans(search):
    """The sums of the floors that need no lists of choices."""
    rows = floors_before_plans(search, Progress())
    nothing = np.zeros((1, len(search.goals)))
    return sum(search.times(einsum) * rows.get(einsum.name, nothing).min(axis=0) for einsum in search.workload.einsums)


def with_room(search):
    """The sums of those that know what memories have room for, where nothing better than the best one is looked for."""
    floors = FloorsBeforePlans(search)
    floors.learn(Progress())
    floors.learn_room(search.value, Progress())
    for _ in range(2):  # the second time with all lanes, where the first one has merged ones
        floors.learn_room(search.value, Progress(), closely=True)
    assert not floors.merged
    return sum(search.times(einsum) * floors.least(einsum) for einsum in search.workload.einsums)


@few_and_many("seeds", (range(4),), (range(1_000, 1_400),), parts=8, part="fusion")
def test_no_fused_mapping_costs_less_than_the_einsums_by_themselves(seeds):
    bounds_hold(seeds, by_search)


@pytest.mark.parametrize("uses", [floors.MOST_USES, 1])
@few_and_many("seeds", (range(4),), (range(2_000, 2_400),), parts=8, part="fusion")
def test_no_fused_mapping_costs_less_than_floors_before_plans_also_with_merged_lanes(seeds, uses, monkeypatch):
    monkeypatch.setattr(floors, "MOST_USES", uses)
    bounds_hold(seeds, before_plans)


@pytest.mark.parametrize("uses", [floors.MOST_USES, 1])
@few_and_many("seeds", (range(3),), (range(5_000, 5_400),), parts=8, part="fusion")
def test_no_fused_mapping_costs_less_than_floors_with_room(seeds, uses, monkeypatch):
    monkeypatch.setattr(floors, "MOST_USES", uses)
    if uses == 1:
        monkeypatch.setattr(room, "CLOSELY", 0)
    bounds_hold(seeds, with_room)


def bounds_hold(seeds, whole):
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
        value = {"energy": best.cost.energy, "latency": best.cost.latency}.get(goal, best.cost.edp)
        search.value = value * (1 + 1e-9)
        bound = math.prod(whole(search))
        assert bound <= value * (1 + 1e-9), (seed, bound, value)
        bounded += bound > 0
    assert bounded * 2 > len(seeds)


@few_and_many("seeds", (range(2),), ((2, 3, *range(3_000, 3_200)),), parts=4, part="fusion")
def test_floors_by_the_tables_of_a_cascade_are_those_of_searches_by_themselves(seeds):
    compared = 0
    for seed in seeds:
        rng = random.Random(seed)
        problem = draw_problem(rng, small=True)
        options = read_options(problem.spec, metrics=rng.choice(GOALS), semantics=problem.semantics)
        search = FusedSearch(problem.spec, options)
        search.prepare(Progress())
        every = (member.chains for member in search.distinct)
        for chains in (c for c in every if isinstance(c, EinsumFronts) and is_bounded_alone(c.planned)):
            for signature_class in chains.signature_classes:
                found = least_by_tables(chains, Progress(), signature_class)
                assert found is not None
                alone = least_alone(chains.planned, Progress(), signature_class)
                assert found == pytest.approx(alone, rel=2 * TOLERANCE)
                compared += 1
    assert compared > 2 * len(seeds)


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


def test_bounds_in_vain_of_one_einsum_end_those_of_that_einsum_alone_and_one_that_rises_begins_all(monkeypatch):
    spec = full_buffer()
    search = FusedSearch(spec, read_options(spec, metrics="energy"))
    search.prepare(Progress())
    first, second = (member.chains for member in search.members)
    monkeypatch.setattr(einsum_floors, "raise_floor", lambda chains, *_: chains is second)
    for each in first.signature_classes:
        assert not list(raised_with(search, first, each))
    assert list(search.floored[first].values()) == [False] * min(TRIED, len(first.signature_classes))
    classes = list(second.signature_classes)
    assert len(classes) > 1
    assert list(raised_with(search, second, classes[-1])) == [classes[-1], *classes[:-1]]
    assert not list(raised_with(search, second, classes[0]))


def test_floors_with_room_know_that_tensors_share_a_buffer_before_anything_is_listed():
    spec = full_buffer()
    search = FusedSearch(spec, read_options(spec, metrics="energy"))
    einsum, arch = spec.workload.by_name["Y"], spec.arch("Y")
    # V is read at each of 4096 operations, A once at least: 256 values, 1 J a bit. Beside a row of A, 16 values, the
    # buffer has no room for a value of Y, so that A is read twice
    ((alone,),) = floors.floors_of(einsum, arch, search.request(einsum))
    ((roomy,),) = floors_with_room(einsum, arch, search.request(einsum), Progress()).rows
    ((close,),) = floors_with_room(einsum, arch, search.request(einsum), Progress(), closely=True).rows
    assert alone == 8 * (4096 + 256)
    assert 8 * (4096 + 512) * (1 - OF_FLOORS) <= roomy <= 8 * (4096 + 512)
    assert close == pytest.approx(8 * (4096 + 512), rel=1e-9)
    beaten = replace(search.request(einsum), remainder=Remainder(np.array([[100.0]]), 8 * 4600.0))
    assert not len(floors_with_room(einsum, arch, beaten, Progress()).rows)


def test_floors_with_room_are_the_same_where_their_choices_are_known():
    spec, spaces = full_buffer(), {}
    search = FusedSearch(spec, read_options(spec, metrics="energy_delay_product"))
    for closely in (False, True, False):
        for einsum in spec.workload.einsums:
            asked = einsum, spec.arch(einsum.name), search.request(einsum), Progress(), closely
            assert np.array_equal(floors_with_room(*asked).rows, floors_with_room(*asked, spaces).rows)
    assert len(spaces) == len(spec.workload.einsums)


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


def levels(lanes):
    """A matrix product below two fanouts of 4 lanes each; lanes of the outer one hold rows of their own."""
    text = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, tensors: {keep: All}, actions: [
      {name: read, energy: 10, throughput: 4}, {name: write, energy: 10, throughput: 4}]}
  - !Container {name: Cores, spatial: [{name: core, fanout: 4, may_reuse: All}]}
  - !Memory {name: L1, size: 640, leak_power: 0, tensors: {keep: All}, actions: [
      {name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Container {name: Lanes, spatial: [{name: lane, fanout: LANES, may_reuse: All}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  rank_sizes: {M: 8, K: 8, N: 8}
  bits_per_value: {All: 1}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
"""
    spec = einmap.loads(text.replace("LANES", str(lanes)))
    (einsum,) = spec.workload.einsums
    request = replace(IndependentSearch(spec, read_options(spec)).request("Z"), goals=("energy", "latency"))
    return floors.floors_of(einsum, spec.arch("Z"), request)


def test_close_floors_have_merged_lanes_first_and_all_lanes_then(monkeypatch):
    """Two cores of 8 values each: one that is as large as both has room for more, and B is read once instead of twice."""
    spec = einmap.loads("""
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, tensors: {keep: ~Intermediates, may_keep: All}, actions: [
      {name: read, energy: 10, throughput: inf}, {name: write, energy: 10, throughput: inf}]}
  - !Container {name: Cores, spatial: [{name: core, fanout: 2, may_reuse: Nothing}]}
  - !Memory {name: L1, size: 8, leak_power: 0, tensors: {keep: All}, actions: [
      {name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  rank_sizes: {M: 4, K: 4, N: 4, P: 2}
  bits_per_value: {All: 1}
  einsums: ["T[m, n] = A[m, k] * B[k, n]", "Z[m, p] = T[m, n] * C[n, p]"]
""")
    monkeypatch.setattr(floors, "MOST_USES", 1)
    monkeypatch.setattr(room, "CLOSELY", 0)
    search = FusedSearch(spec, read_options(spec, metrics="energy"))
    (mapping,) = search.run(Progress())
    least, known = einmap.evaluate(spec, mapping).energy, search.floors_before_plans
    known.learn(Progress())
    known.learn_room(math.inf, Progress(), closely=True)
    einsums = spec.workload.einsums
    merged = sum(known.least(einsum) for einsum in einsums)
    assert known.merged == known.cut == {"T", "Z"}
    known.learn_room(math.inf, Progress(), closely=True)
    assert not known.merged | known.cut
    assert known.closest.keys() == known.best.keys() == {"T", "Z"}
    assert merged < sum(known.least(einsum) for einsum in einsums) <= least * (1 + 1e-9)


@pytest.mark.parametrize("uses", [floors.MOST_USES, 1])
def test_floors_before_plans_count_what_the_innermost_memory_does_at_least(uses, monkeypatch):
    monkeypatch.setattr(floors, "MOST_USES", uses)
    # 512 operations; DRAM 3 * 64 values, 10 J each, L1 writes A and B and reads Z once at least: 192 J. Without lanes
    # below it L1 reads A and B and writes Z at each operation, and reads Z again but for the first ones of 64 values
    ((energy, latency),) = levels(1)
    assert energy == 512 + 1920 + 192 + 3 * 512 + 448
    # 4 lanes in all; 192 values at 4 per second
    assert latency == 512 / 4


def test_floors_before_plans_are_there_where_no_more_lanes_may_be_merged(monkeypatch):
    monkeypatch.setattr(floors, "MOST_USES", 1)
    # 16 lanes, of which 4 stand below the innermost memory and cannot be merged; DRAM moves 192 values, 4 a second
    rows = levels(4)
    assert rows[:, 0].min() > 512 + 1920 + 192
    assert rows[:, 1].min() == 192 / 4
