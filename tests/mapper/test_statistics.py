"""What a search says about itself: the mapspace adds up, and a stop leaves the rest."""

import math

import pytest
from tests.mapper.specs import MAIN, MATMUL, SPECS, compute, memory, spec

import einmap
from einmap.mapper.mapspace.mapspace import mapspace_of
from einmap.mapper.templates.statistics import NOT_COVERED, OUTCOMES, SubspaceTally
from einmap.progress import Progress


def mapped(given, **options):
    return einmap.map_workload(given, **options).stats


def row(stats):
    (found,) = stats.by_einsum.values()
    return found


def edge(M=24, K=12, N=8):
    return einmap.load("edge", "matmul", define={"M": M, "K": K, "N": N})


@pytest.mark.parametrize("semantics", ["exact", "accelforge"])
@pytest.mark.parametrize("name", SPECS)
def test_ruled_out_and_searched_parts_add_up_to_the_mapspace(name, semantics):
    stats = mapped(SPECS[name](), semantics=semantics)
    outcomes = row(stats)["outcomes"]
    assert set(outcomes) == {*OUTCOMES, NOT_COVERED}
    total = math.fsum(part["mappings"] for part in outcomes.values())
    assert total == pytest.approx(stats.mapspace_size, rel=1e-12)
    assert outcomes[NOT_COVERED] == {"subspaces": 0, "mappings": 0}


def test_the_mapspace_of_a_matmul_in_one_buffer_is_counted_by_hand():
    # orders of 0 to 3 held tensors: 1 + 3 + 6 + 6; in g gaps a variable of size 2 has g places
    given = spec([MAIN, memory("Buf", 120, 1), compute()], MATMUL, {"M": 2, "K": 2, "N": 2})
    assert mapped(given).mapspace_size == 1 * 1 + 3 * 2**3 + 6 * 3**3 + 6 * 4**3


@pytest.mark.parametrize("name", ["two levels", "toll"])
def test_the_size_is_that_of_the_mapspace_that_brute_force_covers(name):

    given = SPECS[name]()
    (einsum,) = given.workload.einsums
    space = mapspace_of(einsum, given.arch(), backed_outside=einsum.tensors, first_partial_matters=False)
    assert mapped(given).mapspace_size == space.size


def test_uses_of_the_fanouts_that_share_less_with_the_same_lanes_are_not_counted():
    given = SPECS["power gating"]()
    (einsum,) = given.workload.einsums
    space = mapspace_of(einsum, given.arch(), backed_outside=einsum.tensors, first_partial_matters=False)
    assert (mapped(given).mapspace_size, space.size) == (10_536, 11_904)


def test_loops_are_counted_with_and_without_the_prunings():
    # A alone in the buffer: M, N, K may each loop above it and below it. Above, N goes below (A has no N);
    # below, M and K go above (A has both)
    given = spec([MAIN, memory("Buf", 9, 1, {"keep": "A"}), compute()], MATMUL, {"M": 2, "K": 2, "N": 2})
    found = row(mapped(given))
    assert (found["templates"], found["loops"], found["loops_removed"]) == (1, 6, 3)


def test_a_search_that_is_stopped_says_what_it_has_left():
    stats = mapped(edge(96, 64, 64), max_evaluations=400)
    found = row(stats)
    assert not found["complete"]
    assert found["outcomes"][NOT_COVERED]["subspaces"] > 0
    assert 0 < found["outcomes"][NOT_COVERED]["mappings"] <= stats.mapspace_size


def test_steps_take_no_longer_than_the_whole():
    stats = mapped(edge())
    assert set(stats.steps) == {"planning", "bounds", "tables", "search", "evaluation"}
    assert all(seconds > 0 for seconds in stats.steps.values())
    # planning comes before the clock of the search starts for nobody: all steps lie within it
    assert sum(stats.steps.values()) <= stats.seconds


def test_progress_says_how_much_is_covered_and_how_far_the_best_may_be_off():
    reports = []
    einmap.map_workload(edge(96, 64, 64), semantics="accelforge", progress=Progress(reports.append))
    searched = [report for report in reports if report.what.startswith("Z:")]
    assert searched
    assert "of 10^" in searched[-1].what
    assert "mappings covered" in searched[-1].what
    assert searched[-1].best is not None
    assert searched[-1].best.startswith("energy delay product ")
    assert "J*s, gap at most 0.0" in searched[-1].best
    done = [report.done for report in searched]
    assert done == sorted(done)
    assert all(report.total == searched[0].total for report in searched)
    assert done[-1] <= searched[0].total


def test_brute_force_has_no_tally():
    stats = mapped(SPECS["two levels"](), brute_force=True)
    assert "outcomes" not in row(stats)
    assert set(stats.steps) == {"evaluation"}


def test_a_tally_in_words():
    tally = SubspaceTally(mapspace=1e6, subspaces=10)
    tally.add("searched", 1, 90.0)
    tally.add("lane bounds", 2, 1e5)
    assert tally.shown() == "10^5.0 of 10^6.0 mappings covered, 10^5.0 of them ruled out"
    assert tally.outcomes()[NOT_COVERED] == {"subspaces": 7, "mappings": pytest.approx(1e6 - 1e5 - 90)}


def test_plans_that_share_tables_share_the_rates_of_their_nodes():
    # L2 may be passed by: the tables below L1 are the same with and without it
    nodes = [MAIN, memory("L2", 400, 4), memory("L1", 120, 2, {"keep": "All"}), memory("Reg", 40, 1, {"keep": "All"})]
    given = spec([*nodes, compute()], MATMUL, {"M": 4, "K": 4, "N": 2})
    result = einmap.map_workload(given)
    assert result.optimal
    assert result.cost.edp == pytest.approx(einmap.evaluate(given, result.mapping).edp)
