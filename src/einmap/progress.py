"""How long work reports and how it is asked to stop. The core prints nothing; callers pass a `Progress`."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class Report:
    """One message of a long run: what is being searched, how far it is, the best so far."""

    what: str
    done: int
    total: int | None
    best: str | None = None


@dataclass(slots=True)
class Progress:
    """A progress and stop token: long work calls `report` now and then and asks `stopped`.

    `deadline`: a `time.monotonic()` value after which `stopped` is true, or None.
    """

    callback: Callable[[Report], None] | None = None
    deadline: float | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def report(self, what: str, done: int, total: int | None = None, best: str | None = None) -> None:
        """Tell the listener, if there is one."""
        if self.callback is not None:
            self.callback(Report(what, done, total, best))

    def stop(self) -> None:
        """Ask the work to end and to return the best found so far."""
        self._stop.set()

    @property
    def stopped(self) -> bool:
        """True when somebody asked to stop or the time is up."""
        return self._stop.is_set() or (self.deadline is not None and time.monotonic() > self.deadline)

    def seconds_left(self) -> float:
        """Until the deadline, at least 0; inf without one."""
        return math.inf if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    def quiet(self) -> Progress:
        """This token without its listener, for a part of the work that tells nothing."""
        return Progress(None, self.deadline, self._stop)

    def named(self, name: str) -> Progress:
        """This token for one of several parts of the work: what it tells begins with the part's name."""
        told = self.callback
        if told is None:
            return self
        return Progress(lambda report: told(replace(report, what=f"{name}: {report.what}")), self.deadline, self._stop)

    def within(self, seconds: float | None) -> Progress:
        """This token with a deadline `seconds` from now; the earlier deadline holds."""
        if seconds is None:
            return self
        deadline = time.monotonic() + seconds
        if self.deadline is not None:
            deadline = min(deadline, self.deadline)
        return Progress(self.callback, deadline, self._stop)


class Interrupted(Exception):
    """Work was asked to end before it had anything to give."""


_interrupting: ContextVar[Progress | None] = ContextVar("_interrupting", default=None)


@contextmanager
def interruptible(progress: Progress | None) -> Iterator[None]:
    """Let `progress` end what is done inside, at each `checkpoint`: for work whose parts are remembered by what they
    are given, to which a token does not belong.
    """
    token = _interrupting.set(progress)
    try:
        yield
    finally:
        _interrupting.reset(token)


def checkpoint() -> None:
    """Raise Interrupted where the work around, if it is `interruptible`, has been asked to end."""
    progress = _interrupting.get()
    if progress is not None and progress.stopped:
        raise Interrupted
