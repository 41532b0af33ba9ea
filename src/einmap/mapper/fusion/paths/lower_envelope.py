"""Lower envelopes: corners of what bounds at several weights leave, where products of costs are least; the least
product, and the weight that may raise it.
"""

# Corners alone bound a product: between corners of a convex region it is not smaller. With all points there were a
# hundred rows instead of ten.

from __future__ import annotations

import math

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.mapper.fusion.paths import envelope_kernels
from einmap.mapper.objective.tolerances import ROUNDING

HALVES = 20
"""How often the way between two corners is halved."""
NEAR = 1.02
"""Ratio of two weights that are as good as one."""
FARTHEST = 2.0**20
"""Where one of the costs counts so much more than the other a weight is as good as none."""


def corners(weights: Floats, least: Floats) -> list[Floats]:
    """For each row of `least` the lower left corners of all points x with weights @ x >= least (one or two costs).

    Whatever lies in this region has a product, with anything added, that is no less than that of some corner.
    """
    points, counts = lower_corners(weights, *lines_of(weights, least))
    return [of_row[:count].copy() for of_row, count in zip(points, counts, strict=True)]


def worth(points: Floats, most: float) -> Floats:
    """Weights of two sums of two costs that decide between parts of wholes whose product of costs is at most `most`.

    `points`: lower left corners of what wholes cost, as `corners` gives them. A part that costs (a, b) more than
    another one makes the product of the whole a * y + b * x larger, y being the second cost of the one whole and x the
    first cost of the other. From the corners follows how small x and y can be, and with the product how large. If that
    is not negative at both ends, which is told by the two sums, it is not between them.
    """
    good = np.flatnonzero(points.prod(axis=1) <= most)
    if not (len(good) and 0 < most < np.inf):
        return np.eye(2)
    # from the last corner that is not good, if there is one, some part of the way to the first one that is
    first, last = good[0], good[-1]
    x = _towards(points[min(last + 1, len(points) - 1)], points[last], most)[0]
    y = _towards(points[max(first - 1, 0)], points[first], most)[1]
    return np.array([[y * y / most * (1 - ROUNDING), 1.0], [1.0, x * x / most * (1 - ROUNDING)]])


def _towards(point: Floats, good: Floats, most: float) -> Floats:
    """The last point on the way to a good one that is not better: a product is concave along a line."""
    low, high = 0.0, 1.0
    for _ in range(HALVES):
        middle = (low + high) / 2
        if (point + (good - point) * middle).prod() <= most:
            high = middle
        else:
            low = middle
    return point + (good - point) * low


def lines_of(weights: Floats, least: Floats) -> tuple[Floats, Floats]:
    """For each row of `least` the offsets of the lines that bound the first cost over the second, and the least second.

    Of one cost: its least, and nothing.
    """
    if weights.shape[1] != 2:
        return least[:, :1].copy(), least[:, :0]
    # the unit weights stand first
    lines = weights[2:]
    return np.concatenate([least[:, :1], least[:, 2:] / lines[:, 0]], axis=1), least[:, 1:2].copy()


def lower_corners(weights: Floats, offsets: Floats, second: Floats) -> tuple[Floats, Ints]:
    """Corners, see above, for lines: an array (rows, most corners, costs), and how many of its points each row has."""
    if not second.shape[1]:
        return offsets[:, None, :], np.ones(len(offsets), dtype=np.int64)
    # the boundary as x over y: the largest of the lines s - slope * y and of the least x; from the least y on
    lines = weights[2:]
    slopes = np.concatenate([[0.0], lines[:, 1] / lines[:, 0]])
    points, counts = envelope_kernels.lower_corners(slopes, offsets, second[:, 0])
    return points, counts


def least_products(weights: Floats, least: Floats) -> Floats:
    """For each row of weighted costs of two kinds the least product of what costs at least so much."""
    slopes = np.concatenate([[0.0], weights[2:, 1] / weights[2:, 0]])
    offsets = np.concatenate([least[:, :1], least[:, 2:] / weights[2:, 0]], axis=1)
    products: Floats = envelope_kernels.least_products(slopes, offsets, least[:, 1].copy())
    return products


def slope_at_best(weights: Floats, least: Floats) -> float | None:
    """Of two costs: the weight that may lift the corner with the least product most; None when there is none."""
    if not np.isfinite(least).all():
        # nothing fits
        return None
    best = min(corners(weights, least[None])[0], key=lambda corner: float(corner.prod()))
    slopes = np.concatenate([[0.0], weights[2:, 1] / weights[2:, 0]])
    lines = np.concatenate([[least[0]], least[2:] / weights[2:, 0]]) - slopes * best[1]
    active = slopes[lines >= best[0] * (1 - 1e-9)]
    low, high = float(active.min()), float(active.max())
    if best[1] <= least[1] * (1 + ROUNDING):
        low, high = high, high * 16
    slope = high / 4 if low == 0 else math.sqrt(low * high)
    slopes_so_far = slopes[1:]
    if (
        slope <= 0
        or not math.isfinite(slope)
        or (np.maximum(slopes_so_far / slope, slope / slopes_so_far) < NEAR).any()
    ):
        return None
    parts = slope * best[1], float(best[0])
    if min(parts) * FARTHEST < max(parts):
        return None
    return slope
