"""What is asked of the search of one Einsum."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from einmap.mapper.given.pattern import Pattern
from einmap.model.semantics import Semantics

type Floats = NDArray[np.float64]

POOL_BYTES = 80_000_000
"""Room for cost-to-go tables."""


@dataclass(frozen=True)
class Request:
    """What is asked for. `goals`: objectives, all to be minimised; `tolerance`: how far from the best is fine.

    `prune`: leave out loops that are never better. `uneven_loops`, `uneven_lanes`: tile shapes of temporal loops, of
    lanes, need not divide the bound. `coarseness`: see `lattice_of`. `most_plans`: dataplacements that are looked at.
    `memory`: bytes that may be used. `given`: the mapping must be like this.
    `others`: least energy and latency of the other Einsums, and what the product of the sums may be (in units of one
    instance; the objectives are then energy and latency).
    """

    goals: tuple[str, ...]
    rules: Semantics
    force_hierarchy_order: bool = True
    tolerance: float = 0.0
    prune: bool = True
    uneven_loops: bool = False
    uneven_lanes: bool = False
    coarseness: float = 1.0
    most_plans: float = math.inf
    memory: float = math.inf
    given: Pattern | None = None
    others: tuple[float, float, float] = (0.0, 0.0, math.inf)

    @property
    def room(self) -> int:
        """Bytes for cost-to-go tables."""
        return int(min(POOL_BYTES, self.memory / 2))
