"""Kernels that shortest paths and label setting call: rows copied, space compared."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

inner = njit(cache=True, nogil=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)
"""For what other kernels alone call: takes less time to compile."""


@inner
def copy_rows(source: Any, begin: int, end: int, target: Any, at: int) -> None:
    """Rows of a table into another one; an assignment of slices takes a second to compile."""
    for row in range(begin, end):
        for i in range(source.shape[1]):
            target[at + row - begin, i] = source[row, i]


@inner
def copy_blocks(source: Any, begin: int, end: int, target: Any, at: int) -> None:
    """Rows that are tables themselves into another array of such rows."""
    for row in range(begin, end):
        copy_rows(source[row], 0, source.shape[1], target[at + row - begin], 0)


@inner
def fits_beside(
    stay: Any, peak: Any, used: Any, passing: Any, kept: Any, born: Any, dying: Any, opened: int, behind: int,
    capacity: Any, new_stay: Any, new_peak: Any,
) -> bool:  # fmt: skip
    """Whether a chain fits beside what stays before it; what stays and was in use behind it (see join.py).

    `kept`, `born`, `dying`: (memories, fused loops); `stay`, `peak` and the results: (memories, loops), of which
    `opened` are open before and `behind` behind. What a chain keeps is a part of what it uses, so that what stays
    behind it fits wherever the chain does.
    """
    for m in range(len(capacity)):
        highest = used[m] + passing[m] + (stay[m, opened - 1] if opened else 0.0)
        if highest > capacity[m]:
            return False
        for level in range(behind):
            own = kept[m, level] + dying[m, level]
            new_stay[m, level] = own + (stay[m, min(level, opened - 1)] if opened else 0.0)
            new_peak[m, level] = -np.inf
        for level in range(opened):
            in_use = peak[m, level] + (kept[m, level] + born[m, level])
            if in_use > capacity[m]:
                return False
            if level < behind - 1:
                new_peak[m, level] = in_use
            else:
                highest = max(highest, in_use)
        if behind:
            new_peak[m, behind - 1] = highest
    return True


@inner
def fits_between(
    stay: Any, peak: Any, used: Any, passing: Any, kept: Any, born: Any, dying: Any, opened: int, behind: int,
    need: Any, need_used: Any, capacity: Any, new_stay: Any, new_peak: Any,
) -> bool:  # fmt: skip
    """Whether a chain fits beside what stays at least before it and is `need`ed at least behind: (memories, loops)."""
    if not fits_beside(stay, peak, used, passing, kept, born, dying, opened, behind, capacity, new_stay, new_peak):
        return False
    for m in range(len(capacity)):
        if behind and new_stay[m, behind - 1] + need_used[m] > capacity[m]:
            return False
        for level in range(behind):
            if new_peak[m, level] + need[m, level] > capacity[m]:
                return False
    return True
