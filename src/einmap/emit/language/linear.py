"""Integers of the emitted code: sums of `coefficient * name` and a constant."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Linear:
    """A sum over integer names of the code; no coefficient is zero, names are in order of first use."""

    terms: tuple[tuple[str, int], ...] = ()
    constant: int = 0

    def __add__(self, other: Linear) -> Linear:
        return sum_of((*self.terms, *other.terms), self.constant + other.constant)

    def __sub__(self, other: Linear) -> Linear:
        return self + other.times(-1)

    def plus(self, number: int) -> Linear:
        """The sum with a number."""
        return Linear(self.terms, self.constant + number)

    def times(self, factor: int) -> Linear:
        """The product with a number."""
        return sum_of([(name, a * factor) for name, a in self.terms], self.constant * factor)

    @property
    def is_number(self) -> bool:
        """Whether no name is in it."""
        return not self.terms

    @property
    def names(self) -> frozenset[str]:
        """The names in it."""
        return frozenset(name for name, _ in self.terms)

    def text(self, name_of: Callable[[str, int], str] | None = None) -> str:
        """`16*m1 + m0 - 1`; `name_of`: text of a term from its name and its positive coefficient."""
        text = ""
        for name, a in self.terms:
            sign = "-" if a < 0 else "+" if text else ""
            term = name_of(name, abs(a)) if name_of else name if abs(a) == 1 else f"{abs(a)}*{name}"
            text += (f" {sign} " if text else sign) + term
        if self.constant or not text:
            text += f" {'-' if self.constant < 0 else '+'} {abs(self.constant)}" if text else str(self.constant)
        return text

    def __str__(self) -> str:
        return self.text()


def number(value: int) -> Linear:
    """A constant."""
    return Linear((), value)


def named(name: str, coefficient: int = 1) -> Linear:
    """A multiple of a name."""
    return Linear(((name, coefficient),), 0)


def sum_of(terms: Iterable[tuple[str, int]], constant: int) -> Linear:
    """The sum of terms, those of one name brought together."""
    coefficients: dict[str, int] = {}
    for name, a in terms:
        coefficients[name] = coefficients.get(name, 0) + a
    return Linear(tuple((name, a) for name, a in coefficients.items() if a), constant)
