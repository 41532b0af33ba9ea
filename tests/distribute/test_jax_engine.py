"""The engine jax: the same results as without partitioning, and exactly the communication that was predicted."""

import importlib.util
import os
import signal
import threading
import time

import numpy as np
import pytest
from tests.distribute.random_plans import random_plans

from einmap.distribute.backends.actual import predicted
from einmap.distribute.backends.jax_mesh import JaxEngine, JaxOptions, check_jax
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.cost import communication
from einmap.distribute.derive import distribute
from einmap.einsum import numeric
from einmap.errors import EngineError, SpecError
from einmap.spec.spec import Spec

TOLERANCE = {"float64": 1e-10, "float32": 1e-4}

needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")


def matmul(**changes):
    request = {"mesh": {"x": 8}, "placements": {"A": {"K": "x"}, "B": {"K": "x"}, "Z": {"M": "x"}}} | changes
    return distribute(matmul_workload(), **request)


def matmul_workload():
    sizes = {"M": 10, "N": 7, "K": 20}
    workload = {"rank_sizes": sizes, "bits_per_value": {"All": 64}, "einsums": ["Z[m, n] = A[k, m] * B[k, n]"]}
    return Spec.from_dict({"workload": workload}).workload


def check_run(engine, plan):
    inputs = numeric.random_inputs(plan.workload, seed=0)
    expected = numeric.run(plan.workload, inputs)
    found = engine.run(plan, inputs)
    for tensor, values in found.outputs.items():
        assert values.dtype == plan.dtype
        scale = max(1.0, np.abs(expected[tensor]).max(initial=0))
        assert np.abs(values - expected[tensor]).max(initial=0) <= TOLERANCE[plan.dtype] * scale
    return found


@needs_jax
def test_programs_send_what_was_predicted_for_random_placements(engine):
    plans = list(random_plans(seed=1, n=20))
    for plan, found in zip(plans, engine.lower(plans), strict=True):
        assert found.lowered == predicted(communication(plan)), plan.mesh


@needs_jax
def test_random_plans_compute_what_the_workload_says(engine):
    for plan in random_plans(seed=2, n=6):
        found = check_run(engine, plan)
        assert found.lowered == predicted(communication(plan))


@needs_jax
@pytest.mark.slow
@pytest.mark.distribute
def test_a_hundred_random_plans_compute_and_send_what_was_predicted(engine):
    for plan in random_plans(seed=3, n=100):
        found = check_run(engine, plan)
        assert found.lowered == predicted(communication(plan))


@needs_jax
@pytest.mark.slow
@pytest.mark.distribute
def test_random_plans_compute_the_same_in_two_processes(pair):
    for plan in random_plans(seed=4, n=30, meshes=((8,), (2, 4), (4, 2), (2, 2, 2))):
        check_run(pair, plan)


@needs_jax
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("overlap", [(), ("Z",)], ids=["at once", "in chunks"])
def test_a_reduce_scatter_computes_the_same_in_chunks(engine, dtype, overlap):
    found = check_run(engine, matmul(dtype=dtype, overlap=overlap))
    width = np.dtype(dtype).itemsize
    (sent,) = found.lowered
    # ten rows in blocks of two: 16 rows with padding
    if overlap:
        assert (sent.kind, sent.operand_bytes, sent.count) == ("shift", 2 * 7 * width, 7)
    else:
        assert (sent.kind, sent.operand_bytes, sent.result_bytes) == ("reduce_scatter", 16 * 7 * width, 2 * 7 * width)


@needs_jax
def test_partial_sums_may_go_in_and_come_out(engine):
    plan = matmul(mesh={"x": 2, "y": 4}, placements={"A": {"partial": "y", "K": "x"}, "B": {"K": "x"}})
    check_run(engine, plan)
    plan = matmul(placements={"A": {"K": "x"}, "B": {"K": "x"}, "Z": {"partial": "x"}})
    assert check_run(engine, plan).lowered == ()


@needs_jax
def test_mesh_axes_of_a_rank_may_be_in_any_order(engine):
    plan = matmul(mesh={"x": 2, "y": 4}, placements={"A": {"K": ["y", "x"]}, "Z": {"M": ["y", "x"]}})
    assert check_run(engine, plan).lowered == predicted(communication(plan))


@needs_jax
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
        begin = time.monotonic()
        with pytest.raises(EngineError, match=r"process 1 of 2 was killed by signal 9 \(SIGKILL\)"):
            pair.run(plan, inputs)
        assert time.monotonic() - begin < 30
        assert not any(map(is_running, first))
        assert pair.pids == ()


@needs_jax
def test_more_devices_than_there_are_is_refused_before_anything_runs(engine):
    plan = matmul(mesh={"x": 16})
    with pytest.raises(SpecError, match=r"the mesh \(x=16\) needs 16 devices, JAX has 8 of cpu"):
        engine.run(plan, {"A": np.zeros((20, 10)), "B": np.zeros((20, 7))})


@needs_jax
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


def test_the_engines_agree_on_what_padding_is():
    """The definition itself, on the plan that the tests above run with JAX."""
    plan = matmul()
    inputs = numeric.random_inputs(plan.workload, seed=0)
    found = LocalEngine().run(plan, inputs).outputs["Z"]
    assert np.allclose(found, numeric.run(plan.workload, inputs)["Z"])
