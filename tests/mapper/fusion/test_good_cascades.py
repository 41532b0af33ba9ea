"""Good cascades that are found on the way: no optimum is lost by them, and a search that is stopped gives them."""

import itertools
import math
from dataclasses import dataclass
from types import SimpleNamespace

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.prepared import prepared
from tests.mapper.fusion.test_against_brute_force import compare
from tests.mapper.fusion.test_ending_early import small
from tests.mapper.fusion.test_repeated_structure import layers

import einmap
from einmap.mapper.fusion.fronts.nests.met_loops import MetLoops
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature
from einmap.mapper.fusion.paths.boundary_states import Option
from einmap.mapper.fusion.refinement import lazy_refinement
from einmap.mapper.fusion.refinement.all_at_once import list_all
from einmap.mapper.fusion.refinement.front_listing import FrontListing, TooLarge
from einmap.mapper.fusion.refinement.good_cascades import Turns
from einmap.mapper.fusion.refinement.lazy_refinement import LazyRefinement
from einmap.mapper.fusion.refinement.option_bounds import OptionBounds
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.problem.options import read_options
from einmap.model.fusion import fusion_of


@dataclass
class EverySecond(Turns):
    """A good cascade is looked for behind every second graph."""

    due: bool = False

    def is_due(self, *, last, hurries):
        del last, hurries
        self.due = not self.due
        return self.due


@pytest.fixture
def found(monkeypatch):
    """Objectives of the good cascades, with the limits that they had to be below; they are looked for all the time."""
    pairs, good = [], LazyRefinement.good

    def heard(refinement, relaxed, most):
        answer = good(refinement, relaxed, most)
        if answer is not None:
            pairs.append((float(refinement.cascade.objective.of(answer.reached[-1].costs).min()), most))
        return answer

    monkeypatch.setattr(lazy_refinement, "Turns", EverySecond)
    monkeypatch.setattr(LazyRefinement, "good", heard)
    return pairs


@few_and_many("seeds", (range(30_000, 30_002),), ((30_002, *range(31_000, 31_400)),), parts=4, part="fusion")
def test_optima_are_those_of_brute_force_where_good_cascades_are_tried_all_the_time(seeds, found):
    for seed in seeds:
        compare(seed, wide=seed % 2 == 1)
    assert found
    assert all(value <= most for value, most in found)


def test_where_nothing_is_known_what_keeps_nothing_inside_is_looked_for_up_to_a_limit(monkeypatch):
    asked, complete, good = [], FrontListing.complete, LazyRefinement.good

    def heard(listing, requests):
        asked.extend(remainder for of in requests.values() for each in of.values() for remainder in each.remainder)
        complete(listing, requests)

    def of_nothing(refinement, relaxed, most):
        monkeypatch.setattr(FrontListing, "complete", heard)
        answer = good(refinement, relaxed, most)
        monkeypatch.setattr(FrontListing, "complete", complete)
        answers.append((most, answer))
        return answer

    answers = []
    monkeypatch.setattr(lazy_refinement, "Turns", EverySecond)
    monkeypatch.setattr(LazyRefinement, "good", of_nothing)
    cascade = prepared(layers(3), "energy_delay_product", most_fused=1)
    best = LazyRefinement(cascade, lambda _step, _begin: None, lambda _answer: math.inf).within(math.inf)
    most, answer = answers[0]
    assert (math.isinf(most), answer is not None, best is not None) == (True, True, True)
    assert asked
    assert all(remainder is not None and math.isfinite(remainder.most) for remainder in asked)


def test_a_few_of_all_loops_are_tried_once_the_bound_hardly_rises(monkeypatch):
    bounds, tried, bound = [], [], LazyRefinement.bound

    def heard(refinement):
        relaxed = bound(refinement)
        bounds.append(relaxed.value(relaxed.paths.least))
        return relaxed

    def value(bound):
        assert bound == bounds[-1]
        tried.extend(bounds)
        return math.inf

    monkeypatch.setattr(LazyRefinement, "bound", heard)
    cascade = prepared(layers(3), "energy_delay_product", most_fused=2)
    sample = SimpleNamespace(is_late=False, value=value)
    best = einmap.map_workload(layers(3), fuse=False).cost.edp
    monkeypatch.setattr(lazy_refinement, "SAMPLED", 0.0)
    monkeypatch.setattr(lazy_refinement, "SAMPLED_FIRST", 0.0)
    assert LazyRefinement(cascade, lambda _step, _begin: None, lambda _answer: best).within(best, sample)
    *rising, last, still = tried
    assert still <= last * (1 + lazy_refinement.RISES)
    assert all(y > x * (1 + lazy_refinement.RISES) for x, y in itertools.pairwise([*rising, last]))


def test_a_search_that_is_stopped_gives_the_best_cascade_that_it_found(found, monkeypatch):
    spec, token, good = layers(3), einmap.Progress(), LazyRefinement.good

    def stopping(refinement, relaxed, most):
        answer = good(refinement, relaxed, most)
        if len(found) == 2:
            token.stop()
        return answer

    monkeypatch.setattr(LazyRefinement, "good", stopping)
    result = einmap.map_workload(spec, metrics="energy_delay_product", progress=token)
    assert not result.optimal
    assert result.cost.edp == pytest.approx(found[-1][0])
    assert fusion_of(result.mapping, result.spec).fused
    assert result.cost == einmap.evaluate(result.spec, result.mapping, strict=True)
    assert result.lower_bound <= result.cost.edp < einmap.map_workload(spec, fuse=False).cost.edp


@pytest.mark.parametrize(
    ("value", "hurries", "enough"), [(1.01, False, True), (1.04, False, False), (1.04, True, True), (1.06, True, False)]
)
def test_where_time_presses_a_cascade_is_good_enough_that_is_a_little_further_from_the_bound(value, hurries, enough):
    cascade = prepared(layers(2), "energy_delay_product", most_fused=1)
    assert not Turns().suffices(cascade, value, 1.0)  # it is to be proven
    cascade.proving = False
    if hurries:
        cascade.hurry.stop()
    assert Turns().suffices(cascade, value, 1.0) == enough


def test_where_time_presses_a_good_cascade_is_looked_for_at_once_and_without_one_nothing_more():
    cascade, turns = prepared(layers(2), "energy_delay_product", most_fused=1), Turns(now=10, next=30)
    cascade.proving = False
    cascade.hurry.stop()
    assert not turns.suffices(cascade, math.inf, 1.0)
    assert turns.is_due(last=False, hurries=True)
    assert not turns.is_due(last=False, hurries=True)
    assert turns.suffices(cascade, math.inf, 1.0)


def test_the_bound_of_few_loops_is_one_of_all_until_something_is_listed():
    best = einmap.map_workload(small(), share_inputs=False).cost.edp
    search = FusedSearch(small(), read_options(small(), metrics="energy_delay_product", workers=1))
    search.prepare(einmap.Progress())
    search.proving = False
    search.begin_again(1)
    refinement = LazyRefinement(search, search.passed, search.found)
    refinement.within(math.inf)
    assert 0 < refinement.bound_of_all < 0.8 * best
    assert refinement.known_bound == pytest.approx(best)


def test_what_was_found_with_a_few_tile_shapes_is_made_better_with_tensors_where_they_are():
    spec = einmap.load("simple", "feed_forward", define={"N_TOKENS": 64, "D_MODEL": 8, "D_FF": 8})
    spec = spec.set("arch.nodes[1].size", 800)  # weights of both Einsums do not fit: large tiles read them less often
    search = FusedSearch(spec, read_options(spec, metrics="energy", workers=1))
    search.prepare(einmap.Progress())
    search.proving = False
    search.begin_again(1, 64)
    inside = {
        member.chains: {c for c in member.chains.signature_classes if "Main" not in c[0][1]}
        for member in search.members
    }
    search.only = inside
    search.within(math.inf)
    before = search.value
    search.with_other_sizes()
    assert search.value < before
    assert all(member.chains.listed.keys() == search.classes[member.chains] for member in search.members)
    assert (search.only, search.classes, search.known_bound) == (None, inside, 0.0)
    found = einmap.evaluate(spec, search.best_so_far[0], strict=True).energy
    assert found == pytest.approx(search.value)


def test_a_signature_class_too_large_for_far_is_listed_further_than_the_next_step():
    cascade = prepared(layers(2), "energy_delay_product")
    chains = cascade.members[0].chains
    signature_class = next(iter(chains.signature_classes))
    option = Option(FusionSignature((), (), (), ()), {}, {}, {}, {}, signature_class=signature_class)
    listing = FrontListing(cascade, OptionBounds(cascade), lambda _step, _begin: None)
    assert listing.between(chains, option, 1.0, 1.01) == 1.01
    listing.too_large[chains, signature_class] = TooLarge(1.16, MetLoops(), np.zeros((0, 4)))
    assert listing.between(chains, option, 1.0, 1.01) == pytest.approx(1.04)
    listing.too_large[chains, signature_class] = TooLarge(1.02, MetLoops(), np.zeros((0, 4)))
    assert listing.between(chains, option, 1.0, 1.01) == 1.01


def test_once_all_nests_are_listed_no_option_stands_for_others():
    own = prepared(layers(1), most_fused=1)
    refinement = LazyRefinement(own, lambda *_: None, lambda _: math.inf)
    limit = 2 * own.least_value()
    list_all(refinement, limit)
    relaxed = refinement.bound()
    assert relaxed is not None
    assert refinement.turns.at_once
    assert not refinement.turns.suffices(own, math.inf, 0.0)
    near = [relaxed.options(k)[o] for k in relaxed.places for o in relaxed.near(k, limit)]
    assert near
    assert not any(option.unexpanded for option in near)
