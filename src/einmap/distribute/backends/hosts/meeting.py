"""The connections between hosts from their meeting to their end: who is there, and what is not the same everywhere.

Host 0 listens at the coordinator's address until all hosts are there, then gives the port free for JAX. The
connections stay: before each request every host says what it is about to do, and a host that fails tells the others
why.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from einmap.distribute.backends.hosts.address import Address
from einmap.distribute.backends.hosts.facts import Facts
from einmap.distribute.backends.hosts.lines import Connection, StrangerError
from einmap.errors import EngineError, SpecError

type Alarm = Callable[[str], None]
"""Called with what happened on another host; in a thread of its own."""
type Lost = Callable[[Connection, str | None], str | None]
"""Called with a connection that says that it fails, and why, or that ends without a good-bye (None). What it means in
words for the alarm; None where it means nothing."""


@dataclass(frozen=True)
class Seat:
    """Which of the `hosts` this one is, where host 0 is found, and how many seconds hosts wait for one another.

    `report` gets a few words about what is waited for.
    """

    host: int
    hosts: int
    address: Address
    limit: float
    report: Callable[[str], None] = field(default=lambda _: None)


class Meeting(Protocol):
    """The connection of this host to the others."""

    def agree(self, facts: Facts, limit: float) -> None:
        """Return when all hosts say the same within `limit` seconds; the first time when they have met.

        Raises SpecError for what differs, EngineError where hosts are missing, cannot be reached or have failed.
        """

    def watch(self, alarm: Alarm | None) -> None:
        """Call `alarm` from now on when another host fails, at once if one has failed before; None: call nobody."""

    def fail(self, why: str) -> None:
        """Tell the other hosts that this one has failed, and part."""

    def close(self) -> None:
        """Part in peace."""


@dataclass(frozen=True)
class Event:
    """One arrival over a connection: a document, or how it ended: an exception that says who spoke, or None."""

    connection: Connection
    said: dict[str, Any] | StrangerError | None


class Inbox:
    """Documents of all connections, in the order in which they come; the alarm hears of hosts that fail as well."""

    def __init__(self) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._alarm: Alarm | None = None
        self.lost: str | None = None

    def listen(self, connection: Connection, lost: Lost) -> None:
        """Receive from a connection in a thread, until it ends. `lost` is asked about one that ends badly."""
        threading.Thread(target=self._receive, args=(connection, lost), daemon=True).start()

    def _receive(self, connection: Connection, lost: Lost) -> None:
        is_over = False
        try:
            while True:
                document = connection.receive()
                if "lost" in document:
                    is_over = True
                    self.fail(lost(connection, str(document["lost"])))
                is_over = is_over or "bye" in document or "refused" in document
                self._events.put(Event(connection, document))
        except StrangerError as stranger:
            self._events.put(Event(connection, stranger))
        except EOFError:
            if not is_over:
                self.fail(lost(connection, None))
            self._events.put(Event(connection, None))

    def fail(self, why: str | None) -> None:
        """Another host has failed; None: it has not."""
        if why is None:
            return
        with self._lock:
            if self.lost is None:
                self.lost = why
                if self._alarm is not None:
                    self._alarm(why)

    def watch(self, alarm: Alarm | None) -> None:
        """See `Meeting.watch`."""
        with self._lock:
            self._alarm = alarm
            if alarm is not None and self.lost is not None:
                alarm(self.lost)

    def next(self, deadline: float) -> Event | None:
        """The next event; None when there is none before `deadline` (of `time.monotonic`)."""
        try:
            return self._events.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None


def refusal(kind: str, problems: Iterable[str], hint: str) -> EngineError | SpecError:
    """The error that all hosts raise where they cannot run together. `kind`: "different" or "missing"."""
    problems = list(problems)
    if len(problems) == 1:
        text = f"the hosts cannot run together: {problems[0]}"
    else:
        text = "\n    ".join(["the hosts cannot run together:", *problems])
    return SpecError(text, hint=hint) if kind == "different" else EngineError(text, hint=hint)
