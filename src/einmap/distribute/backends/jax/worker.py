"""A process that `processes.Processes` starts: it answers requests until their stream ends, which also ends it.

Its arguments are MODULE and SETTINGS: MODULE has a function `start(settings)`, called at the
first request, that gives an object with `answer(request)` and `close()`; SETTINGS is a JSON document for it.
"""

from __future__ import annotations

import importlib
import json
import os
import queue
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, BinaryIO, Protocol

from einmap.distribute.backends.jax.messages import Message, read_message, write_message
from einmap.errors import SpecError

MOST_CAUSES = 5
"""Exceptions of a chain that are reported."""
LONGEST_CAUSE = 2000
"""Characters of what one exception says."""
LOST = 1
"""Exit status when the parent is gone in the middle of work."""


class Server(Protocol):
    """An object that answers requests."""

    def answer(self, request: Message) -> Message:
        """The answer. A SpecError refuses the request; any other exception is reported, and the parent ends all."""

    def close(self) -> None:
        """Part from the peers; the process ends then."""


def main() -> None:
    """Read requests from the standard input, write answers to what was the standard output."""
    answers = _take_output()
    _leave_no_core_file()
    module, settings = sys.argv[1], json.loads(sys.argv[2])
    requests: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    at_work = threading.Event()
    threading.Thread(target=_listen, args=(sys.stdin.buffer, requests, at_work), daemon=True).start()
    server: Server | None = None
    while (request := requests.get()) is not None:
        at_work.set()
        try:
            server = server or _start(module, settings)
            answer = server.answer(request)
        except SpecError as error:
            answer = _refusal(error)
        except BaseException as error:
            answer = Message({"traceback": traceback.format_exc(), "causes": causes(error)})
        write_message(answers, answer)
        at_work.clear()
    if server is not None:
        server.close()
    sys.stderr.flush()
    os._exit(0)  # not through exit handlers of runtimes that would wait for their peers


def _start(module: str, settings: Mapping[str, Any]) -> Server:
    server: Server = importlib.import_module(module).start(settings)
    return server


def causes(error: BaseException) -> list[str]:
    """The text of an exception, with its type, and below that what each one says that led to it; at most MOST_CAUSES.

    >>> causes(ValueError("one"))
    ['ValueError: one']
    """
    said: list[str] = []
    one: BaseException | None = error
    while one is not None and len(said) < MOST_CAUSES:
        said.append(f"{type(one).__qualname__}: {str(one).strip()}"[:LONGEST_CAUSE].removesuffix(": "))
        one = one.__cause__ or (None if one.__suppress_context__ else one.__context__)
    return said


def _refusal(error: SpecError) -> Message:
    reasons = [text for cause in causes(error)[1:] if (text := cause.partition(": ")[2].partition("\n")[0])]
    message = "; ".join([error.message, *(text for text in reasons if text not in error.message)])
    return Message({"refusal": {"type": type(error).__name__, "message": message, "hint": error.hint}})


def _listen(stream: BinaryIO, requests: queue.SimpleQueue[Message | None], at_work: threading.Event) -> None:
    """Queue requests. Where they end in the middle of work the parent is gone: nobody waits for the answer."""
    try:
        while True:
            requests.put(read_message(stream))
    except (EOFError, OSError):
        requests.put(None)
    while True:
        if at_work.is_set():
            os._exit(LOST)
        time.sleep(0.1)


def _leave_no_core_file() -> None:
    """A runtime that aborts because a peer is gone must not fill the user's directory."""
    with suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def _take_output() -> BinaryIO:
    """The standard output for answers alone; what anything prints goes to the log, Python or not."""
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    return answers
