"""The best of Pipelines and all else is the less of the best without Pipelines and the brute force over Pipelines."""

import math
import random

import pytest
from tests.amounts import few_and_many
from tests.mapper.pipelined.brute import Brute

import einmap
from einmap.errors import NotSupportedError
from einmap.mapper.fusion_saving import unfused_comparison
from einmap.mapping.nodes import PerEinsum, Pipeline, Temporal
from einmap.mapping.template import AnyPlace

VALUES = {
    "latency": lambda energy, latency: latency,
    "energy_delay_product": lambda energy, latency: energy * latency,
    "energy": lambda energy, latency: energy,
}
CHAINS = {
    2: ["T1[m, n] = A[m, k] * B[k, n]", "Z[m, p] = T1[m, n] * D[n, p]"],
    3: ["T1[m, n] = A[m, n] * B[n]", "T2[m, n] = T1[m, n] * D[m]", "Z[m] = T2[m, n] * T1[m, n]"],
}


APART = ["Y[m, n] = A[m, k] * B[k, n]", "Z[m, p] = C[m, n] * D[n, p]"]
"""Products that need nothing of each other."""
IN_TURNS = ((1, 2), (2, 1))
"""Three Einsums in two stages."""


def drawn(rng, stages):
    """A small chain on a small machine: odd bounds leave lanes that one Einsum cannot use."""

    def action(name, energy, rate):
        return {"name": name, "energy": energy, "throughput": rate}

    sizes = {v: rng.choice((1, 2, 3) if stages == 2 else (1, 2)) for v in "KNP"}
    sizes["M"] = rng.choice((3, 3, 4)) if stages == 2 else 5
    keeps = rng.random() < 0.5
    main, buffer = rng.choice((1, 8, 64)), rng.choice((8, 64, "inf"))
    arch = [
        {"type": "Memory", "name": "Main", "size": "inf", "leak_power": rng.choice((0, 2)), "area": 0,
         "tensors": {"keep": "~Intermediates", "may_keep": "All"},
         "actions": [action("read", 10, main), action("write", 12, main)]},
        {"type": "Memory", "name": "Buffer", "size": rng.choice((8, 12, 16, 24, 64)), "leak_power": 0, "area": 0,
         "tensors": {"keep": "All" if keeps else "Intermediates", "may_keep": "All"},
         "actions": [action("read", 1, buffer), action("write", 1, buffer)]},
        {"type": "Container", "name": "Array", "spatial": [
            {"name": "X", "fanout": stages + rng.choice((0, 0, 1, 2)), "may_reuse": rng.choice(("All", "Nothing"))}]},
        {"type": "Compute", "name": "MAC", "leak_power": 0, "area": 0, "actions": [action("compute", 1, 1)]},
    ]  # fmt: skip
    return {
        "arch": {"nodes": arch},
        "workload": {"rank_sizes": sizes, "bits_per_value": {"All": 1}, "einsums": CHAINS[stages]},
    }, keeps


def with_rows(case, rng):
    """The machine with rows of MACs, each with a network to them."""
    hop = {"name": "hop", "energy": rng.choice((1, 4)), "latency": rng.choice((0, 1)), "throughput": rng.choice((1, 4))}
    network = {"type": "Network", "name": "Noc", "topology": rng.choice(("mesh", "all_to_all", "bus")),
               "leak_power": 0, "area": 0, "multicast": rng.random() < 0.7, "actions": [hop]}  # fmt: skip
    row = {"type": "Container", "name": "Row", "spatial": [{"name": "Y", "fanout": 2}]}
    main, buffer, array, unit = case["arch"]["nodes"]
    array["spatial"][0]["fanout"] = 2
    case["arch"]["nodes"] = [main, buffer, array, network, row, unit]


def compare(seed, stages, sizes=(None,), rows=False):
    """Whether a Pipeline is best, after the comparison. `sizes`: how many Einsums each stage may have."""
    rng = random.Random(seed)
    case, keeps = drawn(rng, stages if sizes == (None,) else 3)
    if rows:
        with_rows(case, rng)
    goal = rng.choice(("latency", "latency", "energy_delay_product"))
    spec = einmap.Spec.from_dict(case)
    options = {"metrics": goal, "share_inputs": False}
    try:
        alone = einmap.map_workload(spec, **options)
    except einmap.NoMappingError:
        return False
    most = max(max(of_stages or (1,)) for of_stages in sizes)
    ours = einmap.map_workload(spec, max_pipeline_stages=stages, max_einsums_per_stage=most, **options)
    value = VALUES[goal]
    assert ours.optimal
    brute = [Brute(case, keeps, of_stages).best(value) for of_stages in sizes]
    least = min(value(alone.cost.energy, alone.cost.latency), *brute)
    assert math.isclose(value(ours.cost.energy, ours.cost.latency), least, rel_tol=1e-9), seed
    return any(isinstance(placed.node, Pipeline) for placed in ours.mapping.placed)


def test_the_best_pipelines_are_those_of_the_brute_force():
    # seeds of which a Pipeline is best
    assert compare(1, 2)
    assert compare(3, 3)
    assert compare(1, 2, IN_TURNS)


def test_networks_below_the_lanes_of_stages_are_their_own():
    assert compare(2, 2, rows=True)


def side_by_side(seed, first=None):
    """Whether a Pipeline of two products that exchange nothing is best with fusion switched off, after the comparison.

    `first`: one more Einsum before them, whose innermost loop is given.
    """
    rng = random.Random(seed)
    case, keeps = drawn(rng, 2)
    case["workload"]["einsums"] = APART
    goal = "latency" if first else rng.choice(("latency", "latency", "energy_delay_product"))
    options, value = {"metrics": goal, "fuse": False}, VALUES[goal]
    given = {"G": einmap.PartialMapping((AnyPlace(), Temporal(PerEinsum(rng.choice("mkn")), PerEinsum(1))))}
    try:
        alone = einmap.map_workload(einmap.Spec.from_dict(case), **options).cost
    except einmap.NoMappingError:
        return False
    least = min(value(alone.energy, alone.latency), Brute(case, keeps).best(value))
    if first:
        case["workload"]["einsums"] = [first]
        least += einmap.map_workload(einmap.Spec.from_dict(case), given=given, **options).cost.latency
        case["workload"]["einsums"] = [first, *APART]
        options["given"] = given
    ours = einmap.map_workload(einmap.Spec.from_dict(case), max_pipeline_stages=2, **options)
    assert ours.optimal
    assert math.isclose(value(ours.cost.energy, ours.cost.latency), least, rel_tol=1e-9), seed
    return any(isinstance(placed.node, Pipeline) for placed in ours.mapping.placed)


@few_and_many("seeds, least", ((2,), 1), (range(10, 40), 5), part="fusion")
def test_with_fusion_switched_off_einsums_that_exchange_nothing_are_stages(seeds, least):
    assert sum(map(side_by_side, seeds)) >= least


@pytest.mark.slow
@pytest.mark.fusion
def test_einsums_without_a_given_mapping_are_stages_behind_one_with_it():
    first = "G[m, n] = E[m, k] * F[k, n]"
    assert sum(side_by_side(seed, first) for seed in range(10, 25)) >= 3


def test_with_fusion_switched_off_einsums_that_exchange_something_are_no_stages():
    found = einmap.map_workload(forked(), metrics="latency", fuse=False, max_pipeline_stages=2)
    assert found.optimal
    assert found.cost.latency == einmap.map_workload(forked(), metrics="latency", fuse=False).cost.latency == 256
    assert "at most 2 stages, none of which reads what another writes, was, too" in found.reason


def three():
    """A product, and two after it that need nothing of each other, on a machine with two Computes."""
    case = forked().to_dict()
    case["workload"]["einsums"] = [*CHAINS[2], "W[m, p] = T1[m, n] * F[n, p]"]
    return einmap.Spec.from_dict(case)


def test_an_einsum_with_a_given_mapping_is_not_a_stage_and_the_others_are():
    # all of T1 comes first, n outermost; then Z and W at one time, each 128 operations on a Compute of its own
    given = einmap.PartialMapping((AnyPlace(temporal=False), Temporal(PerEinsum("n"), PerEinsum(1)), AnyPlace()))
    options = {"metrics": "latency", "max_pipeline_stages": 2, "share_inputs": False}
    found = einmap.map_workload(three(), given={"T1": given}, **options)
    (pipeline,) = [placed.node for placed in found.mapping.placed if isinstance(placed.node, Pipeline)]
    assert [branch[-1].einsum for branch in pipeline.branches] == ["Z", "W"]
    loops = [placed.node for placed in found.mapping.path_of["T1"] if isinstance(placed.node, Temporal)]
    assert loops[0].rank_variable.of("T1") == "n"
    assert found.cost.latency == 128 + 128
    assert "2 stages, of Einsums without a given mapping, which exchange through" in found.reason
    assert einmap.evaluate(three(), found.mapping) == found.cost


def test_beside_a_single_einsum_that_is_free_there_is_no_pipeline():
    given = einmap.PartialMapping((AnyPlace(), Temporal(PerEinsum("k"), PerEinsum(1))))
    options = {"metrics": "latency", "given": {"T1": given}}
    found = einmap.map_workload(forked(), max_pipeline_stages=2, **options)
    assert found.cost.latency == einmap.map_workload(forked(), **options).cost.latency
    assert "no Pipeline was searched, since an Einsum with a given mapping is not a stage" in found.reason


@pytest.mark.slow
@pytest.mark.fusion
def test_networks_below_the_lanes_of_stages_are_their_own_on_more_machines():
    assert sum(compare(seed, 2, rows=True) for seed in range(30)) >= 5


@pytest.mark.slow
@pytest.mark.fusion
@pytest.mark.parametrize("stages", [2, 3])
def test_the_best_pipelines_are_those_of_the_brute_force_on_more_machines(stages):
    assert sum(compare(seed, stages) for seed in range(60)) >= 12


@pytest.mark.slow
@pytest.mark.fusion
def test_the_best_pipelines_with_einsums_in_turns_are_those_of_the_brute_force_on_more_machines():
    assert sum(compare(seed, 2, IN_TURNS) for seed in range(40)) >= 8


def forked():
    """Two products on a machine with a Compute for each of them beside the others."""
    case, _ = drawn(random.Random(3), 2)
    main, buffer, _, unit = case["arch"]["nodes"]
    nodes = [main | {"leak_power": 0}, buffer | {"size": 1000}, unit | {"name": "First"}, unit | {"name": "Second"}]
    case["arch"]["nodes"] = nodes
    for node in nodes[:2]:
        node["actions"] = [action | {"throughput": "inf"} for action in node["actions"]]
    case["workload"]["rank_sizes"] = {"M": 8, "K": 4, "N": 4, "P": 4}
    return einmap.Spec.from_dict(case)


def test_stages_take_computes_of_their_own():
    best = einmap.map_workload(forked(), metrics="latency", max_pipeline_stages=2)
    (pipeline,) = [placed.node for placed in best.mapping.placed if isinstance(placed.node, Pipeline)]
    assert pipeline.component is None
    # 128 operations each, in 32 tiles: one for each value of T1
    assert best.cost.latency == 128 + 128 / 32
    assert best.optimal
    assert "every cascade of Pipelines of at most 2 stages" in best.reason


def with_network(place):
    """Two products, a Compute each, with a network at a place among the components."""
    given = forked().to_dict()
    hop = {"name": "hop", "energy": 1, "latency": 0, "throughput": "inf"}
    given["arch"]["nodes"].insert(
        place, {"type": "Network", "name": "Noc", "leak_power": 0, "area": 0, "actions": [hop]}
    )
    return einmap.Spec.from_dict(given)


def test_a_network_to_one_of_the_computes_belongs_to_its_stage():
    best = einmap.map_workload(with_network(3), metrics="latency", max_pipeline_stages=2)
    assert best.cost.latency == 128 + 128 / 32
    assert best.optimal


def test_a_network_that_all_stages_would_cross_is_refused_with_its_place():
    with pytest.raises(NotSupportedError, match="a network that all stages cross") as refused:
        einmap.map_workload(with_network(2), metrics="latency", max_pipeline_stages=2)
    assert "arch.nodes[2]" in str(refused.value)


def softmax():
    """A softmax between two products: an array of two MACs, and a vector unit that is as fast as one."""
    case, _ = drawn(random.Random(3), 2)
    main, buffer, array, unit = case["arch"]["nodes"]
    main, buffer = (node | {"size": "inf", "leak_power": 0} for node in (main, buffer))
    for node, rate in ((main, 1), (buffer, "inf")):
        node["actions"] = [action | {"throughput": rate} for action in node["actions"]]
    array["spatial"][0] |= {"fanout": 2}
    vector = unit | {"name": "Vector", "enabled": "len(All) == 2"}
    nodes = [main, buffer, vector, array, unit | {"enabled": "len(All) > 2"}]
    einsums = ["S[m, p] = Q[m, e] * K[p, e]", "E[m, p] = exp(S[m, p])", "D[m] = E[m, p]", "Z[m, f] = E[m, p] * V[p, f]"]
    workload = {"rank_sizes": {"M": 8, "P": 4, "E": 4, "F": 4}, "bits_per_value": {"All": 1}, "einsums": einsums}
    return einmap.Spec.from_dict({"arch": {"nodes": nodes}, "workload": workload})


def test_einsums_of_one_unit_take_turns_in_a_stage():
    options = {"metrics": "latency", "share_inputs": False}
    best = einmap.map_workload(softmax(), max_pipeline_stages=3, max_einsums_per_stage=2, **options)
    (row,) = best.cost.pipelines
    assert [stage.einsums for stage in row.stages] == [("S",), ("E", "D"), ("Z",)]
    # products of 128 operations on a MAC each, the two between of 32 each; a tile is a value of S
    assert [stage.latency for stage in row.stages] == [128, 64, 128]
    assert (row.tiles, best.cost.latency) == (32, 128 + (64 + 128) / 32)
    assert best.optimal
    assert "at most 3 stages and 2 Einsums in each" in best.reason
    # the products with all lanes, and the others after them
    assert einmap.map_workload(softmax(), **options).cost.latency == 64 + 32 + 32 + 64


def test_what_fusion_saves_is_told_beside_pipelines():
    found = einmap.map_workload(forked(), metrics="latency", max_pipeline_stages=2)
    saving = unfused_comparison(found.spec, found, max_pipeline_stages=2)
    assert saving.rows[1].before == saving.unfused.cost.latency == 256


def test_no_more_than_three_stages_are_searched():
    with pytest.raises(NotSupportedError, match="at most 3 are searched, found 4"):
        einmap.map_workload(forked(), max_pipeline_stages=4)


def test_what_the_search_does_not_know_of_a_memory_is_refused_with_its_place():
    given = forked().to_dict()
    given["arch"]["nodes"][1]["buffering"] = "single"
    with pytest.raises(NotSupportedError, match="takes turns") as refused:
        einmap.map_workload(einmap.Spec.from_dict(given), max_pipeline_stages=2)
    assert "arch.nodes[1]" in str(refused.value)
