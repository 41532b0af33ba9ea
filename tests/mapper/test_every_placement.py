"""Bounds over all dataplacements at once are no higher than any mapping, and what they leave has the best one."""

import random
from contextlib import suppress
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.mapper.specs import CONV, MATMUL, compute, container, memory, spec
from tests.mapper.uneven import every_mapping

import einmap
from einmap.mapper.branch_and_bound import narrowed_plans
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.branch_and_bound.narrowed_plans import planned
from einmap.mapper.cost_bounds.before_plans import free_tables, keeping
from einmap.mapper.cost_bounds.before_plans.free_tables import FreeTables, TooManyError
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.problem.options import read_options
from einmap.progress import Progress

MAIN = {"keep": "All"}
PRODUCTS = (
    (MATMUL, "MKN"),
    (CONV, "MCPR"),
    (["Z[m, n] = A[m] * B[n]"], "MN"),
    (["Z[m] = A[m, k] * B[k]"], "MK"),
    (["Z[m, n] = A[m, k] * B[k, n] * C[k]"], "MKN"),
)
GOALS = ("energy", "energy_delay_product")


@pytest.fixture
def few_are_many(monkeypatch):
    """However few dataplacements there are, only those that matter are listed."""
    monkeypatch.setattr(keeping, "FEW_NODES", 0)
    monkeypatch.setattr(narrowed_plans, "FEW_PLACEMENTS", 0)
    monkeypatch.setattr(narrowed_plans, "OF_LISTING", 10**9)
    monkeypatch.setattr(narrowed_plans, "FIRST_USES", 2)


def drawn(rng, most=3):
    """A machine on which most tensors may be anywhere, and a small Einsum."""
    einsums, ranks = rng.choice(PRODUCTS)
    sizes = {rank: rng.choice((2, 3, 4, 6)) for rank in ranks}
    if "P" in ranks:
        sizes |= {"H": sizes["P"] + sizes["R"] - 1}
    nodes = [memory("Main", "inf", 10, MAIN)]
    for i in range(rng.randint(1, most)):
        if rng.random() < 0.5:
            reuse = rng.choice(("All", "Nothing", "Inputs", "Outputs"))
            lanes = {"name": f"L{i}", "fanout": rng.choice((2, 3, 4)), "may_reuse": reuse}
            nodes.append({**container(lanes), "name": f"Array{i}"})
        kept = rng.choice(({"may_keep": "All"}, {"may_keep": "All"}, {"keep": "Outputs", "may_keep": "Inputs"}))
        nodes.append(memory(f"M{i}", rng.choice((24, 40, 64, 128, 400)), rng.choice((0.1, 1, 3)), kept))
    return spec([*nodes, compute()], einsums, sizes)


def asked(given, goal):
    """A path of a specification with one Einsum, and its search before anything is listed."""
    whole = IndependentSearch(given, read_options(given, metrics=goal))
    (einsum,) = given.workload.einsums
    arch = given.bound[einsum.name].arch
    request = whole.request(einsum.name)
    (unit,) = arch.computes
    path = Path(einsum, arch, arch.path(unit.name), request)
    return path, EinsumSearch(einsum, arch, request, Progress(), [path])


def tables_of(path):
    kept = keeping.keeping(path)
    return None if kept is None else FreeTables(path, kept)


@pytest.mark.usefixtures("few_are_many")
@few_and_many("seeds, most, least", (range(5), 2, 2), (range(100, 170), 3, 40), parts=2)
def test_the_optimum_is_that_of_all_dataplacements(seeds, most, least, monkeypatch):
    compared = 0
    for seed in seeds:
        rng = random.Random(seed)
        given, goal = drawn(rng, most), rng.choice(GOALS)
        # with tables of energy alone little can be said of products
        monkeypatch.setattr(free_tables, "ALL_COLUMNS", 100_000_000 if goal != "energy" else rng.choice((0, 10**8)))
        _, search = asked(given, goal)
        whole = EinsumSearch.over_all(search.einsum, search.arch, search.request, Progress())
        some = planned(search.einsum, search.arch, search.request, Progress())
        best, found = whole.run(), some.run()
        if whole.pruned:
            continue  # too many to compare with
        assert found.complete
        assert not some.pruned
        assert [v[0] for v in found.values] == pytest.approx([v[0] for v in best.values], rel=1e-9), seed
        assert {plan.placement for plan in some.paths[0].plans} <= {plan.placement for plan in whole.paths[0].plans}
        assert found.size == pytest.approx(best.size), seed
        compared += len(some.paths[0].plans) < len(whole.paths[0].plans)
    assert compared >= least


@pytest.mark.usefixtures("few_are_many")
@few_and_many("seeds", (range(4),), (range(100, 160),))
def test_bounds_are_no_higher_than_the_best_with_each_use_of_the_fanouts(seeds):
    for seed in seeds:
        path, search = asked(drawn(random.Random(seed), most=2), random.Random(seed).choice(GOALS))
        tables = tables_of(path)
        path.make_plans(Progress())
        for number in range(len(path.lanes)):
            alone = path.with_lanes(path.lanes.only(np.array([number])))
            best = min((v[0] for v in replace(search, paths=[alone]).run().values), default=np.inf)
            assert tables.bound(number) <= best * (1 + 1e-9), (seed, number)


@pytest.mark.usefixtures("few_are_many")
@few_and_many("seeds", (range(2, 3),), (range(12),))
def test_no_mapping_is_below_the_bounds(seeds):
    for seed in seeds:
        rng = random.Random(seed)
        given = drawn(rng, most=2)
        path, _ = asked(given, "energy")
        tables = tables_of(path)
        bound = min(tables.bound(number) for number in range(len(path.lanes)))
        every = list(islice(every_mapping(given, loops=False, lanes=False), 5_000))
        costs = []
        for mapping in rng.sample(every, min(100, len(every))):
            with suppress(einmap.EinmapError):  # it may not fit
                costs.append(float(einmap.evaluate(given.with_mapping(mapping)).energy))
        assert costs
        assert bound <= min(costs) * (1 + 1e-9)


@pytest.mark.usefixtures("few_are_many")
def test_without_a_cutoff_all_dataplacements_that_fit_are_found():
    path, _ = asked(drawn(random.Random(1), most=2), "energy")
    tables = tables_of(path)
    path.make_plans(Progress())
    found = {nodes for number in range(len(path.lanes)) for nodes in tables.placements(number, np.inf, 10_000)}
    names = [path.leaves[level].name for level in tables.levels]
    listed = {
        tuple((names.index(m), tables.tensors.index(t)) for m, t in plan.placement.nodes[plan.placement.n_outer :])
        for plan in path.plans
    }
    assert found == listed
    with pytest.raises(TooManyError):
        tables.placements(0, np.inf, 3)


@pytest.mark.usefixtures("few_are_many")
def test_states_are_those_that_dataplacements_come_to():
    fewer = 0
    for seed in (1, 5):
        path, _ = asked(drawn(random.Random(seed), most=2), "energy")
        tables = tables_of(path)
        path.make_plans(Progress())
        names = [path.leaves[level].name for level in tables.levels]
        states = set()
        for plan in path.plans:
            held, waiting = [0] * len(tables.tensors), list(plan.placement.nodes[plan.placement.n_outer :])
            for m in range(1, len(names)):
                states.add((m, tuple(held)))
                while waiting and waiting[0][0] == names[m]:
                    held[tables.tensors.index(waiting.pop(0)[1])] = m
                    states.add((m, tuple(held)))
        assert states <= tables.keeping.states
        every = sum((m + 1) ** len(tables.tensors) for m in range(1, len(names)))
        assert len(tables.states) == len(tables.keeping.states) <= every
        fewer += len(tables.states) < every
    assert fewer


OUTER = """
arch:
  nodes:
  - !Memory
    name: DRAM
    size: inf
    leak_power: 0
    tensors: {keep: All}
    actions: [{name: read, energy: 10, throughput: inf}, {name: write, energy: 10, throughput: inf}]
  - !Memory
    name: Buffer
    size: 2
    leak_power: 0
    tensors: {may_keep: All}
    actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]
  - !Compute {name: MAC, leak_power: 0, actions: [{name: compute, energy: 0, throughput: 1}]}
workload:
  rank_sizes: {M: 4, N: 4}
  bits_per_value: {All: 1}
  einsums: ["Z[m, n] = A[m] * B[n]"]
"""


@pytest.mark.usefixtures("few_are_many")
def test_tensors_share_the_room_of_a_memory(tmp_path):
    """`Z` is written to DRAM, 160 J. An input costs 160 J from DRAM, 40 + 4 + 16 = 60 J if each value comes once.

    With both in the buffer one value of each has room: one comes 4 times, the other 16 times, 160 + 16 + 16 = 192 J.
    So one of the two is kept: 160 + 60 + 160 = 380 J. If each had the room for itself, 280 J.
    """
    file = tmp_path / "outer.yaml"
    file.write_text(OUTER)
    given = einmap.load(file)
    path, _ = asked(given, "energy")
    tables = tables_of(path)
    least, order = tables.bounds_of_uses(Progress())
    assert (least.tolist(), order.tolist()) == ([280.0], [0])
    assert tables.bound(0) == 380.0
    assert sorted(tables.placements(0, 380.0, 100)) == [((1, 0),), ((1, 1),)]
    assert einmap.map_workload(given, metrics="energy").cost.energy == 380


@pytest.mark.usefixtures("few_are_many")
def test_where_too_many_are_near_the_best_the_others_are_bounded(monkeypatch):
    given = drawn(random.Random(7))
    best = einmap.map_workload(given, metrics="energy")
    assert best.optimal
    _, search = asked(given, "energy")
    some = planned(search.einsum, search.arch, search.request, Progress())
    assert not some.pruned
    monkeypatch.setattr(narrowed_plans, "FEW_STEPS", 0)
    monkeypatch.setattr(narrowed_plans, "MOST_STEPS", 20)
    few = planned(search.einsum, search.arch, search.request, Progress())
    assert few.pruned == (f"some dataplacements of {search.einsum.name}, since there are too many to list",)
    found = few.run()
    assert not found.complete
    assert 0.5 * best.cost.energy < found.bound[0] <= best.cost.energy * (1 + 1e-9) <= found.values[0][0] * (1 + 1e-8)


def test_few_dataplacements_are_all_listed():
    path, search = asked(drawn(random.Random(0), most=2), "energy")
    assert not narrowed_plans.narrowed(search, path, Progress())
    assert path.plans == []


def test_six_levels_are_proven():
    """1,048,576 dataplacements, where work takes longer than transfers."""

    def level(name, size, energy, **tensors):
        actions = [{"name": name, "energy": energy, "throughput": "inf"} for name in ("read", "write")]
        return memory(name, size, energy, actions=actions, **tensors)

    nodes = [level("Main", "inf", 10, tensors=MAIN), level("S", 8 * 4096, 3), level("G", 8 * 1024, 2)]
    lanes = {"name": "x", "fanout": 4, "may_reuse": "All"}
    nodes += [level("L", 8 * 256, 1), container(lanes), level("P", 8 * 64, 0.5), level("R", 8 * 4, 0.1), compute()]
    found = einmap.map_workload(spec(nodes, MATMUL, dict.fromkeys("MKN", 16)), metrics="energy_delay_product")
    assert found.optimal
    assert found.stats.templates < 200
