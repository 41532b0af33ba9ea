"""Processes that work together on one request, and a parent that never waits for them in vain.

A process of a distributed program that dies takes its peers with it: they wait for it in a collective, or are ended by
their own runtime, both without a Python exception. So no work is done in the parent; it watches the processes and
turns a lost one, one that raises, and one that does not answer in time into an EngineError that names it.

A process reads requests from its standard input and answers on its standard output (`messages`); all it prints goes
to a log of which the parent keeps the last lines. The input is a lifeline too: it ends with the parent, and the
process with it. Nothing is written to disk.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import IO, BinaryIO, Self, cast

from einmap.distribute.backends.jax.messages import Message, read_message, write_message
from einmap.errors import EngineError, NotSupportedError, SpecError

LAST_LINES = 12
"""Lines of a lost process that its error quotes."""
NOBODY = -1
"""The place of a process that is on another host."""
GRACE = 1.0
"""Seconds in which a process that was lost earlier is found to be the cause of what another one reports."""
ENDED = "all processes were ended"
FAREWELL = 10.0
"""Seconds that processes get to end by themselves once they are told to."""

_PACKAGE = Path(__file__).parents[3]
# How the log of JAX's native code begins where it ends the process; C++ itself; and Python.
_FATAL = re.compile(r"F\d{4} [\d:.]+ +\d+ [^\]]*\] |terminate called after |  what\(\):|Fatal Python error: ")
_REFUSALS = {"SpecError": SpecError, "NotSupportedError": NotSupportedError}

# The front page of the package imports all that users may want, which takes longer than all that a process needs: it
# is left out, and modules are found where they are.
_START = """
import sys, types
package = types.ModuleType("einmap")
package.__path__ = [sys.argv.pop(1)]
sys.modules["einmap"] = package
from einmap.distribute.backends.jax.worker import main
main()
"""


@dataclass(frozen=True)
class Command:
    """A process to start: arguments of `worker`, and changes of the environment."""

    arguments: tuple[str, ...]
    environment: Mapping[str, str] = field(default_factory=dict)


class RemoteTraceback(Exception):
    """The traceback of an exception in another process, as text: the cause of an EngineError."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@dataclass
class _Child:
    """A running process: its place among its peers, the last lines it wrote, and the first that told why it ends."""

    name: str
    process: subprocess.Popen[bytes]
    fatal: str = ""
    lines: deque[str] = field(default_factory=lambda: deque(maxlen=LAST_LINES))
    threads: list[threading.Thread] = field(default_factory=list)


@dataclass(frozen=True)
class _Event:
    """The act of a process: it answered, or (None) its output ended. `elsewhere`: what happened on another host."""

    child: int
    message: Message | None
    elsewhere: str | None = None


class Processes:
    """Processes that were started together and answer every request together.

    Use it as a context manager. After an EngineError all of them are gone.
    """

    def __init__(self, commands: Sequence[Command], *, first: int = 0, total: int | None = None) -> None:
        """Start them. `first`, `total`: place among the processes of all hosts, for their names in messages."""
        total = len(commands) if total is None else total
        elsewhere = "a process of another host may have been lost before: see what is reported there"
        self._elsewhere = elsewhere if total > len(commands) else None
        self._events: queue.SimpleQueue[_Event] = queue.SimpleQueue()
        self._children: list[_Child] = []
        try:
            for i, command in enumerate(commands):
                self._start(i, command, f"process {first + i} of {total}")
        except BaseException:
            self.kill()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is None:
            self.close()
        else:
            self.kill()

    @property
    def pids(self) -> tuple[int, ...]:
        """Process ids, in order; empty once they are gone."""
        return tuple(child.process.pid for child in self._children)

    @property
    def alive(self) -> bool:
        """Whether there are processes, and all of them run."""
        return bool(self._children) and all(child.process.poll() is None for child in self._children)

    def ask(self, requests: Sequence[Message], time_limit: float) -> list[Message]:
        """Send each process its request; their answers, in order.

        Raises EngineError when a process is lost, raises, or has not answered within `time_limit` seconds, and
        SpecError when a process refuses its request. Only after a SpecError do they still run.
        """
        try:
            for child, request in zip(self._children, requests, strict=True):
                self._in_thread(child, lambda c=child, r=request: _send(c, r))
            return self._answers(time.monotonic() + time_limit, time_limit)
        except SpecError:
            raise
        except BaseException:
            self.kill()
            raise

    def end_because(self, elsewhere: str) -> None:
        """Let `ask` raise an EngineError: another host has failed, and the processes would wait for it in vain."""
        self._events.put(_Event(NOBODY, None, elsewhere))

    def close(self) -> None:
        """Let the processes end by themselves, and end those that do not."""
        for child in self._children:
            with suppress(OSError, ValueError):
                cast(IO[bytes], child.process.stdin).close()
        deadline = time.monotonic() + FAREWELL
        for child in self._children:
            with suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.0, deadline - time.monotonic()))
        self.kill()

    def kill(self) -> None:
        """End all processes at once; returns when they are gone."""
        for child in self._children:
            if child.process.poll() is None:
                with suppress(OSError):  # it has just ended
                    os.killpg(child.process.pid, signal.SIGKILL)
        for child in self._children:
            child.process.wait()
            for thread in child.threads:
                thread.join(GRACE)  # the pipes ended with the process
            for stream in (child.process.stdin, child.process.stdout, child.process.stderr):
                with suppress(OSError, ValueError):
                    cast(IO[bytes], stream).close()
        self._children = []

    # starting

    def _start(self, index: int, command: Command, name: str) -> None:
        process = subprocess.Popen(
            # -P: a file of the current directory must not stand in for a library.
            [sys.executable, "-P", "-c", _START, str(_PACKAGE), *command.arguments],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **command.environment},
            start_new_session=True,  # Ctrl-C is the parent's to handle
        )  # fmt: skip
        child = _Child(name, process)
        self._children.append(child)  # before anything can be interrupted: `kill` ends it
        self._in_thread(child, lambda: self._read_answers(index, cast(IO[bytes], process.stdout)))
        self._in_thread(child, lambda: _keep_lines(child))

    @staticmethod
    def _in_thread(child: _Child, work: object) -> None:
        thread = threading.Thread(target=work, daemon=True)  # type: ignore[arg-type]
        thread.start()  # which Ctrl-C may interrupt: a thread that has not started cannot be waited for
        child.threads = [t for t in child.threads if t.is_alive()] + [thread]

    def _read_answers(self, index: int, stream: IO[bytes]) -> None:
        with suppress(EOFError, OSError, ValueError):
            while True:
                self._events.put(_Event(index, read_message(cast(BinaryIO, stream))))
        self._events.put(_Event(index, None))

    # waiting

    def _answers(self, deadline: float, time_limit: float) -> list[Message]:
        answers: dict[int, Message] = {}
        while len(answers) < len(self._children):
            event = self._next_event(deadline)
            if event is None:
                silent = [i for i in range(len(self._children)) if i not in answers]
                raise self._silence(silent, time_limit)
            if event.message is None or "traceback" in event.message.document:
                raise self._loss(event)
            answers[event.child] = event.message
        for message in answers.values():
            _raise_refusal(message)
        return [answers[i] for i in range(len(self._children))]

    def _next_event(self, deadline: float) -> _Event | None:
        try:
            return self._events.get(timeout=max(0.0, deadline - time.monotonic()))
        except queue.Empty:
            return None

    def _loss(self, event: _Event) -> EngineError:
        """The error for the first bad event, or for one that explains it: a process that ended without a word.

        The peers of a lost process may be faster to raise than the parent is to see its end.
        """
        until = time.monotonic() + GRACE
        while self._is_complaint(event) and (other := self._next_event(until)) is not None:
            if other.message is None and other.child != event.child and not self._is_complaint(other):
                event = other
        if event.elsewhere is not None:
            return EngineError(f"another host has failed; {event.elsewhere}")
        child = self._children[event.child]
        if event.message is None:
            what = _ending(child.process)
            quoted = _quoted(_last_lines(child))
            because = f": {child.fatal}" if child.fatal else ""
            return EngineError(f"{child.name} {what}{because}; {ENDED}{quoted}", hint=self._elsewhere)
        what, more = _raised(event.message)
        error = EngineError("\n    ".join([f"{child.name} {what}; {ENDED}", *more]), hint=self._elsewhere)
        error.__cause__ = RemoteTraceback(event.message.document["traceback"])
        return error

    def _is_complaint(self, event: _Event) -> bool:
        """Whether the loss of a peer may be the reason: the process raised an exception, or its runtime aborted."""
        is_alone = len(self._children) == 1 and self._elsewhere is None
        if event.elsewhere is not None or is_alone:
            return False
        if event.message is not None:
            return True
        process = self._children[event.child].process
        with suppress(subprocess.TimeoutExpired):
            return process.wait(GRACE) == -signal.SIGABRT
        return False

    def _silence(self, silent: Sequence[int], time_limit: float) -> EngineError:
        names = " and ".join(self._children[i].name for i in silent)
        said = [line for i in silent for line in list(self._children[i].lines)[-3:]]
        return EngineError(
            f"no answer from {names} within {time_limit:g} s; {ENDED}{_quoted(said)}",
            hint="give a larger time limit if the work may take that long",
        )


def _send(child: _Child, request: Message) -> None:
    # A process that is gone is noticed by the end of its output.
    with suppress(OSError, ValueError):
        write_message(cast(BinaryIO, child.process.stdin), request)


def _keep_lines(child: _Child) -> None:
    with suppress(OSError, ValueError):
        for line in cast(IO[bytes], child.process.stderr):
            text = line.decode(errors="replace").rstrip()
            # frames of a native stack trace would push out what was said before it
            if text and not text.lstrip().startswith("@ "):
                child.lines.append(text[:500])
                if not child.fatal and (found := _FATAL.match(text)):
                    child.fatal = text[found.end() :][:500].strip()


def _ending(process: subprocess.Popen[bytes]) -> str:
    try:
        code = process.wait(GRACE)
    except subprocess.TimeoutExpired:
        return "closed its output without an answer"
    if code < 0:
        return f"was killed by signal {-code} ({_signal_name(-code)})"
    return f"ended with exit status {code} before it answered"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "unknown"


def _last_lines(child: _Child) -> list[str]:
    # Its log ends with it; the thread that reads it may need a moment.
    for thread in child.threads:
        thread.join(GRACE)
    return list(child.lines)


def _raised(answer: Message) -> tuple[str, list[str]]:
    """The error of a process: first lines of the whole chain, and the further lines."""
    causes = [str(cause).splitlines() for cause in answer.document["causes"]]
    what = "raised " + ", caused by ".join(lines[0] for lines in causes)
    return what, [line.rstrip() for lines in causes for line in lines[1:] if line.strip()][:LAST_LINES]


def _quoted(lines: Sequence[str]) -> str:
    if not lines:
        return "; it wrote nothing"
    return ". The last lines it wrote:\n" + "\n".join(f"    {line}" for line in lines)


def _raise_refusal(message: Message) -> None:
    refusal = message.document.get("refusal")
    if refusal is not None:
        raise _REFUSALS.get(refusal["type"], SpecError)(refusal["message"], hint=refusal["hint"])
