"""Of many uses of the fanouts those that promise most are searched first, and nothing good is ruled out."""

import random
from dataclasses import replace

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.mapper.test_features import BOTH, EXACT, GOALS, TIMES, compared
from tests.mapper.test_tables import wide
from tests.random_specs import features, networks
from tests.random_specs.nodes import spec_of
from tests.random_specs.problems import draw_problem

import einmap
from einmap.mapper.branch_and_bound import einsum_search
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.cost_bounds import relaxed_bounds
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.cost_bounds.relaxed_bounds import Bounds, bounds_of_uses
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.mapspace.lanes import fanout_table
from einmap.mapper.mapspace.lanes.lane_dominance import row_numbers
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.request import Request
from einmap.mapper.problem.searchable import why_not_searchable
from einmap.mapper.templates import groups
from einmap.model.counting.semantics import EXACT as EXACT_RULES
from einmap.progress import Progress

ARRAY = """
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    leak_power: 0
    tensors: {keep: All}
    actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]
  - !Container
    name: Array
    spatial: [{name: row, fanout: 4, may_reuse: A}, {name: column, fanout: 4, may_reuse: B}]
  - !Memory
    name: Register
    size: inf
    leak_power: 0
    actions: [{name: read, energy: 1, throughput: 1}, {name: write, energy: 1, throughput: 1}]
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  rank_sizes: {M: 4, K: 4, N: 4}
  bits_per_value: {All: 8}
  einsums: ["Z[m, n] = A[m, k] * B[k, n]"]
"""


@pytest.fixture
def three_are_many(monkeypatch):
    """Three uses of the fanouts are many, and are looked at two at a time."""
    monkeypatch.setattr(einsum_search, "FEW_USES", 2)
    monkeypatch.setattr(einsum_search, "FIRST_USES", 1)
    monkeypatch.setattr(groups, "FEW_USES", 2)
    monkeypatch.setattr(relaxed_bounds, "AT_ONCE", 2)


@pytest.mark.usefixtures("three_are_many")
@few_and_many("seeds, most, least", (range(8000, 8004), 2_000, 1), (range(8000, 8120), 10_000, 10), parts=3)
def test_the_optimum_is_that_of_brute_force(seeds, most, least):
    assert sum(compared(seed, most, draw_problem, BOTH, GOALS) for seed in seeds) >= least


@pytest.mark.usefixtures("three_are_many")
@pytest.mark.parametrize("draw", [features.draw_skewed, networks.draw, networks.draw_round])
def test_so_it_is_with_skew_and_networks(draw):
    assert sum(compared(seed, 1_500, draw, EXACT, TIMES) for seed in range(3000, 3006)) >= 1


@pytest.mark.usefixtures("three_are_many")
def test_fronts_are_complete():
    assert sum(wide(seed, 3_000) for seed in range(11_000, 11_005)) >= 1


def layouts(rng):
    problem = draw_problem(rng)
    features.layouts(rng, problem, inside=True)
    return problem


@pytest.mark.parametrize("draw", [draw_problem, features.draw_skewed, networks.draw, layouts])
@few_and_many("seeds, enough", (range(15), 1), (range(40), 6))
def test_bounds_of_uses_are_no_higher_than_those_with_each_dataplacement(seeds, enough, draw):
    met = 0
    for seed in seeds:
        rng = random.Random(seed)
        spec, goal = spec_of(draw(rng)), rng.choice(("energy", "latency", "energy_delay_product"))
        search = IndependentSearch(spec, read_options(spec, metrics=goal))
        einsum = spec.workload.einsums[0]
        arch = spec.bound[einsum.name].arch
        if why_not_searchable(einsum, arch, (goal,)) is not None:
            continue
        request = replace(search.request(einsum.name), goals=(goal,))
        for path in EinsumSearch.over_all(einsum, arch, request, Progress()).paths:
            for group in path.groups() if path.costs_nothing_less else ():
                least, order = bounds_of_uses(path, group.plans, group.lanes, Progress())
                each = Bounds(path, group.plans, group.lanes, Progress(), needed=True).of_lanes
                assert (least <= each * (1 + 1e-9)).all()
                assert sorted(order) == list(range(len(group.lanes)))
                met += bool((least > 0).all() and len(least) > 1)
    assert met >= enough


def test_numbers_of_rows_are_in_the_order_of_the_rows():
    rng = np.random.default_rng(1)
    for most in (2, 9, 2**20):
        rows = rng.integers(0, most, (50, 6)).repeat(2, axis=0)
        numbers = np.unique(row_numbers([rows[:, :2], rows[:, 2:].reshape(100, 2, 2)]), return_inverse=True)[1]
        assert numbers.tolist() == np.unique(rows, axis=0, return_inverse=True)[1].ravel().tolist()


def test_of_too_many_uses_the_fullest_are_listed(monkeypatch):
    spec = einmap.loads(ARRAY)
    einsum = spec.workload.einsums[0]
    path = Path(einsum, spec.arch(einsum.name), spec.arch(einsum.name).path("MAC"), Request(("energy",), EXACT_RULES))
    every = path.lanes
    monkeypatch.setattr(fanout_table, "FEWEST_HELD", 1)
    monkeypatch.setattr(fanout_table, "AT_ONCE", 60)
    most = len(every) // 4
    some = fanout_table.lane_table(einsum, path.leaves, path.lattice, most=most)
    rows = {use.tobytes() for use in every.bounds}
    assert every.complete
    assert not some.complete
    assert len(some) <= most
    assert {use.tobytes() for use in some.bounds} <= rows
    assert some.bounds[0].prod() == every.bounds[0].prod() == 16
    assert some.bounds.prod(axis=(1, 2)).min() == 1
