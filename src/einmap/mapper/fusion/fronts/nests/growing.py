"""State of an Einsum's chains so far: lists of outer nests, and fronts."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.branch_and_bound.path_search import PathSearch
from einmap.mapper.fusion.fronts.nests.met_loops import KeyLoops, MetLoops
from einmap.mapper.fusion.fronts.nests.outer_nests import OuterNest
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.problem.request import Remainder

type Listed = tuple[PathSearch, OuterNest]
"""An outer nest and the search that it is of."""


SAMPLE = 64
"""Outer nests of a signature class that are kept of too many."""


@dataclass
class NestSample:
    """Some of the outer nests of a signature class that has too many: what they cost at least, and their keys."""

    nests: list[tuple[Floats, dict[int, KeyLoops]]] = field(default_factory=list)

    def is_left(self, remainder: Remainder | None, met: MetLoops) -> bool:
        """Whether more than a half of them can be a part of something good and be met: there are too many still."""
        left = [least for least, keys in self.nests if met.leave(keys)]
        if left and remainder is not None:
            return 2 * int((~remainder.exceeds_cutoff(np.stack(left))).sum()) > len(self.nests)
        return 2 * len(left) > len(self.nests)


@dataclass
class ClassList:
    """The outer nests of a signature class while they are listed; `n`: how many were good.

    `met`: the keys that others can meet; `most`: more of them are too many.
    """

    met: MetLoops
    most: float
    by_signature: dict[FusionSignature, list[Listed]] = field(default_factory=dict)
    n: int = 0
    sample: NestSample = field(default_factory=NestSample)

    @property
    def is_too_long(self) -> bool:
        """Whether there are too many."""
        return self.n > self.most

    def add(self, outer_nest: OuterNest) -> None:
        """Count one more."""
        self.n += 1
        if self.n * SAMPLE >= (len(self.sample.nests) + 1) * self.most:
            keys = {t: key.loops for t, key in outer_nest.signature.keys}
            self.sample.nests.append((outer_nest.least, keys))


def promise(listed: Listed) -> float:
    """The least first objective of an outer nest."""
    return float(listed[1].least[0])


@dataclass
class GrowingFront:
    """The front of a signature while it is searched."""

    signature: FusionSignature
    archive: Archive


def exceeds_cutoff(outer_nest: OuterNest, remainder: Remainder | None) -> bool:
    """Whether no completion of an outer nest can be a part of something good."""
    return remainder is not None and bool(remainder.exceeds_cutoff(outer_nest.least[None, :])[0])
