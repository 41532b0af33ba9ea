"""Where Einsums have too many choices to list in time a few promising ones are fused, and bounds say how good they are."""

import math
import random

import pytest
from tests.amounts import few_and_many
from tests.machines import machine, workload
from tests.mapper.fusion.combine import optimum
from tests.mapper.fusion.test_repeated_structure import layers
from tests.random_specs.fused import draw_problem
from tests.random_specs.wide import draw_wide

import einmap
from einmap.mapper.fusion import few_choices, thin_plans
from einmap.mapper.fusion.few_choices import chosen_anew, has_far_too_many
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.refinement.floors_with_room import FloorsBeforePlans
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.problem.options import read_options
from einmap.progress import Progress


@pytest.fixture
def no_lists(monkeypatch):
    """No time for lists of all dataplacements, but for all else."""
    monkeypatch.setattr(thin_plans.ListsInTime, "of", few)


def few(lists, einsum, arch, request, times):
    some = thin_plans.thin_plans(einsum, arch, request, lists.goal, times, Progress())
    return some or PlannedEinsum.of(einsum, arch, request, Progress())


def searched(spec, goal, semantics=None, **limits):
    search = FusedSearch(spec, read_options(spec, metrics=goal, semantics=semantics, **limits))
    return search, search.run(Progress())


def test_a_chain_of_products_is_fused_with_a_few_choices(no_lists):
    spec = layers(2)
    best = einmap.map_workload(spec, metrics="energy")
    unfused = einmap.map_workload(spec, metrics="energy", fuse=False)
    search, (mapping,) = searched(spec, "energy")
    value = einmap.evaluate(spec, mapping).energy
    assert best.cost.energy <= value < unfused.cost.energy
    assert not any(member.chains.covers_mapspace for member in search.members)


def dearest(lists, einsum, arch, request, times):
    """One choice of those of an Einsum, by far not the best."""
    del lists, times
    planned = PlannedEinsum.of(einsum, arch, request, Progress())
    return planned.asked(request, {path.plans[-1] for path in planned.paths})


@pytest.mark.parametrize("metric", ["energy", "energy_delay_product"])
def test_a_few_choices_say_nothing_of_what_einsums_cost_apart(metric, monkeypatch):
    spec = einmap.load("nvdla", "feed_forward", define={"N_TOKENS": 8, "D_MODEL": 4, "D_FF": 8})
    unfused = einmap.map_workload(spec, metrics=metric, fuse=False).cost
    monkeypatch.setattr(thin_plans.ListsInTime, "of", dearest)
    search = FusedSearch(spec, read_options(spec, metrics=metric))
    search.begin(Progress())
    search.lists.are_few = True
    assert 0 < search.apart_value() <= (unfused.energy if metric == "energy" else unfused.edp) * (1 + 1e-9)


@few_and_many("seeds", (range(4),), (range(1_000, 1_200),), parts=4, part="fusion")
def test_what_is_found_with_a_few_choices_is_a_mapping_no_better_than_the_best(seeds, no_lists):
    found = 0
    for seed in seeds:
        rng = random.Random(seed)
        problem = draw_wide(rng)[0] if seed % 2 else draw_problem(rng, small=True)
        limits = problem.semantics, problem.max_fused_loops, problem.per_variable
        try:
            _, mappings = searched(
                problem.spec,
                "energy",
                problem.semantics,
                max_fused_loops=problem.max_fused_loops,
                max_fused_loops_per_rank_variable=problem.per_variable,
                share_inputs=False,
            )
        except einmap.EinmapError:
            continue
        for mapping in mappings:
            value = einmap.evaluate(problem.spec, mapping, semantics=problem.semantics).energy
            assert value >= optimum(problem.spec, "energy", *limits) * (1 - 1e-9), seed
            found += 1
    assert found * 2 > len(seeds)


def test_intermediate_tensors_begin_in_memories_that_no_lanes_stand_above(no_lists):
    arch = machine("""
        DRAM inf 100/100 @inf {tensors: {keep: ~Intermediates, may_keep: All}}
        GLB 4096 10/10 @inf {tensors: {keep: ~DRAM, may_keep: All}}
        Array: X 4
        Buffer 1024 3/3 @inf {tensors: {keep: Nothing, may_keep: All}}
        Lanes: Y 2
        Reg 64 1/1 @inf {tensors: {keep: All}}
        MAC 1 @1
    """)
    einsums = "T[m, n] = A[m, k] * B[k, n]", "Z[m, p] = T[m, n] * C[n, p]"
    spec = einmap.loads(arch + workload("M: 8, K: 8, N: 8, P: 8", *einsums))
    search, mappings = searched(spec, "energy")
    (path,) = search.parts["T"].paths
    begins = {next(m for m, tensor in plan.placement.nodes if tensor == "T") for plan in path.plans}
    assert begins == {"DRAM", "GLB"}
    assert mappings
    assert einmap.evaluate(spec, mappings[0]).count_by("component", "tensor").get(("DRAM", "T"), 0) == 0


def test_an_input_is_kept_above_intermediate_tensors_in_all_orders():
    """Below a loop over `m` that is fused on both sides `T` may be held for each part of `Z`, or all of it for all parts."""
    arch = machine("""
        DRAM inf 100/100 @inf {tensors: {keep: ~Intermediates, may_keep: All}}
        GLB 4096 10/10 @inf {tensors: {keep: ~DRAM, may_keep: All}}
        Lanes: X 2
        Reg 4096 1/1 @inf {tensors: {keep: All}}
        MAC 1 @1
    """)
    einsums = "T[m, n] = A[m, k] * B[k, n]", "Z[m, p] = T[m, n] * C[n, p]", "Y[m, q] = Z[m, p] * D[p, q]"
    spec = einmap.loads(arch + workload("M: 8, K: 8, N: 8, P: 8, Q: 8", *einsums))
    search = FusedSearch(spec, read_options(spec, metrics="energy"))
    lists = thin_plans.ListsInTime(Progress(), "energy", 1)
    einsum = spec.workload.by_name["Z"]
    (path,) = few(lists, einsum, spec.arch("Z"), search.request(einsum), 1).paths
    kept = {tuple(tensor for memory, tensor in plan.placement.nodes if memory == "GLB") for plan in path.plans}
    assert {("C", "T", "Z"), ("C", "Z", "T")} <= kept


def hurried(lists, einsum, arch, request, times):
    """One choice, for want of time."""
    lists.hurried.add(einsum.name)
    return dearest(lists, einsum, arch, request, times)


def test_choices_that_had_too_little_time_are_looked_for_once_more(monkeypatch):
    spec = layers(2)
    best = einmap.map_workload(spec, metrics="energy").cost.energy
    monkeypatch.setattr(thin_plans.ListsInTime, "of", dearest)
    before = searched(spec, "energy")[0].value
    monkeypatch.setattr(thin_plans.ListsInTime, "of", hurried)
    search, (mapping,) = searched(spec, "energy")
    value = einmap.evaluate(spec, mapping).energy
    assert best * (1 - 1e-9) <= value < before
    assert search.value == pytest.approx(value, rel=1e-9)
    changed = {name for name, part in search.parts.items() if any(len(path.plans) > 1 for path in part.paths)}
    assert changed
    # they had time, and are looked for no more
    assert not search.lists.hurried & changed
    assert not chosen_anew(search, search.floors_before_plans).keys() & changed


def test_a_search_without_time_for_lists_says_that_it_is_not_proven(monkeypatch):
    monkeypatch.setattr(thin_plans, "FOR_LISTS", 1e-9)
    monkeypatch.setattr(FloorsBeforePlans, "learn_room", lambda *_, **__: None)
    result = einmap.map_workload(layers(2), metrics="energy", time_limit_s=20)
    assert not result.optimal
    assert math.isfinite(result.gap)


def test_a_search_without_time_for_lists_is_proven_where_its_bound_is_reached(monkeypatch):
    best = einmap.map_workload(layers(2), metrics="energy")
    monkeypatch.setattr(thin_plans, "FOR_LISTS", 1e-9)
    result = einmap.map_workload(layers(2), metrics="energy", time_limit_s=20)
    assert result.optimal
    assert result.cost.energy == pytest.approx(best.cost.energy, rel=1e-9)


@few_and_many("seeds", (range(6),), ((*range(6, 12), *range(1_000, 1_200)),), parts=4, part="fusion")
def test_what_is_proven_without_time_for_lists_is_the_optimum(seeds, monkeypatch):
    proven = 0
    for seed in seeds:
        rng = random.Random(seed)
        problem = draw_wide(rng)[0] if seed % 2 else draw_problem(rng, small=True)
        goal = rng.choice(("energy", "latency", "energy_delay_product"))
        asked = {"metrics": goal, "semantics": problem.semantics, "max_fused_loops": problem.max_fused_loops}
        try:
            best = einmap.map_workload(problem.spec, **asked).cost
            with monkeypatch.context() as hurried:
                hurried.setattr(thin_plans, "FOR_LISTS", 1e-9)
                found = einmap.map_workload(problem.spec, time_limit_s=20, **asked)
        except einmap.EinmapError:
            continue
        cost = found.cost
        value, least = (cost.edp, best.edp) if "_" in goal else (getattr(cost, goal), getattr(best, goal))
        assert found.lower_bound * (1 - 1e-9) <= least <= value * (1 + 1e-9), seed
        if found.optimal:
            assert value == pytest.approx(least, rel=1e-8), seed
            proven += 1
    assert proven * 10 > len(seeds)


def test_lists_that_would_take_too_long_are_not_begun():
    spec = layers(2)
    search = FusedSearch(spec, read_options(spec, metrics="energy"))
    einsum = next(e for e in spec.workload.einsums if not e.is_copy)
    asked = einsum, spec.arch(einsum.name), search.request(einsum)
    assert PlannedEinsum.whole(*asked, Progress().within(1e-4)) is None
    whole = PlannedEinsum.whole(*asked, Progress().within(600))
    assert [path.plans for path in whole.paths] != []
    nodes = [plan.placement for path in PlannedEinsum.of(*asked, Progress()).paths for plan in path.plans]
    assert [plan.placement for path in whole.paths for plan in path.plans] == nodes


def test_what_was_listed_before_an_einsum_with_too_many_choices_has_a_few(monkeypatch):
    spec = layers(2)
    search = FusedSearch(spec, read_options(spec, metrics="energy"))
    einsum = next(e for e in spec.workload.einsums if not e.is_copy)
    whole = PlannedEinsum.of(einsum, spec.arch(einsum.name), search.request(einsum), Progress())
    lists = thin_plans.ListsInTime(Progress().within(600), "energy", 1)
    assert lists.thinner(whole, 1) is whole
    lists.are_few = True
    assert lists.thinner(whole, 1) is whole
    monkeypatch.setattr(thin_plans, "MANY", 0)
    thin = lists.thinner(whole, 1)
    assert not thin.has_all
    placements = {plan.placement for path in whole.paths for plan in path.plans}
    assert {plan.placement for path in thin.paths for plan in path.plans} <= placements


@pytest.mark.parametrize("goal", ["energy", "energy_delay_product"])
def test_a_few_choices_come_first_where_all_are_listed_but_far_too_many(goal, monkeypatch):
    spec = layers(2)
    search = FusedSearch(spec, read_options(spec, metrics=goal))
    search.begin(Progress())
    assert not has_far_too_many(search)
    monkeypatch.setattr(few_choices, "FAR_TOO_MANY", 0)
    assert has_far_too_many(search)
    (mapping,) = search.of_few_choices()
    cost = einmap.evaluate(spec, mapping)
    value = cost.energy if goal == "energy" else cost.edp
    assert search.value == pytest.approx(value, rel=1e-9)
    best = einmap.map_workload(spec, metrics=goal).cost
    assert (best.energy if goal == "energy" else best.edp) <= value * (1 + 1e-9)
    # what is found is kept where nothing better is, and the search goes on to the best
    search.best_so_far = [mapping]
    assert search.of_few_choices() == [mapping]
    search.begin_again(search.options.most_fused)
    found = search.within(search.value) or [mapping]
    of_found = einmap.evaluate(spec, found[0])
    assert (of_found.energy if goal == "energy" else of_found.edp) <= value * (1 + 1e-9)
