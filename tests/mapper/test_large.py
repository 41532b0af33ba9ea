"""Large lattices: tables with few rows find what plain enumerations find; arrays of three and four dimensions."""

import random

import pytest
from tests.mapper.problems import draw_array, draw_problem, spec_of
from tests.mapper.test_optimal import ADDITIVE, covers, front

import einmap
from einmap.mapper import search_path
from einmap.mapper.archive import Archive
from einmap.mapper.einsum_search import TIE
from einmap.mapper.sparse_search import SparseSearch
from einmap.mapper.sparse_tables import Limit


class Known:
    """The optima that are known before a search begins, a little worse; in how many searches they left rows out."""

    def __init__(self):
        self.rows, self.used = [], 0


@pytest.fixture
def few_rows(monkeypatch):
    """Every lattice is large, and tables have only rows that lead to something better than what is known."""
    known = Known()
    take = SparseSearch.take

    def taking(search, plans, room, of_first=0.0):
        archive = Archive(len(search.goal_codes))
        archive.n = len(known.rows)
        for row, values in enumerate(known.rows):
            archive.values[row] = values
        search.limit = Limit(archive, TIE, search.others)
        taken = take(search, plans, room, of_first)
        known.used += search.tables.limit is not None
        return taken

    monkeypatch.setattr(search_path, "LARGE", 0)
    monkeypatch.setattr(SparseSearch, "take", taking)
    return known


def compared(problem, rng, most, known):
    """Compare the search with brute force; False when that takes too long."""
    semantics = rng.choice(["exact", "accelforge"])
    goals = rng.choice([[rng.choice(ADDITIVE)], ["energy_delay_product"], ["energy", "latency"]])
    given = spec_of(problem)
    theirs, result = front(given, goals, semantics=semantics, brute_force=True, max_evaluations=most)
    if result is None or not result.optimal:
        return False
    if known is not None:
        known.rows = [[value * (1 + 1e-7) + 1e-12 for value in values] for values in theirs]
    ours, result = front(given, goals, semantics=semantics)
    assert covers(ours, theirs), (goals, semantics, ours, theirs)
    assert covers(theirs, ours), (goals, semantics, ours, theirs)
    assert result is not None
    assert result.optimal
    return all(part["brute_force"] is None for part in result.stats.by_einsum.values())


def drawn(draw, seed, most, known=None):
    rng = random.Random(seed)
    problem = draw(rng)
    try:
        return compared(problem, rng, most, known)
    except einmap.SpecError:
        return False


def test_tables_with_few_rows_lose_nothing(few_rows):
    assert sum(drawn(draw_problem, seed, 1_500, few_rows) for seed in range(20_000, 20_012)) >= 4
    assert sum(drawn(draw_array, seed, 1_500, few_rows) for seed in range(20_100, 20_110)) >= 2
    assert few_rows.used >= 6


def test_arrays_of_three_and_four_dimensions():
    assert sum(drawn(draw_array, seed, 1_500) for seed in range(20_200, 20_208)) >= 1


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(4))
def test_tables_with_few_rows_lose_nothing_on_many_problems(few_rows, part):
    assert (
        sum(drawn(draw_problem, seed, 20_000, few_rows) for seed in range(21_000 + 100 * part, 21_100 + 100 * part))
        >= 30
    )
    assert (
        sum(drawn(draw_array, seed, 20_000, few_rows) for seed in range(22_000 + 100 * part, 22_100 + 100 * part)) >= 15
    )
    assert few_rows.used >= 40


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(4))
def test_arrays_of_three_and_four_dimensions_on_many_problems(part):
    assert sum(drawn(draw_array, seed, 20_000) for seed in range(23_000 + 100 * part, 23_100 + 100 * part)) >= 15
