"""Options that are refined by one graph, as many as it takes: that changes nothing but how many graphs there are."""

import random

import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.test_supposition import GOALS, best_of
from tests.random_specs.fused import draw_problem
from tests.random_specs.wide import draw_wide

from einmap.mapper.fusion.refinement import lazy_refinement, same_graph


@few_and_many("seeds", (range(8),), ((*range(8, 14), *range(2_000, 2_600)),), parts=8, part="fusion")
def test_one_graph_for_many_options_loses_no_optimum(seeds, monkeypatch):
    again = 0
    refine = lazy_refinement.LazyRefinement.refine

    def counted(self, relaxed, unknown):
        nonlocal again
        again += bool(relaxed.asked)
        refine(self, relaxed, unknown)

    monkeypatch.setattr(lazy_refinement.LazyRefinement, "refine", counted)
    for seed in seeds:
        rng = random.Random(seed)
        problem, goal = draw_wide(rng)[0] if seed % 2 else draw_problem(rng, small=True), rng.choice(GOALS)
        with monkeypatch.context() as patched:
            patched.setattr(same_graph, "BESIDE", 0.0)
            expected = best_of(problem, goal)
        if expected is None:
            continue
        with monkeypatch.context() as patched:
            patched.setattr(same_graph, "BESIDE", 100.0)
            patched.setattr(same_graph, "OF_GRAPH", rng.choice((1, 100)))
            assert best_of(problem, goal) == pytest.approx(expected, rel=1e-8), seed
    assert again
