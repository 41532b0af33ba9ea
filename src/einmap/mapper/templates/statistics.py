"""Fates of a mapspace: how much of it each pruning ruled out, how much was searched, and how long each step took.

A mapspace is counted in subspaces (a dataplacement with a use of the fanouts) and in the mappings that these hold,
prunings aside.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from einmap.arrays import Floats, Ints
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.mapspace.tile_lattice import Axis, Lattice
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.units import powers_of_ten

type Loops = tuple[int, ...]

OUTCOMES = ("lane bounds", "plan bounds", "root bounds", "searched")
"""Ruled out with a use of the fanouts, with a dataplacement, at the root of a search with tables; or searched."""
NOT_COVERED = "not covered"
"""Part that a stopped search has left."""
STEPS = ("planning", "bounds", "tables", "search")
"""Where the time of a search goes; what is missing to the whole is bookkeeping."""


class MappingCounts:
    """Mappings for each use of the fanouts and each plan, by the gaps in which the plan may loop over each axis."""

    def __init__(self, lattice: Lattice, plans: Sequence[ChainTemplate], lanes: LaneTable) -> None:
        even = np.where(lanes.shapes > 0, 1, lanes.bounds).prod(axis=1)
        shapes = lanes.shapes.max(axis=1, initial=0)
        left = np.where(shapes > 0, shapes, lanes.tops) // even
        places = [np.searchsorted(axis.sizes, left[:, a], side="right") - 1 for a, axis in enumerate(lattice.axes)]
        self.plans = Counter(plan.loops for plan in plans)
        self.mappings: dict[Loops, Floats] = {}
        for loops in self.plans:
            ways = np.ones(len(lanes))
            for axis, times, at in zip(lattice.axes, loops, places, strict=True):
                ways *= _chains(axis, times)[at]
            self.mappings[loops] = ways

    def total(self, rows: Ints | None = None) -> float:
        """Mappings of all plans with some uses of the fanouts, or all."""
        weights = self.weights(rows)
        return math.fsum(weights[loops] * n for loops, n in self.plans.items())

    def weights(self, rows: Ints | None = None) -> dict[Loops, float]:
        """Mappings of a plan with some uses of the fanouts, or all."""
        return {loops: float((ways if rows is None else ways[rows]).sum()) for loops, ways in self.mappings.items()}


@lru_cache(maxsize=1024)
def _chains(axis: Axis, loops: int) -> Floats:
    """Ways to bring each tile shape of an axis down to 1 with so many loops; not to be changed."""
    if not loops:
        return np.array([1.0, *[0.0] * (len(axis.sizes) - 1)])
    ways = _chains(axis, loops - 1)
    return np.array([ways[list(inner)].sum() for inner in axis.below])


@dataclass
class SubspaceTally:
    """Subspaces and mappings by what became of them, seconds by step.

    `mapspace`, `subspaces`: all there are; `loops`, `loops_removed`: places for a loop in the gaps of all plans, and
    those that the prunings of gaps removed.
    """

    mapspace: float = 0.0
    subspaces: int = 0
    loops: int = 0
    loops_removed: int = 0
    mappings_by: dict[str, float] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0.0))
    subspaces_by: dict[str, int] = field(default_factory=lambda: dict.fromkeys(OUTCOMES, 0))
    seconds: dict[str, float] = field(default_factory=lambda: dict.fromkeys(STEPS, 0.0))

    def plan(self, plans: Iterable[ChainTemplate]) -> None:
        """Count the loops of some plans."""
        for plan in plans:
            self.loops += sum(plan.loops)
            self.loops_removed += sum(plan.loops) - sum(len(step.axes) for step in plan.steps)

    def add(self, outcome: str, subspaces: int, mappings: float) -> None:
        """Say what became of a part of the mapspace."""
        self.subspaces_by[outcome] += subspaces
        self.mappings_by[outcome] += mappings

    @contextmanager
    def timed(self, step: str) -> Iterator[None]:
        """Count the wall time of a block."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[step] += time.perf_counter() - start

    @property
    def covered(self) -> float:
        """Mappings that were ruled out or searched."""
        return math.fsum(self.mappings_by.values())

    @property
    def ruled_out(self) -> float:
        """Mappings that were ruled out."""
        return self.covered - self.mappings_by["searched"]

    def shown(self) -> str:
        """How far a search is, in a line."""
        covered, ruled_out, whole = (powers_of_ten(n) for n in (self.covered, self.ruled_out, self.mapspace))
        return f"{covered} of {whole} mappings covered, {ruled_out} of them ruled out"

    def outcomes(self) -> dict[str, dict[str, float]]:
        """Subspaces and mappings for each outcome, what was left included."""
        outcomes = {o: {"subspaces": self.subspaces_by[o], "mappings": self.mappings_by[o]} for o in OUTCOMES}
        rest = self.subspaces - sum(self.subspaces_by.values())
        left = max(self.mapspace - self.covered, 0.0) if rest else 0.0
        return {**outcomes, NOT_COVERED: {"subspaces": rest, "mappings": left}}
