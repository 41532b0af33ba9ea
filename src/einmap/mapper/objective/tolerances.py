"""When two costs count as equal, as fractions of them, and which of equally good mappings is wanted.

The three nest, each a hundred or ten times the one before: sums of a whole cascade are compared the most closely, since
errors of the parts must not add up; points of one Einsum's front less so, and what a bound of one Einsum leaves to gain
must be more than that. Cutoffs of cascades are widened by more than both, so that rounding prunes no optimum.

Of mappings that are equally good by energy or by latency the best by the other one is wanted. A search for it has two
objectives, the other one and then the first one: it looks for what is not worse than the best known mapping in the
first one, and better in the other one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from einmap.arrays import Floats

TIE_OF_SUMS = 1e-12
"""Sums of several Einsums' costs that differ by less count as equal."""
TIE = 1e-10
"""Costs of one Einsum that differ by less count as equal."""
ROUNDING = 1e-9
"""Bounds count as reached by what is above them by no more than this; what exceeds a memory by no more may fit."""
_OTHER = {"energy": "latency", "latency": "energy"}


def tie_breaker(goals: Sequence[str]) -> str | None:
    """The metric by which ties of the one objective are broken; None where it has none, or there are several."""
    return _OTHER.get(goals[0]) if len(goals) == 1 else None


class Tied(NamedTuple):
    """Limits of a tie: a value of the first objective less than `most`, and of the other one less than `below`."""

    below: float
    most: float

    @property
    def rows(self) -> Floats:
        """Points of the other objective and the first one: what is no better than one of them is not wanted."""
        return np.array([[self.below, -np.inf], [-np.inf, self.most]])

    def takes(self, other: float, first: float) -> bool:
        """Whether a mapping with these values breaks the tie."""
        return other < self.below and first < self.most


def tied(other: float, first: float) -> Tied:
    """Limits that break the tie of a mapping with these values of the other objective and the first one."""
    most = first + abs(first) * ROUNDING
    below = other - abs(other) * ROUNDING if np.isfinite(other) else other
    return Tied(below, float(np.nextafter(most, np.inf)))
