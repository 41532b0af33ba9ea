"""The fast search finds what plain enumerations find, on random small problems."""

import random
import re
from itertools import islice
from unittest.mock import patch

import pytest
from tests.amounts import few_and_many
from tests.mapper.specs import MAIN, MATMUL, compute, memory, spec, two_level
from tests.mapper.uneven import every_mapping
from tests.random_specs.features import draw
from tests.random_specs.nodes import spec_of
from tests.random_specs.problems import draw_gather, draw_problem

import einmap
from einmap.mapper.branch_and_bound import einsum_search
from einmap.mapper.cost_bounds import relaxed_bounds
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.problem import request
from einmap.mapper.result.result import objective

ADDITIVE = ["energy", "latency", "energy_delay_product", "dynamic_energy", "leak_energy"]


def front(spec, goals, **options):
    """Objectives of all mappings found and the result, which is None where there are none.

    The objectives are None where the search was stopped before it found any: then nothing is known.
    """
    try:
        # brute force is the judge of what says that nothing fits, too
        with patch.object(IndependentSearch, "feasibility_search", lambda *_: None):
            result = einmap.map_workload(spec, metrics="|".join(goals), **options)
    except einmap.NoMappingError as error:
        return None if "was stopped" in error.message else [], None
    return [tuple(objective(found.cost, goal) for goal in goals) for found in result.front], result


def covers(ours, theirs):
    """Whether each of their points is matched or beaten by one of ours."""
    return all(
        any(all(o <= t * (1 + 1e-9) + 1e-12 for o, t in zip(mine, other, strict=True)) for mine in ours)
        for other in theirs
    )


def agrees(given, goals, semantics, most, seed):
    """Compare the search with brute force; False where nothing fits, that takes too long, or both are brute force."""
    theirs, result = front(given, goals, semantics=semantics, brute_force=True, max_evaluations=most)
    if not (result.optimal if result is not None else theirs is not None):
        return False
    ours, result = front(given, goals, semantics=semantics)
    assert covers(ours, theirs), (seed, ours, theirs)
    assert covers(theirs, ours), (seed, ours, theirs)
    if result is None:
        return False
    assert result.optimal
    assert result.gap == 0
    for found in result.front:
        again = einmap.evaluate(given, found.mapping, semantics=semantics)
        assert (again.energy, again.latency) == (found.cost.energy, found.cost.latency)
    return all(part["brute_force"] is None for part in result.stats.by_einsum.values())


def compared(seed, most, draw=draw_problem):
    """Compare the search with brute force on one random problem; False when that takes too long."""
    rng = random.Random(seed)
    problem = draw(rng)
    semantics = rng.choice(["exact", "accelforge"])
    goals = rng.choice([["energy"], ["latency"], ["energy_delay_product"], ["energy", "latency"]])
    given = spec_of(problem)
    return agrees(given, goals, semantics, most, seed)


def test_the_optimum_is_that_of_brute_force_on_random_problems():
    done = 0
    for seed in range(300):
        done += compared(seed, 5_000)
        if done == 10:
            return
    pytest.fail(f"only {done} problems were small enough")


@few_and_many("seeds, least", (range(7), 3), (range(20), 12))
def test_the_optimum_is_that_of_brute_force_where_rows_are_looked_up(seeds, least):
    assert sum(compared(seed, 3_000, draw_gather) for seed in seeds) >= least


@pytest.mark.parametrize("enough", [10, pytest.param(30, marks=[pytest.mark.slow, pytest.mark.mapper])])
def test_the_optimum_is_that_of_brute_force_where_memories_are_refreshed(enough):
    done = 0
    for seed in range(300):
        done += compared(seed, 2_000, lambda rng: draw(rng, "refresh"))
        if done == enough:
            return
    pytest.fail(f"only {done} problems were small enough")


@pytest.fixture
def one_at_a_time(monkeypatch):
    """One use of the fanouts and one dataplacement at a time: each is ruled out by what was found with those before."""
    monkeypatch.setattr(einsum_search, "FIRST_LANES", 1)
    monkeypatch.setattr(einsum_search, "FIRST_PLANS", 1)
    monkeypatch.setattr(relaxed_bounds, "FIRST_LANES", 0)
    monkeypatch.setattr(relaxed_bounds, "FIRST_PLANS", 0)
    monkeypatch.setattr(einsum_search, "MOST_LANES", 1)


@pytest.mark.usefixtures("one_at_a_time")
@few_and_many("seeds, most, least", (range(8000, 8005), 2_000, 1), (range(8000, 8120), 10_000, 10), parts=3)
def test_bounds_without_tables_rule_nothing_good_out(seeds, most, least):
    assert sum(compared(seed, most) for seed in seeds) >= least


def test_strided_windows_move_less_in_small_tiles():
    # a 1x1 convolution of stride 2 skips values: whole rows would move what nobody uses
    nodes = [
        MAIN,
        memory("Buf", 4000, 1),
        {"type": "Container", "name": "Grid", "spatial": [{"name": "X", "fanout": 12}, {"name": "Y", "fanout": 14}]},
        memory("Reg", 64, 0.5),
        compute(),
    ]
    given = spec(nodes, ["Z[m, p] = A[c, W: 2*p + r] * B[m, c, r]"], {"M": 8, "C": 12, "P": 28, "R": 1})
    best = einmap.map_workload(given, metrics="energy").cost.energy
    both = einmap.map_workload(given, metrics="energy|latency").front
    assert min(found.cost.energy for found in both) == pytest.approx(best, rel=1e-9)


@pytest.mark.slow
@pytest.mark.mapper
@pytest.mark.parametrize("part", range(11))
def test_the_optimum_is_that_of_brute_force_on_many_random_problems(part):
    assert sum(compared(seed, 200_000) for seed in range(900 + 100 * part, 1000 + 100 * part)) >= 50


# every objective, imperfect factors: against evaluations of each mapping by itself


def tiny_problem(rng, most, sizes, *, loops=False, lanes=False):
    """A random problem with few mappings, and these; None when it has too many."""
    problem = draw_problem(rng)
    ranks = problem["workload"]["rank_sizes"]
    for rank in ranks:
        ranks[rank] = rng.choice(sizes)
    given = spec_of(problem)
    mappings = list(islice(every_mapping(given, loops=loops, lanes=lanes), most + 1))
    return (given, mappings) if len(mappings) <= most else None


def costs_of(given, mappings, semantics):
    """Costs of the mappings that fit and keep the architecture's constraints."""
    for mapping in mappings:
        try:
            cost = einmap.evaluate(given, mapping, semantics=semantics)
        except einmap.EinmapError:
            continue
        if all(note.kind == "advice" or "AccelForge 1.0.467" in note.text for note in cost.notes):
            yield cost


def has(given, word):
    """Whether a word stands in the specification."""
    return word in str(given.to_dict())


def enumerated(seed, most, sizes, goals_of, *, loops=False, lanes=False):
    """Compare the search with an enumeration of one random problem; False when that takes too long."""
    rng = random.Random(seed)
    drawn = tiny_problem(rng, most, sizes, loops=loops, lanes=lanes)
    # which use of a fanout is the best that can be had depends on the tile shapes that are looked at
    if drawn is None or has(drawn[0], "min_usage"):
        return False
    semantics = rng.choice(["exact", "accelforge"])
    goals = goals_of(rng)
    options = {"explore_imperfect_temporal_loops": loops, "explore_imperfect_spatial_loops": lanes}
    ours, result = front(drawn[0], goals, semantics=semantics, **options)
    if result is not None and any(part["brute_force"] for part in result.stats.by_einsum.values()):
        return False
    theirs = [tuple(objective(cost, goal) for goal in goals) for cost in costs_of(*drawn, semantics)]
    assert covers(ours, theirs), (seed, ours)
    assert covers(theirs, ours), (seed, ours)
    return bool(ours)


def test_every_objective_is_minimised():
    done = sum(enumerated(seed, 250, (1, 2, 3, 4), lambda rng: [rng.choice(ADDITIVE)]) for seed in range(3000, 3030))
    assert done >= 5


@few_and_many("seeds, least", (range(4000, 4007), 1), (range(4030, 4100), 15))
def test_fronts_of_any_objectives_are_complete(seeds, least):
    goals = lambda rng: rng.sample(ADDITIVE, rng.choice([2, 3]))  # noqa: E731
    assert sum(enumerated(seed, 250, (1, 2, 3, 4), goals) for seed in seeds) >= least


def imperfect(seed, most):
    """The same with imperfect factors."""
    loops, lanes = random.Random(seed).choice([(True, False), (False, True), (True, True)])
    return enumerated(seed, most, (1, 2, 3, 3, 5, 7), lambda rng: [rng.choice(ADDITIVE)], loops=loops, lanes=lanes)


@few_and_many("seeds, most, least", (range(5000, 5007), 250, 1), (range(5900, 6500), 1500, 20), parts=6)
def test_imperfect_factors_are_searched_exactly(seeds, most, least):
    assert sum(imperfect(seed, most) for seed in seeds) >= least


def test_imperfect_factors_find_what_a_prime_bound_needs():
    # 7 operations on 4 lanes: two steps with a tile shape of 2, seven without
    nodes = [
        MAIN,
        {"type": "Container", "name": "Grid", "spatial": [{"name": "X", "fanout": 4}]},
        memory("Reg", 64, 0),
        compute(actions=[{"name": "compute", "energy": 1, "throughput": 0.001}]),
    ]
    given = spec(nodes, ["Z[m] = A[m] * B[m]"], {"M": 7})
    lanes = einmap.map_workload(given, metrics="latency", explore_imperfect_spatial_loops=True)
    assert lanes.optimal
    assert {row.usage for row in lanes.cost.spatial_usage} == {1.0}
    even = einmap.map_workload(given, metrics="latency")
    assert {row.usage for row in even.cost.spatial_usage} == {0.25}


# other promises


def test_lanes_above_the_outermost_memory_are_not_missed():
    nodes = [{**MAIN, "spatial": [{"name": "channel", "fanout": 4}]}, memory("Buf", 200, 1), compute()]
    given = spec(nodes, ["Z[m] = A[m] * B[m]"], {"M": 8})
    result = einmap.map_workload(given, metrics="edp")
    assert result.cost.edp == einmap.map_workload(given, metrics="edp", brute_force=True).cost.edp
    assert {row.usage for row in result.cost.spatial_usage} == {1.0}


def moved(size, bound):
    nodes = [
        {**MAIN, "leak_power": 0, "actions": [{"name": n, "energy": 1, "throughput": 1} for n in ("read", "write")]},
        memory("Buf", size, 0, component_class="Dummy", leak_power=0),
        compute(leak_power=0, actions=[{"name": "compute", "energy": 0, "throughput": 1}]),
    ]
    given = spec(nodes, MATMUL, {"M": bound, "K": bound, "N": bound})
    return einmap.map_workload(given, metrics="energy")


def test_a_buffer_of_seven_values_moves_as_little_as_can_be():
    # 64^3 with 7 values on chip: the published optimum, missed where usages are summed as fractions
    result = moved(56, 64)
    assert result.optimal
    values = result.cost.count_by("component", "tensor", "action")
    per_value = {key: count / 8 for key, count in values.items() if key[0] == "Main"}
    assert sum(per_value.values()) == 266_240


def test_the_result_does_not_depend_on_the_number_of_workers():
    sizes = {"N_TOKENS": 4, "D_MODEL": 8, "HEADS": 2, "D_HEAD": 4, "D_FF": 16}
    given = einmap.load("simple", "gpt3_6.7b", define=sizes)
    results = [einmap.map_workload(given, metrics="edp", workers=workers) for workers in (1, 2, 3)]
    assert all(result.optimal for result in results)
    assert results[0].mapping == results[1].mapping == results[2].mapping


def test_under_max_evaluations_the_result_is_the_same_again_and_not_proven():
    given = einmap.load("eyeriss", "conv")
    first, second = (einmap.map_workload(given, metrics="energy|latency", max_evaluations=3_000) for _ in range(2))
    assert not first.optimal
    assert [f.mapping for f in first.front] == [f.mapping for f in second.front]


def test_a_stop_gives_the_best_so_far():
    token = einmap.Progress()
    token.callback = lambda report: token.stop() if report.done > 1_000 else None
    result = einmap.map_workload(einmap.load("eyeriss", "conv"), metrics="energy|latency", progress=token)
    assert not result.optimal
    assert "stopped" in result.reason


def test_little_memory_gives_an_answer_that_is_not_proven(monkeypatch):
    given = two_level(sizes={"M": 720, "K": 720, "N": 720})
    whole = einmap.map_workload(given)
    monkeypatch.setattr(request, "POOL_BYTES", 500_000)
    assert einmap.map_workload(given).cost.edp == whole.cost.edp
    monkeypatch.setattr(request, "SPARSE_BYTES", 100)
    small = einmap.map_workload(given)
    assert whole.optimal
    assert re.search("; not searched: [0-9,]+ dataplacements? of .* no room for tables", small.reason)
    assert not small.optimal
    assert small.cost.edp >= whole.cost.edp
    assert small.lower_bound <= whole.cost.edp


def test_coarse_tile_shapes_are_a_part_of_all():
    given = two_level(sizes={"M": 64, "K": 36, "N": 60})
    coarse = einmap.map_workload(given, tiling_coarseness=3)
    assert coarse.optimal
    assert coarse.cost.edp >= einmap.map_workload(given).cost.edp


def test_a_part_of_the_dataplacements_proves_nothing():
    given = two_level(sizes={"M": 8, "K": 8, "N": 8})
    assert not einmap.map_workload(given, max_pmapping_templates_per_einsum=2).optimal


def test_a_tolerance_is_kept():
    given = einmap.load("eyeriss", "conv")
    best = einmap.map_workload(given, metrics="edp").cost.edp
    assert einmap.map_workload(given, metrics="edp", objective_tolerance=0.5).cost.edp <= 1.5 * best


def test_usage_of_memories_can_be_an_objective():
    given = two_level(sizes={"M": 4, "K": 4, "N": 4})
    result = einmap.map_workload(given, metrics="energy|resource_usage")
    points = [(f.cost.energy, max(row.usage for row in f.cost.memory_usage)) for f in result.front]
    assert len(points) > 2
    assert min(points)[0] == einmap.map_workload(given, metrics="energy").cost.energy
    assert all(not (b[0] <= a[0] and b[1] <= a[1]) for a in points for b in points if a != b)


def test_usage_of_memories_that_hold_everything_is_nothing():
    given = spec([memory("Main", "inf", 1, {"keep": "All"}), compute()], MATMUL, {"M": 2, "K": 2, "N": 2})
    alone = einmap.map_workload(given, metrics="resource_usage")
    assert [max(row.usage for row in found.cost.memory_usage) for found in alone.front] == [0]
    both = einmap.map_workload(given, metrics="energy|resource_usage")
    assert [found.cost.energy for found in both.front] == [einmap.map_workload(given, metrics="energy").cost.energy]
    assert alone.optimal
    assert both.optimal


def products_compared(seeds, monkeypatch):
    """How many of the problems with two products have a mapping; their best, from parts of the fronts, is that of all."""
    done = 0
    for seed in seeds:
        problem = draw_problem(random.Random(seed))
        workload = problem["workload"]
        workload["einsums"].append("Y[u, v] = C[u, w] * D[w, v]")
        workload["rank_sizes"] |= {"U": 6, "V": 4, "W": 6}
        given = spec_of(problem)
        try:
            best = einmap.map_workload(given, metrics="edp")
        except einmap.NoMappingError:
            continue
        with monkeypatch.context() as whole_fronts:
            whole_fronts.setattr(IndependentSearch, "limit_fronts", lambda whole, token: None)
            assert best.cost.edp == pytest.approx(einmap.map_workload(given, metrics="edp").cost.edp, rel=1e-9), seed
        done += 1
    return done


@few_and_many("seeds, least", (range(9000, 9006), 2), (range(9012, 9072), 20))
def test_the_best_product_of_sums_is_found_on_parts_of_the_fronts(seeds, least, monkeypatch):
    assert products_compared(seeds, monkeypatch) >= least
