"""The address of host 0, and what is wrong with one."""

from __future__ import annotations

import ipaddress
import queue
import re
import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from einmap.errors import EngineError, SpecError
from einmap.visible import short

LARGEST_PORT = 65535
_WRITTEN = re.compile(r"(\[[^\s\[\]]+\]|[^\s:\[\]]+):(\d+)")
_EXAMPLE = "such as 10.0.0.1:9000 or [fd00::1]:9000"

type SocketAddress = tuple[int, Any]
"""The family of a socket, and the address in its form."""


@dataclass(frozen=True, slots=True)
class Address:
    """A name or a literal address, without brackets, and a port from 1 to 65535."""

    name: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """The address that `text` writes as ADDRESS:PORT.

        Raises SpecError for another form, a port that does not exist or that no other host could know, and an address
        that no other host can reach.
        """
        found = _WRITTEN.fullmatch(text)
        if found is None:
            raise SpecError(f"coordinator {short(text)}: expected an address and a port, {_EXAMPLE}")
        name, digits = found[1].strip("[]"), found[2]
        hint = f"choose a free port from 1024 to {LARGEST_PORT} of host 0"
        if len(digits) > len(str(LARGEST_PORT)) or int(digits) > LARGEST_PORT:
            raise SpecError(f"coordinator {short(text)}: the largest port is {LARGEST_PORT}", hint=hint)
        if int(digits) == 0:
            what = "port 0 stands for any free port, which the other hosts could not know"
            raise SpecError(f"coordinator {short(text)}: {what}", hint=hint)
        literal = _literal(name)
        if (":" in name and literal is None) or (literal is not None and literal.is_unspecified):
            what = "is not one that other hosts can reach" if literal else "is not an address"
            raise SpecError(f"coordinator {short(text)}: {name} {what}", hint=f"write that of host 0, {_EXAMPLE}")
        return cls(name, int(digits))

    def __str__(self) -> str:
        return f"[{self.name}]:{self.port}" if ":" in self.name else f"{self.name}:{self.port}"

    @property
    def is_of_this_host(self) -> bool:
        """Whether it is a literal address of this host. A name is not: it may stand for another address elsewhere."""
        literal = _literal(self.name)
        family = socket.AF_INET6 if literal is not None and literal.version == 6 else socket.AF_INET
        return literal is not None and _is_local(family, (self.name, 0))

    def resolved(self, deadline: float) -> list[SocketAddress]:
        """Addresses that the name stands for, in the order in which it should be tried; `deadline` as of
        `time.monotonic`.

        Raises EngineError where it stands for nothing, or nobody says so in time.
        """
        answers: queue.SimpleQueue[list[SocketAddress] | OSError] = queue.SimpleQueue()

        def look_up() -> None:
            try:
                found = socket.getaddrinfo(self.name, self.port, type=socket.SOCK_STREAM)
                answers.put([(family, address) for family, _, _, _, address in found])
            except (OSError, UnicodeError) as error:
                answers.put(error if isinstance(error, OSError) else OSError(str(error)))

        # the resolver takes no time limit
        threading.Thread(target=look_up, daemon=True).start()
        hint = "name host 0 by an address or a name that this host knows"
        try:
            answer = answers.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            raise EngineError(f"coordinator {self}: nobody says what {self.name!r} stands for", hint=hint) from None
        if isinstance(answer, OSError):
            reason = answer.strerror or str(answer)
            raise EngineError(f"coordinator {self}: {self.name!r} does not resolve: {reason}", hint=hint) from answer
        return answer


def is_here(places: Sequence[SocketAddress]) -> bool:
    """Whether one of the addresses is of this host."""
    return any(_is_local(family, (place[0], 0)) for family, place in places)


def _is_local(family: int, place: tuple[str, int]) -> bool:
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind(place)
    except OSError:
        return False
    return True


def _literal(name: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        return None
