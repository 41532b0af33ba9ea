"""Clocks for tests of time limits: they count work, so that no test depends on how busy the machine is."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from sys import monitoring
from types import CodeType

import pytest

import einmap

LOOK = 1e-5
"""Seconds that pass with each look at a clock."""
CALL = 2e-6
"""Seconds that pass with each call of a function of einmap, where calls are counted: about what one takes."""
HOME = str(Path(einmap.__file__).parent)


def count_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let time pass with looks at the clock alone: the same search ends at the same point on every machine."""
    looks = itertools.count()
    monkeypatch.setattr(time, "monotonic", lambda: next(looks) * LOOK)


@contextmanager
def counted_calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let time pass with calls of functions of einmap, too: work that looks at no clock takes time, compiling does not."""

    def called(code: CodeType, offset: int) -> object:
        return next(calls) and None if HOME in code.co_filename else monitoring.DISABLE

    looks, calls, tool, start = (
        itertools.count(),
        itertools.count(1),
        monitoring.PROFILER_ID,
        monitoring.events.PY_START,
    )
    monitoring.use_tool_id(tool, "calls")
    monitoring.register_callback(tool, start, called)
    monkeypatch.setattr(time, "monotonic", lambda: next(looks) * LOOK + next(calls) * CALL)
    monitoring.set_events(tool, start)
    try:
        yield
    finally:
        monitoring.set_events(tool, 0)
        monitoring.register_callback(tool, start, None)
        monitoring.free_tool_id(tool)
