"""Lower left corners of what bounds at several weights leave, where products of costs are least."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from einmap.mapper.fusion import compiled

type Floats = NDArray[np.float64]
type Ints = NDArray[np.int64]


def corners(weights: Floats, least: Floats) -> list[Floats]:
    """For each row of `least` the lower left corners of all points x with weights @ x >= least (one or two costs).

    Whatever lies in this region has a product, with anything added, that is no less than that of some corner.
    """
    points, counts = lower_corners(weights, *lines_of(weights, least))
    return [own[:count].copy() for own, count in zip(points, counts, strict=True)]


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
    points, counts = compiled.lower_corners(slopes, offsets, second[:, 0])
    return points, counts
