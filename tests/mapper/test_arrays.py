"""The mapper searches arrays of memories that are several units with tables: judged by brute force and drawn mappings."""

import random

import numpy as np
import pytest
from tests.amounts import few_and_many
from tests.random_specs.arrays import draw_machine, draw_mapping

from einmap import MappingError, Spec, evaluate, loads, map_workload
from einmap.errors import NoMappingError, NotSupportedError
from einmap.mapper.branch_and_bound import einsum_search
from einmap.mapper.fusion.fronts.unfused_fronts import UnfusedFronts
from einmap.mapper.objective import objective_kernels
from einmap.mapping.nodes import Storage

REPLICATED = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, leak_power: 0, area: 0, tensors: {keep: All},
             actions: [{name: read, energy: 10, throughput: inf}, {name: write, energy: 10, throughput: inf}]}
  - !Array
    name: PEs
    spatial: [{name: X, fanout: 4, min_usage: 1, loop_bounds: [{expression: k, operator: ==, value: 1}]}]
    nodes:
    - !Memory {name: Buf, size: SIZE, leak_power: 0, area: 0, tensors: {keep: A, may_keep: Nothing}, spatial: [{name: X, fanout: 2}], MORE
               actions: [{name: read, energy: 1, throughput: inf}, {name: write, energy: 1, throughput: inf}]}
    - !Network {name: Noc, leak_power: 0, area: 0, actions: [{name: hop, energy: 1, latency: 0, throughput: inf}]}
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 0, throughput: 1}]}
workload:
  iteration_space_shape: {m: 0 <= m < 4, k: 0 <= k < 2}
  bits_per_value: {All: 1}
  einsums: ["Z[m, k] = A[k] * B[m, k]"]
"""


def best(size, more="", **options):
    return map_workload(loads(REPLICATED.replace("SIZE", size).replace("MORE", more)), metrics="energy", **options)


def test_a_tile_fits_that_is_dealt_out_over_units():
    # m over lanes: B and Z 10 for each of 8 values and 1 + 2 + 3 steps for each k. A: 10 + 1 to bring each of 2 values
    # in, then 1 read and 3 steps; with copies 2 writes, 2 reads, and a step in each of two units
    dealt, copied = best("1"), best("2", "replicate: A,")
    others = 2 * (8 * 10 + 2 * (1 + 2 + 3))
    assert (dealt.cost.energy, dealt.optimal) == (others + 2 * (10 + 1 + 1 + 3), True)
    assert (copied.cost.energy, copied.optimal) == (others + 2 * (10 + 2 + 2 + 2), True)
    assert evaluate(dealt.spec, dealt.mapping).energy == dealt.cost.energy
    with pytest.raises(NoMappingError, match="A 1 bit at Buf even with tile shape 1"):
        best("0")


MISFIT = (
    REPLICATED.replace("0 <= m < 4", "0 <= m < 3")
    .replace("0 <= k < 2", "0 <= k < 4")
    .replace(
        "fanout: 4, min_usage: 1, loop_bounds: [{expression: k, operator: ==, value: 1}]", "fanout: 6, min_usage: 1"
    )
    .replace("keep: A, may_keep: Nothing", "may_keep: ~Z")
    .replace("fanout: 2}], MORE", "fanout: 3}],")
    .replace("SIZE", "inf")
)


def test_lanes_need_to_fit_the_units_where_something_lies_in_these():
    # three lanes over m beside two over k: with the two outside, 3 places apart, units of 2 lanes hold nothing
    found = map_workload(loads(MISFIT), metrics="energy")
    assert found.optimal
    assert found.cost.energy == map_workload(loads(MISFIT), metrics="energy", brute_force=True).cost.energy
    assert found.stats.by_einsum["Z"]["brute_force"] is None


CASCADE = """
arch:
  nodes:
  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: ~Intermediates, may_keep: All}}
  - !Array
    name: PEs
    spatial: [{name: X, fanout: 2}]
    nodes: [!Memory {name: Buf, size: 64, component_class: Dummy, spatial: [{name: X, fanout: 2}]}]
  - !Compute {name: MAC, leak_power: 0, area: 0, actions: [{name: compute, energy: 1, throughput: 1}]}
workload:
  iteration_space_shape: {m: 0 <= m < 2, n: 0 <= n < 2}
  bits_per_value: {All: 8}
  einsums: ["Y[m, n] = A[m] * B[n]", "Z[m, n] = Y[m, n] * C[n]"]
"""


def test_cascades_are_searched_without_tensors_that_einsums_share_in_units():
    found = map_workload(loads(CASCADE), metrics="latency")
    assert found.cost.latency == 2 * 4 / 2
    assert evaluate(found.spec, found.mapping).latency == found.cost.latency
    inside = CASCADE.replace(
        "  - !Memory {name: DRAM, size: inf, component_class: Dummy, tensors: {keep: ~Intermediates, may_keep: All}}\n",
        "",
    )
    with pytest.raises(NotSupportedError, match="an outermost memory of several units with several Einsums"):
        map_workload(loads(inside))


KEPT = (
    CASCADE.replace(
        "  - !Array",
        """  - !Memory {name: Shelf, size: 64, leak_power: 0, area: 0, tensors: {keep: Nothing, may_keep: Y}, actions: [
      {name: read, energy: 2, throughput: 1}, {name: write, energy: 2, throughput: 1}]}
  - !Array""",
    )
    .replace("component_class: Dummy, spatial", "leak_power: 0, area: 0, ACTIONS, spatial")
    .replace("component_class: Dummy, tensors", "leak_power: 0, area: 0, ACTIONS, tensors")
    .replace("ACTIONS", "actions: [{name: read, energy: 5, throughput: 2}, {name: write, energy: 4, throughput: 2}]")
)


@pytest.mark.parametrize("goal", ["energy", pytest.param("latency", marks=pytest.mark.slow)])
def test_einsums_of_cascades_are_searched_with_tables_by_themselves(goal, monkeypatch):
    found = map_workload(loads(KEPT), metrics=goal)
    assert {part["brute_force"] for part in found.stats.by_einsum.values()} == {None}
    assert "keep Y of Y inside tile by tile, since 'Buf' is several units of an array" in found.reason
    monkeypatch.setattr(UnfusedFronts, "has_tables", False)
    tried = map_workload(loads(KEPT), metrics=goal)
    assert getattr(found.cost, goal) == pytest.approx(getattr(tried.cost, goal))
    if goal == "energy":
        # the shelf costs less than the DRAM and what the units hold must go past it
        assert ("Shelf", ("Y",)) in [(p.node.component, p.node.tensors) for p in found.mapping.placed if is_storage(p)]


def is_storage(placed):
    return isinstance(placed.node, Storage)


def judged(seed, drawn=60):
    """Compare the optimum of a small problem with random mappings; how many of these could be counted."""
    rng = random.Random(seed)
    case = draw_machine(rng, most=4)
    goal = rng.choice(["energy", "latency"])
    try:
        found = map_workload(Spec.from_dict(case), metrics=goal, max_evaluations=3_000)
    except (MappingError, NotSupportedError):
        return 0
    again = evaluate(found.spec, found.mapping)
    assert (again.energy, again.latency) == (found.cost.energy, found.cost.latency)
    if not found.optimal:
        return 0
    counted = 0
    for _ in range(drawn):
        mapping = draw_mapping(rng, case, ("X", "Y"))
        loops = [(n["name"], n["rank_variable"]) for n in mapping["nodes"] if n["type"] == "Spatial"]
        if len(set(loops)) < len(loops):
            continue
        try:
            cost = evaluate(Spec.from_dict({**case, "mapping": mapping}))
        except (MappingError, NotSupportedError):
            continue
        counted += 1
        assert getattr(found.cost, goal) <= getattr(cost, goal) * (1 + 1e-9), seed
    return counted


@few_and_many("seeds, tries, least", ((2, 5, 18), 60, 3), (range(100, 260), 200, 5), parts=4)
def test_no_mapping_that_is_drawn_is_better(seeds, tries, least):
    assert sum(judged(seed, tries) > 0 for seed in seeds) >= least


def test_mappings_that_cannot_be_counted_are_named():
    case = REPLICATED.replace("Z[m, k] = A[k] * B[m, k]", "Z[m] = A[S: m + k] * B[k]").replace(
        ", min_usage: 1, loop_bounds: [{expression: k, operator: ==, value: 1}]", ""
    )
    for goal in ("latency", "energy_delay_product"):
        found = map_workload(loads(case.replace("SIZE", "inf").replace("MORE", "")), metrics=goal)
        # lanes, over m or k, would need parts of A that overlap
        assert (found.cost.latency, found.optimal) == (4 * 2, False)
        assert found.stats.by_einsum["Z"]["brute_force"] is None
        assert found.not_searched == (
            "mappings of Z that cannot be counted (what units of an array have is not known)",
        )


def draw_small(seed, most):
    """A problem that brute force gets through, with memories that may be too small; its objective."""
    rng = random.Random(seed)
    case = draw_machine(rng, most=4)
    size = 1
    for variable, text in case["workload"]["iteration_space_shape"].items():
        n = int(text.split("<")[-1])
        n = n if size * n <= most else 1
        size *= n
        case["workload"]["iteration_space_shape"][variable] = f"0 <= {variable} < {n}"
    for node in case["arch"]["nodes"]:
        for leaf in (node, *node.get("nodes", ())):
            for dimension in leaf.get("spatial", ()):
                dimension["fanout"] = min(dimension["fanout"], 2 if dimension["name"] == "Y" else 4)
            if leaf["type"] == "Memory" and leaf["name"] != "DRAM":
                leaf["size"] = rng.choice([leaf["size"], 8 * rng.randint(1, 12)])
                leaf["leak_power"] = rng.choice([0, 0, 1])
    return case, rng.choice(["energy", "latency", "energy_delay_product"])


def optimum(case, goal, **options):
    """The best value, None where nothing fits, and whether it is proven; or why there is no answer."""
    try:
        found = map_workload(Spec.from_dict(case), metrics=goal, **options)
    except NoMappingError:
        return None, True
    except (MappingError, NotSupportedError):
        return "refused", False
    cost = evaluate(found.spec, found.mapping)
    return {"energy": cost.energy, "latency": cost.latency, "energy_delay_product": cost.edp}[goal], found.optimal


def against_brute_force(seed, most):
    """Whether tables and brute force, which agree as far as they went, both proved what they found."""
    case, goal = draw_small(seed, most=4)
    ours, is_proven = optimum(case, goal, max_evaluations=50_000)
    theirs, is_all = optimum(case, goal, brute_force=True, max_evaluations=most)
    if "refused" in (ours, theirs):
        return False
    if is_all and is_proven:
        assert ours == pytest.approx(theirs, rel=1e-9), seed
    elif is_proven and theirs is not None:
        assert ours is not None, seed
        assert ours <= theirs * (1 + 1e-9), seed
    return is_all and is_proven


@few_and_many("seeds", ((1034, 1035, 1039, 1040, 1045),), (range(1020, 1060),), parts=2)
def test_tables_find_what_brute_force_finds(seeds):
    assert sum(against_brute_force(seed, 6_000) for seed in seeds) >= 5


def search_front(seed):
    """Search all mappings that are best in energy or latency."""
    try:
        map_workload(Spec.from_dict(draw_small(seed, most=64)[0]), metrics="energy|latency", max_evaluations=3_000)
    except (MappingError, NotSupportedError, NoMappingError):
        return


@pytest.fixture
def bounded(monkeypatch):
    """How far each mapping whose cost a search asks for is above its bound, as a part of the cost."""
    above = []
    judge = einsum_search.SearchRun.judge

    def judged(self, search, compiled, number, walk):
        n = len(compiled.levels)
        low = np.empty(len(search.goal_codes))
        prefix = int(walk.prefix_at[n])
        objective_kernels.objectives(
            walk.acc[n], search.leak[prefix], walk.occupied[n], search.capacity, walk.kept, search.goal_codes, low
        )
        points = [int(x) for x in walk.point_at[1 : n + 1]]
        values = search.judged(einsum_search.mapping_of(search, compiled, prefix, points), walk.occupied[n])
        if values is not None:
            above.append(float(((values - low) / np.maximum(values, 1e-12)).min()))
        judge(self, search, compiled, number, walk)

    monkeypatch.setattr(einsum_search.SearchRun, "judge", judged)
    return above


@few_and_many("seeds, least", ((1005, 1013, 1015, 1017, 1020), 20), (range(3000, 3060), 100))
def test_no_mapping_costs_less_than_its_bound(seeds, least, bounded):
    for seed in seeds:
        search_front(seed)
    assert len(bounded) > least
    assert min(bounded) > -1e-9
