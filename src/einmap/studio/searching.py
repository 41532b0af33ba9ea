"""A process that searches: asked, told to stop and heard over a pipe; it ends when the program that began it does.

A search keeps one processor busy and the interpreter with it: beside it, in one process, a move would wait.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from queue import Empty, SimpleQueue
from typing import Any

from einmap.errors import EinmapError
from einmap.facade import map_workload
from einmap.mapper.result.result import MapResult
from einmap.progress import Progress, Report
from einmap.spec.spec import Spec
from einmap.sweep.engines.interrupts import without_ctrl_c

EVERY = 0.1
"""Seconds between two reports of progress."""
IDLE = 120.0
"""Seconds that a process waits for another search before it ends."""
BEHIND = 5
"""How much less urgent a search is than a move: an increment of `nice`."""
_STOP = "stop"


@dataclass(frozen=True)
class Question:
    """A call of `map_workload`: a specification, and its keywords."""

    spec: Spec
    options: dict[str, Any]


type Told = Report | MapResult | EinmapError
"""Message of a process: how far it is, then what it found, or why it found nothing."""


@dataclass
class Worker:
    """A process, and our end of its pipe; it works on one question at a time."""

    process: Any
    pipe: Connection

    @staticmethod
    def begun() -> Worker:
        """A new process. Raises EinmapError where there can be none."""
        context = multiprocessing.get_context("spawn")  # a fork of a program with threads may stand still for ever
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(theirs,), name="einmap-studio-search", daemon=True)
        try:
            with without_ctrl_c():
                process.start()
        except (OSError, AssertionError, RuntimeError) as error:  # the latter: this process may not have any
            ours.close()
            why = " ".join(str(getattr(error, "strerror", None) or error).split()).partition(". ")[0]
            raise EinmapError(f"cannot start a process for the search: {why}") from error
        finally:
            theirs.close()
        return Worker(process, ours)

    def ask(self, question: Question) -> Iterator[Told]:
        """Messages of the process, the last one its answer; that it ended, should it do so before."""
        with suppress(OSError):  # it has ended, which shows below
            self.pipe.send(question)
        while True:
            try:
                told: Told = self.pipe.recv()
            except (EOFError, OSError):
                yield self._ended()
                return
            yield told
            if not isinstance(told, Report):
                return

    def stop(self) -> None:
        """Ask for the best so far."""
        with suppress(OSError):
            self.pipe.send(_STOP)

    def end(self) -> None:
        """End the process at once."""
        self.process.kill()

    def _ended(self) -> EinmapError:
        self.process.join()
        code = self.process.exitcode
        if code == -signal.SIGKILL:
            return EinmapError("the search was ended before it gave a mapping", hint="memory may have run out")
        hint = "in a script, begin the studio below `if __name__ == '__main__':`, since the search imports the script"
        return EinmapError(f"the process of the search ended with {code}", hint=hint)


@dataclass
class Workers:
    """Processes of this program. One that has answered waits for the next question: to begin one takes a second."""

    _idle: list[Worker] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self) -> Worker:
        """A process with nothing to do. Raises EinmapError where there can be none."""
        with self._lock:
            while self._idle:
                worker = self._idle.pop()
                if worker.process.is_alive():
                    return worker
                worker.pipe.close()
        return Worker.begun()

    def give_back(self, worker: Worker) -> None:
        """Keep a process that has answered, if no other one waits; else end it."""
        with self._lock:
            if worker.process.is_alive() and not self._idle:
                self._idle.append(worker)
                return
        worker.end()
        worker.process.join()
        worker.pipe.close()


WORKERS = Workers()
"""Processes of all studios of this program."""


def serve(pipe: Connection) -> None:
    """The process: answer questions until none has come for a while, or the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    with suppress(AttributeError, OSError):
        os.nice(BEHIND)
    asked: SimpleQueue[tuple[Question, Progress]] = SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, asked), daemon=True).start()
    with suppress(Empty, OSError):
        while True:
            pipe.send(_answer(*asked.get(timeout=IDLE)))


def _listen(pipe: Connection, asked: SimpleQueue[tuple[Question, Progress]]) -> None:
    """Hear questions, and that one is to stop; end the process, whatever it does, when the parent has ended."""
    progress = Progress()
    while True:
        try:
            said = pipe.recv()
        except (EOFError, OSError):
            os._exit(0)
        if said == _STOP:
            progress.stop()
        else:
            progress = Progress(_Reporter(pipe))
            asked.put((said, progress))


@dataclass
class _Reporter:
    """Sends reports of progress, not more than the page can show."""

    pipe: Connection
    last: float = 0.0

    def __call__(self, report: Report) -> None:
        now = time.monotonic()
        if now - self.last > EVERY:
            self.last = now
            self.pipe.send(report)


def _answer(question: Question, progress: Progress) -> Told:
    try:
        return map_workload(question.spec, progress=progress, **question.options)
    except EinmapError as error:
        return error
    except MemoryError:
        return EinmapError("there is not enough memory for this search")
