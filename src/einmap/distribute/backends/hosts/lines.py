"""Documents over a connection, one line of JSON each; what others send is reported, not obeyed."""

from __future__ import annotations

import json
import socket
import struct
from contextlib import suppress
from typing import Any

from einmap.visible import short, visible

MAX_LINE = 2**20
"""Bytes of one line; whoever sends a longer one is not of ours."""
MARK = "einmap hosts"
"""The key that every document of ours has."""


# A host without power says nothing: the system asks now and then whether it is there. One that does not read is not
# written to for ever.
_OPTIONS: list[tuple[int, int, int | bytes]] = [
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 5, 0)),
    *(
        (socket.IPPROTO_TCP, getattr(socket, name), value)
        for name, value in (("TCP_KEEPIDLE", 5), ("TCP_KEEPINTVL", 2), ("TCP_KEEPCNT", 3), ("TCP_NODELAY", 1))
        if hasattr(socket, name)
    ),
]


class StrangerError(Exception):
    """Something else than einmap is at the other end; the text says what it seems to be."""


class Connection:
    """A connected socket, over which documents are sent and received. Not for several readers at once."""

    def __init__(self, connected: socket.socket) -> None:
        self._socket = connected
        for level, option, value in _OPTIONS:
            with suppress(OSError):
                connected.setsockopt(level, option, value)
        self._stream = connected.makefile("rb")

    @property
    def peer(self) -> str:
        """The address of the other end, without the port; empty once it is gone."""
        try:
            return str(self._socket.getpeername()[0])
        except OSError:
            return ""

    def send(self, document: dict[str, Any]) -> None:
        """Send a document; nothing happens where nobody is there any more, which `receive` will tell."""
        with suppress(OSError):
            self._socket.sendall(json.dumps({MARK: 1, **document}).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next document; waits without end, until `close`. Who begins otherwise may never end a line.

        Raises EOFError at the end of the connection, StrangerError for what is not one of ours.
        """
        try:
            first = self._stream.peek(1)
            line = self._stream.readline(MAX_LINE) if first[:1] in (b"", b"{") else first
        except (OSError, ValueError):
            line = b""
        if not line:
            self._stream.close()
            raise EOFError
        try:
            document = json.loads(line)
        except (ValueError, RecursionError):
            raise StrangerError(_described(line)) from None
        if not isinstance(document, dict) or MARK not in document:
            raise StrangerError(_described(line))
        return document

    def close(self) -> None:
        """End the connection; whoever waits in `receive` gets EOFError."""
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


def _described(line: bytes) -> str:
    """A description of what seems to speak."""
    # the first frame of an HTTP/2 server is its settings, of type 4; that of a client begins with these letters
    if line.startswith(b"PRI * HTTP/2") or (line[:1] == b"\0" and line[3:4] == b"\4"):
        return "it speaks as JAX does: another einmap that has begun already, or one that is older"
    return f"it said {visible(short(line[:60].decode(errors='replace').strip(), 40))}"
