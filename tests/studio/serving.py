"""A studio that is served in a thread while a test runs, and searches that begin no process."""

import contextlib
import threading
import time

import pytest

from einmap import EinmapError, load, map_workload
from einmap.studio import running
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


class Near:
    """A worker in this process: it answers a search before anything else is asked."""

    def ask(self, question):
        try:
            yield map_workload(question.spec, **{**question.options, "workers": 1})
        except EinmapError as error:
            yield error

    def stop(self):
        pass

    end = stop


class Workers:
    def take(self):
        return Near()

    def give_back(self, worker):
        pass


@pytest.fixture
def near(monkeypatch):
    """Searches of this test run here: a process of their own takes seconds to begin."""
    monkeypatch.setattr(running, "WORKERS", Workers())
