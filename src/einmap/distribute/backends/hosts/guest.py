"""A host other than host 0: it comes to host 0, says what it is about to do, and hears whether all do the same."""

from __future__ import annotations

import socket
import time
from dataclasses import replace
from typing import Any

from einmap.distribute.backends.hosts.address import SocketAddress
from einmap.distribute.backends.hosts.facts import Facts
from einmap.distribute.backends.hosts.host_zero import HostZero, PortTakenError
from einmap.distribute.backends.hosts.lines import Connection, StrangerError
from einmap.distribute.backends.hosts.meeting import Alarm, Inbox, Meeting, Seat, refusal
from einmap.errors import EngineError

PAUSE = 0.1
"""Seconds between attempts to reach host 0."""
GREETING = 3.0
"""Seconds within which host 0 answers whoever comes; who does not is something else."""
SLACK = 1.0
"""Seconds that the outcome may be late: host 0 waits, and then tells all others."""


class Guest:
    """The meeting as all hosts but host 0 see it."""

    def __init__(self, seat: Seat) -> None:
        """Nothing happens yet."""
        self._seat = seat
        self._inbox = Inbox()
        self._connection: Connection | None = None

    def agree(self, facts: Facts, limit: float) -> None:
        """See `meeting.Meeting.agree`."""
        try:
            self._agree(facts, limit)
        except BaseException:
            self.close()
            raise

    def _agree(self, facts: Facts, limit: float) -> None:
        deadline = time.monotonic() + limit
        is_first = self._connection is None
        if self._connection is None:
            deadline = time.monotonic() + self._seat.limit
            self._connection = self._connected(deadline)
            self._inbox.listen(self._connection, lambda _, why: why or "host 0 has ended without a word")
        self._connection.send({"host": self._seat.host, "hosts": self._seat.hosts, "facts": facts.encoded()})
        if is_first:
            # a stranger must not be waited for as long as other hosts are
            document = self._next(min(deadline, time.monotonic() + GREETING), "accepts connections and says nothing")
            left = document.get("welcome")
            deadline = time.monotonic() + SLACK + (min(left, 1e6) if isinstance(left, int | float) else 0.0)
            if left is None:
                return self._conclude(document)
            self._seat.report(f"waiting for all {self._seat.hosts} hosts at {self._seat.address}")
        return self._conclude(self._next(deadline, "did not say within the time limit whether all hosts are there"))

    def watch(self, alarm: Alarm | None) -> None:
        """See `meeting.Meeting.watch`."""
        self._inbox.watch(alarm)

    def fail(self, why: str) -> None:
        """See `meeting.Meeting.fail`."""
        if self._connection is not None:
            self._connection.send({"lost": why})
        self.close()

    def close(self) -> None:
        """See `meeting.Meeting.close`."""
        self.watch(None)
        if self._connection is not None:
            self._connection.send({"bye": True})
            self._connection.close()

    def _conclude(self, document: dict[str, Any]) -> None:
        match document:
            case {"agreed": True}:
                return
            case {"refused": str() as kind, "problems": list() as problems, "hint": str() as hint}:
                raise refusal(kind, map(str, problems), hint)
            case {"bye": _}:
                raise EngineError("another host has failed; host 0 has ended")
            case _:
                raise EngineError(f"{self._who} is another einmap than this one", hint=self._hint)

    def _next(self, deadline: float, silence: str) -> dict[str, Any]:
        """The next document of host 0. Raises EngineError where something else comes, or nothing."""
        event = self._inbox.next(deadline)
        hint = self._hint
        if event is None:
            raise EngineError(f"{self._who} {silence}", hint=hint)
        if isinstance(event.said, StrangerError):
            raise EngineError(f"{self._who} is not host 0 of an einmap: {event.said}", hint=hint)
        if event.said is not None and "lost" not in event.said:
            return event.said
        raise EngineError(f"another host has failed; {self._inbox.lost}", hint=hint)

    # coming

    def _connected(self, deadline: float) -> Connection:
        address = self._seat.address
        places = address.resolved(deadline)
        self._seat.report(f"looking for host 0 at {address}")
        reason = "it is not there"
        while True:
            for place in places:
                try:
                    return Connection(_connect(place, deadline))
                except OSError as error:
                    reason = error.strerror or str(error)
            if time.monotonic() + PAUSE > deadline:
                break
            time.sleep(PAUSE)
        raise EngineError(self._unreachable(reason), hint=self._hint)

    @property
    def _who(self) -> str:
        return f"coordinator {self._seat.address}: what listens there"

    @property
    def _hint(self) -> str:
        return "see what host 0 says: it is late, has ended, or has begun; --meeting-limit gives all hosts more time"

    def _unreachable(self, reason: str) -> str:
        where, limit = self._seat.address, self._seat.limit
        return f"coordinator {where}: within {limit:g} s host 0 could not be reached: {reason}"


class SecondHostZero(Guest):
    """Host 0 where its port is taken: by another host 0, which tells both of them apart, or by another program."""

    def __init__(self, seat: Seat) -> None:
        super().__init__(replace(seat, limit=GREETING))

    @property
    def _who(self) -> str:
        return f"coordinator {self._seat.address}: the port is taken on this host; what listens there"

    @property
    def _hint(self) -> str:
        return "choose a free port of host 0, and give it to all hosts"

    def _unreachable(self, reason: str) -> str:
        return f"coordinator {self._seat.address}: the port is taken on this host, and nobody answers there: {reason}"


def meet(seat: Seat) -> Meeting:
    """The meeting of this host with the others; `Meeting.agree` waits for them.

    Raises EngineError where host 0 may not listen at its port.
    """
    if seat.host > 0:
        return Guest(seat)
    try:
        return HostZero(seat)
    except PortTakenError:
        return SecondHostZero(seat)


def _connect(place: SocketAddress, deadline: float) -> socket.socket:
    """Raises OSError where nobody listens."""
    family, address = place
    connected = socket.socket(family, socket.SOCK_STREAM)
    try:
        connected.settimeout(max(PAUSE, deadline - time.monotonic()))
        connected.connect(address)
        if connected.getsockname() == connected.getpeername():
            # the system may give a socket that looks for a free port the very one that it looks for
            raise ConnectionRefusedError(None, "nobody listens there")
        connected.settimeout(None)
    except BaseException:
        connected.close()
        raise
    return connected
