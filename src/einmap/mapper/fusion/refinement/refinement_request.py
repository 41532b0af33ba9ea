"""What is to be known of an Einsum's fronts, and up to which limit."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from einmap.mapper.problem.request import Remainder
from einmap.pareto import nondominated


@dataclass
class RefinementRequest:
    """Something that is to be known up to a limit. `remainder`: what the rest of the cascade adds, wherever it
    stands.
    """

    limit: float = 0.0
    remainder: list[Remainder | None] = field(default_factory=list)

    def raise_to(self, limit: float) -> None:
        """Not less far than this."""
        self.limit = max(self.limit, limit)

    def united(self) -> Remainder | None:
        """What has no hope with any of the others."""
        remainders = [remainder for remainder in self.remainder if remainder is not None]
        if len(remainders) < len(self.remainder):
            return None
        if remainders[0].most < 0:
            # row by row what is reached, less what the others add: with the least of that it is the most
            return replace(remainders[0], rows=np.stack([remainder.rows for remainder in remainders]).max(axis=0))
        rows = np.concatenate([remainder.rows for remainder in remainders])
        if rows.shape[1] > 2:
            return Remainder(np.unique(rows, axis=0), remainders[0].most)
        # with less of everything a product is smaller
        return Remainder(rows[nondominated(rows)], remainders[0].most)
