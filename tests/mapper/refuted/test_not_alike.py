"""Einsums that are written alike and are not: what an expression means differs by Einsum, its text does not."""

import pytest
from tests.mapper.fusion.combine import optimum
from tests.mapper.refuted.beaten import beaten
from tests.mapper.specs import compute, memory

import einmap

SUM, LATENCY = "(read_latency + write_latency)", "sum(a.n_calls / a.throughput for a in actions)"
APART = ["X[m0] = B[m0, k0]", "Y[m1] = A[m1, k1]"]
CHAIN = ["X[m0, k0] = B[m0, k0] * C[k0]", "Y[m0, k0] = X[m0, k0] * D[k0]", "Z[m0, k0] = Y[m0, k0] * E[k0]"]
SIZES = {"M0": 4, "M1": 4, "K0": 4, "K1": 4}
OUTER, INNER = memory("Main", "inf", 1, {"keep": "All"}), memory("Buf", 64, 1, {"may_keep": "All"})


def test_what_beat_a_proven_result_is_found():
    problem = beaten("isomorphism-total-latency-variable")
    result = problem.search()
    assert result.optimal
    # 16 reads of A for 100 s each, and 4 writes of Y; 4 x 20 x 0.01 s of the other Einsum, whose inner memory is busier
    assert result.cost.latency == problem.value(problem.better) == pytest.approx(2000.44)


def varying(way, factor, einsums, **more):
    """Main takes `factor` times as long, which differs by Einsum and is said in one of several ways."""
    outer, arch = dict(OUTER, **more), {}
    match way:
        case "variable":
            arch = {"variables": {"slow": factor}}
        case "attribute":
            outer["extra_attributes_for_component_model"] = {"slow": factor}
        case "rename":
            factor = factor.replace("A", "special").replace("D", "special")
            arch = {"variables": {"slow": factor}}
        case "list":
            arch = {"variables": {"slows": f"[1, {factor}]", "slow": "slows[-1]"}}
    outer["total_latency"] = f"slow * {LATENCY}"
    sizes = {rank: size for rank, size in SIZES.items() if rank.lower() in str(einsums)}
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 1}, "einsums": list(einsums)}
    if way == "rename":
        special = "D" if einsums is CHAIN else "A"
        workload["einsums"] = [
            {"einsum": text, "renames": {"special": special if special in text else "Nothing"}} for text in einsums
        ]
    return einmap.Spec.from_dict({"arch": {**arch, "nodes": [outer, INNER, compute()]}, "workload": workload})


@pytest.mark.parametrize("way", ["variable", "attribute", "rename", "list"])
def test_latencies_whose_terms_differ_by_einsum_are_searched_one_by_one(way):
    spec = varying(way, "100 if len(A) else 0.01", APART)
    result = einmap.map_workload(spec, metrics="latency")
    assert result.optimal
    alone = [
        einmap.map_workload(varying("variable", factor, [text]), metrics="latency").cost.latency
        for factor, text in zip(("0.01", "100"), APART, strict=True)
    ]
    assert result.cost.latency == pytest.approx(sum(alone))


@pytest.mark.parametrize("way", ["variable", "attribute", "rename", "list"])
def test_latencies_whose_terms_differ_by_einsum_in_a_cascade(way):
    spec = varying(way, "20 if len(D) else 0.05", CHAIN, tensors={"keep": "~Intermediates", "may_keep": "All"})
    result = einmap.map_workload(spec, metrics="latency", max_fused_loops=1)
    assert result.optimal
    assert result.cost.latency == pytest.approx(optimum(spec, "latency", max_fused_loops=1))


def test_a_copy_that_makes_a_machine_slower_is_left_out():
    # an input that is copied is read as an intermediate, for which everything takes 30 times as long
    factor = "30 if len(Intermediates) else 1"
    spec = varying("variable", factor, ["X[m0] = A[m0, k0] * B[k0]", "Y[m0] = A[m0, k0] * C[k0]"], tensors={
        "keep": "~Intermediates", "may_keep": "All",
    })  # fmt: skip
    result = einmap.map_workload(spec, metrics="latency")
    assert result.optimal
    assert result.shared_inputs == ()
    assert result.cost.latency == einmap.map_workload(spec, metrics="latency", share_inputs=False).cost.latency


@pytest.mark.parametrize("limits", [{}, {"fuse": False}, {"time_limit_s": 0}, {"max_evaluations": 1}], ids=str)
def test_einsums_that_disagree_on_what_the_outermost_memory_keeps_have_no_mapping(limits):
    # Main keeps the inputs of each Einsum and nothing else: X has to be there for Y, and must not be for X
    spec = varying("variable", "1", CHAIN[:2], tensors={"keep": "Inputs", "may_keep": "Nothing"})
    with pytest.raises(einmap.NoMappingError, match="fit together"):
        einmap.map_workload(spec, metrics="energy", **limits)
