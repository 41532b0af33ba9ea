"""The page of a studio on 127.0.0.1, for whoever knows its address: a random port, and a token in the path.

Anything else is refused before it is looked at: another host name, another origin, a wrong token, a message that is too
long, one connection too many. Messages of a connection are worked off one after the other, in a thread.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from einmap.errors import EinmapError
from einmap.optional import require
from einmap.studio.assets import MODULES, asset
from einmap.studio.messages import LONGEST
from einmap.studio.running import Running
from einmap.studio.session import Session, problem_of

MOST_CONNECTIONS = 8
"""Windows that may look at one session."""
UNSEEN = 60.0
"""Seconds after which a search that no window looks at is stopped, with its best so far."""
MOST_AT_ONCE = 64
"""Requests that are worked on at one time; more are told that the server is busy."""
FILES = {"": "text/html", "studio.css": "text/css", "main.js": "text/javascript"} | dict.fromkeys(
    MODULES, "text/javascript"
)
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@dataclass
class Server:
    """A session that is served. `port` 0: one that the system chooses."""

    session: Session
    port: int = 0
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    _windows: set[Any] = field(default_factory=set)
    _left: float = 0.0
    _socket: socket.socket | None = None
    _uvicorn: Any = None

    def bind(self) -> str:
        """Take the port; the address of the page. Raises EinmapError where that port is not free."""
        require("starlette", "studio")
        require("uvicorn", "studio")
        require("websockets", "studio")
        listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind(("127.0.0.1", self.port))
            listening.listen(MOST_AT_ONCE)  # a browser that is quicker than the server waits
        except OSError as error:
            listening.close()
            raise EinmapError(f"port {self.port} is not free: {error.strerror}", hint="leave --port out") from None
        self._socket = listening
        self.port = listening.getsockname()[1]
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def run(self) -> None:
        """Serve until Ctrl-C, or until `stop`."""
        uvicorn = require("uvicorn", "studio")
        assert self._socket is not None
        config = uvicorn.Config(
            self.app(),
            log_level="critical",
            lifespan="off",
            ws="websockets-sansio",
            ws_max_size=LONGEST,
            ws_max_queue=4,
            limit_concurrency=MOST_AT_ONCE,
            timeout_keep_alive=5,
            timeout_graceful_shutdown=1,
            server_header=False,
            date_header=False,
        )
        self._uvicorn = uvicorn.Server(config)
        try:
            self._uvicorn.run(sockets=[self._socket])
        except KeyboardInterrupt:
            pass
        finally:
            self._socket.close()
            if self.session.search is not None:
                self.session.search.end()

    def stop(self) -> None:
        """End `run`, from another thread."""
        if self._uvicorn is not None:
            self._uvicorn.should_exit = True

    def app(self) -> Callable[..., Awaitable[None]]:
        """The ASGI application."""

        async def serve(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                await self._page(scope, receive, send)
            elif scope["type"] == "websocket":
                await self._window(scope, receive, send)

        return serve

    def _is_welcome(self, scope: Any, needs_origin: bool) -> bool:
        """Whether a request names this host, comes from this page, and knows the token."""
        headers: dict[bytes, list[bytes]] = {}
        for name, value in scope["headers"]:
            headers.setdefault(name.lower(), []).append(value)
        hosts = [f"{name}:{self.port}".encode() for name in ("127.0.0.1", "localhost")]
        origins = [b"http://" + host for host in hosts]
        host, origin = headers.get(b"host", []), headers.get(b"origin", [])
        given = scope["path"].split("/")[1] if scope["path"].count("/") > 1 else ""
        is_token = secrets.compare_digest(given.encode(), self.token.encode())
        is_own = origin[0] in origins if len(origin) == 1 else not origin and not needs_origin
        return is_token and len(host) == 1 and host[0] in hosts and is_own

    async def _page(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.responses import PlainTextResponse, Response

        name = scope["path"].split("/", 2)[2] if scope["path"].count("/") > 1 else None
        response: Any
        if not self._is_welcome(scope, needs_origin=False) or name not in FILES:
            response = PlainTextResponse("not found\n", 404, headers=HEADERS)
        elif scope["method"] not in ("GET", "HEAD"):
            response = PlainTextResponse("only GET\n", 405, headers=HEADERS)
        else:
            response = Response(asset(name or "index.html"), media_type=FILES[name], headers=HEADERS)
        await response(scope, receive, send)

    async def _window(self, scope: Any, receive: Any, send: Any) -> None:
        from starlette.websockets import WebSocket, WebSocketDisconnect

        window = WebSocket(scope, receive, send)
        is_socket = scope["path"].split("/", 2)[2:] == ["socket"]
        if not (is_socket and self._is_welcome(scope, needs_origin=True)) or len(self._windows) >= MOST_CONNECTIONS:
            await window.close(1008)
            return
        await window.accept()
        self._windows.add(window)
        try:
            while True:
                await self._answer(window, await window.receive_text())
        except (WebSocketDisconnect, KeyError, RuntimeError):
            pass  # the browser has gone, or has sent bytes, which no page of ours does
        finally:
            self._windows.discard(window)
            if not self._windows:
                self._left = asyncio.get_running_loop().time()
                asyncio.get_running_loop().call_later(UNSEEN, self._stop_unseen, self.session.search)

    def _stop_unseen(self, search: Running | None) -> None:
        """Stop a search whose last window was closed a while ago; one that is opened again finds what it came to."""
        long_ago = asyncio.get_running_loop().time() - self._left >= UNSEEN / 2
        if search is not None and not self._windows and long_ago and not search.stopping:
            search.stop()

    async def _answer(self, window: Any, text: str) -> None:
        """Answer one message, and tell the other windows of a new state."""
        number: Any = None
        try:
            number, message = _numbered(text)
            answer = await asyncio.to_thread(self.session.handle, message)
        except EinmapError as error:
            answer = problem_of(error)
        await window.send_text(_json(number, answer))
        if answer["kind"] == "state":
            others = [other for other in self._windows if other is not window]
            await asyncio.gather(*(other.send_text(_json(None, answer)) for other in others), return_exceptions=True)


def _numbered(text: str) -> tuple[int, str]:
    """The number of a message, and the message as JSON text. Raises EinmapError."""
    try:
        value = json.loads(text)
        number, message = value["id"], value["message"]
    except (ValueError, TypeError, KeyError, RecursionError):
        raise EinmapError("not a message of the studio") from None
    if not isinstance(number, int) or not isinstance(message, dict):
        raise EinmapError("not a message of the studio")
    return number, json.dumps(message)


def _json(number: int | None, answer: dict[str, Any]) -> str:
    return json.dumps({"id": number, "answer": answer}, separators=(",", ":"), allow_nan=False)
