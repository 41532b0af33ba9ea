"""Tensors that are moved while an Einsum before their reader runs: weights of fully sharded data parallelism."""

import pytest
from tests.distribute.shipped import shipped_plan

from einmap import SpecError, load
from einmap.distribute.costs.cluster import Cluster, Link, ProcessingElement
from einmap.distribute.costs.cost import communication, plan_cost, timeline
from einmap.distribute.derive import distribute_workload
from einmap.distribute.plans.lifetimes import peak_memory
from einmap.distribute.plans.plan import Local, Move

SIZES = {"N_TOKENS": 32, "D_MODEL": 16, "D_FF": 24}


def fsdp(**more):
    return shipped_plan(("feed_forward", "feed_forward_fsdp"), {**SIZES, **more}, 4)


def spans_of(plan, bandwidth):
    """When each Einsum and each gather runs, by name, on links of so many bytes/s and PEs of 1 Mop/s."""
    machine = Cluster(ProcessingElement(((64, 1e6),)), (("x", Link(bandwidth, 0.0)),))
    names = [step.einsum if isinstance(step, Local) else plan.by_name[step.source].tensor for step in plan.steps]
    spans = timeline(plan, machine).spans
    return {names[span.step]: (span.start, span.end) for span in spans}, plan_cost(plan, machine)


def test_every_pe_gets_what_the_others_have_of_each_weight():
    """Rajbhandari et al., ZeRO, SC 2020, section 7.2.2: an all-gather of all parameters in a forward pass."""
    rows = [(row.kind, row.tensor, row.count, row.sent_bytes / 8) for row in communication(fsdp())]
    assert rows == [("all_gather", "W1", 1, 3 / 4 * 16 * 24), ("all_gather", "W2", 1, 3 / 4 * 24 * 16)]
    layer = shipped_plan(("llama3_8b", "llama3_8b_fsdp"), {"BATCH": 8}, 8, "float32")
    weights = 4096 * (32 * 128 * 2 + 8 * 128 * 2 + 3 * 14336)
    assert plan_cost(layer).sent_bytes == 7 / 8 * weights * 4
    assert all(row.kind == "all_gather" for row in communication(layer))


def test_the_timeline_has_the_gather_of_the_second_weight_beside_the_first_product():
    gather, product = 3 / 4 * 16 * 24 * 8, 2 * 8 * 16 * 24 / 1e6
    spans, cost = spans_of(fsdp(), 1e6)
    gather /= 1e6
    assert gather < product
    assert spans["W1"] == pytest.approx((0, gather))
    assert spans["U"] == pytest.approx((gather, gather + product))
    assert spans["W2"] == pytest.approx((gather, 2 * gather))
    assert spans["Z"][0] == pytest.approx(gather + product)
    assert cost.overlapped_latency == pytest.approx(spans["Z"][1])
    assert cost.latency == pytest.approx(spans["Z"][1] + gather)


def test_a_weight_is_not_gathered_before_the_product_before_may_begin():
    spans, _ = spans_of(fsdp(GATED=1), 1e9)
    assert list(spans) == ["WG", "W1", "G", "W2", "U", "A", "Z"]
    assert spans["W1"][0] == pytest.approx(spans["WG"][1])
    # links are free from 0.1 ms on, but W2 waits for G, so that no more than two weights are there
    assert spans["W2"][0] == pytest.approx(spans["G"][1])


def test_two_gathered_weights_are_there_at_a_time():
    weights = {"X": {"M": "x"}, "W1": {"D": "x"}, "WG": {"D": "x"}, "W2": {"S": "x"}}
    workload = load("feed_forward", define={**SIZES, "GATED": 1}).workload
    loops = {"G": {"m": "x"}, "U": {"m": "x"}, "Z": {"m": "x"}}
    bare = distribute_workload(workload, {"x": 4}, weights, loops=loops)
    ahead = fsdp(GATED=1)
    whole = 16 * 24 * 8

    def gathered(plan):
        """Bytes of gathered weights while each Einsum runs."""
        found = {}
        for position, step in enumerate(plan.steps):
            if isinstance(step, Local):
                made = {move.target for move in plan.steps[:position] if isinstance(move, Move)}
                needed = {
                    name for later in plan.steps[position:] if isinstance(later, Local) for _, name in later.operands
                }
                found[step.einsum] = len(made & needed) * whole
        return found

    assert gathered(bare) == {"G": whole, "U": whole, "A": 0, "Z": whole}
    assert gathered(ahead) == {"G": 2 * whole, "U": 2 * whole, "A": whole, "Z": whole}
    assert peak_memory(ahead).bytes - peak_memory(bare).bytes == whole


def test_what_cannot_be_moved_ahead_is_said():
    def refused(prefetch, **options):
        workload = load("feed_forward", define=SIZES).workload
        placements = {"X": {"M": "x"}, "W2": {"S": "x"}}
        with pytest.raises(SpecError) as problem:
            distribute_workload(
                workload, {"x": 4}, placements, loops={"U": {"m": "x"}, "Z": {"m": "x"}}, prefetch=prefetch, **options
            )
        return str(problem.value)

    assert "'W1' is not moved after Einsum 'U'" in refused({"W1": "U"})
    assert "did you mean 'W2'" in refused({"W22": "U"})
    assert "no Einsum 'V'" in refused({"W2": "V"})
    assert "no Einsum 3" in refused({"W2": 3})
    assert "expected a dictionary of tensors" in refused(["W2"])
