"""How a split rank variable splits the ranks that it indexes."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from einmap.einsum.einsum import Einsum
from einmap.einsum.spaces.projection import Affine, RankVar


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


def window(einsum: Einsum, index: Affine, split: Collection[RankVar]) -> tuple[RankVar, int, int] | None:
    """The variable of `split` that leads an index such as `2*p + r`, its factor, and the coordinates of the halo.

    Where `p` covers a block of b values from 0 on, the index is 0 to 2*b - 1 and at most `halo` coordinates more. None
    where no variable of `split`, or several, are in the index, or where it decreases with it.
    """
    found = [(variable, factor) for variable, factor in index.terms if variable in split]
    if len(found) != 1 or found[0][1] < 1:
        return None
    variable, factor = found[0]
    first = dict(einsum.first_values)
    lows = {v: first.get(v, 0) for v, _ in index.terms}
    if lows[variable]:
        return None
    largest = index.constant + sum(
        max(a * lows[v], a * (lows[v] + einsum.extents[v] - 1)) for v, a in index.terms if v != variable
    )
    return variable, factor, max(0, largest + 1 - factor)
