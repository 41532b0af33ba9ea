"""What a result may claim: `reason`, `optimal`, bound and gap of everything that is not searched like the rest."""

from itertools import product

import pytest
from tests.amounts import some
from tests.mapper.specs import MATMUL, compute, container, memory, spec, two_level

import einmap
from einmap.mapping.nodes import Storage
from einmap.mapping.template import AnyPlace

OUTER = {**memory("Main", "inf", 10, {"keep": "~Intermediates", "may_keep": "All"}), "leak_power": 0}
INNER = {**memory("Buf", 256, 1), "leak_power": 0}
MAC = compute(leak_power=0)
NODES = [OUTER, INNER, MAC]
CASCADE = ["X[m, n] = A[m, k] * B[k, n]", "Z[m, p] = X[m, n] * D[n, p]"]
SIZES = {"M": 4, "K": 2, "N": 4, "P": 2}
TWO_OUTPUTS = {
    "name": "X",
    "tensor_accesses": [
        {"name": "A", "projection": ["m"]},
        {"name": "X", "projection": ["m"], "output": True},
        {"name": "Y", "projection": ["m"], "output": True},
    ],
}


def cascade(nodes=NODES, einsums=CASCADE, sizes=SIZES):
    return spec(list(nodes), einsums, sizes)


def odd_latency():
    return cascade([OUTER, {**INNER, "total_latency": "max(read_actions, write_actions)**1.01"}, MAC])


BY_TRYING = {
    "several outputs": (
        lambda: cascade(einsums=[TWO_OUTPUTS, "Z[m] = X[m] * Y[m]"], sizes={"M": 4}),
        "mappings that keep X or Y inside",
        "it has several outputs",
    ),
    "lanes at the outermost memory": (
        lambda: cascade([{**OUTER, "spatial": [{"name": "X", "fanout": 2}]}, INNER, MAC]),
        "mappings that keep X inside",
        "lanes may stand above its outermost memory",
    ),
    "scattered outputs": (
        lambda: cascade(einsums=["X[m, n] = A[m] * B[n]", "Z[M: m + n] = X[m, n] * D[n]"], sizes={"M": 5, "N": 2}),
        "mappings that keep X inside",
        "output 'Z' is indexed by sums",
    ),
    "latency": (odd_latency, "mappings that keep X inside", "total_latency of 'Buf'"),
}


@pytest.mark.parametrize("name", BY_TRYING)
def test_einsums_that_are_searched_mapping_by_mapping_are_named_with_what_they_cannot_keep_inside(name):
    given, kept, why = BY_TRYING[name]
    result = einmap.map_workload(given(), metrics="edp", semantics="accelforge")
    assert not result.optimal
    assert "every other fused mapping was evaluated or ruled out by a bound; not searched: " in result.reason
    assert any(kept in text and why in text for text in result.not_searched)
    assert 0 < result.lower_bound < result.cost.edp
    assert result.gap > 0


def test_a_latency_that_no_objective_depends_on_is_no_reason_to_leave_anything_out():
    result = einmap.map_workload(odd_latency(), metrics="energy")
    assert (result.optimal, result.not_searched) == (True, ())
    assert result.cost.energy == einmap.map_workload(cascade(), metrics="energy").cost.energy
    leaking = odd_latency().set("arch.nodes[2].leak_power", 1)
    assert not einmap.map_workload(leaking, metrics="energy").optimal
    assert einmap.map_workload(leaking, metrics="dynamic_energy").optimal


OUTSIDE = {"V": einmap.PartialMapping((Storage(("C", "V"), "Main"), AnyPlace()))}
IMPERFECT = ("explore_imperfect_temporal_loops", "explore_imperfect_spatial_loops")
ONE_BY_ONE = {
    **{name: {name: True} for name in IMPERFECT},
    "brute_force": {"brute_force": True},
    "a given mapping": {"given": OUTSIDE},
}


@pytest.mark.parametrize(("metric", "cause"), some(3, product(["energy", "latency", "edp"], ONE_BY_ONE), each=True))
def test_a_cascade_that_is_mapped_einsum_by_einsum_is_proven_for_what_was_searched_only(cause, metric):
    given = cascade(einsums=[*CASCADE, "V[m] = C[m]"])
    best = einmap.map_workload(given, metrics=metric)
    result = einmap.map_workload(given, metrics=metric, **ONE_BY_ONE[cause])
    searched, left, since = "every unfused mapping", "mappings", f"each Einsum is mapped by itself with {cause}"
    if cause in IMPERFECT:
        searched, left, since = (
            "every fused mapping with perfect factors and every unfused one",
            "some mappings with imperfect factors",
            f"with {cause} only those are searched that are perfect in slightly larger ranks",
        )
        assert getattr(result.cost, metric) <= getattr(best.cost, metric)
    assert result.reason.startswith(searched)
    (pruned,) = result.not_searched
    assert pruned == f"{left} that keep X inside between Einsums, since {since}"
    assert result.reason.endswith(f"; not searched: {pruned}")
    assert not result.optimal
    assert 0 < result.lower_bound <= min(getattr(best.cost, metric), getattr(result.cost, metric))
    assert result.gap == pytest.approx(getattr(result.cost, metric) / result.lower_bound - 1)
    assert not result.stopped


def test_the_bound_of_a_cascade_that_is_not_fused_may_not_count_what_fusion_saves():
    # X never leaves the buffer in the best fused mapping: nothing but A, B, D and Z go through the outermost memory
    best = einmap.map_workload(cascade(), metrics="energy").cost.energy
    result = einmap.map_workload(cascade(), metrics="energy", brute_force=True)
    assert 0.5 * best < result.lower_bound <= best < result.cost.energy


def test_where_nothing_can_be_fused_einsums_one_by_one_are_all_there_is():
    apart = cascade(einsums=["X[m] = A[m] * B[m]", "Z[n] = C[n] * D[n]"])
    for options in ({"explore_imperfect_temporal_loops": True}, {"brute_force": True}, {}, {"fuse": False}):
        result = einmap.map_workload(apart, **options)
        assert (result.optimal, result.gap, result.not_searched) == (True, 0.0, ())
    # both users of X keep it outside, since their mappings are given
    held = {"X": ("A", "X"), "Z": ("D", "X")}
    given = {name: einmap.PartialMapping((Storage(own, "Main"), AnyPlace())) for name, own in held.items()}
    result = einmap.map_workload(cascade(), given=given)
    assert result.optimal
    assert result.reason.startswith("every unfused mapping like the given one (each Einsum by itself) was evaluated")


def test_who_asks_for_unfused_mappings_gets_the_best_of_these():
    result = einmap.map_workload(cascade(), fuse=False)
    assert result.optimal
    assert result.reason == "every unfused mapping (each Einsum by itself) was evaluated or ruled out by a bound"


def test_inputs_that_might_be_filled_once_for_all_are_named():
    given = cascade(einsums=["Y[m, n] = A[m, k] * B[k, n]", "Z[m, p] = A[m, k] * D[k, p]"])
    result = einmap.map_workload(given, brute_force=True)
    (pruned,) = result.not_searched
    assert pruned.startswith("mappings that fill A once for all Einsums that read it")
    assert result.lower_bound <= einmap.map_workload(given).cost.edp
    assert einmap.map_workload(given, brute_force=True, share_inputs=False).optimal


def test_an_objective_tolerance_is_a_gap():
    free, result = (einmap.map_workload(two_level(60), metrics="edp", objective_tolerance=t) for t in (0, 0.5))
    assert not result.optimal
    assert "but for what objective_tolerance 0.5 allows" in result.reason
    assert 0 < result.lower_bound <= free.cost.edp
    assert 0 < result.gap <= 1.5**2 - 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"tiling_coarseness": 4}, "with the tile shapes that tiling_coarseness 4 keeps"),
        ({"max_fused_loops": 0}, "with at most 0 fused loops (max_fused_loops)"),
        ({"max_fused_loops_per_rank_variable": 2}, "with at most 2 fused loops over each rank variable"),
    ],
)
def test_options_that_make_the_mapspace_smaller_or_larger_are_named(options, words):
    result = einmap.map_workload(cascade(), **options)
    assert result.optimal
    assert f"every fused mapping {words}" in result.reason


def test_imperfect_factors_of_what_is_searched_mapping_by_mapping_are_named():
    given = BY_TRYING["several outputs"][0]()
    result = einmap.map_workload(given, metrics="energy", explore_imperfect_temporal_loops=True)
    assert "imperfect factors of X, searched mapping by mapping (it has several outputs)" in result.not_searched
    assert not result.optimal
    assert 0 < result.lower_bound <= result.cost.energy


def test_a_copy_by_itself_has_its_nodes_of_one_memory_together():
    sizes = {"N_TOKENS": 4, "D_MODEL": 4, "HEADS": 2, "D_HEAD": 2, "D_IN": 4}
    spec = einmap.load("tpu_v4i", "attention", define=sizes)
    for options in ({}, {"explore_imperfect_spatial_loops": True}):
        result = einmap.map_workload(spec, metrics="energy", fuse=False, **options)
        assert einmap.evaluate(spec, result.mapping, strict=True) == result.cost
    assert any(text.startswith("imperfect factors of C") for text in result.not_searched)


@pytest.mark.parametrize("fuse", [True, False])
def test_dataplacements_that_were_not_asked_for_are_named(fuse):
    result = einmap.map_workload(cascade(), max_pmapping_templates_per_einsum=2, fuse=fuse)
    assert not result.optimal
    assert "dataplacements of X beyond max_pmapping_templates_per_einsum" in result.not_searched
    assert 0 < result.lower_bound <= einmap.map_workload(cascade()).cost.edp


def test_tile_shapes_for_which_there_was_no_room_are_named(monkeypatch):
    monkeypatch.setattr("einmap.mapper.mapper.left_of", lambda _limit, _at: 1_000_000)
    nodes = [OUTER, {**INNER, "size": 5000}, MAC]
    given = cascade(nodes, sizes={"M": 5040, "K": 720, "N": 720, "P": 2})
    result = einmap.map_workload(given, metrics="energy", workers=1)
    assert (
        "some tile shapes of X, since tables of all have no room (80 MB, or what memory_limit leaves)"
        in result.not_searched
    )
    assert result.reason.startswith("every other fused mapping was evaluated")
    assert not result.optimal
    assert not result.stopped
    assert 0 < result.lower_bound < result.cost.energy


def of_sixteen_lanes(sizes):
    lanes = [{"expression": "k", "operator": "==", "value": 16}]
    array = container({"name": "X", "fanout": 16, "loop_bounds": lanes})
    return spec([OUTER, {**INNER, "size": 5000}, array, MAC], MATMUL, sizes)


def test_tile_shapes_that_divide_are_tried_where_there_is_no_room_for_all_imperfect_ones(monkeypatch):
    monkeypatch.setattr("einmap.mapper.mapper.left_of", lambda _limit, _at: 2_000_000)
    given = of_sixteen_lanes({"M": 60, "K": 48, "N": 60})
    result = einmap.map_workload(given, metrics="energy", workers=1, explore_imperfect_temporal_loops=True)
    even = einmap.map_workload(given, metrics="energy")
    assert any(text.startswith("some tile shapes of") for text in result.not_searched)
    assert 0 < result.lower_bound <= result.cost.energy <= even.cost.energy


def test_where_nothing_is_found_what_was_not_searched_is_named(monkeypatch):
    with pytest.raises(einmap.NoMappingError, match="was found with the tile shapes that tiling_coarseness 1000 keeps"):
        einmap.map_workload(of_sixteen_lanes({"M": 8, "K": 48, "N": 8}), metrics="energy", tiling_coarseness=1000)
    monkeypatch.setattr("einmap.mapper.mapper.left_of", lambda _limit, _at: 2_000_000)
    given = of_sixteen_lanes({"M": 360, "K": 240, "N": 210})
    with pytest.raises(einmap.NoMappingError, match="was found; not searched: some tile shapes of Z, since tables"):
        einmap.map_workload(given, metrics="energy", workers=1, explore_imperfect_temporal_loops=True)


@pytest.mark.parametrize(
    ("metrics", "words"),
    [
        ("energy,latency", "there are several metrics"),
        ("resource_usage", "there is no lower bound of resource usage for what was not searched"),
        ("leak_energy,edp", "there are several metrics"),
        ("edp", None),
    ],
)
def test_a_missing_gap_is_explained(metrics, words):
    given = two_level(60)
    for node in range(3):
        given = given.set(f"arch.nodes[{node}].leak_power", 0)
    result = einmap.map_workload(given, metrics=metrics, max_pmapping_templates_per_einsum=1)
    assert not result.optimal
    assert (result.gap is None) == (words is not None)
    assert result.reason.endswith(f"; no gap is known: {words}" if words else "max_pmapping_templates_per_einsum")


@pytest.mark.parametrize(
    ("how", "why"),
    [({"brute_force": True}, "with brute_force"), ({"fuse": False}, "fusion was not asked for")],
    ids=["brute force", "fusion off"],
)
def test_no_unfused_mapping_is_said_to_be_no_more_than_that(how, why):
    # X must stay inside, where 48 bits have room for its tiles but not for the whole: only fused mappings are valid
    inside = {**memory("Buf", 48, 1, {"keep": "All"}), "leak_power": 0}
    tightened_paths = cascade([{**memory("Main", "inf", 10, {"keep": "~Intermediates"}), "leak_power": 0}, inside, MAC])
    best = einmap.map_workload(tightened_paths)
    assert best.optimal
    imperfect = einmap.map_workload(tightened_paths, explore_imperfect_temporal_loops=True)
    assert imperfect.cost.energy == best.cost.energy
    assert not imperfect.optimal
    with pytest.raises(einmap.NoMappingError) as caught:
        einmap.map_workload(tightened_paths, **how)
    assert "not searched: mappings that keep X inside between Einsums, since " in caught.value.message
    assert caught.value.message.endswith(why)
    assert caught.value.remedies


def test_metrics_that_cannot_be_tried_are_named_with_those_that_can():
    with pytest.raises(
        einmap.errors.NotSupportedError, match=r"'X' is searched mapping by mapping.* dynamic_energy"
    ) as caught:
        einmap.map_workload(spec(NODES, [TWO_OUTPUTS], {"M": 4}), metrics="dynamic_energy")
    assert "energy_delay_product" in caught.value.hint
