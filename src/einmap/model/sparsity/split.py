"""Amounts that are done, gated and skipped, for each instance of a component."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from einmap.arrays import Amounts

_FEW_BYTES = 1024
"""Bytes of a sum of numbers with what asks for it, about."""


@dataclass(frozen=True)
class Split:
    """Expected amounts by state, for each instance of a component.

    Numbers, or arrays with an axis for the lanes of each rank variable; each entry stands for `alike` instances.
    """

    actual: Amounts
    gated: Amounts
    skipped: Amounts
    alike: int = 1

    @property
    def states(self) -> tuple[Amounts, Amounts, Amounts]:
        """In the order of `savings.STATES`."""
        return self.actual, self.gated, self.skipped

    @cached_property
    def timed(self) -> Amounts:
        """Actions that take time: done or gated."""
        return self.actual + self.gated

    @property
    def bytes(self) -> int:
        """Room that it takes, about."""
        return _FEW_BYTES + sum(8 * np.size(amounts) for amounts in (*self.states, self.actual))

    @cached_property
    def totals(self) -> tuple[float, float, float]:
        """Amounts of all instances together, in the order of `savings.STATES`."""
        return total(self.actual) * self.alike, total(self.gated) * self.alike, total(self.skipped) * self.alike


def total(amounts: Amounts) -> float:
    """The sum of all entries."""
    return float(amounts.sum()) if isinstance(amounts, np.ndarray) else amounts
