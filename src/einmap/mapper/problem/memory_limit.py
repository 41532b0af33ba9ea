"""How much memory the process has in use, and what a limit leaves to a search."""

from __future__ import annotations

import math
import sys
from pathlib import Path

from einmap.errors import At, SpecError

_STATM, _STATUS = Path("/proc/self/statm"), Path("/proc/self/status")
LEAST = 48_000_000
"""Bytes that a search needs beside what the process has in use before it."""
KEPT_FREE = 24_000_000
"""Bytes that are left for what is not reckoned beforehand."""


def resident() -> int:
    """Bytes of the process that are in memory now; the most there were so far where the system does not tell."""
    try:
        pages = int(_STATM.read_text("ascii").split()[1])
    except (OSError, ValueError, IndexError):
        return peak()
    import resource

    return pages * resource.getpagesize()


def peak() -> int:
    """The most bytes of the process that were in memory at a time; 0 where the system does not tell."""
    try:
        # what getrusage tells on Linux counts the process that started this one, too
        lines = _STATUS.read_text("ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM:"))
    except (OSError, ValueError, IndexError, StopIteration):
        pass
    try:
        import resource
    except ImportError:
        return 0
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else largest * 1024


def left_of(limit: float, at: At | None = None) -> float:
    """Bytes that a search may use for a limit of the whole process (bytes, may be infinite).

    Raises SpecError where they are too few to begin.
    """
    if math.isinf(limit):
        return limit
    used = resident()
    least = used + LEAST
    if limit < least:
        raise SpecError(
            f"memory_limit is {limit / 1e6:,.0f} MB, but before the search the process uses {used / 1e6:,.0f} MB",
            at=at,
            hint=f"the least that would do is {math.ceil(least / 1e6):,}e6 bytes",
        )
    return limit - used - KEPT_FREE


class Ceiling:
    """The limit of the whole process, asked for often: the answer is found anew every so many times."""

    EVERY = 16

    def __init__(self, limit: float) -> None:
        self.limit, self.asked, self.reached = limit, 0, False

    def is_near(self) -> bool:
        """Whether the process has come so near to the limit that a search must end; it stays so."""
        if math.isinf(self.limit) or self.reached:
            return self.reached
        self.asked += 1
        if self.asked % self.EVERY == 1:
            self.reached = resident() > self.limit - KEPT_FREE / 2
        return self.reached

    def room(self, size: float) -> float:
        """How many bytes a table may take: as many as are wanted, or as leave some for what comes with them."""
        return size if math.isinf(self.limit) else max(min(size, (self.limit - KEPT_FREE - resident()) / 2), 0)
