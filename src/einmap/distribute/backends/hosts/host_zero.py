"""Host 0: it listens until all hosts are there, compares what they say, and tells all of them the outcome."""

from __future__ import annotations

import errno
import os
import socket
import threading
import time
from contextlib import suppress
from dataclasses import dataclass

from einmap.distribute.backends.hosts.address import LARGEST_PORT, Address, is_here
from einmap.distribute.backends.hosts.facts import Facts, differences, named
from einmap.distribute.backends.hosts.lines import Connection, StrangerError
from einmap.distribute.backends.hosts.meeting import Alarm, Event, Inbox, Seat, refusal
from einmap.errors import EngineError

MOST_STRANGERS = 3
"""Others than einmap that a message names."""
MOST_HOSTS = 4096
"""Hosts that are waited for, whatever others say; meshes have no more PEs."""
STRAGGLING = 2.0
"""Seconds in which the last hosts are awaited where as many have come as there are, but one number is given twice."""
SAME = "give the same command on all hosts, but for --host, with the same files, --define and --seed"


class PortTakenError(Exception):
    """Another program listens at the port."""


@dataclass(frozen=True)
class _Guest:
    """The words of a connected host about itself."""

    host: int
    hosts: int
    facts: Facts


class HostZero:
    """The meeting as host 0 sees it."""

    def __init__(self, seat: Seat) -> None:
        """Listen. Raises PortTakenError where another program does, EngineError where the system forbids it."""
        self._seat = seat
        self._places = seat.address.resolved(time.monotonic() + seat.limit)
        self._inbox = Inbox()
        self._listener: socket.socket | None = _listening(seat.address)
        self._connections: list[Connection] = []
        self._guests: dict[Connection, _Guest] = {}
        self._deadline = time.monotonic() + seat.limit
        threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def agree(self, facts: Facts, limit: float) -> None:
        """See `meeting.Meeting.agree`."""
        is_first = self._listener is not None
        deadline = self._deadline if is_first else time.monotonic() + limit
        limit = self._seat.limit if is_first else limit
        strangers = self._gather(deadline)
        self._stop_listening()
        try:
            self._compare(facts, limit, strangers)
        except BaseException:
            self.close()
            raise
        for connection in self._guests:
            connection.send({"agreed": True})
        self._guests = {connection: _Guest(g.host, g.hosts, Facts(())) for connection, g in self._guests.items()}

    def watch(self, alarm: Alarm | None) -> None:
        """See `meeting.Meeting.watch`."""
        self._inbox.watch(alarm)

    def fail(self, why: str) -> None:
        """See `meeting.Meeting.fail`."""
        self._tell({"lost": f"host 0: {why}"})
        self.close()

    def close(self) -> None:
        """See `meeting.Meeting.close`."""
        self.watch(None)
        self._stop_listening()
        self._tell({"bye": True})
        for connection in self._connections:
            connection.close()
        self._connections, self._guests = [], {}

    def _tell(self, document: dict[str, object], besides: Connection | None = None) -> None:
        for connection in list(self._connections):
            if connection is not besides:
                connection.send(document)

    # who is there

    def _accept(self, listener: socket.socket) -> None:
        with suppress(OSError):  # the end of the listener
            while True:
                connected, _ = listener.accept()
                connection = Connection(connected)
                if len(self._connections) == 2 * MOST_HOSTS:
                    connection.close()
                    continue
                self._connections.append(connection)
                self._inbox.listen(connection, self._lost)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            with suppress(OSError):
                self._listener.shutdown(socket.SHUT_RDWR)  # wakes the thread that accepts
            self._listener.close()
            self._listener = None

    def _gather(self, deadline: float) -> list[str]:
        """Wait until every expected host has spoken, or the time is up; who else came."""
        strangers: list[str] = []
        while (missing := self._missing()) and self._inbox.lost is None:
            self._seat.report(f"waiting for {named(missing)} of {self._expected} at {self._seat.address}")
            if len(self._numbers()) >= self._expected - 1:  # some number is given twice: who should have it comes soon
                deadline = min(deadline, time.monotonic() + STRAGGLING)
            event = self._inbox.next(deadline)
            if event is None:
                break
            if isinstance(event.said, StrangerError):
                strangers.append(f"something else than einmap came from {event.connection.peer}: {event.said}")
                event.connection.close()
            else:
                self._hear(event)
        return strangers

    def _hear(self, event: Event) -> None:
        match event.said:
            case None | {"bye": _}:
                guest = self._guests.pop(event.connection, None)
                if guest is not None and self._listener is None:
                    self._inbox.fail(f"host {guest.host} has ended")
            case {"host": int() as host, "hosts": int() as hosts, "facts": said} if (
                0 <= host < hosts <= MOST_HOSTS and (facts := Facts.decoded(said)) is not None
            ):
                self._guests[event.connection] = _Guest(host, hosts, facts)
                if self._listener is not None:
                    event.connection.send({"welcome": max(0.0, self._deadline - time.monotonic())})

    @property
    def _expected(self) -> int:
        return max([self._seat.hosts, *(guest.hosts for guest in self._guests.values())])

    def _missing(self) -> list[int]:
        """Hosts that have not spoken."""
        return sorted(set(range(1, self._expected)).difference(self._numbers()))

    def _lost(self, connection: Connection, why: str | None) -> str | None:
        """The words for a host that failed, of which the others hear; None for whoever left before the hosts met."""
        guest = self._guests.get(connection)
        if guest is None or self._listener is not None:
            return None
        text = f"host {guest.host}: {why}" if why else f"host {guest.host} has ended without a word"
        self._tell({"lost": text}, besides=connection)
        return text

    # what they say

    def _compare(self, facts: Facts, limit: float, strangers: list[str]) -> None:
        """Raise what `agree` raises, once all other hosts know it."""
        if self._inbox.lost is not None:
            raise EngineError(f"another host has failed; {self._inbox.lost}")
        missing = self._missing()
        problems = self._twice()
        if missing:
            why = "nobody is" if problems else f"within {limit:g} s nobody came as"
            problems.append(f"{why} {named(missing)} of {self._expected}")
            problems += strangers[:MOST_STRANGERS]
        by_host = {0: facts} | {guest.host: guest.facts for guest in self._guests.values() if guest.facts.levels}
        different = differences(by_host)
        if not problems and not different:
            return
        kind = "different" if different or self._twice() else "missing"
        hint = _advice([*different, *problems]) if kind == "different" else self._whom_to_look_for(missing)
        self._tell({"refused": kind, "problems": [*different, *problems], "hint": hint})
        raise refusal(kind, [*different, *problems], hint)

    def _numbers(self) -> list[int]:
        return [guest.host for guest in self._guests.values() if guest.facts.levels]

    def _twice(self) -> list[str]:
        numbers = [0, *self._numbers()]
        again = sorted({host for host in numbers if numbers.count(host) > 1})
        return [f"host {host} is there {numbers.count(host)} times{self._whence(host)}" for host in again]

    def _whence(self, host: int) -> str:
        peers = [connection.peer for connection, guest in self._guests.items() if guest.host == host]
        here = ["this host"] if host == 0 else []
        return f" (at {' and '.join([*here, *peers])})"

    def _whom_to_look_for(self, missing: list[int]) -> str:
        text = f"einmap says on {named(missing)} why it did not come; --meeting-limit gives all hosts more time"
        address = self._seat.address
        if len(missing) == self._expected - 1 and not is_here(self._places):
            text += f"; {address.name} does not seem to be an address of this host"
        return text


def _advice(different: list[str]) -> str:
    is_version = [text.startswith("version of ") for text in different]
    others = [] if all(is_version) else [SAME]
    return "; ".join((["install the same versions on all hosts"] if any(is_version) else []) + others)


def _listening(address: Address) -> socket.socket:
    """A listening socket: at a literal address of this host if the coordinator's is one, else at all addresses."""
    try:
        if address.is_of_this_host:
            family = socket.AF_INET6 if ":" in address.name else socket.AF_INET
            return socket.create_server((address.name, address.port), family=family)
        if socket.has_dualstack_ipv6():
            return socket.create_server(("", address.port), family=socket.AF_INET6, dualstack_ipv6=True)
        return socket.create_server(("", address.port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise PortTakenError from error
        reason = os.strerror(error.errno) if error.errno else str(error)
        hint = f"choose a free port from 1024 to {LARGEST_PORT}: smaller ones are for privileged users"
        raise EngineError(f"coordinator {address}: host 0 may not listen at this port: {reason}", hint=hint) from error
