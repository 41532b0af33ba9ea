"""What is to be known of an Einsum's chains, and up to which limit."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from einmap.mapper.cascade import nondominated
from einmap.mapper.request import Others


@dataclass
class Wanted:
    """Something that is to be known up to a limit. `others`: what the rest of the cascade adds, wherever it stands."""

    limit: float = 0.0
    others: list[Others | None] = field(default_factory=list)

    def raise_to(self, limit: float) -> None:
        """Not less far than this."""
        self.limit = max(self.limit, limit)

    def united(self) -> Others | None:
        """What has no hope with any of the others."""
        known = [others for others in self.others if others is not None]
        if len(known) < len(self.others):
            return None
        if known[0].most < 0:
            # row by row what is reached, less what the others add: with the least of that it is the most
            return Others(np.stack([others.rows for others in known]).max(axis=0), known[0].most)
        rows = np.concatenate([others.rows for others in known])
        if rows.shape[1] > 2:
            return Others(np.unique(rows, axis=0), known[0].most)
        # with less of everything a product is smaller
        return Others(rows[nondominated(rows)], known[0].most)
