"""The Pareto front of rows of numbers, smaller is better."""

from __future__ import annotations

import numpy as np

from einmap.arrays import Floats, Ints


def nondominated(values: Floats, order: Ints | None = None) -> Ints:
    """Rows that no other row is at most as large as in everything; of equal rows the first.

    `order`: the rows that are looked at, each before those that are worse, as the answer has them; without it all rows,
    sorted by column.
    """
    if order is None:
        order = np.lexsort(values.T[::-1])
        if values.shape[1] <= 2:
            last = values[order, -1]
            before = np.concatenate([[np.inf], np.minimum.accumulate(last)[:-1]])
            better = last < before
            better[:1] = True  # the first one also where every value is infinite
            front: Ints = order[better]
            return front
    kept = []
    while len(order):
        kept.append(order[0])
        order = order[(values[order] < values[order[0]]).any(axis=1)]
    return np.array(kept, dtype=np.int64)
