"""The search against brute force and plain enumerations on problems of kinds that other tests draw rarely or never."""

import math
import random
from itertools import islice

import pytest
from tests.amounts import few_and_many
from tests.mapper.specs import compute, memory, spec
from tests.mapper.test_features import BOTH, networks_in_turn
from tests.mapper.test_optimal import ADDITIVE, costs_of, covers, front
from tests.mapper.uneven import every_mapping
from tests.random_specs import networks
from tests.random_specs.features import KINDS, banks, draw_kinds, two_outputs
from tests.random_specs.nodes import spec_of
from tests.random_specs.problems import draw_array, draw_problem

import einmap
from einmap.errors import NotSupportedError
from einmap.mapper.infeasibility import diagnosis
from einmap.mapper.result.result import objective


@pytest.fixture(autouse=True)
def few_reasons(monkeypatch):
    """Why nothing fits is not asked for long."""
    monkeypatch.setattr(diagnosis, "MOST_SECONDS", 0.1)


def against_brute_force(seed, most, draw=draw_kinds):
    """Compare the search with brute force on one problem; whether tables searched it, False for too large ones."""
    rng = random.Random(f"kinds {seed}")
    problem = draw(rng)
    semantics, goals = rng.choice(["exact", "accelforge"]), rng.choice([["energy"], ["latency"], ["energy", "latency"]])
    given = spec_of(problem)
    theirs, result = front(given, goals, semantics=semantics, brute_force=True, max_evaluations=most)
    # what was stopped before it found anything does not say that nothing fits
    if result is None or not result.optimal:
        return False
    ours, result = front(given, goals, semantics=semantics)
    assert covers(ours, theirs), (seed, goals, semantics, ours, theirs)
    assert covers(theirs, ours), (seed, goals, semantics, ours, theirs)
    return result is not None and all(part["brute_force"] is None for part in result.stats.by_einsum.values())


def against_evaluations(seed, most, draw, *, loops=False, lanes=False, by_tables=True, presets=BOTH):
    """Compare the search with each mapping evaluated by itself; False where there are too many of them."""
    rng = random.Random(f"evaluated {seed}")
    problem = draw(rng)
    ranks = problem["workload"]["rank_sizes"]
    for rank in ranks:
        ranks[rank] = rng.choice((1, 2, 3, 3, 5, 7) if loops or lanes else (1, 2, 3, 4))
    given = spec_of(problem)
    semantics, goal = rng.choice(presets), rng.choice(ADDITIVE[:3])
    # which use of a fanout is the best that can be had depends on the tile shapes that are looked at
    if "min_usage" in str(problem):
        return False
    mappings = list(islice(every_mapping(given, loops=loops, lanes=lanes), most + 1))
    if len(mappings) > most:
        return False
    options = {"explore_imperfect_temporal_loops": loops, "explore_imperfect_spatial_loops": lanes}
    ours, result = front(given, [goal], semantics=semantics, **options)
    if result is not None and by_tables == any(part["brute_force"] for part in result.stats.by_einsum.values()):
        return False
    theirs = [(objective(cost, goal),) for cost in costs_of(given, mappings, semantics)]
    assert covers(ours, theirs), (seed, goal, semantics, ours)
    assert covers(theirs, ours), (seed, goal, semantics, ours)
    return bool(ours)


def fullest(cost, spec, metric):
    """What a front of `metric` and resource usage compares: usage of each memory that has a size."""
    sized = [memory.name for memory in spec.arch().memories if math.isfinite(memory.size_bits)]
    usage = {row.component: row.usage for row in cost.memory_usage}
    return (*((objective(cost, metric),) if metric else ()), *(usage.get(name, 0.0) for name in sized))


def usages(seed, most):
    """Compare fronts with the usage of memories with each mapping evaluated by itself; False for too many of them."""
    rng = random.Random(f"usage {seed}")
    problem = rng.choice((draw_problem, draw_kinds))(rng)
    ranks = problem["workload"]["rank_sizes"]
    for rank in ranks:
        ranks[rank] = rng.choice((1, 2, 3, 4))
    given, semantics = spec_of(problem), rng.choice(["exact", "accelforge"])
    metric = rng.choice(["", "energy", "latency", "energy_delay_product", "leak_energy"])
    mappings = list(islice(every_mapping(given, loops=False, lanes=False), most + 1))
    if "min_usage" in str(problem) or len(mappings) > most:
        return False
    every = [fullest(cost, given, metric) for cost in costs_of(given, mappings, semantics)]
    try:
        result = einmap.map_workload(given, metrics=f"{metric}|resource_usage".strip("|"), semantics=semantics)
    except NotSupportedError:
        return False  # brute force knows neither leakage nor usage as a metric
    except einmap.NoMappingError:
        assert every == [], seed
        return False
    found = [fullest(one.cost, given, metric) for one in result.front]
    assert covers(every, found), (seed, metric, semantics)
    assert not result.optimal or covers(found, every), (seed, metric, semantics)
    return result.optimal


def in_banks(seed, most):
    """Compare the search with each mapping evaluated by itself where lines lie in banks; False for too many of them."""
    rng = random.Random(f"banks {seed}")
    problem = draw_problem(rng)
    ranks = problem["workload"]["rank_sizes"]
    for rank in ranks:
        ranks[rank] = rng.choice((1, 1, 2, 3, 4))
    banks(rng, problem, p=1, inside=True)
    goals = rng.choice([["latency"], ["energy_delay_product"], ["energy", "latency"]])
    try:
        given = spec_of(problem)
        mappings = list(islice(every_mapping(given, loops=False, lanes=False), most + 1))
        if "min_usage" in str(problem) or len(mappings) > most:
            return False
        ours, result = front(given, goals)
    except einmap.SpecError:
        return False  # a value is longer than a line
    theirs = [tuple(objective(cost, goal) for goal in goals) for cost in costs_of(given, mappings, "exact")]
    assert covers(theirs, ours), (seed, goals)
    assert (result is not None and not result.optimal) or covers(ours, theirs), (seed, goals)
    return result is not None and result.optimal


def uneven(seed, most):
    """Imperfect factors beside lanes: of fanouts of one to four dimensions, of memories, and none at all."""
    loops, lanes = random.Random(seed).choice([(True, False), (False, True), (True, True)])
    draw = random.Random(seed).choice([draw_kinds, draw_kinds, draw_array])
    return against_evaluations(seed, most, draw, loops=loops, lanes=lanes)


def uneven_below_networks(seed, most):
    """Imperfect factors below networks of every topology, beside memories that take turns or not."""
    loops, lanes = random.Random(seed).choice([(True, False), (False, True), (True, True)])
    draw = random.Random(seed).choice([draw_on_networks, networks_in_turn])
    return against_evaluations(seed, most, draw, loops=loops, lanes=lanes, presets=["exact"])


def draw_on_networks(rng):
    """A problem with networks of every topology."""
    return networks.draw(rng, (*networks.TOPOLOGIES, *networks.ROUND, *networks.HANDED_ON))


@few_and_many("seeds, most, least", (range(4), 2_000, 1), (range(1000, 1300), 3_000, 30), parts=3)
def test_kinds_that_are_rare(seeds, most, least):
    assert sum(against_brute_force(seed, most) for seed in seeds) >= least


@few_and_many("seeds, most, least", (range(8), 250, 1), (range(2000, 2400), 300, 10), parts=4)
def test_imperfect_factors_beside_lanes_of_every_kind(seeds, most, least):
    assert sum(uneven(seed, most) for seed in seeds) >= least


@few_and_many("seeds, most, least", (range(8), 250, 1), (range(3000, 3400), 500, 20), parts=4)
def test_imperfect_factors_below_networks(seeds, most, least):
    assert sum(uneven_below_networks(seed, most) for seed in seeds) >= least


@few_and_many("seeds, most, least", (range(6), 150, 1), (range(100, 250), 400, 20))
def test_two_outputs_are_searched_exactly(seeds, most, least):
    assert sum(against_evaluations(seed, most, two_outputs, by_tables=False) for seed in seeds) >= least


@few_and_many("seeds, most, least", (range(8), 150, 1), (range(1000, 1250), 400, 60))
def test_fronts_with_the_usage_of_memories(seeds, most, least):
    assert sum(usages(seed, most) for seed in seeds) >= least


@few_and_many("seeds, most, least", (range(5), 100, 1), (range(1000, 1200), 300, 40))
def test_lines_in_banks(seeds, most, least):
    assert sum(in_banks(seed, most) for seed in seeds) >= least


def test_an_einsum_of_one_value_whose_lines_lie_in_banks():
    bank = {"layout": {"line": 32, "order": {"A": ["M"]}}, "banks": {"number": 2, "conflicts": "interleaved"}}
    nodes = [memory("Main", "inf", 10, {"keep": "All"}, **bank), compute()]
    result = einmap.map_workload(spec(nodes, ["Z[m] = A[m]"], {"M": 1}), metrics="latency")
    assert result.optimal
    # A is one line of 32 bits, 4 of them each second; the 8 bits of Z leave at 2 each second
    assert result.cost.latency == 32 / 4 + 8 / 2


def test_the_kinds_are_all_drawn():
    drawn = str([draw_kinds(random.Random(f"kinds {seed}")) for seed in range(100)])
    assert len(KINDS) == 7
    assert all(word in drawn for word in ("60", "'B': 0", "** 2", "product==", "'>='", "'own'", "'fanout': 1,"))
