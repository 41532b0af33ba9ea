"""Numbers that depend on how often storage nodes are filled, which is not known yet: a constant, and a rate for each.

The model's formulas add, subtract and scale counts. Run on these they say what a cost is for any fills.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from einmap.arrays import Floats

type Unknown = Hashable
"""An unknown; None stands for the constant 1."""


@dataclass(frozen=True, slots=True)
class Affine:
    """The sum of each of the `terms` times its unknown; a term is a number, or an array over uses of the lanes."""

    terms: Mapping[Unknown, Floats | float]

    __array_ufunc__ = None  # arrays leave operations to this class

    @staticmethod
    def of(value: Any) -> Affine:
        """A value, or a number or array as a constant."""
        return value if isinstance(value, Affine) else Affine({None: value})

    def __add__(self, other: Any) -> Affine:
        terms = dict(self.terms)
        for unknown, term in Affine.of(other).terms.items():
            terms[unknown] = terms[unknown] + term if unknown in terms else term
        return Affine(terms)

    __radd__ = __add__

    def __sub__(self, other: Any) -> Affine:
        return self + Affine.of(other) * -1

    def __rsub__(self, other: Any) -> Affine:
        return Affine.of(other) + self * -1

    def __mul__(self, factor: Any) -> Affine:
        """`factor`: a number or an array; what is affine times what is affine need not be affine."""
        if isinstance(factor, Affine):
            return NotImplemented
        return Affine({unknown: term * factor for unknown, term in self.terms.items()})

    __rmul__ = __mul__


def chosen(which: Any, yes: Any, no: Any) -> Affine:
    """`yes` for uses for which it is so, else `no`."""
    if which is False or yes is no:
        return Affine.of(no)
    one, other = Affine.of(yes).terms, Affine.of(no).terms
    return Affine({u: np.where(which, one.get(u, 0.0), other.get(u, 0.0)) for u in {**one, **other}})
