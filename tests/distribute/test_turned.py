"""Plans in turns where no other plan keeps to the memory: they are named, keep to it, and compute what is asked for."""

import pytest

from einmap import SpecError, load
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.check import check_outputs, sample_inputs
from einmap.distribute.cluster import flat_cluster
from einmap.distribute.lifetimes import peak_memory
from einmap.distribute.mesh import Mesh
from einmap.distribute.planner.planner import plan_workload
from einmap.distribute.planner.planning import Planning, PlanRequest, best_plan, thriftiest_plan
from einmap.distribute.planner.turned import thriftiest_in_turns

CASES = {
    "attention_causal": ((8,), {"HEADS": 1, "N_TOKENS": 64}, ("QK", "GM", "SN", "SD", "AN")),
    "matmul": ((2, 2), {"M": 64, "N": 64, "K": 64}, ("Z",)),
}


def planning(name, memory=None):
    sizes, define, _ = CASES[name]
    mesh = Mesh(tuple(zip("xy", sizes, strict=False)))
    return Planning(
        load(name, define=define).workload, PlanRequest(mesh, flat_cluster(mesh, 1e9, 1e-7, 1e12), memory=memory)
    )


@pytest.mark.parametrize("name", CASES)
def test_in_turns_a_plan_needs_less_than_any_other_and_computes_the_same(name):
    asked = planning(name)
    least = thriftiest_plan(asked)
    assert least.proven
    turned = thriftiest_in_turns(asked, best_plan(asked).chosen)
    assert turned.turns.einsums == CASES[name][2]
    assert turned.peak == peak_memory(turned.plan, least.bits).bytes < least.peak.bytes
    inputs = sample_inputs(turned.plan.workload, 0, turned.plan.dtype)
    outputs = LocalEngine().run(turned.plan, inputs).outputs
    checks = check_outputs(turned.plan.workload, inputs, outputs, turned.plan.dtype)
    assert [check.tensor for check in checks if not check.agrees] == []


def test_where_only_a_plan_in_turns_keeps_to_the_memory_the_message_names_it():
    asked = planning("attention_causal")
    peak = thriftiest_in_turns(asked, best_plan(asked).chosen).peak
    request = planning("attention_causal", memory=peak).request
    with pytest.raises(SpecError, match="no plan keeps to") as caught:
        plan_workload(asked.workload, request)
    assert "write a distribution with turns of QK, GM, SN, SD, AN over p: x" in caught.value.hint
    less = planning("attention_causal", memory=peak - 1).request
    with pytest.raises(SpecError, match="no plan keeps to") as caught:
        plan_workload(asked.workload, less)
    assert "turns" not in caught.value.hint
