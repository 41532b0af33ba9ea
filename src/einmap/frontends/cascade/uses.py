"""How an Einsum indexes an axis of an operand, or of its output: by a label, in a window, or at looked-up places."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Window:
    """An axis that is read at `sum of coefficient * label + constant`; what lies outside of it is zero.

    `cut`: points outside take no part instead, as in the maximum of a window.
    """

    terms: tuple[tuple[str, int], ...]
    constant: int = 0
    cut: bool = False


@dataclass(frozen=True, slots=True)
class Spread:
    """An axis of the output that is one rank of this size, written at `sum of coefficient * label + constant`."""

    terms: tuple[tuple[str, int], ...]
    size: int
    constant: int = 0


@dataclass(frozen=True, slots=True)
class LookedUp:
    """An axis, one rank by itself, that is read at the value of another operand, by its place."""

    operand: int


type Use = str | Window | LookedUp
"""How an Einsum indexes an axis of an operand."""


def ends_of(use: Window, extents: Mapping[str, int]) -> tuple[int, int]:
    """The smallest and the largest index of a window."""
    reach = [a * (extents[label] - 1) for label, a in use.terms]
    return use.constant + sum(min(0, r) for r in reach), use.constant + sum(max(0, r) for r in reach)


def leaves_axis(use: Use, extents: Mapping[str, int], size: int) -> bool:
    """Whether a window reads zeros outside of an axis of this size."""
    if not isinstance(use, Window):
        return False
    low, high = ends_of(use, extents)
    return not use.cut and (low < 0 or high >= size)
