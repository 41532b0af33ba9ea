"""The engine jax: the same results as without partitioning, and exactly the communication that was predicted."""

import importlib.util
import itertools
import os
import signal
import socket
import threading

import numpy as np
import pytest
from tests.distribute.checking import check_run
from tests.distribute.drawn_plans import draw

from einmap.distribute.backends.jax import engine
from einmap.distribute.backends.jax.engine import JaxEngine, JaxOptions, check_jax
from einmap.distribute.backends.observed_collectives import predicted
from einmap.distribute.costs.cost import communication
from einmap.distribute.derive import distribute_workload
from einmap.distribute.plans.plan import buffers_read
from einmap.einsum import numeric
from einmap.errors import EngineError, SpecError
from einmap.spec.spec import Spec

needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")


def matmul(**changes):
    request = {"mesh": {"x": 8}, "placements": {"A": {"K": "x"}, "B": {"K": "x"}, "Z": {"M": "x"}}} | changes
    return distribute_workload(matmul_workload(), **request)


def matmul_workload(**changes):
    sizes = {"M": 10, "N": 7, "K": 20} | changes
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 64}, "einsums": ["Z[m, n] = A[k, m] * B[k, n]"]}
    return Spec.from_dict({"workload": workload}).workload


def drawn_plans(first, n, devices=None):
    """`n` drawn plans that communicate, in both types; with `devices` those of meshes of that size."""
    drawn = (draw(seed, dtype="float32" if seed % 3 == 0 else "float64").plan for seed in itertools.count(first))
    wanted = (plan for plan in drawn if communication(plan) and devices in (None, plan.mesh.n_devices))
    return list(itertools.islice(wanted, n))


def test_programs_send_what_was_predicted_for_drawn_placements(engine):
    plans = drawn_plans(0, 8)
    for plan, found in zip(plans, engine.lower(plans), strict=True):
        assert found.lowered == predicted(communication(plan))


def test_drawn_plans_compute_what_the_workload_says(engine):
    for seed, plan in enumerate(drawn_plans(500, 6)):
        check_run(engine, plan, seed)


@pytest.mark.slow
@pytest.mark.distribute
@pytest.mark.parametrize("block", range(5))
def test_a_hundred_drawn_plans_compute_and_send_what_was_predicted(engine, block):
    for seed, plan in enumerate(drawn_plans(1000 * (block + 1), 20)):
        check_run(engine, plan, seed)


@pytest.mark.slow
@pytest.mark.distribute
def test_drawn_plans_do_so_in_two_processes(pair):
    for seed, plan in enumerate(drawn_plans(20_000, 30, devices=8)):
        check_run(pair, plan, seed)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("overlap", [(), ("Z",)], ids=["at once", "in chunks"])
def test_a_reduce_scatter_computes_the_same_in_chunks(engine, dtype, overlap):
    found = check_run(engine, matmul(dtype=dtype, overlap=overlap))
    width = np.dtype(dtype).itemsize
    (sent,) = found.lowered
    # ten rows in blocks of two: 16 rows with padding
    if overlap:
        assert (sent.kind, sent.operand_bytes, sent.count) == ("collective_permute", 2 * 7 * width, 7)
        assert sent.groups == tuple((i, (i + 1) % 8) for i in range(8))
    else:
        assert (sent.kind, sent.operand_bytes, sent.result_bytes) == ("reduce_scatter", 16 * 7 * width, 2 * 7 * width)


def test_what_is_brought_where_nobody_reads_it_is_sent_all_the_same(engine):
    # two rows over eight PEs: most blocks are padding alone
    workload = {"rank_sizes": {"M": 2, "N": 3}, "bits_per_value": {"All": 64}}
    workload["einsums"] = ["T[m, n] = relu(A[m, n])", "Z[m, n] = exp(T[m, n]) * B[n]"]
    asked = {"A": {"M": "x"}, "T": {"N": "x"}, "B": {"N": "x"}, "Z": {"M": "x"}}
    plan = distribute_workload(Spec.from_dict({"workload": workload}).workload, {"x": 8}, asked)
    read = {name for step in plan.steps for name in buffers_read(step)}
    assert any(getattr(step, "kind", "") == "all_to_all" and step.target not in read for step in plan.steps)
    assert "all_to_all" in {one.kind for one in check_run(engine, plan).lowered}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"M": ["x", "y"]}, {"M": ["y", "x"]}),
        ({"M": "x", "N": "y"}, {"M": "y", "N": "x"}),
        ({"M": "x"}, {"M": "y"}),
    ],
)
def test_blocks_are_exchanged_between_single_pes(engine, before, after):
    workload = {"rank_sizes": {"M": 7, "N": 6}, "bits_per_value": {"All": 64}, "einsums": ["Z[m, n] = A[m, n]"]}
    asked = {"A": before, "Z": after}
    for loops in ({"Z": {rank.lower(): axes for rank, axes in asked[tensor].items()}} for tensor in asked):
        plan = distribute_workload(
            Spec.from_dict({"workload": workload}).workload, {"x": 2, "y": 2}, asked, loops=loops
        )
        (sent,) = check_run(engine, plan).lowered
        assert (sent.kind, sent.groups, sent.count) == ("collective_permute", ((1, 2), (2, 1)), 1)
        (traffic,) = communication(plan)
        assert traffic.sent_bytes == sent.operand_bytes / 2


def test_partial_sums_may_go_in_and_come_out(engine):
    plan = matmul(mesh={"x": 2, "y": 4}, placements={"A": {"partial": "y", "K": "x"}, "B": {"K": "x"}})
    check_run(engine, plan)
    plan = matmul(placements={"A": {"K": "x"}, "B": {"K": "x"}, "Z": {"partial": "x"}})
    assert check_run(engine, plan).lowered == ()


@pytest.mark.parametrize("overlap", [(), ("Z",)], ids=["at once", "in chunks"])
@pytest.mark.parametrize("order", [["x", "y"], ["y", "x"]], ids="-".join)
def test_mesh_axes_of_a_rank_may_be_in_any_order(engine, order, overlap):
    placements = {"A": {"K": order}, "B": {"K": order}, "Z": {"M": order}}
    # blocks of equal size: with padding, steps over one axis after the other send less
    workload = matmul_workload(M=16, K=24)
    found = check_run(
        engine, distribute_workload(workload, mesh={"x": 2, "y": 4}, placements=placements, overlap=overlap)
    )
    ring = (0, 1, 2, 3, 4, 5, 6, 7) if order == ["x", "y"] else (0, 4, 1, 5, 2, 6, 3, 7)
    pairs = sorted((ring[place - 1], ring[place]) for place in range(8))
    assert found.lowered[0].groups == (tuple(pairs) if overlap else (ring,))


def test_two_processes_compute_the_same_and_send_the_same(engine, pair):
    plan = matmul()
    together = check_run(pair, plan)
    alone = check_run(engine, plan)
    assert together.lowered == alone.lowered == predicted(communication(plan))
    assert together.facts["devices"] == 8


# failures


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@needs_jax
def test_a_killed_process_is_named_and_the_next_run_has_new_ones():
    plan = matmul()
    inputs = numeric.random_inputs(plan.workload, seed=0)
    with JaxEngine(JaxOptions(devices=4, processes=2, time_limit=60)) as pair:
        pair.lower([])
        first = pair.pids
        # stopped first, so that its peer waits for it in the collective when it is killed
        os.kill(first[1], signal.SIGSTOP)
        threading.Timer(1.5, os.kill, (first[1], signal.SIGKILL)).start()
        with pytest.raises(EngineError, match=r"process 1 of 2 was killed by signal 9 \(SIGKILL\)"):
            pair.run(plan, inputs)
        assert not any(map(is_running, first))
        assert pair.pids == ()


def test_more_devices_than_there_are_is_refused_before_anything_runs(engine):
    plan = matmul(mesh={"x": 16})
    with pytest.raises(SpecError, match=r"the mesh \(x=16\) needs 16 devices, JAX has 8 of cpu"):
        engine.run(plan, {"A": np.zeros((20, 10)), "B": np.zeros((20, 7))})


def test_several_processes_use_all_of_their_devices(pair):
    with pytest.raises(SpecError, match=r"needs 4 devices, JAX has 8 of cpu; several processes must use all"):
        pair.lower([matmul(mesh={"x": 4})])


def test_processes_must_divide_the_mesh():
    with pytest.raises(SpecError, match=r"has 8 PEs, which 3 processes cannot share evenly"):
        JaxEngine(JaxOptions(processes=3)).lower([matmul()])


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"processes": 0}, "processes: expected a positive number"),
        ({"hosts": 2}, "2 hosts need a coordinator"),
        ({"hosts": 2, "host": 2, "coordinator": "a:1"}, "numbered from 0 to 1"),
        ({"coordinator": "somewhere"}, "expected an address and a port"),
        ({"time_limit": 0}, "expected a positive number of seconds"),
    ],
)
def test_options_that_fit_no_machine_are_refused(options, text):
    with pytest.raises(SpecError, match=text):
        JaxOptions(**options)


def test_a_missing_jax_is_an_error_with_what_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(SpecError, match="needs JAX, which is not installed") as caught:
        check_jax()
    assert caught.value.hint == "pip install 'einmap[distributed]'"


@needs_jax
def test_a_platform_that_is_not_there_is_refused():
    plan = matmul(mesh={"x": 1})
    with (
        JaxEngine(JaxOptions(platform="cuda")) as engine,
        pytest.raises(SpecError, match="JAX has no devices of platform 'cuda'"),
    ):
        engine.lower([plan])


@needs_jax
@pytest.mark.slow
@pytest.mark.distribute
def test_a_port_that_is_taken_is_not_the_end(monkeypatch):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        real = engine._free_port
        ports = iter([taken.getsockname()[1]])
        monkeypatch.setattr(engine, "_free_port", lambda: next(ports, None) or real())
        with JaxEngine(JaxOptions(devices=1, processes=2)) as pair:
            assert pair.lower([]) == []
        assert next(ports, None) is None


@needs_jax
@pytest.mark.slow
@pytest.mark.distribute
def test_two_hosts_meet_at_a_coordinator_and_both_get_the_whole_result():
    found = on_two_hosts(lambda host, engine: check_run(engine, matmul()))
    assert np.array_equal(found[0].outputs["Z"], found[1].outputs["Z"])
    assert found[0].facts["processes"] == 4


@needs_jax
@pytest.mark.slow
@pytest.mark.distribute
def test_hosts_that_were_given_different_inputs_say_so():
    def refused(host, engine):
        with pytest.raises(SpecError, match=r"digest of the values of A: \w+ on host 1, \w+ on host 0"):
            engine.run(matmul(), numeric.random_inputs(matmul_workload(), seed=host))
        return True

    assert on_two_hosts(refused) == {0: True, 1: True}


def on_two_hosts(work):
    """What `work(host, engine)` gives on two hosts with two processes each, both of which are this one."""
    address = f"127.0.0.1:{engine._free_port()}"
    found = {}

    def on_host(host):
        with JaxEngine(JaxOptions(devices=2, hosts=2, host=host, processes=2, coordinator=address)) as engine:
            found[host] = work(host, engine)

    hosts = [threading.Thread(target=on_host, args=(host,)) for host in range(2)]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join()
    return found


@needs_jax
@pytest.mark.slow
@pytest.mark.distribute
def test_a_lost_process_of_another_host_is_named():
    plan = matmul()
    met = threading.Barrier(2)

    def lose(host, engine):
        engine.lower([])
        met.wait()
        if host == 1:
            os.kill(engine.pids[0], signal.SIGKILL)
        with pytest.raises(EngineError) as caught:
            engine.run(plan, numeric.random_inputs(plan.workload, seed=0))
        return str(caught.value)

    found = on_two_hosts(lose)
    assert found[1].startswith("process 2 of 4 was killed by signal 9 (SIGKILL)")
    assert "another host has failed; host 1: process 2 of 4 was killed by signal 9 (SIGKILL)" in found[0]
