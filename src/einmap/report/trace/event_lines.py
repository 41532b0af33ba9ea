"""Events of the Trace Event format as lines of JSON, and the file around them.

Times are whole femtoseconds (`timing.PER_SECOND`), written in microseconds as decimals that are exact, so that events
that follow one another never overlap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from einmap.report.trace.timing import PER_SECOND

_PER_MICROSECOND = PER_SECOND // 10**6
_DIGITS = len(str(_PER_MICROSECOND)) - 1


def whole_file(events: Iterable[str], head: Mapping[str, Any]) -> Iterator[bytes]:
    """The file, piece by piece. `head`: what is to be known of the whole, under `otherData`."""
    yield f'{{"displayTimeUnit":"ns","otherData":{json.dumps(head)},"traceEvents":[\n'.encode()
    separator = ""
    for event in events:
        yield (separator + event).encode()
        separator = ",\n"
    yield b"\n]}\n"


def complete(name: str, category: str, where: tuple[int, int], begin: int, end: int, args: dict[str, Any]) -> str:
    """Something that takes from `begin` to `end`. `where`: process and thread."""
    pid, tid = where
    event = {"name": name, "cat": category, "ph": "X", "pid": pid, "tid": tid, "args": args}
    return event_line(event, begin, end - begin)


def metadata_line(name: str, pid: int, args: dict[str, Any], tid: int = 0) -> str:
    """The name, or the place among others, of a process or thread."""
    return json.dumps({"name": name, "ph": "M", "pid": pid, "tid": tid, "args": args}, separators=(",", ":"))


def thread_lines(name: str, pid: int, tid: int) -> Iterator[str]:
    """The name of a thread, and its place among others, which is its number."""
    yield metadata_line("thread_name", pid, {"name": name}, tid)
    yield metadata_line("thread_sort_index", pid, {"sort_index": tid}, tid)


def event_line(event: dict[str, Any], begin: int, duration: int | None = None) -> str:
    """An event as JSON; without `duration` it is at one time."""
    text = json.dumps(event, separators=(",", ":"), allow_nan=False)
    times = f',"ts":{_microseconds(begin)}' + ("" if duration is None else f',"dur":{_microseconds(duration)}')
    return text[:-1] + times + "}"


def _microseconds(time: int) -> str:
    whole, part = divmod(time, _PER_MICROSECOND)
    return f"{whole}.{part:0{_DIGITS}}".rstrip("0").rstrip(".")
