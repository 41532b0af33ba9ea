"""A studio that is served in a thread while a test runs."""

import contextlib
import threading
import time

from einmap import load
from einmap.studio.folders import Folders
from einmap.studio.server import Server
from einmap.studio.session import Session

MATMUL = ("simple", "matmul", "simple_matmul")


@contextlib.contextmanager
def served(*files, folders=()):
    """The server and the address of its page."""
    files = files or MATMUL
    server = Server(Session(load(*files), files, Folders.of(folders)))
    address = server.bind()
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 20
    while server._uvicorn is None or not server._uvicorn.started:
        assert time.monotonic() < end
        time.sleep(0.01)
    yield server, address
    server.stop()
    thread.join(20)
    assert not thread.is_alive()
