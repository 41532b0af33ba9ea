"""Limits next to the bound, as if a cascade were known that costs no more: they change nothing but how soon it ends."""

import random

import pytest
from tests.amounts import few_and_many
from tests.random_specs.fused import draw_problem
from tests.random_specs.wide import draw_wide

import einmap
from einmap.mapper.fusion.refinement import supposition
from einmap.mapper.fusion.refinement.good_cascades import Turns
from einmap.mapper.fusion.refinement.supposition import MOST_OF, Suppositions
from einmap.mapper.fusion.search import FusedSearch

GOALS = ("energy", "latency", "energy_delay_product")


@pytest.fixture
def ends(monkeypatch):
    """How many limits had a cascade, none, were left near the end, or took too long; they are tried wherever they may be."""
    ends = {"found": 0, "none": 0, "left": 0, "too long": 0}
    tried = Suppositions.tried_once

    def counted(self, refinement, reached):
        before = refinement.known_bound
        limit = self.limit(before, reached)
        answer, value, refuted = tried(self, refinement, reached)
        assert value <= reached
        bound = refinement.known_bound
        assert not (answer and refuted)
        if refuted:
            assert bound >= before + MOST_OF * (limit - before) * (1 - 1e-9)
        else:
            assert answer or bound < limit
        ends["found" if answer else "none" if bound == limit else "left" if refuted else "too long"] += 1
        return answer, value, refuted

    monkeypatch.setattr(Suppositions, "tried_once", counted)
    return ends


def best_of(problem, goal):
    """Whether the best is proven, its energy times its latency, and its bound; None where nothing fits."""
    try:
        best = einmap.map_workload(
            problem.spec,
            metrics=goal,
            semantics=problem.semantics,
            max_fused_loops=problem.max_fused_loops,
            max_fused_loops_per_rank_variable=problem.per_variable,
        )
    except einmap.NoMappingError:
        return None
    return (
        best.optimal,
        best.lower_bound,
        {"energy": best.cost.energy, "latency": best.cost.latency}.get(goal, best.cost.edp),
    )


@few_and_many("seeds", (range(6),), ((*range(6, 12), *range(1_000, 1_600)),), parts=8, part="fusion")
def test_limits_next_to_the_bound_lose_no_optimum(seeds, ends, monkeypatch):
    for seed in seeds:
        rng = random.Random(seed)
        problem, goal = draw_wide(rng)[0] if seed % 2 else draw_problem(rng, small=True), rng.choice(GOALS)
        expected, factor = best_of(problem, goal), rng.choice((1.01, 1.1, 2.0))
        if expected is None:
            continue

        def nothing(search, most=expected[2] * factor):
            # a limit is known, and no mapping: the search of all loops has to find one
            search.begin_again(search.options.most_fused)
            search.value = min(search.value, most * (1 + 1e-9))
            return []

        with monkeypatch.context() as patched:
            patched.setattr(supposition, "PATIENCE", 0)
            patched.setattr(Turns, "tried", True)
            patched.setattr(supposition._Limited, "left", rng.choice((1, 3, 40)))
            patched.setattr(FusedSearch, "with_few_loops", nothing)
            found = best_of(problem, goal)
        assert found == pytest.approx(expected, rel=1e-8), seed
    assert all(ends.values()), ends
