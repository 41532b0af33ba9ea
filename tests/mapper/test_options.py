"""Options: what is not implemented is refused by name, what makes no sense is explained."""

import math

import numpy as np
import pytest
from tests.mapper.specs import two_level

import einmap
from einmap.errors import NotSupportedError, SpecError


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("explore_loop_orders", False), ("explore_imperfect_temporal_loops", True),
        ("explore_imperfect_spatial_loops", True), ("tiling_coarseness", 2),
        ("max_pmapping_templates_per_einsum", 10), ("resource_usage_tolerance", 0.1), ("objective_tolerance", 0.1),
        ("memory_limit", 10**12),
    ],
)  # fmt: skip
def test_options_of_peers_are_taken_from_the_call_and_from_the_specification(option, value):
    called = einmap.map_workload(two_level(), **{option: value})
    written = einmap.map_workload(two_level().set("mapper", {option: value}))
    assert called.mapping == written.mapping


def test_brute_force_knows_perfect_factors_only():
    with pytest.raises(NotSupportedError, match="factors that divide"):
        einmap.map_workload(two_level(), brute_force=True, explore_imperfect_temporal_loops=True)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("explore_loop_orders", True),
        ("tiling_coarseness", 1),
        ("prioritize_reuse_of_unfused_tensors", True),
        ("max_fused_loops", 0),
        ("max_fused_loops_per_rank_variable", 3),
        ("info_metrics", "energy|latency"),
        ("info_metrics", 3),
        ("time_limit", 60),
        ("time_limit_s", np.float64(60)),
        ("max_evaluations", np.int64(50)),
        ("metrics", ["energy", "latency"]),
        ("metrics", None),
    ],
)
def test_defaults_and_options_that_hold_for_every_unfused_mapping_are_accepted(option, value):
    assert einmap.map_workload(two_level(sizes={"M": 2, "K": 2, "N": 2}), **{option: value}).front


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("metrics", [], "names no metric"),
        ("metrics", "", "names no metric"),
        ("metrics", ["energy", 3], "expected the name of a metric, found 3"),
        ("metrics", 2.5, "expected names of metrics, found 2.5"),
        ("metrics", -1, "flags"),
        ("info_metrics", "speed", "unknown metric 'speed' in info_metrics"),
        ("time_limit_s", "3", "expected a number, found '3'"),
        ("time_limit_s", -1, "not negative, found -1"),
        ("time_limit_s", math.nan, "not negative, found nan"),
        ("time_limit", "3", "expected a number, found '3'"),
        ("time_limit", -1, "time_limit: expected a number that is not negative"),
        ("seed", -1, "seed: expected an integer of at least 0, found -1"),
        ("seed", 1.5, "found 1.5"),
        ("max_evaluations", 0, "max_evaluations: expected an integer of at least 1, found 0"),
        ("max_evaluations", -5, "found -5"),
        ("max_evaluations", True, "found True"),
        ("semantics", 3, "semantics: expected the name of a preset, found 3"),
        ("max_fused_loops", -1, "max_fused_loops"),
        ("max_fused_loops", 1.5, "max_fused_loops: expected a whole number, found 1.5"),
        ("max_einsums_per_stage", 1.5, "max_einsums_per_stage: expected a whole number, found 1.5"),
        ("max_fused_loops_per_rank_variable", math.nan, "max_fused_loops_per_rank_variable"),
        ("explore_loop_orders", "no", "explore_loop_orders: expected true or false, found 'no'"),
        ("force_memory_hierarchy_order", 0, "expected true or false, found 0"),
        ("objective_tolerance", "0", "objective_tolerance: expected a number, found '0'"),
        ("max_fuse_loops", 1, "max_fused_loops"),
    ],
)
def test_options_that_make_no_sense_are_explained(option, value, words):
    with pytest.raises(SpecError, match=words):
        einmap.map_workload(two_level(), **{option: value})


@pytest.mark.parametrize(("option", "value"), [("time_limit", -1), ("metrics", []), ("max_fused_loops", -2)])
def test_the_same_holds_for_options_of_the_specification(option, value):
    with pytest.raises(SpecError) as error:
        einmap.map_workload(two_level().set("mapper", {option: value}))
    assert error.value.at.path == f"mapper.{option}"
