"""The action `plan`: the best distribution at each point."""

import pytest

import einmap
from einmap import sweep
from einmap.sweep.store.replay import replayed
from einmap.sweep.store.store import Store

PLANS = {
    "name": "plans",
    "specs": ["matmul", "a100_nodes"],
    "define": {"M": 64, "K": 64, "N": 64},
    "action": "plan",
    "mesh": {"x": 1},
    "axes": [{"name": "x", "path": "distribution.mesh.x", "values": [1, 2, 4]}],
    "objectives": ["latency", "processing_elements", "sent_bytes"],
}


def test_a_plan_is_that_of_the_planner_and_is_replayed(tmp_path):
    results = list(sweep(PLANS, workers=0, store=tmp_path / "s.sqlite"))
    assert [(r.status, r.optimal, r.processing_elements, r.area) for r in results] == [
        ("done", True, count, None) for count in (1, 2, 4)
    ]
    outcome = results[1].outcomes["workload"]
    assert outcome.latency == pytest.approx(sum(outcome.seconds_by_step.values()))
    assert results[0].latency > results[1].latency > results[2].latency
    assert results[0].energy is None  # the cluster gives none
    assert [r.sent_bytes for r in results] == [0, 0, 0]
    store = Store.opened(tmp_path / "s.sqlite")
    spec = replayed(store, store.sweep(), 1, "workload")
    store.close()
    assert dict(einmap.plan_of(einmap.loads(einmap.dump(spec))).mesh.axes) == {"x": 2}


def test_the_architecture_of_pes_is_swept(tmp_path):
    axes = [{"name": "mac", "path": "arch.MAC.actions.compute.latency", "values": [1e-9, 1e-6]}]
    swept = {**PLANS, "specs": ["matmul", "tpu_v4i_pod"], "mesh": {"x": 2, "y": 1}, "axes": axes}
    fast, slow = sweep({**swept, "objectives": ["latency", "energy"]}, workers=0)
    assert fast.latency < slow.latency
    assert fast.energy == pytest.approx(slow.energy)


def test_no_plan_within_the_memory_is_a_result_with_a_reason():
    axes = [{"name": "memory", "path": "cluster.pe.memory", "values": [100, 1e9]}]
    little, enough = sweep({**PLANS, "axes": axes}, workers=0)
    assert (little.status, enough.status) == ("failed", "done")
    assert little.reason.startswith("no plan: no plan keeps to")
