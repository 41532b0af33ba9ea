"""The recorded cases of `tests/golden`: an evaluated mapping each, with every number that it should give.

`evaluate.jsonl` holds AccelForge's numbers, `exact.jsonl` those of an independent simulator, `invalid.jsonl`
mappings that must be refused. What both presets decide differently from AccelForge is left out of the first.
"""

import json
import math
from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from einmap import CapacityError, EinmapError, FanoutError, evaluate, loads

GOLDEN = Path(__file__).parents[1] / "golden"
DIFFERENT = {"imperfect", "imperfect_temporal", "imperfect_spatial", "copy", "copy_and_matmul", "network"}


@cache
def cases(name):
    lines = (GOLDEN / f"{name}.jsonl").read_text().splitlines()
    return {case["id"]: case for case in map(json.loads, lines)}


def is_left_out(case):
    return bool(DIFFERENT & set(case["features"])) or "is_copy_operation: true" in case["workload_yaml"].lower()


def ids(name):
    return [key for key, case in cases(name).items() if name != "evaluate" or not is_left_out(case)]


def run(case, semantics):
    parts = (case.get(f"{part}_yaml") for part in ("arch", "workload", "mapping"))
    return evaluate(loads("\n".join(part for part in parts if part)), semantics=semantics)


def table(rows, n_keys):
    """Rows of keys and a value, added up; zeros left out."""
    found: dict = defaultdict(float)
    for row in rows:
        found[tuple(row[:n_keys])] += row[n_keys] or 0
    return {key: value for key, value in found.items() if value}


def differences(what, want, have):
    return [
        f"{what} {key}: expected {want.get(key, 0):.10g}, got {have.get(key, 0):.10g}"
        for key in sorted(want.keys() | have.keys(), key=str)
        if not math.isclose(want.get(key, 0), have.get(key, 0), rel_tol=1e-6, abs_tol=1e-300)
    ]


def compare(expected, cost, with_leakage):
    """All differences between the recorded result and a Cost."""
    counted = [(r.einsum, r.component, r.tensor, r.action, r.count) for r in cost.actions if r.action != "leak"]
    priced = [(r.einsum, r.component, r.tensor, r.action, r.energy) for r in cost.actions]
    kept = [lambda row: True, lambda row: row[3] != "leak"][not with_leakage]
    bad = differences("count", table(expected["actions"], 4), table(counted, 4))
    bad += differences("energy", table(filter(kept, expected["energy"]), 4), table(filter(kept, priced), 4))
    bad += differences(
        "latency",
        table(expected["latency"], 2),
        table([(r.einsum, r.component, r.latency) for r in cost.latencies], 2),
    )
    bad += differences("total", {"latency": expected["latency_total"]}, {"latency": cost.latency})
    bad += differences(
        "memory usage",
        {k: v for k, v in expected["memory_usage"].items() if v},
        {r.component: r.usage for r in cost.memory_usage if r.usage},
    )
    if "memory_usage_detail" in expected:
        used = [(r.einsum, r.component, r.tensor, r.usage) for r in cost.memory_usage_by_tensor]
        bad += differences("usage of a tensor", table(expected["memory_usage_detail"], 3), table(used, 3))
    lanes = [(r.einsum, r.component, r.dimension, r.usage) for r in cost.spatial_usage]
    bad += differences("spatial usage", table(expected["spatial_usage"], 3), table(lanes, 3))
    if with_leakage:
        bad += differences("total", {"energy": expected["energy_total"]}, {"energy": cost.energy})
        for field in ("total_area", "total_leak_power"):
            want = {
                name: total[field] for name, total in expected.get("component_totals", {}).items() if total.get(field)
            }
            have = {r.component: getattr(r, field) for r in cost.components if getattr(r, field)}
            bad += differences(field, want, have) if "component_totals" in expected else []
    return bad


@pytest.mark.parametrize("key", ids("evaluate"))
def test_accelforge_counts_as_recorded(key):
    case = cases("evaluate")[key]
    assert compare(case["expected"], run(case, "accelforge"), with_leakage=not case.get("suspect")) == []


@pytest.mark.parametrize("key", ids("exact"))
def test_exact_counts_what_the_simulator_counted(key):
    case = cases("exact")[key]
    expected = case["expected"]
    if "invalid" not in expected:
        assert compare(expected, run(case, "exact"), with_leakage=True) == []
        return
    with pytest.raises({"capacity": CapacityError, "fanout": FanoutError}[expected["invalid"]]) as caught:
        run(case, "exact")
    if expected["invalid"] == "fanout":
        assert f"{expected['component']}.{expected['dimension']}" in str(caught.value)
        assert f"{expected['needed']} instances" in str(caught.value)
    elif isinstance(error := caught.value, CapacityError) and error.component == expected["component"]:
        assert error.needed_bits == expected["needed_bits"]
        assert error.capacity_bits == expected["capacity_bits"]


@pytest.mark.parametrize("key", [key for key in ids("exact") if "invalid" in cases("exact")[key]["expected"]])
def test_what_is_too_large_under_exact_fits_under_accelforge(key):
    case = cases("exact")[key]
    assert run(case, "accelforge").valid


@pytest.mark.parametrize("key", sorted(cases("evaluate").keys() - set(ids("evaluate"))))
def test_a_case_that_is_left_out_is_evaluated(key):
    case = cases("evaluate")[key]
    cost = run(case, "accelforge")
    # rounding up lanes and ragged tiles never makes an operation vanish
    operations = sum(row.count for row in cost.actions if row.action == "compute")
    expected = sum(row[-1] for row in case["expected"]["actions"] if row[3] == "compute")
    assert operations == pytest.approx(expected, rel=1e-6)


NETWORKS = {"eval-141": None, "eval-146": 3 * 228, "eval-191": 3 * 246, "eval-193": None, "eval-221": 7 + 3 * 912 / 8}
"""Seconds of the network: AccelForge counts the traffic of one delivery, there are 3 in the whole Einsum."""


@pytest.mark.parametrize("key", NETWORKS)
def test_networks_count_as_recorded_but_for_the_traffic_of_the_whole_einsum(key):
    case = cases("evaluate")[key]
    cost = run(case, "accelforge")
    times = dict(table([(r.component, r.latency) for r in cost.latencies], 1))
    assert times.get(("Noc",)) == NETWORKS[key]
    expected = {**case["expected"], "latency_total": max(times.values())}
    expected["latency"] = [row for row in expected["latency"] if row[1] != "Noc"]
    if ("Noc",) in times:
        expected["latency"].append(["Z", "Noc", times["Noc",]])
    assert compare(expected, cost, with_leakage=True) == []


# what a message must say besides the names, which are checked by hand in WHAT
KINDS = {
    "capacity": (CapacityError, "needs"),
    "joint_capacity": (CapacityError, "needs"),
    "fanout": (FanoutError, "fanout"),
    "incomplete_iteration": (EinmapError, "tile shape 1"),
    "missing_storage": (EinmapError, "no memory holds"),
    "unknown_component": (EinmapError, "no component"),
    "unknown_rank_variable": (EinmapError, "not a rank variable"),
    "inconsistent_split": (EinmapError, "'Z'"),
    "split_not_last": (EinmapError, "Sequential"),
}
CAUSES = {
    "invalid-001": ("'Buf'", "768", "767"), "invalid-002": ("'Buf'", "Z", "Y", "A", "1,540"),
    "invalid-003": ("'p'", "'Q'"), "invalid-004": ("'Z'",), "invalid-005": ("'RegFile'", "2,736"),
    "invalid-006": ("'L2'", "424"), "invalid-007": ("'RegFile'", "904"), "invalid-008": ("'RegFile'",),
    "invalid-009": ("'Buf'", "640", "600"), "invalid-010": ("'L3'", "'Z'", "Buf"), "invalid-011": ("'L2'",),
    "invalid-012": ("'L2'", "708"), "invalid-013": ("Grid.Y", "5", "2"), "invalid-014": ("'Buf'", "'DRAM'", "'Q'"),
    "invalid-015": ("PE.lane", "6", "4"), "invalid-016": ("'k'", "innermost tile 2"),
    "invalid-017": ("Buf.U", "8", "3"), "invalid-018": ("PE.lane", "5", "4"), "invalid-019": ("'Q'", "by 4", "by 6"),
    "invalid-020": ("follow",), "invalid-021": ("'r'", "'Conv'"), "invalid-022": ("'Buf'", "Z", "3,840"),
    "invalid-023": ("'q'", "'Z'"), "invalid-024": ("'L2'", "368"), "invalid-025": ("'B'",),
    "invalid-026": ("'Buf'", "1,488", "1,000"), "invalid-027": ("'Vector'", "PE"), "invalid-028": ("'L2'", "376"),
}  # fmt: skip


@pytest.mark.parametrize("key", ids("invalid"))
def test_an_invalid_mapping_is_refused_with_its_cause(key):
    case = cases("invalid")[key]
    kind, words = KINDS[case["kind"]]
    with pytest.raises(EinmapError) as caught:
        run(case, "accelforge")
    problems = getattr(caught.value, "problems", (caught.value,))
    assert all(isinstance(problem, kind) for problem in problems)
    text = str(caught.value)
    assert [word for word in (words, *CAUSES[key]) if word not in text] == []
