"""Workers of a Dask cluster: an existing scheduler, or a cluster of this machine.

Scheduling, transport and security are Dask's. What is added here: tasks of lost workers and lost schedulers are tried
again, a task that keeps killing workers is given up, and no more tasks are handed over than can begin.
"""

from __future__ import annotations

import asyncio
import logging
import pickle
import threading
import time
import uuid
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from einmap.errors import EngineError
from einmap.frontends.store import own_code
from einmap.optional import require
from einmap.progress import Progress
from einmap.sweep.engines.engine import LOCAL, TRIES, Answer, Lost
from einmap.sweep.engines.interrupts import dask_setup, without_ctrl_c
from einmap.visible import short

AHEAD = 2
"""Tasks for each thread of the cluster, so that none waits for the next one."""
POLL = 0.5
"""Seconds between looks at what has changed without a message."""
PATIENCE = 300.0
"""Seconds that a scheduler may be away during a sweep until it ends."""
FAREWELL = 5.0
"""Seconds without a worker after which a sweep that is to stop ends."""
FETCHING = 60.0
"""Seconds for one answer to come from a worker."""


@dataclass(frozen=True, slots=True)
class Other:
    """The answer of a worker that has another einmap: keys of results would not be true."""

    code: str


def remote(function: Callable[[Any], Any], code: str, pickled: bytes) -> Any:
    """The job of a worker: `function` of a task, unless its einmap is not that of the sweep."""
    return function(pickle.loads(pickled)) if own_code() == code else Other(own_code())


@dataclass
class Sent:
    """A task on its way. `lost`: how many workers ended with it; `deadline` (`time.monotonic()`) for its answer."""

    pickled: bytes
    future: Any = None
    submitted: int = 0
    lost: int = 0
    deadline: float | None = None


@dataclass
class DaskCluster:
    """An engine on a Dask cluster that calls `function`.

    `connect` makes a client; `limit`: seconds for a task, None for no limit. A task that was lost with `TRIES` workers
    is given up. Its last try is made while nothing else runs, so that no task is given up for what another one did.
    """

    function: Callable[[Any], Any]
    connect: Callable[[], Any]
    limit: float | None
    progress: Progress
    local: Any = None
    """The cluster of this machine, if there is one, which ends with the sweep."""
    _client: Any = None
    _tasks: dict[int, Sent] = field(default_factory=dict)
    _suspects: list[int] = field(default_factory=list)
    """Tasks whose last try is due."""
    _wake: threading.Event = field(default_factory=threading.Event)
    _threads: int = 0
    _counted: float = 0.0

    def __post_init__(self) -> None:
        self._client = self.connect()
        self._session = uuid.uuid4().hex

    @property
    def has_room(self) -> bool:
        """Whether a further task would begin soon: not while one has its last try."""
        return not self._suspects and len(self._tasks) < max(1, AHEAD * self._count())

    @property
    def busy(self) -> bool:
        """Whether an answer is to be waited for."""
        return bool(self._tasks)

    def submit(self, number: int, task: Any) -> None:
        """Hand a task over; its number comes back with the answer."""
        self._tasks[number] = Sent(pickle.dumps(task))
        self._send(number)

    def wait(self) -> list[Answer]:
        """The answers that are there, at least one. Raises EngineError where the cluster cannot do what it is asked."""
        worked = time.monotonic()
        while self._tasks:
            answers = [answer for number in list(self._tasks) if (answer := self._looked_at(number)) is not None]
            if answers:
                return answers
            self._reconnect()
            self._try_suspect()
            if self._count():
                worked = time.monotonic()
            elif self.progress.stopped and time.monotonic() > worked + FAREWELL:
                break  # nobody is left to finish what was begun
            else:
                self.progress.report("waiting for a worker of the cluster", 0)
            self._wake.wait(POLL)
            self._wake.clear()
        self._tasks.clear()
        return []

    def close(self) -> None:
        """Give up what is under way, and end a cluster of this machine."""
        with suppress(Exception):
            self._client.cancel([sent.future for sent in self._tasks.values() if sent.future is not None])
        self._tasks.clear()
        with suppress(Exception):
            self._client.close(timeout=5)
        if self.local is not None:
            with suppress(Exception):
                self.local.close(timeout=5)

    def _count(self) -> int:
        """Threads of all workers, as they were within the last second."""
        if time.monotonic() >= self._counted + 1:
            with suppress(Exception):  # the scheduler is away: what was known holds
                self._threads = sum(self._client.nthreads().values())
            self._counted = time.monotonic()
        return self._threads

    def _send(self, number: int) -> None:
        sent = self._tasks[number]
        sent.submitted += 1
        sent.deadline = None if self.limit is None else time.monotonic() + self.limit
        key = f"einmap-{self._session}-{number}-{sent.submitted}"
        try:
            sent.future = self._client.submit(
                remote, self.function, own_code(), sent.pickled, key=key, pure=False, retries=0
            )
        except Exception:  # the client has lost its scheduler: it is sent when there is one again
            sent.future = None
            return
        sent.future.add_done_callback(lambda _: self._wake.set())

    def _looked_at(self, number: int) -> Answer | None:
        """The answer to a task, if it has come. A task that was lost is sent again."""
        sent = self._tasks[number]
        match "lost" if sent.future is None else sent.future.status:
            case "finished":
                return self._fetched(number)
            case "error":
                return self._failed(number)
            case "lost" | "cancelled":  # with the scheduler: that is not the task's fault
                if number not in self._suspects and self._client.status == "running":
                    self._send(number)
            case _:
                return self._late(number)
        return None

    def _fetched(self, number: int) -> Answer | None:
        try:
            said = self._tasks[number].future.result(timeout=FETCHING)
        except (OSError, TimeoutError, CancelledError):  # the worker has ended with it
            self._send(number)
            return None
        if isinstance(said, Other):
            hint = "install the same version on all workers, from the same files"
            raise EngineError("a worker of the cluster has another einmap than this one", hint=hint)
        return self._answer(number, said)

    def _failed(self, number: int) -> Answer | None:
        from distributed.scheduler import KilledWorker

        sent = self._tasks[number]
        try:
            error = sent.future.exception(timeout=FETCHING)
        except (OSError, TimeoutError, CancelledError):
            self._send(number)
            return None
        if not isinstance(error, KilledWorker):
            hint = "einmap and what it needs must be installed on all workers"
            raise EngineError(f"a worker of the cluster cannot do its work: {type(error).__name__}: {error}", hint=hint)
        was_alone = number in self._suspects
        sent.lost += error.allowed_failures + 1
        if was_alone:
            self._suspects.remove(number)
            where = error.last_worker.address
            return self._answer(number, Lost(False, f"{sent.lost} workers ended with it, the last one {where}"))
        if sent.lost >= TRIES - 1:
            self._suspects.append(number)
            sent.future = None
        else:
            self._send(number)
        return None

    def _try_suspect(self) -> None:
        """Send the first suspect once nothing else is under way."""
        if self._suspects and all(number in self._suspects for number in self._tasks):
            first = self._suspects[0]
            if self._tasks[first].future is None or self._tasks[first].future.status in ("lost", "cancelled"):
                self._send(first)

    def _late(self, number: int) -> Answer | None:
        """A task that took too long: its worker is ended, as a thread cannot be. One that waits is not late."""
        sent = self._tasks[number]
        if sent.deadline is None or time.monotonic() < sent.deadline:
            return None
        assert self.limit is not None
        workers = []
        with suppress(Exception):
            processing = self._client.processing()
            workers = [worker for worker, keys in processing.items() if sent.future.key in keys]
            if not workers:
                sent.deadline = time.monotonic() + self.limit
                return None
        with suppress(Exception):
            self._client.cancel(sent.future, force=True)
            self._client.restart_workers(workers, timeout=FETCHING, raise_for_error=False)
        return self._answer(number, Lost(True, f"no answer within {self.limit:g} s"))

    def _answer(self, number: int, said: Any) -> Answer:
        del self._tasks[number]
        if number in self._suspects:
            self._suspects.remove(number)
        return number, said

    def _reconnect(self) -> None:
        """Wait for a scheduler that is away. Raises EngineError where it does not come back."""
        if self._client.status == "running":
            return
        end = time.monotonic() + PATIENCE
        while self._client.status != "running":
            self.progress.report("waiting for the scheduler", 0)
            if time.monotonic() > end or self.progress.stopped:
                hint = "what is finished is kept; the same call goes on from there"
                raise EngineError("the scheduler is away and did not come back", hint=hint)
            if self._client.status == "closed":
                with suppress(EngineError):
                    self._client = self.connect()
            time.sleep(POLL)


def dask_cluster(
    function: Callable[[Any], Any],
    scheduler: Any,
    workers: int,
    limit: float | None,
    progress: Progress,
) -> DaskCluster:
    """An engine on the cluster of `scheduler`: an address, `local`, or a `distributed.Client`.

    Raises SpecError where Dask is not installed, EngineError for a scheduler that cannot be reached.
    """
    distributed = require("distributed", "cluster")
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # what matters is told by errors and results
    if scheduler == LOCAL:
        return _local(distributed, function, workers, limit, progress)
    address, security = scheduler, None
    if not isinstance(scheduler, str):
        address, security = scheduler.scheduler.address, scheduler.security
    return DaskCluster(function, lambda: _client(distributed, address, security), limit, progress)


def _client(distributed: Any, address: str, security: Any) -> Any:
    """A client of its own; `security` as in `distributed.Client`, None: what Dask's configuration says."""
    import dask
    from dask.utils import parse_timedelta

    seconds = parse_timedelta(dask.config.get("distributed.comm.timeouts.connect"))
    try:
        # a client that is made in vain waits once more when it goes, so knock first
        asyncio.run(_knock(distributed, address, security, seconds))
        return distributed.Client(address, security=security, set_as_default=False)
    except (OSError, TimeoutError, ValueError, RuntimeError, TypeError, ImportError) as error:
        late = f" within {seconds:g} s" if isinstance(error, TimeoutError) or "Timed out" in str(error) else ""
        reason = "" if late else f": {str(error).partition(chr(10))[0] or type(error).__name__}"
        hint = "start one with `dask scheduler`; tcp://host:8786, or tls://host:8786 with certificates (docs/sweep.md)"
        raise EngineError(f"the scheduler {short(address)} cannot be reached{late}{reason}", hint=hint) from error


async def _knock(distributed: Any, address: str, security: Any, seconds: float) -> None:
    arguments = (security or distributed.Security()).get_connection_args("client")
    comm = await distributed.comm.connect(address, timeout=seconds, **arguments)
    await comm.close()


def _local(
    distributed: Any, function: Callable[[Any], Any], workers: int, limit: float | None, progress: Progress
) -> DaskCluster:
    import dask

    with without_ctrl_c(), dask.config.set({"distributed.scheduler.allowed-failures": 0}):
        cluster = distributed.LocalCluster(
            n_workers=max(1, workers),
            threads_per_worker=1,
            processes=True,
            dashboard_address=None,
            silence_logs=logging.CRITICAL,
            preload=[dask_setup.__module__],
        )
    return DaskCluster(
        function, lambda: distributed.Client(cluster, set_as_default=False), limit, progress, local=cluster
    )
