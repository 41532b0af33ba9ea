"""Runs in turn, so that what else the machine does hits all contenders: with warm caches, and with cold ones."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from einmap.progress import Progress

LEAST_ROUNDS = 3
FLUSHED = 2**26
"""Bytes that are written to empty the caches, where the size of the last one is not known."""
REST = 0.1
"""Seconds between contenders of several threads: those of OpenBLAS stay busy for 2^26 ticks of the clock after a call
(its THREAD_TIMEOUT), about 25 ms, and would take a core from the next contender."""


@dataclass(frozen=True, slots=True)
class Times:
    """Seconds of each run: `warm` straight after another one, `cold` with caches full of something else."""

    warm: tuple[float, ...]
    cold: tuple[float, ...]


def in_turn(
    contenders: Mapping[str, Callable[[], object]],
    rounds: int,
    budget_s: float,
    clock: Callable[[], float],
    flushed: int,
    progress: Progress,
    rest_s: float = 0.0,
) -> dict[str, Times]:
    """Seconds by `clock` of `rounds` runs of each, cold and then warm; after 3 rounds at most `budget_s` of wall time.

    `rest_s`: a pause before each contender's runs, in which threads of the one before go to sleep.
    `flushed`: bytes that are written before each cold run. A progress that is stopped ends it after the first round.
    """
    times: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in contenders}
    sweep = np.zeros(flushed // 8)
    for run in contenders.values():
        run()  # first touch, threads and caches of code
    begun = time.monotonic()
    for number in range(rounds):
        is_late = number >= LEAST_ROUNDS and time.monotonic() - begun > budget_s
        if number and (progress.stopped or is_late):
            break
        progress.report("measuring", number, rounds)
        for name, run in contenders.items():
            warm, cold = times[name]
            time.sleep(rest_s)
            sweep += 1
            for found in (cold, warm):
                start = clock()
                run()
                found.append(clock() - start)
    return {name: Times(tuple(warm), tuple(cold)) for name, (warm, cold) in times.items()}


@contextmanager
def pinned(cores: int) -> Iterator[bool]:
    """The process runs on `cores` cores that it may use, the last ones; False where the system cannot do that."""
    if not hasattr(os, "sched_setaffinity"):
        yield False
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(before)[-cores:])
    try:
        yield True
    finally:
        os.sched_setaffinity(0, before)
