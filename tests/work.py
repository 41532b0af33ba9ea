"""Limits of work that hold on every machine: processor time beside that of a yardstick."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

YARDSTICK = 0.01
"""Seconds of the processor that the yardstick takes on the machine on which limits are set."""


def slowness() -> float:
    """How many times as long as there this machine takes, 1 at least."""
    return max(1.0, min(_yardstick() for _ in range(3)) / YARDSTICK)


def _yardstick() -> float:
    begin = time.process_time()
    for number in range(40_000):
        str(pow(number, 3)).find("9")
    return time.process_time() - begin


@contextmanager
def work_below(seconds: float) -> Iterator[None]:
    """What is done within takes less than so many seconds of the processor of the machine on which limits are set."""
    begin = time.process_time()
    try:
        yield
    finally:
        took = time.process_time() - begin
        assert took < seconds or took < seconds * slowness(), took
