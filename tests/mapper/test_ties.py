"""Of mappings that are equally good by energy or latency the best by the other one is found, and proven."""

import random
import re

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.combine import front
from tests.random_specs.fused import draw_problem as draw_cascade
from tests.random_specs.nodes import spec_of
from tests.random_specs.problems import draw_problem

import einmap
from einmap.mapper.branch_and_bound import listed_search
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.fusion import search
from einmap.mapper.fusion.cascade_objective import LimitedSum

METRICS = ("energy", "latency")


def best_of_ties(points, metric):
    """Of (energy, latency) the best by a metric, and of equal ones by the other one."""
    first = METRICS.index(metric)
    least = min(point[first] for point in points)
    return min((p for p in points if p[first] <= least + abs(least) * 1e-9), key=lambda p: p[1 - first])


def found(spec, metric, **options):
    result = einmap.map_workload(spec, metrics=metric, **options)
    assert result.optimal
    assert result.ties_broken
    return result.cost.energy, result.cost.latency


def of_einsum(seed, most):
    """What the search and brute force find of one random Einsum, and its front; None where that takes too long."""
    rng = random.Random(seed)
    spec = spec_of(draw_problem(rng))
    options = {"semantics": rng.choice(["exact", "accelforge"])}
    metric = rng.choice(METRICS)
    try:
        every = einmap.map_workload(spec, metrics="energy,latency", brute_force=True, max_evaluations=most, **options)
    except einmap.NoMappingError:
        return None
    if not every.optimal:
        return None
    points = [(point.cost.energy, point.cost.latency) for point in every.front]
    ours = found(spec, metric, **options), found(spec, metric, brute_force=True, **options)
    return ours, best_of_ties(points, metric)


def compare_einsums(seeds, most):
    results = [result for seed in seeds if (result := of_einsum(seed, most)) is not None]
    for ours, best in results:
        for one in ours:
            assert one == pytest.approx(best, rel=1e-8, abs=1e-30)
    return len(results)


@few_and_many("seeds, most, least", (range(7), 500, 2), (range(1_000, 1_800), 5_000, 60), parts=4)
def test_ties_of_random_einsums_are_broken_as_by_brute_force(seeds, most, least):
    assert compare_einsums(seeds, most) >= least


def options_of(problem):
    return {
        "semantics": problem.semantics, "max_fused_loops": problem.max_fused_loops,
        "max_fused_loops_per_rank_variable": problem.per_variable, "share_inputs": False,
    }  # fmt: skip


def compare_cascade(seed):
    """Compare a tie of a random cascade with the front of all fused mappings; whether there is any."""
    rng = random.Random(seed)
    problem, metric = draw_cascade(rng, small=True), rng.choice(METRICS)
    shared = problem.spec.workload.shared - problem.spec.workload.intermediates
    limits = problem.semantics, problem.max_fused_loops, problem.per_variable
    points = [] if problem.semantics == "accelforge" and shared else front(problem.spec, *limits)
    if not points:
        return False
    best = best_of_ties(points, metric)
    assert found(problem.spec, metric, **options_of(problem)) == pytest.approx(best, rel=1e-8, abs=1e-30)
    return True


@few_and_many("seeds, least", (range(3), 1), (range(1_000, 1_200), 30), parts=4, part="fusion")
def test_ties_of_random_cascades_are_broken_as_by_brute_force(seeds, least):
    assert sum(compare_cascade(seed) for seed in seeds) >= least


def test_the_fastest_mapping_of_a_matmul_takes_no_more_energy_than_the_one_with_the_least():
    spec = einmap.load("simple", "matmul")
    energy, latency = found(spec, "latency")
    assert (energy, latency) == pytest.approx(found(spec, "energy"))


@pytest.mark.parametrize("workload", ["matmul", "feed_forward"])
def test_without_break_ties_the_tie_is_open_and_the_result_says_so(workload):
    spec = einmap.load("simple", workload)
    broken, left = (einmap.map_workload(spec, metrics="latency", break_ties=option) for option in (True, False))
    assert (broken.ties_broken, left.ties_broken) == (True, False)
    assert left.optimal
    assert left.reason.endswith("another mapping with the same latency may take less energy")
    assert left.cost.latency == pytest.approx(broken.cost.latency)
    assert left.cost.energy >= broken.cost.energy


def test_a_tie_is_broken_alike_by_one_thread_and_by_several():
    spec = einmap.load("simple", "feed_forward")
    one, several = (einmap.map_workload(spec, metrics="latency", workers=n) for n in (1, 4))
    assert one.mapping == several.mapping
    assert one.stats.evaluated == several.stats.evaluated


@pytest.mark.parametrize(("machine", "workload"), [("simple", "matmul"), ("tpu_v4i", "feed_forward")])
def test_a_search_that_ends_before_its_ties_are_broken_is_proven_all_the_same(machine, workload):
    spec = einmap.load(machine, workload)
    whole = einmap.map_workload(spec, metrics="latency", workers=1)
    most = whole.stats.evaluated - 1
    ended = einmap.map_workload(spec, metrics="latency", workers=1, max_evaluations=most)
    assert ended.optimal
    assert ended.gap == 0
    assert not ended.ties_broken
    assert ended.cost.latency == whole.cost.latency
    assert ended.cost.energy >= whole.cost.energy
    assert ended.reason.endswith("; another mapping with the same latency may take less energy")


def test_a_tie_that_takes_long_ends_soon_and_says_how_much_is_left_unless_its_proof_is_asked_for(monkeypatch):
    spec = einmap.load("simple", "mobilenet_pair")
    energy, latency = found(spec, "latency")
    monkeypatch.setattr(search, "FOR_TIE", 1)
    ended = einmap.map_workload(spec, metrics="latency")
    assert ended.optimal
    assert not ended.ties_broken
    assert ended.cost.latency == pytest.approx(latency)
    assert ended.cost.energy > energy
    part = re.search(r"; another mapping with the same latency may take up to ([\d.]+) % less energy$", ended.reason)
    assert ended.cost.energy * (1 - float(part[1]) / 100) <= energy
    assert found(spec, "latency", prove_ties=True) == pytest.approx((energy, latency), rel=1e-9)


def test_what_is_as_fast_as_the_first_bound_is_searched_once():
    spec = einmap.load("simple", "feed_forward")
    once = einmap.map_workload(spec, metrics="latency")
    assert once.ties_broken
    assert "ties" not in once.stats.steps
    assert once.cost.latency == pytest.approx(once.lower_bound)


def test_what_only_several_fused_loops_make_as_fast_as_the_first_bound_is_searched_once():
    problem = draw_cascade(random.Random(21), small=True)
    once, few = (
        einmap.map_workload(problem.spec, metrics="latency", **options_of(problem) | {"max_fused_loops": most})
        for most in (2, 1)
    )
    assert once.cost.latency == pytest.approx(once.lower_bound)
    assert once.cost.latency < few.cost.latency
    assert once.ties_broken
    assert "ties" not in once.stats.steps
    # where time is limited one loop has to do: what is as fast is looked for after the least latency
    limited = einmap.map_workload(problem.spec, metrics="latency", time_limit=60, **options_of(problem))
    assert "ties" in limited.stats.steps
    assert (limited.cost.energy, limited.cost.latency) == pytest.approx((once.cost.energy, once.cost.latency))


@pytest.mark.parametrize("machine", ["tpu_v4i", "nvdla"])  # compulsory traffic is the bound on neither
def test_an_einsum_that_is_as_fast_as_bounds_without_tables_say_is_searched_once(machine, monkeypatch):
    searched, run = [], EinsumSearch.run
    monkeypatch.setattr(EinsumSearch, "run", lambda self: searched.append(self.request.goals) or run(self))
    spec = einmap.load(machine, "conv")
    once = einmap.map_workload(spec, metrics="latency")
    assert once.optimal
    assert once.ties_broken
    assert searched == [("energy", "latency")]
    left = einmap.map_workload(spec, metrics="latency", break_ties=False)
    assert once.cost.latency == pytest.approx(left.cost.latency)
    assert once.cost.energy <= left.cost.energy
    (by_einsum,) = once.stats.by_einsum.values()
    assert by_einsum["outcomes"]["not covered"]["subspaces"] == 0


@pytest.mark.parametrize("machine", ["eyeriss", "nvdla"])
def test_a_tie_of_energy_is_broken_among_what_the_first_search_has_listed(machine, monkeypatch):
    searched, run = [], EinsumSearch.run
    monkeypatch.setattr(EinsumSearch, "run", lambda self: searched.append(self.request.goals) or run(self))
    spec = einmap.load(machine, "conv")
    among = found(spec, "energy")
    assert not searched
    # with no choice to look at there, all is searched anew
    monkeypatch.setattr(listed_search, "MOST_CHOICES", 0)
    assert among == pytest.approx(found(spec, "energy"), rel=1e-9)
    assert searched == [("latency", "energy")]


def test_other_metrics_have_no_ties_to_break():
    spec = einmap.load("simple", "matmul")
    for metric in ("edp", "dynamic_energy", "energy,latency"):
        result = einmap.map_workload(spec, metrics=metric)
        assert not result.ties_broken
        assert "another mapping" not in result.reason


def test_bounds_of_a_limited_sum_rise_with_weights_and_are_never_too_large():
    rng = np.random.default_rng(1)
    for _ in range(20):
        points = rng.random((20, 2)) + 0.1
        limit = float(np.quantile(points[:, 1], 0.4))
        best = points[points[:, 1] < limit, 0].min()
        objective, weights = LimitedSum(limit), np.concatenate([np.eye(2), [[1.0, 1.0]]])
        bounds = []
        for _ in range(16):
            least = (points @ weights.T).min(axis=0)
            bounds.append(float(objective.values(weights, least[None])[0]))
            slope = objective.slope(weights, least)
            if slope is None:
                break
            weights = np.concatenate([weights, [[1.0, slope]]])
        assert bounds == sorted(bounds)
        assert bounds[-1] <= best
        # the lower envelope at the limit, as far as steps of slopes come to it
        slopes = np.geomspace(1e-4, 1e4, 2_000)
        envelope = (points[:, 0] + slopes[:, None] * (points[:, 1] - limit)).min(axis=1).max()
        assert bounds[-1] >= max(envelope, points[:, 0].min()) * 0.97


def test_nothing_is_within_a_limit_that_the_least_is_not_below():
    objective, weights = LimitedSum(2.0), np.eye(2)
    assert objective.values(weights, np.array([[1.0, 2.0], [1.0, 1.5], [np.inf, 1.0]])).tolist() == [
        np.inf, 1.0, np.inf,
    ]  # fmt: skip
