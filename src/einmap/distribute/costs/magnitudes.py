"""Checks of numbers from which costs are summed: positive, from 0 on, neither too small nor too large."""

from __future__ import annotations

import math

from einmap.errors import SpecError

SMALLEST, LARGEST = 1e-30, 1e30
"""Of rates, times, sizes and energies in SI units: with these no sum or quotient of costs overflows."""


def check_rate(what: str, value: float, unit: str) -> None:
    """Raise SpecError unless a number is positive, finite, and one whose sums do not overflow."""
    check_positive(what, value, unit)
    if value == math.inf:
        raise SpecError(f"{what} is infinite; expected a number of {unit}")


def check_positive(what: str, value: float, unit: str) -> None:
    """Raise SpecError unless a number is above 0, inf allowed, and one whose sums do not overflow."""
    if not value > 0:
        raise SpecError(f"{what} is {value:g} {unit}; expected more than 0")
    check_magnitude(what, value)


def check_not_negative(what: str, value: float, unit: str) -> None:
    """Raise SpecError unless a number is from 0 on, finite, and one whose sums do not overflow."""
    if not 0 <= value < math.inf:
        raise SpecError(f"{what} is {value:g} {unit}; expected at least 0")
    check_magnitude(what, value)


def check_magnitude(what: str, value: float) -> None:
    """Raise SpecError for a number so large or small that sums of costs overflow."""
    if value not in (0, math.inf) and not SMALLEST <= value <= LARGEST:
        raise SpecError(f"{what} is {value:g}; expected a number from {SMALLEST:g} to {LARGEST:g}")
