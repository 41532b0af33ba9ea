"""Cascades whose latency is not a sum over Einsums: bounds hold, and what is proven is the optimum."""

import pytest
from tests.amounts import few_and_many
from tests.mapper.fusion.every import drawn, judged
from tests.random_specs.nodes import spec_of

import einmap


def outcomes(kind, seeds, most):
    """How the mapper does beside all mappings, or the first of them."""
    found = [outcome for seed in seeds if (outcome := judged(seed, kind, most)) is not None]
    assert found
    return found


@few_and_many("seeds, most, share", ((4, 5, 6), 60, 1), (range(100, 220), 3_000, 0.8), parts=4, part="fusion")
def test_einsums_that_wait_for_values_are_mapped_as_well_as_can_be(seeds, most, share):
    found = outcomes("ways", seeds, most)
    assert found.count("proven") >= share * len(found)


@few_and_many("seeds, most, share", ((4, 5), 60, 1), ((6, *range(100, 220)), 3_000, 0.9), parts=4, part="fusion")
def test_bounds_of_einsums_that_overlap_hold(seeds, most, share):
    found = outcomes("overlap", seeds, most)
    assert found.count("proven") >= share * len(found)
    assert "neither" not in found


def two_readers_of_an_input(kind):
    """Three Einsums of which two read A, on a machine whose latency is not a sum over them."""
    _, written, _ = drawn(2, kind)
    written["workload"] = {
        "rank_sizes": {"M": 4, "K": 4},
        "bits_per_value": {"All": 8},
        "einsums": ["X[m] = A[m,k] * B[k]", "Y[m] = A[m,k] * D[k]", "Z[m] = X[m] * Y[m]"],
    }
    buffer = {"type": "Memory", "name": "Buffer", "size": 160, "leak_power": 0, "area": 0}
    slow = {"energy": 9, "throughput": 1, "pipeline_latency": 7 * (kind == "ways")}
    fast = {"energy": 1, "throughput": 8}
    main = {**buffer, "name": "Main", "size": "inf", "actions": [{"name": n, **slow} for n in ("read", "write")]}
    unit = {"type": "Compute", "name": "MAC", "leak_power": 0, "area": 0, "actions": [{"name": "compute", **fast}]}
    buffer["actions"] = [{"name": n, **fast} for n in ("read", "write")]
    written["arch"] = {"nodes": [main, buffer, unit]}
    return spec_of(written)


@pytest.mark.parametrize("kind", ["ways", "overlap"])
def test_copies_of_inputs_that_several_einsums_read_belong_to_the_result(kind):
    spec = two_readers_of_an_input(kind)
    result = einmap.map_workload(spec, metrics="latency")
    assert result.shared_inputs == ("A",)
    assert einmap.evaluate(result.spec, result.mapping).latency == result.cost.latency
    assert result.optimal
    tie = "another mapping with the same latency may take less energy"
    assert result.reason == f"every fused mapping was evaluated or ruled out by a bound; {tie}"


def test_what_is_proven_says_what_the_options_leave_of_the_mappings():
    result = einmap.map_workload(two_readers_of_an_input("ways"), metrics="latency", max_fused_loops=0)
    assert "fused mapping with at most 0 fused loops (max_fused_loops)" in result.reason


def test_a_search_that_ends_early_says_once_what_was_not_searched():
    given = two_readers_of_an_input("ways")
    result = einmap.map_workload(given, metrics="latency", max_evaluations=4, max_pmapping_templates_per_einsum=1)
    assert result.stopped
    assert result.reason.count("not searched") == 1
    assert result.reason.count("dataplacements of X") == 1


def test_several_metrics_give_a_front_that_is_not_called_proven():
    _, written, _ = drawn(6, "overlap")
    result = einmap.map_workload(spec_of(written), metrics="energy|latency")
    assert result.front
    assert not result.optimal
    assert "is not a sum over Einsums" in result.reason
