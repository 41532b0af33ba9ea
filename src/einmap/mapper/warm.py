"""Compile the kernels of the search ahead, or load them from the cache on disk."""

from __future__ import annotations

from functools import cache

import numpy as np

from einmap.mapper import kernels
from einmap.progress import Progress


@cache
def _once() -> None:
    """Call every kernel with the smallest arguments of the types that the search uses."""
    one, two = np.zeros(1, dtype=np.int64), np.zeros(2, dtype=np.int64)
    column, flags = np.zeros((1, 1), dtype=np.int64), np.zeros(1, dtype=np.bool_)
    table, costs, row = np.zeros((1, 2)), np.zeros(2), np.zeros(1)
    kernels.relax(table, flags, column, one, two, one, two)
    kernels.with_node(table, np.zeros((1, 2)), costs, costs, row, flags)
    kernels.after_lanes(table, np.zeros((1, 2)), column, one, one, column)
    kernels.objectives(costs, 0.0, row, row, one, np.zeros(1))
    kernels.many_objectives(table, row, row + 1, one, np.zeros((1, 1)))
    kernels.take(np.zeros(1), one, 0, 0, np.full((1, 1), np.inf), np.zeros((1, 3), dtype=np.int64), 0)
    kernels.search(
        column, one, two, one, two, column, np.zeros((1, 1)), np.zeros((1, 1)),
        one, np.zeros((1, 1), dtype=np.bool_), column, np.full((1, 3), -1), np.full((1, 3), -1),
        table, table, row, row, two, one, column, table, row,
        np.zeros((1, 1, 2)), two, np.full(3, np.inf), row + 1, one, 0.0, 0, True,
        np.full((1, 1), np.inf), np.zeros((1, 3), dtype=np.int64), 0,
        one.copy(), np.zeros((2, 2)), np.zeros((2, 1)), two.copy(), two.copy(),
        np.zeros((1, 1)), column.copy(), column.copy(), one - 1, one.copy(), 100,
    )  # fmt: skip


def warm(progress: Progress | None = None) -> None:
    """Make the kernels ready. The first time on a machine this takes some seconds; the result is kept on disk."""
    if progress is not None and not _once.cache_info().currsize:
        progress.report("loading the compiled kernels (compiled at the first use, which takes some seconds)", 0)
    _once()
