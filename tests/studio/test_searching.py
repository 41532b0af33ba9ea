"""The process of a search: it leaves this one free, stops, can be ended, and ends when the program does."""

import sys
import time
from typing import ClassVar

import pytest

from einmap import load
from einmap.errors import EinmapError
from einmap.mapper.result.result import MapResult
from einmap.progress import Report
from einmap.studio.running import Running
from einmap.studio.searching import Question, Worker, Workers
from einmap.studio.session import Session

SMALL = load("simple", "matmul")
SMALL_MAPPED = load("simple", "matmul", "simple_matmul")
LONG = load("tpu_v4i", "gpt3_6.7b")
"""A search of it goes on for long."""
OPTIONS = {"metrics": "edp", "time_limit_s": 3000.0, "workers": 1}


def test_a_search_leaves_this_process_free_and_is_ended_by_a_second_stop():
    running = Running(LONG, "edp", seconds=3000.0).start()
    begin = time.process_time()
    while running.report is None and running.runs:
        running.wait(0.02)
    running.wait(0.5)
    assert time.process_time() - begin < 0.5
    of = Session(SMALL_MAPPED, search=running)
    assert of.handle('{"do": "search"}')["message"] == "a search runs already"
    assert of.handle('{"do": "look"}')["search"]["other"]  # it is of what was here before
    running.stop()
    assert running.state()["stopping"]
    running.stop()
    running.wait()
    assert "was ended before" in running.state()["problem"]
    assert running.result is None


def test_a_process_answers_one_question_after_another_and_ends_with_the_program():
    workers = Workers()
    worker = workers.take()
    *reports, found = worker.ask(Question(SMALL, OPTIONS))
    assert isinstance(found, MapResult)
    assert found.optimal
    assert all(isinstance(one, Report) for one in reports)
    workers.give_back(worker)
    assert workers.take() is worker
    (problem,) = worker.ask(Question(SMALL.set("arch.nodes.GlobalBuffer.size", 1), {**OPTIONS, "given": {"X": None}}))
    assert isinstance(problem, EinmapError)
    said = worker.ask(Question(LONG, OPTIONS))
    assert isinstance(next(said), Report)
    worker.pipe.close()  # as it is when the program is killed
    worker.process.join(60)
    assert worker.process.exitcode == 0


def test_a_process_that_dies_is_said_and_not_used_again():
    workers = Workers()
    worker = Worker.begun()
    workers.give_back(worker)
    worker.end()
    (problem,) = worker.ask(Question(SMALL, OPTIONS))
    assert "ended before it gave a mapping" in str(problem)
    other = workers.take()
    assert other is not worker
    other.end()


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (BlockingIOError(11, "Resource temporarily unavailable"), "Resource temporarily unavailable"),
        (AssertionError("daemonic processes are not allowed to have children"), "daemonic processes are not allowed"),
        (RuntimeError("\n  A new process\n  before its time.\n\n  Use"), "A new process before its time$"),
    ],
)
def test_where_there_can_be_no_process_that_is_said(error, said, monkeypatch):
    def refuse(*_):
        raise error

    monkeypatch.setattr("multiprocessing.process.BaseProcess.start", refuse)
    with pytest.raises(EinmapError, match=f"cannot start a process for the search: {said}"):
        Workers().take()


def test_where_there_can_be_no_thread_that_is_said(monkeypatch):
    class Idle:
        given: ClassVar[list[object]] = []
        take = staticmethod(object)
        give_back = staticmethod(given.append)

    def refuse(_):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(sys.modules[Running.__module__], "WORKERS", Idle)
    monkeypatch.setattr("threading.Thread.start", refuse)
    running = Running(SMALL, "energy")
    with pytest.raises(EinmapError, match="cannot start a thread for the search: can't start new thread"):
        running.start()
    assert len(Idle.given) == 1
