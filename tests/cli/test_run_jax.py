"""`einmap run --engine jax`: predicted against executed communication, refusals, lost processes, Ctrl-C."""

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from einmap.distribute.backends.base import Run
from einmap.distribute.backends.jax import engine
from einmap.distribute.backends.local import LocalEngine
from einmap.distribute.backends.observed_collectives import predicted
from einmap.distribute.costs.cost import communication

SMALL = ("matmul", "matmul_reduce_scatter", "-D", "M=10", "-D", "G=4")
LONG = 600
"""Seconds to wait for what ends sooner, on a busy machine too."""
needs_jax = pytest.mark.skipif(importlib.util.find_spec("jax") is None, reason="JAX is not installed")


@needs_jax
def test_predicted_and_executed_communication_stand_side_by_side(run):
    done = run("run", *SMALL, "--engine", "jax")
    assert (done.status, done.err) == (0, "")
    # ten rows in four blocks of three: twelve rows of 64 values
    assert "reduce-scatter  Z       x: 1 of 4      6,144     1,536          1         1" in done.out
    assert "Every collective is as predicted.\n" in done.out
    assert "platform cpu, devices 4, processes 1" in done.out
    assert "equal to the unpartitioned result" in done.out
    assert [line for line in done.out.splitlines() if line != line.rstrip() or len(line) > 80] == []


@needs_jax
@pytest.mark.slow
@pytest.mark.distribute
def test_settings_of_JAX_in_the_environment_change_nothing(run, monkeypatch):
    for name, value in {"JAX_NUM_CPU_DEVICES": "3", "JAX_DEBUG_NANS": "1", "JAX_PLATFORMS": "tpu"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    assert run("run", *SMALL, "--engine", "jax").status == 0


def test_communication_that_was_not_predicted_is_exit_status_1(run, monkeypatch):
    def twice(engine, plan, inputs) -> Run:
        asked = predicted(communication(plan))
        return replace(LocalEngine().run(plan, inputs), lowered=tuple(replace(one, count=2) for one in asked))

    monkeypatch.setattr(engine, "check_jax", lambda: None)
    monkeypatch.setattr(engine.JaxEngine, "run", twice)
    done = run("run", *SMALL, "--engine", "jax", "--json")
    document = json.loads(done.out)
    assert (done.status, document["agrees"], document["communication_agrees"]) == (1, False, False)
    (row,) = document["communication"]
    assert (row["kind"], row["groups"], row["predicted"], row["executed"]) == ("reduce_scatter", [[0, 1, 2, 3]], 1, 2)
    assert all(one["agrees"] for one in document["outputs"])


@needs_jax
def test_a_run_that_takes_too_long_is_ended(run):
    done = run("run", *SMALL, "--engine", "jax", "--time-limit", "0.01")
    assert done.status == 2
    assert "no answer from process 0 of 1 within 0.01 s; all processes were ended" in done.err


@needs_jax
def test_what_XLA_says_before_it_gives_up_is_told(run, monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_no_such_flag=1")
    done = run("run", *SMALL, "--engine", "jax")
    assert done.status == 2
    assert re.search(r"process 0 of 1 .*Unknown flags? in XLA_FLAGS: --xla_no_such_flag=1", done.err.replace("\n", " "))
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--engine", "jaxx"), "there is no engine 'jaxx'\n  hint: did you mean 'jax'?"),
        (("--processes", "2"), "the engine 'local' is one process; --processes is for"),
        (("--platform", "cpu"), "the engine 'local' is one process; --platform is for"),
        (("--engine", "jax", "--processes", "3"), "4 PEs, which 3 processes cannot share evenly"),
        (("--engine", "jax", "--hosts", "2"), "2 hosts need a coordinator"),
    ],
)
def test_what_no_engine_can_do_is_refused(run, words, text):
    if "jax" in words and importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed")
    done = run("run", *SMALL, *words)
    assert (done.status, done.out) == (2, "")
    assert text in done.err


def test_a_missing_jax_is_refused_before_anything_runs(run, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "jax" else real(name, *more))
    done = run("run", *SMALL, "--engine", "jax")
    assert (done.status, done.out) == (2, "")
    assert "the engine jax needs JAX, which is not installed\n  hint: pip install 'einmap[distributed]'" in done.err


def children(pid):
    """Ids of the processes that `pid` has started."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == pid:
            found.append(int(status.parent.name))
    return found


def is_running(pid):
    """Whether a process is there and not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@needs_jax
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="there is no /proc")
def test_ctrl_c_ends_the_processes_too():
    command = [sys.executable, "-c", "from einmap.cli.main import main; main()", "run", *SMALL, "--engine", "jax"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as parent:
        until = time.monotonic() + LONG
        while not (started := children(parent.pid)) and time.monotonic() < until:
            time.sleep(0.05)
        parent.send_signal(signal.SIGINT)
        said = parent.stderr.read().decode()
        assert parent.wait(LONG) == 130
    assert started
    assert "Traceback" not in said
    until = time.monotonic() + LONG  # they are killed, and then collected by whoever inherits them
    while any(map(is_running, started)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_running, started))
