"""How a split rank variable splits the ranks that it indexes."""

from __future__ import annotations

from dataclasses import dataclass

from einmap.einsum.einsum import Einsum
from einmap.einsum.projection import Affine, RankVar


@dataclass(frozen=True, slots=True)
class MixedRadix:
    """An index in which every coordinate has one value of each variable: `H*F + f`, or a variable alone.

    `digits`: variables with their factors, the slowest first; the last factor is 1. Contiguous values of the first
    variable are contiguous coordinates, so that splitting it splits the rank. Without digits the index is 0.
    """

    digits: tuple[tuple[RankVar, int], ...]

    @property
    def leading(self) -> tuple[RankVar, int] | None:
        """The slowest variable and its factor."""
        return self.digits[0] if self.digits else None

    @property
    def is_variable(self) -> bool:
        """Whether the index is a rank variable and nothing else."""
        return len(self.digits) == 1


def mixed_radix(einsum: Einsum, index: Affine) -> MixedRadix | None:
    """The digits of an index; None where coordinates are left out, or written by several points (`p + r`, `2*p`)."""
    first = dict(einsum.first_values)
    if index.constant or any(first.get(variable, 0) for variable, _ in index.terms):
        return None
    digits = tuple(sorted(index.terms, key=lambda term: (-term[1], -einsum.extents[term[0]])))
    expected = 1
    for variable, factor in reversed(digits):
        if factor != expected:
            return None
        expected *= einsum.extents[variable]
    return MixedRadix(digits)
