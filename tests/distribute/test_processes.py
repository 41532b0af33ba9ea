"""Processes and the parent that watches them; no JAX is needed to lose one."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from einmap.distribute.backends.jax.messages import Message
from einmap.distribute.backends.jax.processes import Command, Processes
from einmap.errors import EngineError, SpecError

ROOT = Path(__file__).parents[2]
LONG = 60.0


@pytest.fixture(scope="module")
def pairs():
    """Two processes for all tests that leave them alive."""
    kept = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(ROOT))
        yield kept
    for processes in kept:
        processes.kill()


@pytest.fixture
def pair(pairs):
    if not pairs or not pairs[-1].alive:
        pairs.append(Processes([command(0), command(1)]))
        pairs[-1].ask(do("echo", "echo"), LONG)
    return pairs[-1]


def command(i):
    return Command(("tests.distribute.fake_server", f'{{"place": {i}}}'))


def do(*what):
    return [Message({"do": one, "say": i}) for i, one in enumerate(what)]


def is_running(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_answers_come_in_order_with_their_arrays_and_without_what_was_printed(pair):
    arrays = {"A": np.arange(6.0).reshape(2, 3), "none": np.zeros((0, 3), np.float32), "one": np.array(7)}
    requests = [Message({"do": "echo", "say": i}, arrays) for i in range(2)]
    for _ in range(2):
        answers = pair.ask(requests, LONG)
        assert [answer.document for answer in answers] == [{"settings": {"place": i}, "said": i} for i in range(2)]
        for name, values in arrays.items():
            assert np.array_equal(answers[1].arrays[name], values)
            assert answers[1].arrays[name].dtype == values.dtype


def test_large_arrays_fill_no_pipe_for_ever(pair):
    large = {"A": np.random.default_rng(0).random(2_000_000)}
    answers = pair.ask([Message({"do": "echo", "say": i}, large) for i in range(2)], LONG)
    assert np.array_equal(answers[0].arrays["A"], large["A"])


def test_a_refusal_is_a_SpecError_and_ends_nobody(pair):
    with pytest.raises(SpecError, match="this cannot be done") as caught:
        pair.ask(do("refuse", "refuse"), LONG)
    assert caught.value.hint == "do something else"
    assert len(pair.ask(do("echo", "echo"), LONG)) == 2


@pytest.mark.parametrize(
    ("what", "said"),
    [
        (("raise", "hang"), ["process 0 of 2 raised ZeroDivisionError: one over nothing; all processes were ended"]),
        (
            ("hang", "raise from others"),
            [
                "process 1 of 2 raised KeyError: 'plan', caused by RuntimeError: INVALID_ARGUMENT: two blocks, "
                "caused by ValueError: invalid literal for int() with base 10: 'seven'; all processes were ended",
                "\n    block 1\n    block 2",
            ],
        ),
        (("hang", "abort"), ["process 1 of 2 was killed by signal 6 (SIGABRT): Check failed: n == 8 (4 vs. 8); all"]),
        (("hang", "exit"), ["process 1 of 2 ended with exit status 7", "last words"]),
        (("hang", "kill"), ["process 1 of 2 was killed by signal 9 (SIGKILL)", "about to be killed"]),
        # the one that is lost is named, not the one that notices
        (("complain if a peer is gone", "kill"), ["process 1 of 2 was killed by signal 9"]),
    ],
)
def test_an_error_names_the_process_that_failed_and_quotes_it(pair, what, said):
    pids = pair.pids
    with pytest.raises(EngineError) as caught:
        pair.ask(do(*what), LONG)
    for text in said:
        assert text in str(caught.value)
    assert max(map(len, str(caught.value).splitlines())) < 600
    assert not any(map(is_running, pids))


def test_a_refusal_says_its_reason_too(pair):
    with pytest.raises(SpecError, match=r"this cannot be done; invalid literal for int\(\) with base 10: 'seven'\n"):
        pair.ask(do("refuse for a reason", "echo"), LONG)


def test_an_error_keeps_the_traceback_of_the_process_as_its_cause(pair):
    with pytest.raises(EngineError) as caught:
        pair.ask(do("raise", "hang"), LONG)
    assert 'raise ZeroDivisionError("one over nothing")' in str(caught.value.__cause__)
    assert "Traceback" not in str(caught.value)


def test_what_another_host_says_ends_the_processes_of_this_one(pair):
    pids = pair.pids
    pair.end_because("host 1: process 2 of 4 was killed")
    with pytest.raises(EngineError, match="another host has failed; host 1: process 2 of 4 was killed"):
        pair.ask(do("complain if a peer is gone", "hang"), LONG)
    assert not any(map(is_running, pids))


def test_a_loss_that_is_found_after_the_complaint_of_a_peer_explains_it(pair):
    threading.Timer(0.6, os.kill, (pair.pids[1], signal.SIGKILL)).start()
    with pytest.raises(EngineError, match=r"process 1 of 2 was killed by signal 9"):
        pair.ask(do("complain if a peer is gone", "hang"), LONG)


def test_a_process_that_does_not_answer_in_time_is_named(pair):
    pids = pair.pids
    with pytest.raises(EngineError, match=r"no answer from process 1 of 2 within 3 s") as caught:
        pair.ask(do("echo", "hang"), 3)
    assert "waiting for a peer" in str(caught.value)
    assert "larger time limit" in str(caught.value)
    assert not any(map(is_running, pids))


def test_a_stopped_process_is_ended_too(pair):
    pids = pair.pids
    pair.ask(do("echo", "echo"), LONG)
    os.kill(pids[0], signal.SIGSTOP)
    with pytest.raises(EngineError, match="no answer from process 0 of 2"):
        pair.ask(do("echo", "echo"), 1)
    assert not any(map(is_running, pids))


def test_a_process_killed_between_requests_is_found_at_the_next(pair):
    pair.ask(do("echo", "echo"), LONG)
    os.kill(pair.pids[0], signal.SIGKILL)
    with pytest.raises(EngineError, match=r"process 0 of 2 was killed by signal 9"):
        pair.ask(do("echo", "echo"), LONG)


def test_closing_lets_them_end_by_themselves(pair):
    pids = pair.pids
    pair.ask(do("echo", "echo"), LONG)
    pair.close()
    assert not pair.alive
    assert not any(map(is_running, pids))


@pytest.mark.parametrize("interrupted", [1, 2, 3])
def test_ctrl_c_while_a_thread_starts_ends_the_process(monkeypatch, interrupted):
    real, started, pids = threading.Thread.start, [], []

    def start(thread):
        started.append(thread)
        if len(started) == interrupted:
            raise KeyboardInterrupt
        real(thread)

    popen = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *a, **k: pids.append(popen(*a, **k)) or pids[-1])
    monkeypatch.setattr(threading.Thread, "start", start)
    with pytest.raises(KeyboardInterrupt), Processes([command(0)]) as processes:
        processes.ask(do("echo"), LONG)
    assert [one.returncode for one in pids] == [-signal.SIGKILL]


def test_a_module_that_cannot_be_started_is_reported(monkeypatch):
    broken = Command(("no_such_module", "{}"))
    with Processes([broken]) as processes, pytest.raises(EngineError, match="No module named 'no_such_module'"):
        processes.ask(do("echo"), LONG)


PARENT = """
import signal
import sys
# explicitly: a parent that ignores Ctrl-C, as a job in the background does, hands that down
signal.signal(signal.SIGINT, signal.default_int_handler)
from einmap.distribute.backends.jax.messages import Message
from einmap.distribute.backends.jax.processes import Command, Processes
command = Command(("tests.distribute.fake_server", "{}"))
with Processes([command, command]) as processes:
    processes.ask([Message({"do": "echo", "say": 0})] * 2, 60)
    print(*processes.pids, flush=True)
    processes.ask([Message({"do": "hang"})] * 2, 60)
"""


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL], ids=["Ctrl-C", "kill -9"])
def test_no_process_outlives_its_parent(end):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)])}
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    with parent:
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.3)
        parent.send_signal(end)
        assert parent.wait(LONG) != 0
    until = time.monotonic() + LONG
    while any(map(is_running, pids)) and time.monotonic() < until:
        time.sleep(0.05)
    assert not any(map(is_running, pids))
