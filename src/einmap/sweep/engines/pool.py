"""Processes that work off tasks, any of which may die."""

from __future__ import annotations

import multiprocessing
import signal
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from typing import Any

from einmap.errors import EngineError
from einmap.sweep.engines.engine import TRIES, Answer, Lost
from einmap.sweep.engines.interrupts import without_ctrl_c

GRACE = 10.0
"""Seconds beyond its time limit after which a process is ended; a search that is stopped needs some time to answer."""
_READY = "ready"


@dataclass
class Worker:
    """A process with the task that it has, and when that must be finished (`time.monotonic()`)."""

    process: Any
    pipe: Connection
    ready: bool = False
    number: int | None = None
    deadline: float | None = None


@dataclass
class Pool:
    """At most `workers` processes that call `function`, started when they are needed.

    `limit`: seconds for a task, None for no limit. A process that is killed from outside, or crashes, is replaced, and
    its task is tried again, `TRIES` times in all.
    """

    function: Callable[[Any], Any]
    workers: int
    limit: float | None = None
    _running: list[Worker] = field(default_factory=list)
    _queue: deque[int] = field(default_factory=deque)
    _tasks: dict[int, Any] = field(default_factory=dict)
    _tries: dict[int, int] = field(default_factory=dict)

    @property
    def has_room(self) -> bool:
        """Whether there is less than one further task for each worker, so that none waits for the next one."""
        return len(self._tasks) < 2 * self.workers

    @property
    def busy(self) -> bool:
        """Whether a task is under way."""
        return bool(self._tasks)

    @property
    def pids(self) -> list[int]:
        """The processes."""
        return [worker.process.pid for worker in self._running]

    def submit(self, number: int, task: Any) -> None:
        """Give the task to a worker, as soon as one has nothing to do."""
        self._tasks[number] = task
        self._tries[number] = 0
        self._queue.append(number)
        self._feed()

    def wait(self) -> list[Answer]:
        """Answers, as soon as there is one. Raises EngineError where no process can be started."""
        while self._tasks:
            ends = [w.deadline for w in self._running if w.deadline is not None]
            left = max(min(ends) - time.monotonic(), 0.0) if ends else None
            by_pipe = {worker.pipe: worker for worker in self._running}
            ready = wait(list(by_pipe), left)
            answers = [a for pipe in ready if (a := self._heard(by_pipe[pipe])) is not None]  # type: ignore[index]
            answers += self._late()
            self._feed()  # before the answers are looked at: so no worker waits for that
            if answers:
                return answers
        return []

    def close(self) -> None:
        """End all processes at once."""
        for worker in self._running:
            worker.process.kill()
        for worker in self._running:
            worker.process.join()
            worker.pipe.close()
        self._running.clear()
        self._tasks.clear()
        self._queue.clear()

    def _feed(self) -> None:
        """Give tasks to workers that have none."""
        while self._queue:
            worker = next((worker for worker in self._running if worker.number is None), None)
            if worker is None and len(self._running) == self.workers:
                return
            worker = worker or self._started()
            worker.number = self._queue.popleft()
            if worker.ready:
                self._send(worker)

    def _send(self, worker: Worker) -> None:
        assert worker.number is not None
        worker.deadline = None if self.limit is None else time.monotonic() + self.limit
        with suppress(OSError):  # it has ended, which shows when it is listened to
            worker.pipe.send(self._tasks[worker.number])

    def _started(self) -> Worker:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=serve, args=(self.function, theirs), daemon=True)
        try:
            with without_ctrl_c():
                process.start()
        except OSError as error:
            raise EngineError(f"cannot start a process: {error.strerror or error}") from error
        finally:
            theirs.close()
        worker = Worker(process, ours)
        self._running.append(worker)
        return worker

    def _heard(self, worker: Worker) -> Answer | None:
        """Answer of a worker; None where it is not an answer."""
        try:
            said = worker.pipe.recv()
        except (EOFError, OSError):
            return self._ended(worker)
        if not worker.ready and said == _READY:
            worker.ready = True
            if worker.number is not None:
                self._send(worker)
            return None
        number = worker.number
        assert number is not None
        worker.number = worker.deadline = None
        return self._answer(number, said)

    def _ended(self, worker: Worker) -> Answer | None:
        self._remove(worker)
        code = worker.process.exitcode
        if not worker.ready and code is not None and code >= 0:
            hint = "in a script, call it below `if __name__ == '__main__':`, since each process imports the script"
            raise EngineError(f"a process ended with {code} before it could work", hint=hint)
        number = worker.number
        if number is None:
            return None
        self._tries[number] += 1
        if self._tries[number] < TRIES:
            self._queue.appendleft(number)
            return None
        how = f"signal {-code}" if code is not None and code < 0 else f"exit status {code}"
        more = ", perhaps for lack of memory" if code == -signal.SIGKILL else ""
        return self._answer(number, Lost(False, f"{TRIES} processes ended, the last one with {how}{more}"))

    def _late(self) -> list[Answer]:
        now = time.monotonic()
        answers = []
        for worker in [w for w in self._running if w.deadline is not None and w.deadline <= now]:
            worker.process.kill()
            self._remove(worker)
            assert worker.number is not None
            answers.append(self._answer(worker.number, Lost(True, f"no answer within {self.limit:g} s")))
        return answers

    def _answer(self, number: int, said: Any) -> Answer:
        del self._tasks[number], self._tries[number]
        return number, said

    def _remove(self, worker: Worker) -> None:
        worker.process.join()
        worker.pipe.close()
        self._running.remove(worker)


def serve(function: Callable[[Any], Any], pipe: Connection) -> None:
    """The loop of a process: answer tasks until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what Ctrl-C means
    with suppress(EOFError, OSError):  # the parent has ended
        pipe.send(_READY)
        while True:
            pipe.send(function(pipe.recv()))
