"""Good cascades that are found on the way: no optimum is lost by them, and a search that is stopped gives them."""

import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.test_against_brute_force import compare
from tests.mapper.fusion.test_repeated_structure import layers

import einmap
from einmap.mapper.fusion.refinement import lazy_refinement
from einmap.mapper.fusion.refinement.lazy_refinement import LazyRefinement
from einmap.model.fusion import fusion_of


class EverySecond:
    """A good cascade is looked for behind every second graph."""

    def __init__(self) -> None:
        self.due = False

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


@few_and_many("seeds", (range(30_000, 30_012),), (range(31_000, 31_400),), parts=4, part="fusion")
def test_optima_are_those_of_brute_force_where_good_cascades_are_tried_all_the_time(seeds, found):
    for seed in seeds:
        compare(seed, wide=seed % 2 == 1)
    assert found
    assert all(value <= most for value, most in found)


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
