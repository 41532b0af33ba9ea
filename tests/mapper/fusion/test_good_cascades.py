"""Good cascades that are found on the way: no optimum is lost by them, and a search that is stopped gives them."""

import itertools
import math
from dataclasses import dataclass

import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.prepared import prepared
from tests.mapper.fusion.test_against_brute_force import compare
from tests.mapper.fusion.test_repeated_structure import layers

import einmap
from einmap.mapper.fusion.refinement import lazy_refinement
from einmap.mapper.fusion.refinement.front_listing import FrontListing
from einmap.mapper.fusion.refinement.lazy_refinement import LazyRefinement
from einmap.model.fusion import fusion_of


@dataclass
class EverySecond:
    """A good cascade is looked for behind every second graph."""

    due: bool = False

    def is_due(self, *, last):
        del last
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


@few_and_many("seeds", (range(30_000, 30_006),), (range(31_000, 31_400),), parts=4, part="fusion")
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

    def sample():
        tried.extend(bounds)
        return math.inf

    monkeypatch.setattr(LazyRefinement, "bound", heard)
    cascade = prepared(layers(3), "energy_delay_product", most_fused=2)
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
