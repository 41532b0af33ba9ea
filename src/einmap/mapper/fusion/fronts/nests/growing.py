"""State of an Einsum's chains so far: lists of outer nests, and fronts."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.branch_and_bound.path_search import PathSearch, TemplateTables
from einmap.mapper.fusion.fronts.nests.dominance import undominated
from einmap.mapper.fusion.fronts.nests.met_loops import MetLoops
from einmap.mapper.fusion.fronts.nests.nest_rules import NestRules
from einmap.mapper.fusion.fronts.nests.outer_nests import NestState, OuterNest, OuterNestEnumerator
from einmap.mapper.fusion.fronts.nests.pruned_bounds import PrunedBounds
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature
from einmap.mapper.fusion.meter import Meter
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.problem.request import Remainder

type Listed = tuple[PathSearch, OuterNest]
"""An outer nest and the search that it is of."""


@dataclass
class ClassList:
    """The outer nests of a signature class while they are listed, in all no more than one beyond `most`.

    `remainder`, `met`, `pruned`: see OuterNestEnumerator; `floor`: objectives that no chain of the class is below.
    """

    remainder: Remainder | None
    met: MetLoops
    floor: Floats
    most: float
    pruned: PrunedBounds
    begun: list[tuple[OuterNestEnumerator, NestState, Floats]] = field(default_factory=list)
    """Parts of good outer nests, with bounds."""

    @property
    def is_full(self) -> bool:
        """Whether the class has too many outer nests."""
        return len(self.begun) > self.most

    def add(self, rules: NestRules, compiled: TemplateTables, meter: Meter) -> None:
        """Add the outer nests of one dataplacement. Raises StoppedError."""
        enumerator = OuterNestEnumerator(rules, compiled, self.pruned, self.remainder, self.met)
        for state, bound in enumerator.begun():
            meter.listed += 1
            meter.go_on()
            if self.is_full:
                break
            if not np.isfinite(bound).all():
                continue
            least = np.maximum(bound, self.floor)
            if self.remainder is not None and self.remainder.exceeds_cutoff(least[None])[0]:
                self.pruned.add(least[None])
            else:
                self.begun.append((enumerator, state, least))

    def bounds(self) -> Floats:
        """Objectives that no completion of each outer nest is below."""
        return np.array([least for _, _, least in self.begun])

    def by_signature(self) -> dict[FusionSignature, list[Listed]]:
        """Outer nests that no other one of the same search makes needless."""
        listed: dict[FusionSignature, list[Listed]] = {}
        for search, begun in groupby(self.begun, lambda of: of[0].search):
            of_search: dict[FusionSignature, list[OuterNest]] = {}
            for enumerator, state, least in begun:
                outer_nest = enumerator.outer_nest(state, least)
                of_search.setdefault(outer_nest.signature, []).append(outer_nest)
            for signature, outer_nests in of_search.items():
                kept = listed.setdefault(signature, [])
                kept.extend((search, outer_nest) for outer_nest in undominated(outer_nests))
        return listed


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
