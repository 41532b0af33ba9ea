"""How much work one expression may do, counted in steps and sizes, never in seconds.

The same expression is refused on every machine, fast or slow.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from einmap.errors import ExpressionError

MAX_TEXT = 10_000
"""Characters of one expression."""
MAX_DEPTH = 50
"""Levels of its syntax tree; a chain `a + b + c` counts as one."""
MAX_STEPS = 200_000
"""Nodes evaluated and elements handled."""
MAX_LENGTH = 10_000
"""Elements of one value, those of inner lists included."""
MAX_BITS = 10_000
"""Bits of one integer."""


FREE_STEPS = 10_000
"""Steps of one expression that do not count for all of them together: nearly all expressions take fewer."""
MAX_TOGETHER = 5_000_000
"""Steps that the expressions of one specification may take together, beyond those that are free."""


@dataclass(slots=True)
class Account:
    """The steps that are left to all expressions of a specification."""

    steps: int = MAX_TOGETHER

    def check(self) -> None:
        """Raise ExpressionError when none are left."""
        if self.steps < 0:
            raise ExpressionError(
                f"the expressions of the specification take more than {MAX_TOGETHER:,} steps together"
            )

    def settle(self, budget: Budget) -> None:
        """Take off what an expression used."""
        self.steps -= max(0, MAX_STEPS - budget.steps - FREE_STEPS)


@dataclass(slots=True)
class Budget:
    """The steps that are left to one expression."""

    steps: int = MAX_STEPS

    def spend(self, steps: int = 1) -> None:
        """Take `steps` off. Raises ExpressionError when none are left."""
        self.steps -= steps
        if self.steps < 0:
            raise ExpressionError(f"the expression takes more than {MAX_STEPS} steps")

    def hold(self, value: object) -> None:
        """Pay for a new value by its size. Raises ExpressionError when it is too large to hold."""
        self.spend(weight(value))


def weight(value: object) -> int:
    """Size of a value: 1 for a number, and all elements at all levels for a list.

    Raises ExpressionError above MAX_LENGTH, as soon as that is known.
    """
    total = 0
    waiting = [value]
    while waiting:
        item = waiting.pop()
        total += 1
        match item:
            case int():
                total += size_checked(item).bit_length() // 64
            case str():
                total += len(item) // 8
            case list() | tuple() | set() | frozenset():
                check_length(total + len(item))
                waiting += item
            case Mapping():
                check_length(total + 2 * len(item))
                waiting += item.keys()
                waiting += item.values()
        check_length(total)
    return total


def check_length(length: int) -> None:
    """Raise ExpressionError for a value with too many elements."""
    if length > MAX_LENGTH:
        raise ExpressionError(f"a value with more than {MAX_LENGTH} elements")


def check_bits(bits: int) -> None:
    """Raise ExpressionError for an integer with too many bits."""
    if bits > MAX_BITS:
        raise ExpressionError(f"an integer with more than {MAX_BITS} bits")


def size_checked(value: int) -> int:
    """`value`, when it is no larger than integers may be."""
    check_bits(value.bit_length())
    return value
