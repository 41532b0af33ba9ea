"""Processes that Ctrl-C does not reach: it is for the parent.

Dask loads this module in workers that are started here (`preload`), and calls `dask_setup`.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def without_ctrl_c() -> Iterator[None]:
    """Hold Ctrl-C back: a process that is started in this block never gets it, also while it imports its modules."""
    if not hasattr(signal, "pthread_sigmask"):  # not POSIX
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def dask_setup(_worker: Any) -> None:
    """Ignore Ctrl-C in a worker of a cluster of this machine."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
