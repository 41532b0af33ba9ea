"""The compiled part of lower envelopes: corners, and the least products over them."""

from __future__ import annotations

from typing import Any

import numpy as np

from einmap.compiled import inner, kernel


@inner
def bends(slopes: Any, offsets: Any, least: float, values: Any) -> int:
    """Where the largest of the lines offset - slope * y bends: the least y and those behind it, rising, in `values`.

    The first line is the one without a slope, the others fall. Gives how many there are.
    """
    line, highest = 0, -np.inf
    for i in range(len(slopes)):
        x = offsets[i] - slopes[i] * least
        if x > highest or (x == highest and slopes[i] < slopes[line]):
            line, highest = i, x
    values[0] = least
    n = 1
    while slopes[line] > 0:
        # the line that is met first takes over, of several the one that falls least
        behind, nearest = 0, np.inf
        for i in range(len(slopes)):
            if slopes[i] < slopes[line]:
                y = (offsets[line] - offsets[i]) / (slopes[line] - slopes[i])
                if y < nearest or (y == nearest and slopes[i] < slopes[behind]):
                    behind, nearest = i, y
        if values[n - 1] < nearest < np.inf:
            values[n] = nearest
            n += 1
        line = behind
    return n


@inner
def _highest(slopes: Any, offsets: Any, y: float) -> float:
    """The largest of the lines offset - slope * y."""
    highest = -np.inf
    for line in range(len(slopes)):
        x = offsets[line] - slopes[line] * y
        highest = max(highest, x)
    return highest


@kernel
def least_products(slopes: Any, offsets: Any, least: Any) -> Any:
    """The least product x * y of each row where y is not below `least` and x is above all lines offset - slope * y."""
    products = np.empty(len(offsets))
    at = np.empty(len(slopes) + 1)
    for row in range(len(offsets)):
        products[row] = np.inf
        if _highest(slopes, offsets[row], 0.0) == np.inf:
            continue
        for i in range(bends(slopes, offsets[row], least[row], at)):
            product = _highest(slopes, offsets[row], at[i]) * at[i]
            products[row] = min(products[row], product)
    return products


@kernel
def lower_corners(slopes: Any, offsets: Any, least: Any) -> Any:
    """The lower left corners of the points (x, y) of each row: y not below `least`, x above all offset - slope * y.

    Points with x falling, (rows, most corners, 2), and how many there are.
    """
    points = np.empty((len(offsets), len(slopes) + 1, 2))
    counts = np.zeros(len(offsets), np.int64)
    at = np.empty(len(slopes) + 1)
    for row in range(len(offsets)):
        if least[row] == np.inf or _highest(slopes, offsets[row], 0.0) == np.inf:
            # nothing fits
            points[row, 0, 0], points[row, 0, 1], counts[row] = np.inf, np.inf, 1
            continue
        lowest = np.inf
        for i in range(bends(slopes, offsets[row], least[row], at)):
            x = _highest(slopes, offsets[row], at[i])
            if x < lowest:
                points[row, counts[row], 0], points[row, counts[row], 1] = x, at[i]
                counts[row] += 1
                lowest = x
    return points, counts
