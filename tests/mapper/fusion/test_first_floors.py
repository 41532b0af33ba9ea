"""A tie is broken among the options that the search before has left near the best: the same mapping, found by less."""

import random

import pytest
from tests.random_specs.fused import draw_problem

import einmap
from einmap.mapper.fusion.refinement.option_floors import OptionFloors
from einmap.mapper.fusion.search import FusedSearch


def broken(problem, metric, monkeypatch):
    """Energy and latency with the tie broken, and how many outer nests the search for it listed."""
    searches = []

    def run(search, *budget):
        searches.append(search)
        return whole(search, *budget)

    whole = FusedSearch.run
    with monkeypatch.context() as patched:
        patched.setattr(FusedSearch, "run", run)
        options = {"semantics": problem.semantics, "share_inputs": False, "workers": 1}
        result = einmap.map_workload(problem.spec, metrics=metric, **options)
    assert result.ties_broken
    return (result.cost.energy, result.cost.latency), searches[-1].meter.listed


@pytest.mark.parametrize(("metric", "seeds"), [("energy", (0, 1)), ("latency", (0, 3, 6, 7))])
def test_floors_of_the_first_search_leave_the_tie_as_it_is_and_less_to_look_at(monkeypatch, metric, seeds):
    problems = [draw_problem(random.Random(seed), small=True) for seed in seeds]
    by_floors = [broken(problem, metric, monkeypatch) for problem in problems]
    monkeypatch.setattr(OptionFloors, "of_first", lambda self, limit: None)
    without = [broken(problem, metric, monkeypatch) for problem in problems]
    for (ours, _), (theirs, _) in zip(by_floors, without, strict=True):
        assert ours == pytest.approx(theirs, rel=1e-8, abs=1e-30)
    assert any(n < m for (_, n), (_, m) in zip(by_floors, without, strict=True))
