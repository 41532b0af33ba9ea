"""Every shipped distribution computes what the workload does, and sends what the books say."""

from dataclasses import replace

import pytest
from tests.distribute.shipped import DEVICES, IMPERFECT, PERFECT, shipped_plan

from einmap import load
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cost import communication, plan_cost
from einmap.frontends.yaml.spec import example_paths

MATMUL = {"M": 8, "K": 16, "N": 24}


def agree(plan, seed=0):
    inputs = sample_inputs(plan.workload, seed, plan.dtype)
    checks = check_outputs(plan.workload, inputs, LocalEngine().run(plan, inputs).outputs, plan.dtype)
    return bool(checks) and all(check.agrees for check in checks)


def traffic(names, sizes, devices):
    return [(row.kind, row.tensor, row.axes, row.count) for row in communication(shipped_plan(names, sizes, devices))]


@pytest.mark.parametrize("names", PERFECT, ids="-".join)
def test_the_result_is_that_of_the_whole_workload(names):
    assert agree(shipped_plan(names, PERFECT[names], 8))


def by_turns():
    """Each distribution on one of DEVICES, and marked slow on the others."""
    for position, names in enumerate(IMPERFECT):
        for turn, devices in enumerate(DEVICES):
            marks = [pytest.mark.slow, pytest.mark.distribute] if (position + turn) % len(DEVICES) else []
            yield pytest.param(names, devices, marks=marks, id=f"{'-'.join(names)}-{devices}")


@pytest.mark.parametrize(("names", "devices"), list(by_turns()))
def test_it_is_so_where_splits_are_imperfect_and_in_float32(names, devices):
    imperfect = shipped_plan(names, IMPERFECT[names], devices)
    assert agree(imperfect, seed=1)
    assert agree(replace(imperfect, dtype="float32"))


def test_every_shipped_distribution_is_tested():
    shipped = {name for name, path in example_paths().items() if path.parent.name == "distributions"}
    assert shipped == {distribution for _, distribution in IMPERFECT}


@pytest.mark.parametrize("devices", DEVICES)
def test_the_distributed_matmul_sends_its_share_of_the_result_and_an_all_reduce_twice_that(devices):
    share = (devices - 1) / devices * 8 * 24
    sent = {
        name: plan_cost(shipped_plan(("matmul", f"matmul_{name}"), MATMUL, devices)).sent_bytes / 8
        for name in ("reduce_scatter", "overlap", "all_reduce")
    }
    assert sent == {"reduce_scatter": share, "overlap": share, "all_reduce": 2 * share}


def test_the_chunks_of_the_overlapped_matmul_go_round_a_ring():
    assert traffic(("matmul", "matmul_overlap"), MATMUL, 4) == [("shift", "Z", ("x",), 3)]


def test_gathering_variants_move_an_operand_and_nothing_else():
    assert traffic(("matmul", "matmul_all_gather_a"), MATMUL, 4) == [("all_gather", "A", ("x",), 1)]
    assert traffic(("matmul", "matmul_all_gather_b"), MATMUL, 4) == [("all_gather", "B", ("x",), 1)]
    gathered = traffic(("matmul", "matmul_2d_gather"), MATMUL, 8)
    assert gathered == [("all_gather", "A", ("y",), 1), ("all_gather", "B", ("x",), 1)]


@pytest.mark.parametrize("devices", DEVICES)
@pytest.mark.parametrize("workload", ["attention", "attention_single_head"])
@pytest.mark.parametrize("softmax", ["safe", "plain"])
def test_attention_over_the_batch_sends_nothing(workload, softmax, devices):
    sizes = {**PERFECT[workload, "attention_over_b"], "SOFTMAX": softmax}
    plan = shipped_plan((workload, "attention_over_b"), sizes, devices)
    assert communication(plan) == ()
    assert agree(plan)


def test_attention_over_heads_reduces_the_output_projection_only():
    names = ("attention", "attention_over_h")
    assert traffic(names, PERFECT[names], 4) == [("all_reduce", "Z", ("x",), 1)]
    # whole heads, although 6 of them do not divide by 4
    assert traffic(names, IMPERFECT[names], 4) == [("all_reduce", "Z", ("x",), 1)]


def test_attention_over_heads_and_features_sums_K_Q_and_V_before_QK_and_leaves_Z_in_slices():
    names = ("attention", "attention_over_h_d")
    plan = shipped_plan(names, PERFECT[names], 8)
    rows = [(row.kind, row.tensor, row.axes, row.groups.count) for row in communication(plan)]
    assert rows == [*(("all_reduce", tensor, ("y",), 2) for tensor in "KQV"), ("all_reduce", "Z", ("x",), 4)]
    assert str(plan.by_name[dict(plan.outputs)["Z"]].placement) == "D: y"


def test_a_feed_forward_in_columns_and_rows_needs_one_all_reduce():
    names = ("feed_forward", "feed_forward_columns_rows")
    for gated in (0, 1):
        sizes = {**PERFECT[names], "GATED": gated}
        assert traffic(names, sizes, 4) == [("all_reduce", "Z", ("x",), 1)]
        assert agree(shipped_plan(names, {**IMPERFECT[names], "GATED": gated}, 4))


def test_a_layer_of_llama_in_tensor_parallel_is_derived_from_the_placements_of_its_weights():
    # at its full size: a plan needs no data
    rows = traffic(("llama3_8b", "llama3_8b_tensor_parallel"), {}, 8)
    assert rows == [("all_reduce", "Z", ("x",), 1), ("all_reduce", "FFD", ("x",), 1)]


def test_sequence_parallel_gathers_and_scatters_the_same_bytes_in_smaller_buffers():
    tensor, sequence = (
        shipped_plan(("llama3_8b", f"llama3_8b_{kind}_parallel"), {}, 8) for kind in ("tensor", "sequence")
    )
    rows = [(row.kind, row.tensor) for row in communication(sequence)]
    assert rows == [("all_gather", "XN"), ("reduce_scatter", "Z"), ("all_gather", "YN"), ("reduce_scatter", "FFD")]
    assert plan_cost(sequence).sent_bytes == plan_cost(tensor).sent_bytes
    assert plan_cost(sequence).buffer_bytes < plan_cost(tensor).buffer_bytes


def test_the_shipped_softmax_is_the_safe_one():
    assert "GM" in load("attention").workload.tensors
    assert "GM" not in load("attention", define={"SOFTMAX": "plain"}).workload.tensors
