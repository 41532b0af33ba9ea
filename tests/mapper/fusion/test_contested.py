"""Einsums where the bound has to rise come first: those that cost more in the best known than on the cheapest path."""

import random

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.test_against_brute_force import compare
from tests.mapper.fusion.test_repeated_structure import ARCH, layers

import einmap
from einmap.mapper.fusion.refinement import lazy_refinement
from einmap.mapper.fusion.refinement.contested import AT_STAKE, contested, most_at_stake
from einmap.mapper.fusion.refinement.lazy_refinement import LazyRefinement
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.problem.options import read_options
from einmap.progress import Progress


def relaxed_of(spec):
    search = FusedSearch(spec, read_options(spec, metrics="energy"))
    search.prepare(Progress())
    return search, LazyRefinement(search, search.passed, search.found).bound()


def chain():
    """Three products, one behind the other, that differ in size: none of them is alike."""
    einsums = ["X[m, a] = I[m, k] * A[k, a]", "Y[m, b] = X[m, a] * B[a, b]", "Z[m, c] = Y[m, b] * C[b, c]"]
    sizes = {"M": 4, "K": 2, "A": 4, "B": 8, "C": 2}
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": einsums}
    return einmap.Spec.from_dict(arch=ARCH, workload=workload)


@pytest.mark.parametrize("dear", [0, 1, 2])
def test_the_einsum_that_costs_more_than_the_bound_says_comes_first(dear):
    search, relaxed = relaxed_of(chain())
    least = np.array([[search.least[member.chains][0]] for member in search.members])
    costs = least + np.where(np.arange(3) == dear, least.sum(), 0.0)[:, None]
    assert contested(relaxed, costs) == {search.members[dear].chains}


def test_nothing_comes_first_where_nothing_is_known_or_the_best_costs_what_the_bound_says():
    search, relaxed = relaxed_of(chain())
    least = np.array([[search.least[member.chains][0]] for member in search.members])
    assert contested(relaxed, None) == contested(relaxed, least) == set()


def test_neighbours_with_the_most_at_stake_come_first_and_those_that_were_tried_no_more():
    weights, least = np.array([[1.0]]), np.full((5, 1), 1.0)
    costs = np.array([[1.0], [2.0], [1.0], [1.0], [1.5]])
    assert most_at_stake(weights, costs, least, 2, ()) == 0
    assert most_at_stake(weights, costs, least, 2, {0}) == 1
    assert most_at_stake(weights, costs, least, 2, {0, 1}) == 3
    assert most_at_stake(weights, costs, least, 2, {0, 1, 3}) is None
    assert most_at_stake(weights, costs, least, 9, ()) == 0
    little = np.array([[1.0 + 4.9 * AT_STAKE], [1.0], [1.0], [1.0], [1.0]])
    assert most_at_stake(weights, little, least, 2, ()) is None


def test_neighbours_are_mapped_anew_while_others_keep_their_tensors_where_they_are(monkeypatch):
    monkeypatch.setattr("einmap.mapper.fusion.search.NEARER", 1)
    spec = einmap.load("simple", "feed_forward", define={"N_TOKENS": 64, "D_MODEL": 8, "D_FF": 8})
    spec = spec.set("arch.nodes[1].size", 800)
    best = einmap.map_workload(spec, metrics="energy").cost.energy
    search = FusedSearch(spec, read_options(spec, metrics="energy"))
    search.prepare(Progress())
    search.proving = False
    search.begin_again(1, 64, 1)
    search.within(np.inf)
    assert search.value > best * 1.01
    search.with_neighbours_anew()
    assert search.value == pytest.approx(best)
    assert search.only is None
    assert search.known_bound <= best
    assert einmap.evaluate(spec, search.best_so_far[0], strict=True).energy == pytest.approx(search.value)


def test_what_einsums_cost_in_the_best_cascade_is_what_it_costs_as_a_whole():
    spec = layers(3)
    search = FusedSearch(spec, read_options(spec, metrics="energy_delay_product"))
    (mapping,) = search.run(Progress())
    cost = einmap.evaluate(spec, mapping)
    assert search.costs.sum(axis=0) == pytest.approx([cost.energy, cost.latency])
    seconds = [cost.latency_by_einsum[member.einsum.name] for member in search.members]
    assert search.costs[:, 1] == pytest.approx(seconds)


@few_and_many("seeds", (range(40_000, 40_002),), (range(41_000, 41_400),), parts=4, part="fusion")
def test_optima_are_those_of_brute_force_where_any_einsum_may_come_first(seeds, monkeypatch):
    rng = random.Random(0)
    monkeypatch.setattr(lazy_refinement, "contested", lambda relaxed, _: {rng.choice(relaxed.cascade.members).chains})
    for seed in seeds:
        compare(seed, wide=seed % 2 == 1)
