"""The number by which cascades are compared: a sum of costs, the product of two sums, or a sum while another one is
limited.

Bounds of cascades are least weighted sums of costs, one for each row of `weights`; the unit weights stand first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.fusion.paths.lower_envelope import NEAR, corners, least_products, slope_at_best
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.mapper.problem.request import Remainder, TiedRemainder

STEP = 16.0
"""Ratio of two weights where one is far from the others."""
FARTHEST = 1_000.0
"""Where one of the costs counts so much less than the other it counts for nothing."""

SLOPES = (1 / 16, 1 / 4, 1 / 2, 1.0, 2.0, 4.0, 16.0)
"""Weights of latency against energy at which the whole is bounded, in units of the ratio of their least values."""


class CascadeObjective(Protocol):
    """Objective of a cascade, from sums of costs over its Einsums."""

    def of(self, costs: Floats) -> Floats:
        """The value of each row of costs."""

    def values(self, weights: Floats, least: Floats) -> Floats:
        """The least value for each row of least weighted costs."""

    def slope(self, weights: Floats, least: Floats) -> float | None:
        """A weight of the second cost against the first that may raise the least value; None when there is none."""

    def points(self, weights: Floats, least: Floats) -> Floats:
        """Costs that stand for all with such least weighted costs, a row for each point."""

    def remainder(self, weights: Floats, rest: Floats, times: float, most: float) -> Remainder:
        """Costs that the other Einsums add, in units of one instance of an Einsum that runs so often.

        `rest`: their least weighted costs; `most`: what the value of the whole may be.
        """

    def reached(self, most: float) -> Floats | None:
        """Points of the whole: what is no better than one of them is of no use; None where `most` alone says that."""


@dataclass(frozen=True)
class ProductOfSums:
    """A sum, or the product of two sums."""

    def of(self, costs: Floats) -> Floats:
        """The value of each row of costs."""
        products: Floats = costs.prod(axis=1)
        return products

    def values(self, weights: Floats, least: Floats) -> Floats:
        """The least value for each row of least weighted costs."""
        if least.shape[1] == 1:
            return least[:, 0]
        values = np.full(len(least), np.inf)
        finite = np.isfinite(least).all(axis=1)
        values[finite] = least_products(weights, least[finite])
        return values

    def slope(self, weights: Floats, least: Floats) -> float | None:
        """A weight of the second cost against the first that may raise the least value; None when there is none."""
        return None if weights.shape[1] == 1 else slope_at_best(weights, least)

    def points(self, weights: Floats, least: Floats) -> Floats:
        """Costs that stand for all with such least weighted costs, a row for each point."""
        return corners(weights, least[None])[0]

    def remainder(self, weights: Floats, rest: Floats, times: float, most: float) -> Remainder:
        """Costs that the other Einsums add; see CascadeObjective."""
        return Remainder(self.points(weights, rest) / times, most / times ** weights.shape[1])

    def reached(self, most: float) -> None:
        """Nothing: the value alone says what is of no use."""


@dataclass(frozen=True)
class LimitedSum:
    """The sum of the first cost, of cascades whose second cost is less than `limit`."""

    limit: float

    def of(self, costs: Floats) -> Floats:
        """The value of each row of costs."""
        return np.where(costs[:, 1] < self.limit, costs[:, 0], np.inf)

    def values(self, weights: Floats, least: Floats) -> Floats:
        """The least value for each row of least weighted costs."""
        values = np.full(len(least), np.inf)
        reached = np.isfinite(least).all(axis=1) & (least[:, 1] < self.limit)
        values[reached] = self._lines(weights, least[reached]).max(axis=1)
        return values

    def _lines(self, weights: Floats, least: Floats) -> Floats:
        """Bound of the first cost by each weighted sum, with a second one at its limit; of the second one nothing."""
        slopes = np.concatenate([[0.0], weights[2:, 1] / weights[2:, 0]])
        offsets = np.concatenate([least[:, :1], least[:, 2:] / weights[2:, 0]], axis=1)
        # a part of what is subtracted, so that rounding makes no bound too large
        lines: Floats = offsets - slopes * self.limit - np.abs(offsets) * (slopes > 0) * ROUNDING
        return lines

    def slope(self, weights: Floats, least: Floats) -> float | None:
        """A weight of the second cost against the first that may raise the least value; None when there is none.

        The largest of the lines is concave over the slope: beside the best one so far is the best of all.
        """
        if not np.isfinite(least).all() or math.isinf(self.limit):
            return None
        slopes = np.concatenate([[0.0], weights[2:, 1] / weights[2:, 0]])
        order = np.argsort(slopes)
        lines = self._lines(weights, least[None])[0][order]
        slopes, best = slopes[order], int(np.argmax(lines))
        if best == 0:
            # is the limit reached by what costs least?
            slope = float(slopes[1]) / STEP
            return slope if slope * self.limit * FARTHEST > least[0] else None
        below, above = slopes[best] / max(slopes[best - 1], slopes[best] / STEP), STEP
        if best + 1 < len(slopes):
            above = slopes[best + 1] / slopes[best]
        if max(below, above) < NEAR**2:
            return None
        return float(slopes[best] * math.sqrt(above) if above >= below else slopes[best] / math.sqrt(below))

    def points(self, weights: Floats, least: Floats) -> Floats:
        """Costs that stand for all with such least weighted costs: the least of each. Of a sum corners do not.

        Between two corners may lie what is within the limit while neither of them is.
        """
        del weights
        return least[None, :2]

    def remainder(self, weights: Floats, rest: Floats, times: float, most: float) -> Remainder:
        """Costs that the other Einsums add; see CascadeObjective."""
        del weights
        return TiedRemainder((self.reached(most) - rest[:2]) / times, -1.0)

    def reached(self, most: float) -> Floats:
        """Points of the whole: what is no better than one of them is of no use."""
        most += abs(most) * ROUNDING if math.isfinite(most) else 0.0
        return np.array([[most, -np.inf], [-np.inf, self.limit * (1 + ROUNDING)]])


def with_slopes(weights: Floats, least: Floats) -> Floats:
    """Weights of two costs at which the whole is bounded, by the least values of each."""
    ratio = least[0] / least[1] if (least > 0).all() and np.isfinite(least).all() else 1.0
    return np.concatenate([weights, [[1.0, slope * ratio] for slope in SLOPES]])
