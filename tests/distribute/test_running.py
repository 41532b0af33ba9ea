"""Einsums in turns that read totals so far: the online softmax, found from the Einsums, and what is refused."""

import numpy as np
import pytest
from tests.distribute.shipped import shipped_plan
from tests.distribute.test_turns import agrees

from einmap import Spec, SpecError, load
from einmap.distribute.backends.check import check_outputs, sample_inputs
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.costs.cost import communication, plan_cost
from einmap.distribute.derive import distribute_workload

SIZES = {"BATCH": 2, "N_TOKENS": 16, "D_IN": 4, "D_MODEL": 6, "HEADS": 3, "D_HEAD": 5}


@pytest.mark.parametrize("devices", [2, 4, 8])
def test_ring_attention_sends_a_block_of_keys_and_one_of_values_to_all_other_pes_in_turn(devices):
    """Liu et al., Ring attention with blockwise transformers for near-infinite context, 2023, section 3: in each step a
    PE sends its block of keys and its block of values to the next one; block, heads and features as there.
    """
    plan = shipped_plan(("attention", "attention_ring"), SIZES, devices)
    block = 2 * 3 * (16 // devices) * 5
    rows = [(row.kind, row.tensor, row.axes, row.count, row.sent_bytes / 8) for row in communication(plan)]
    assert rows == [("shift", tensor, ("x",), devices - 1, block) for tensor in "KV"]
    assert plan_cost(plan).sent_bytes / 8 == 2 * (devices - 1) * block


def test_no_pe_has_all_keys_or_all_scores_of_a_query():
    gathered = shipped_plan(("attention_single_head", "attention_single_head_over_p"), SIZES, 4)
    ring = shipped_plan(("attention_single_head", "attention_ring"), SIZES, 4)
    most = {
        plan: {
            tensor: max(np.prod(b.shape) for b in plan.buffers if b.tensor == tensor) for tensor in ("K", "QK", "SN")
        }
        for plan in (gathered, ring)
    }
    assert most[gathered] == {"K": 2 * 16 * 5, "QK": 2 * 16 * 4, "SN": 2 * 16 * 4}
    assert most[ring] == {"K": 2 * 4 * 5, "QK": 2 * 4 * 4, "SN": 2 * 4 * 4}
    assert not [buffer for buffer in ring.buffers if buffer.tensor == "A"]
    assert plan_cost(ring).sent_bytes == plan_cost(gathered).sent_bytes


@pytest.mark.parametrize("order", [1, -1])
def test_scores_far_apart_neither_overflow_nor_vanish(order):
    """exp(1000) is infinite: only a maximum that is kept up to date gives numbers, whether it rises or falls."""
    plan = shipped_plan(("attention_single_head", "attention_ring"), SIZES, 4)
    inputs = sample_inputs(plan.workload, 0)
    inputs["IR"] *= np.linspace(1, 100, 16)[::order, None]
    outputs = LocalEngine().run(plan, inputs).outputs
    assert all(one.agrees for one in check_outputs(plan.workload, inputs, outputs))
    scores = np.abs(inputs["IR"] @ inputs["WI"] @ inputs["WQ"])
    assert scores.max() > 50


@pytest.mark.parametrize("workload", ["attention", "attention_single_head"])
def test_the_plain_softmax_needs_no_maximum(workload):
    plan = shipped_plan((workload, "attention_ring"), {**SIZES, "SOFTMAX": "plain", "N_TOKENS": 7}, 4)
    assert agrees(plan)
    assert not [einsum for einsum in plan.derived if "rescaled" in einsum.name]


def cascade(*einsums):
    sizes = {"P": 6, "M": 8, "F": 3}
    listed = [{"einsum": text, "reduction": reduction} for text, reduction in einsums]
    return Spec.from_dict(workload={"rank_sizes": sizes, "bits_per_value": {"All": 8}, "einsums": listed}).workload


def in_turns(workload, *names):
    return distribute_workload(
        workload,
        {"x": 4},
        {"K": {"M": "x"}},
        loops={name: {"p": "x"} for name in workload.einsum_names},
        turns=[{"einsums": list(names), "over": {"m": "x"}}],
    )


LARGEST = ("G[p] = S[p, m]", "max")
SCORES = ("S[p, m] = Q[p, f] * K[m, f]", "sum")


@pytest.mark.parametrize(
    "einsums",
    [
        # a temperature, a least score, and a square of the sum
        [SCORES, LARGEST, ("N[p, m] = exp((S[p, m] - G[p]) / 3)", "sum"), ("Z[p, f] = N[p, m] * K[m, f]", "sum")],
        [SCORES, ("G[p] = S[p, m]", "min"), ("N[p, m] = exp(2 * (G[p] - S[p, m]))", "sum"), ("Z[p] = N[p, m]", "sum")],
        [SCORES, ("D[p] = S[p, m]", "sum"), ("Z[p, f] = S[p, m] / D[p] / D[p] * K[m, f]", "sum")],
        # two factors at once, a difference with the same factor, and a total that is itself divided
        [
            SCORES, LARGEST, ("N[p, m] = exp(S[p, m] - G[p])", "sum"), ("D[p] = N[p, m]", "sum"),
            ("U[p, m] = N[p, m] / D[p]", "sum"), ("E[p] = U[p, m] * S[p, m]", "sum"),
            ("Z[p, f] = (U[p, m] - U[p, m] * S[p, m]) * N[p, m] / E[p] * K[m, f]", "sum"),
        ],
    ],
)  # fmt: skip
def test_other_cascades_of_factors_run_in_turns_too(einsums):
    workload = cascade(*einsums)
    assert agrees(in_turns(workload, *workload.einsum_names), 3)


@pytest.mark.parametrize(
    ("einsums", "message"),
    [
        ([SCORES, LARGEST, ("Z[p] = S[p, m] - G[p]", "sum")], "it reads 'G' before that is complete"),
        ([SCORES, LARGEST, ("Z[p] = relu(S[p, m] * G[p])", "sum")], "it takes relu of what 'G' still changes"),
        ([SCORES, LARGEST, ("Z[f] = S[p, m] * G[p] * K[m, f]", "sum")], "'Z' is summed over what 'G' depends on"),
        ([SCORES, LARGEST, ("Z[p] = S[p, m] * G[p]", "max")], "it takes the max of what 'G' still changes"),
        ([SCORES, LARGEST, ("Z[p] = S[p, m] * G[p] + S[p, m]", "sum")], "terms with different factors of 'G'"),
        ([SCORES, LARGEST, ("Z[p] = S[p, m] * exp(exp(S[p, m] - G[p]))", "sum")], "it takes exp of what still changes"),
        ([SCORES, LARGEST, ("Z[p, m] = S[p, m] / G[p]", "sum")], "blocks of 'Z', which is read after the turns"),
        ([SCORES, ("H[p, m] = 2 * S[p, m]", "sum"), ("Z[m] = H[p, m]", "sum")], None),
    ],
)
def test_what_cannot_be_made_good_is_refused(einsums, message):
    workload = cascade(*einsums)
    if message is None:
        with pytest.raises(SpecError, match="waits for an Einsum of the same turns"):
            in_turns(workload, "S", "Z")
        return
    with pytest.raises(SpecError) as problem:
        in_turns(workload, *workload.einsum_names)
    assert message in str(problem.value)


def test_a_layer_of_llama_sends_blocks_of_grouped_keys_and_values_alone():
    plan = shipped_plan(("llama3_8b", "llama3_8b_context_parallel"), {}, 8, "float32")
    extents = load("llama3_8b").workload.find("K").extents
    block = extents["p"] // 8 * extents["h"] * 128 * 4
    assert [(row.kind, row.tensor, row.count, row.sent_bytes) for row in communication(plan)] == [
        ("shift", "K", 7, block), ("shift", "V", 7, block)
    ]  # fmt: skip
