"""Every mapping of the space once, in an order that jumps about, so that a stop leaves a fair part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.mapspace.mapspace import Point
from einmap.numbers import coprime_near
from einmap.search.strategy import Setup


class Exhaustive:
    """Numbers all mappings and visits multiples of a stride that is coprime to their number."""

    def __init__(self, setup: Setup) -> None:
        self.space = setup.problem.space
        self.order = self._order(int(setup.rng.integers(2**62)))

    def _order(self, offset: int) -> Iterator[Point]:
        ends = [0]
        for size in self.space.sizes.tolist():
            ends.append(ends[-1] + int(size))
        total = ends[-1]
        stride = coprime_near(total, 0.618)
        starts = np.array(ends, dtype=np.float64 if total > 2**62 else np.int64)
        for step in range(total):
            at = (offset + step * stride) % total
            number = int(np.searchsorted(starts, at, side="right")) - 1
            rest, digits = at - ends[number], []
            for digit in self.space.subspace(number).digits:
                rest, value = divmod(rest, digit.radix)
                digits.append(value)
            yield number, tuple(digits)

    def ask(self, n: int) -> Sequence[Point]:
        """The next `n` mappings."""
        return list(islice(self.order, n))

    def tell(self, points: Sequence[Point], values: Floats) -> None:
        """Nothing depends on values."""
