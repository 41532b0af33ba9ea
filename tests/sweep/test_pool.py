"""Processes that die, and those that take too long."""

import os
import signal
import time

import pytest

from einmap.sweep.engines import pool as pools
from einmap.sweep.engines.engine import Lost
from einmap.sweep.engines.pool import Pool


@pytest.fixture
def pool():
    made = []

    def pool_of(*arguments):
        made.append(Pool(*arguments))
        return made[-1]

    yield pool_of
    for each in made:
        each.close()


def test_tasks_are_answered_and_processes_kept(pool):
    squares = pool(abs, 1)
    squares.submit(7, -3)
    assert squares.has_room  # for the task after this one
    squares.submit(8, -4)
    assert not squares.has_room
    assert len(squares.pids) == 1
    answers = [*squares.wait()]
    while squares.busy:
        answers += squares.wait()
    assert sorted(answers) == [(7, 3), (8, 4)]
    before = squares.pids
    squares.submit(9, -5)
    assert squares.wait() == [(9, 5)]
    assert squares.pids == before


def test_a_task_that_kills_its_process_is_given_up_and_others_go_on(pool, monkeypatch):
    monkeypatch.setattr(pools, "TRIES", 2)
    ending = pool(os._exit, 1)
    ending.submit(0, 3)
    ((number, lost),) = ending.wait()
    assert (number, lost) == (0, Lost(False, "2 processes ended, the last one with exit status 3"))
    assert ending.has_room and not ending.pids


def test_a_process_that_is_killed_from_outside_is_replaced(pool):
    sleeping = pool(time.sleep, 1)
    sleeping.submit(0, 0.2)
    os.kill(sleeping.pids[0], signal.SIGINT)  # Ctrl-C is for the parent, also while a process starts
    while not sleeping._running[0].ready:
        sleeping._heard(sleeping._running[0])
    os.kill(sleeping.pids[0], signal.SIGKILL)
    assert sleeping.wait() == [(0, None)]


def test_a_task_that_takes_too_long_is_ended(pool):
    sleeping = pool(time.sleep, 1, 0.2)
    sleeping.submit(0, 60)
    assert sleeping.wait() == [(0, Lost(True, "no answer within 0.2 s"))]
    sleeping.limit = None
    sleeping.submit(1, 0)
    assert sleeping.wait() == [(1, None)]
