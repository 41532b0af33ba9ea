"""A fused search that is stopped: a valid mapping, in time, not proven, and a bound that nothing is below."""

import time

import numpy as np
import pytest
from tests.mapper.clocks import counted_calls

import einmap
from einmap.mapper.compose import stopped_search
from einmap.mapper.compose.stopped_search import OneByOne
from einmap.mapper.fusion import neighbours
from einmap.mapper.fusion import search as fused_search
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.meter import StoppedError
from einmap.mapper.fusion.refinement.lazy_refinement import LazyRefinement
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.independent import independent_search as independent
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.problem import Budget, Problem
from einmap.model.fusion import fusion_of

SMALL = {"N_TOKENS": 8, "D_MODEL": 4, "D_FF": 8}


def small():
    spec = einmap.load("simple", "feed_forward", define=SMALL)
    return spec.set("arch.nodes[1].size", 300)


def stopper(words):
    """A token that is stopped when a report has these words."""

    def stop(report):
        if words in report.what:
            token.stop()

    token = einmap.Progress(stop)
    return token


@pytest.mark.parametrize("words", ["loops above", "ways to fuse", "best chains of U", "up to U"])
def test_a_search_that_is_stopped_maps_einsum_by_einsum(words):
    best = einmap.map_workload(small())
    result = einmap.map_workload(small(), progress=stopper(words))
    assert not result.optimal
    assert "each Einsum is mapped by itself" in result.reason
    assert not fusion_of(result.mapping, small()).fused
    assert result.cost == einmap.evaluate(small(), result.mapping, strict=True)
    assert 0 < result.lower_bound <= best.cost.edp <= result.cost.edp
    assert result.gap == pytest.approx(result.cost.edp / result.lower_bound - 1)


@pytest.mark.parametrize(
    ("metrics", "seconds"),
    [
        ("energy_delay_product", 0.05),
        ("energy", 0.2),
        pytest.param("energy_delay_product", 0.2, marks=[pytest.mark.slow, pytest.mark.fusion]),
        pytest.param("energy", 0.05, marks=[pytest.mark.slow, pytest.mark.fusion]),
    ],
)
def test_within_a_limit_fused_is_never_worse_than_unfused(seconds, metrics, monkeypatch):
    spec = einmap.load("tpu_v4i", "feed_forward")
    found = {}
    for fuse in (False, True):
        with counted_calls(monkeypatch):
            result = einmap.map_workload(spec, metrics=metrics, fuse=fuse, time_limit_s=seconds, workers=1)
        found[fuse] = result.front[0].cost.energy if metrics == "energy" else result.front[0].cost.edp
    assert found[True] <= found[False]


def test_what_fuses_nothing_is_proven_where_nothing_that_fuses_is_better(monkeypatch):
    # the buffer has no room for an intermediate tensor beside tiles of the others
    spec = small().set("arch.nodes[1].size", 24)
    with counted_calls(monkeypatch):
        limited = einmap.map_workload(spec, time_limit_s=60, workers=1)
    free = einmap.map_workload(spec, workers=1)
    assert (limited.optimal, limited.cost, limited.reason) == (True, free.cost, free.reason)


def test_without_time_there_is_a_mapping_all_the_same():
    result = einmap.map_workload(small(), time_limit_s=0)
    assert not result.optimal
    assert result.lower_bound <= einmap.map_workload(small()).cost.edp


def test_a_front_that_is_stopped_has_one_point():
    result = einmap.map_workload(small(), metrics="energy,latency", progress=stopper("ways to fuse"))
    assert (len(result.front), result.optimal, result.lower_bound) == (1, False, None)


def test_what_was_found_before_a_stop_is_given_unless_nothing_fused_is_better(monkeypatch):
    best, plain = einmap.map_workload(small()), einmap.map_workload(small(), fuse=False)
    for given, expected in ((best, best), (plain, plain)):
        monkeypatch.setattr(
            FusedSearch, "within", lambda *asked, given=given, **how: _cut(given.mapping, *asked, **how)
        )
        result = einmap.map_workload(small())
        # the bound is that of the whole search, and proves what reaches it
        assert result.optimal == (given is best)
        assert result.cost.edp == pytest.approx(expected.cost.edp, rel=0.01)
        assert result.lower_bound <= best.cost.edp * (1 + 1e-9)


WITHIN = FusedSearch.within


def _cut(mapping, search, most, **how):
    WITHIN(search, most, **how)
    search.meter.cut = True
    return [mapping]


@pytest.mark.parametrize(("arch", "metric"), [("simple", "edp"), ("edge", "energy"), ("nvdla", "latency")])
def test_the_bound_of_a_search_that_was_stopped_is_below_the_best_fused_mapping(arch, metric):
    spec = einmap.load(arch, "feed_forward", define=SMALL)
    best = einmap.map_workload(spec, metrics=metric)
    stopped = einmap.map_workload(spec, metrics=metric, progress=stopper("loops above"))
    assert 0 < stopped.lower_bound <= best.lower_bound * (1 + 1e-9)


def test_the_time_limit_holds_where_a_search_takes_longer(monkeypatch):
    spec = einmap.load("tpu_v4i", "gpt3_175b")
    with counted_calls(monkeypatch):
        start = time.monotonic()
        result = einmap.map_workload(spec, time_limit_s=0.25, workers=1)
        assert time.monotonic() - start < 1.5
    assert not result.optimal
    assert result.gap is None or result.gap > 0
    einmap.evaluate(spec, result.mapping, strict=True)


@pytest.mark.parametrize("limits", [{}, {"max_evaluations": 1_000_000}])
def test_a_front_that_is_stopped_is_not_beaten_by_a_search_for_one_metric(monkeypatch, limits):
    best = [einmap.map_workload(small(), metrics=goal) for goal in ("energy", "latency")]
    whole = einmap.map_workload(small(), metrics="energy,latency")
    monkeypatch.setattr(LazyRefinement, "everything", stop_it)
    front = einmap.map_workload(small(), metrics="energy,latency", **limits)
    assert not front.optimal
    assert "a search for one of the metrics alone may find better" in front.reason
    for result in (whole, front):
        assert min(found.cost.energy for found in result.front) == pytest.approx(best[0].cost.energy)
        assert min(found.cost.latency for found in result.front) == pytest.approx(best[1].cost.latency)


def test_a_front_looks_at_no_more_choices_than_it_may():
    result = einmap.map_workload(small(), metrics="energy,latency", max_evaluations=200)
    assert not result.optimal
    assert 0 < result.stats.evaluated <= 200


@pytest.mark.parametrize("metric", ["edp", "energy"])
def test_a_fused_search_that_leaves_no_time_is_not_worse_than_the_einsums_one_by_one(monkeypatch, metric):
    def endless(search, most):
        search.meter.cut = True
        search.meter.progress.stop()
        raise StoppedError

    plain = einmap.map_workload(small(), metrics=metric, fuse=False)
    monkeypatch.setattr(stopped_search, "AT_LEAST", 0.0)
    monkeypatch.setattr(independent, "GRACE", 0.0)
    monkeypatch.setattr(FusedSearch, "within", endless)
    result = einmap.map_workload(small(), metrics=metric, time_limit_s=20)
    assert not result.optimal
    value = {"edp": lambda cost: cost.edp, "energy": lambda cost: cost.energy}[metric]
    assert value(result.cost) <= value(plain.cost) * 1.01


@pytest.mark.parametrize(("soon", "is_searched"), [((0.0, 1.0), False), ((0.0, 0.0), True), ((1e30, 1.0), True)])
def test_einsums_one_by_one_are_searched_unless_something_fused_is_as_good_as_they_can_be(
    monkeypatch, soon, is_searched
):
    best, runs, run = einmap.map_workload(small()), [], independent.IndependentSearch.run

    def counted(search, *args, **kwargs):
        runs.append(search)
        return run(search, *args, **kwargs)

    monkeypatch.setattr(independent.IndependentSearch, "run", counted)
    monkeypatch.setattr(fused_search, "AT_ONCE", soon[0])
    monkeypatch.setattr(fused_search, "SOON", soon[1])
    result = einmap.map_workload(small(), time_limit_s=60)
    assert bool(runs) == is_searched
    assert result.optimal
    assert result.cost.edp == best.cost.edp
    assert (result.unfused is not None) == is_searched


@pytest.mark.parametrize(("nearly", "late"), [(0.0, 0.0), (np.inf, 0.0), (np.inf, 1.0)])
def test_what_is_nearly_as_good_as_einsums_one_by_one_can_be_is_made_better_before_these_are_searched(
    nearly, late, monkeypatch
):
    best, passes, begin_again, unless = einmap.map_workload(small()), [], FusedSearch.begin_again, OneByOne.unless

    def begun(search, most, apart=1, uses=np.inf):
        passes.append((most, apart))
        begin_again(search, most, apart, uses)

    def asked(simple, value, least, early):
        passes.append("one by one")
        return unless(simple, value, least, early)

    monkeypatch.setattr(FusedSearch, "begin_again", begun)
    monkeypatch.setattr(OneByOne, "unless", asked)
    monkeypatch.setattr(FusedSearch, "apart_value", lambda _: best.cost.edp / 2)
    for name, value in (("AT_ONCE", 0.0), ("SOON", 1.0), ("NEARLY_BEATEN", nearly), ("LATE", late)):
        monkeypatch.setattr(fused_search, name, value)
    result = einmap.map_workload(small(), time_limit_s=60)
    first, sizes, few = (1, fused_search.FIRST_APART), (1, 1), (1, 1)
    anew = (1, neighbours.NEARER)
    expected = [first, sizes, anew, *([few] if nearly else ["one by one", few])]
    assert passes[: len(expected)] == expected
    # with all loops these are searched only where it gets late
    assert passes.count("one by one") == (not nearly or late)
    assert (result.optimal, result.cost.edp) == (True, best.cost.edp)


@pytest.mark.parametrize("size", [300, 200, 100_000])
def test_what_einsums_cost_apart_is_no_more_than_the_best_unfused_mapping_costs(size):
    spec = small().set("arch.nodes[1].size", size)
    search = FusedSearch(spec, read_options(spec))
    search.begin(einmap.Progress())
    least = search.apart_value()
    assert search.least_value() <= least <= einmap.map_workload(spec, fuse=False).cost.edp * (1 + 1e-9)
    assert least > 0


def test_there_is_a_gap_where_there_was_no_time_for_bounds(monkeypatch):
    monkeypatch.setattr(EinsumFronts, "least", lambda chains, weights: np.zeros(len(weights)))
    monkeypatch.setattr(FusedSearch, "lower_bound", lambda search: 0.0)
    best = einmap.map_workload(small(), fuse=False)
    result = einmap.map_workload(small(), progress=stopper("loops above"))
    assert 0 < result.lower_bound <= best.cost.edp
    assert result.gap > 0


def test_where_time_is_too_short_for_the_einsums_one_by_one_nothing_is_fused():
    problem = Problem(small(), read_options(small(), metrics="edp", workers=1))
    left = [OneByOne(problem, Budget(einmap.Progress().within(seconds))).left for seconds in (60, 0)]
    assert [budget.progress.stopped for budget in left] == [False, True]


@pytest.mark.parametrize("cut", [True, False])
def test_einsums_that_a_half_of_the_time_is_too_short_for_get_most_of_the_rest(cut, monkeypatch):
    limits = []

    def run(search, token, most=np.inf, longer=None):
        independent_run(search, einmap.Progress())
        for part in search.distinct:
            part.optimum.cut = cut
        limits.append(token.seconds_left())

    independent_run = independent.IndependentSearch.run
    monkeypatch.setattr(independent.IndependentSearch, "run", run)
    problem = Problem(small(), read_options(small(), metrics="edp", workers=1))
    assert OneByOne(problem, Budget(einmap.Progress().within(1000))).first
    assert limits == pytest.approx([500, 800] if cut else [500], abs=60)


def test_einsums_with_mappings_that_were_found_before_are_searched_all_the_same():
    problem = Problem(small(), read_options(small(), metrics="edp", workers=1))
    found = independent.IndependentSearch(problem.spec, problem.options)
    found.run(einmap.Progress())
    early = {einsum.name: found.mapping(einsum, 0) for einsum in problem.spec.workload.einsums}
    one = OneByOne(problem, Budget(einmap.Progress().within(1000)))
    assert one.unless(np.inf, 0.0, early) == pytest.approx(einmap.map_workload(small(), fuse=False).cost.edp)
    assert not one.einsums.cut()


def test_a_search_that_is_stopped_knows_what_fuses_nothing_too():
    found = einmap.map_workload(small(), progress=stopper("the best chains"))
    alone = einmap.map_workload(small(), fuse=False)
    assert found.stopped
    assert alone.cost.edp * (1 - 1e-9) <= found.unfused.cost.edp <= alone.cost.edp * 1.01
    assert not found.unfused.optimal


def stop_it(refinement):
    refinement.cascade.meter.cut = True
    raise StoppedError
