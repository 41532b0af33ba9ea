"""Einsums where the bound has to rise come first: those that cost more in the best known than on the cheapest path."""

import random

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.test_against_brute_force import compare
from tests.mapper.fusion.test_repeated_structure import ARCH, layers

import einmap
from einmap.mapper.fusion.refinement import lazy_refinement
from einmap.mapper.fusion.refinement.contested import contested
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
