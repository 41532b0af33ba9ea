"""The least product of two costs whose weighted sums are bounded, and the weight that may raise it."""

from __future__ import annotations

import math

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.paths import envelope_kernels
from einmap.mapper.fusion.paths.lower_envelope import corners
from einmap.mapper.objective.tolerances import ROUNDING

NEAR = 1.02
"""Ratio of two weights that are as good as one."""
FARTHEST = 2.0**20
"""Where one of the costs counts so much more than the other a weight is as good as none."""


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
