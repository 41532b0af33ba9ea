"""Mappings as vectors of numbers in [0, 1], for samplers that know no others.

The first number chooses the nest, the second the use of the fanouts (the fullest first), and each further one the
loop in which one prime factor of a rank variable stands. Factors that lanes take away are those of the last numbers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from einmap.arrays import Ints
from einmap.mapper.mapspace.mapspace import Point
from einmap.numbers import prime_factors, rank
from einmap.search.space.space import SearchSpace


@dataclass(frozen=True)
class Genome:
    """How vectors stand for the points of a space."""

    space: SearchSpace

    @cached_property
    def factors(self) -> list[tuple[str, int, int]]:
        """(variable, prime, count) for each number after the first two: the factor is the count-th one."""
        return [(v, p, i) for v, bound in self.space.einsum.bounds for p, e in prime_factors(bound) for i in range(e)]

    @property
    def length(self) -> int:
        """Numbers of a vector."""
        return 2 + len(self.factors)

    @cached_property
    def _nests(self) -> list[tuple[int, int, Ints]]:
        """Part and number of each nest that has mappings, and its uses of the fanouts that do."""
        nests = []
        for p, part in enumerate(self.space.parts):
            for n in range(len(part.nests)):
                lanes = np.flatnonzero(part.sizes[n])
                if len(lanes):
                    nests.append((p, n, lanes.astype(np.int64)))
        return nests

    def point(self, vector: list[float]) -> Point:
        """The point of a vector."""
        part, nest, lanes = self._nests[_chosen(vector[0], len(self._nests))]
        number = self.space.number(part, nest, int(lanes[_chosen(vector[1], len(lanes))]))
        gene = {(v, p, i): x for (v, p, i), x in zip(self.factors, vector[2:], strict=True)}
        digits = []
        for digit in self.space.subspace(number).digits:
            counts = [0] * digit.loops
            for i in range(digit.exponent):
                counts[_chosen(gene[digit.variable, digit.prime, i], digit.loops)] += 1
            digits.append(rank(counts))
        return number, tuple(digits)


def _chosen(x: float, n: int) -> int:
    return min(int(x * n), n - 1)
