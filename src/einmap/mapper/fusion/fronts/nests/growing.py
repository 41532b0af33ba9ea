"""State of an Einsum's chains so far: lists of outer nests, and fronts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.branch_and_bound.path_search import PathSearch, TemplateTables
from einmap.mapper.fusion.fronts.nests.dominance import undominated
from einmap.mapper.fusion.fronts.nests.listing import Listing
from einmap.mapper.fusion.fronts.nests.met_loops import MetLoops
from einmap.mapper.fusion.fronts.nests.nest_keys import NestKeys
from einmap.mapper.fusion.fronts.nests.nest_plan import NestPlan
from einmap.mapper.fusion.fronts.nests.nest_rules import NestRules
from einmap.mapper.fusion.fronts.nests.outer_nests import OuterNest, OuterNests
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

    `remainder`, `met`, `pruned`: see Listing; `floor`: objectives that no chain of the class is below.
    """

    remainder: Remainder | None
    met: MetLoops
    floor: Floats
    most: float
    begun: list[tuple[NestRules, OuterNests]] = field(default_factory=list)
    """Good outer nests, with bounds."""
    n: int = 0
    """How many these are."""

    def __post_init__(self) -> None:
        self.pruned = PrunedBounds(len(self.floor))

    @property
    def is_full(self) -> bool:
        """Whether the class has too many outer nests."""
        return self.n > self.most

    def add(self, rules: NestRules, plan: NestPlan, meter: Meter) -> None:
        """Add the outer nests of one dataplacement. Raises StoppedError."""
        remainder = self.remainder or Remainder(np.zeros((0, len(self.floor))), np.inf)
        for nests, good in Listing(rules, plan, self.pruned, remainder, self.met, self.floor).parts():
            meter.listed += len(good)
            meter.go_on()
            chosen = np.flatnonzero(good)
            if self.n + len(chosen) > self.most:
                chosen = chosen[: int(self.most) + 1 - self.n]
            if len(chosen):
                self.n += len(chosen)
                of_all = nests.whole[chosen], nests.numbers[chosen], nests.least[chosen]
                self.keep(rules, OuterNests(plan, *of_all))
            if self.is_full:
                break

    def keep(self, rules: NestRules, nests: OuterNests) -> None:
        """Keep good outer nests."""
        self.begun.append((rules, nests))

    def bounds(self) -> Floats:
        """Objectives that no completion of each outer nest is below."""
        return np.concatenate([nests.least for _, nests in self.begun])

    def by_signature(self, meter: Meter) -> dict[FusionSignature, list[Listed]]:
        """Outer nests that no other one of the same search makes needless. Raises StoppedError."""
        listed: dict[FusionSignature, list[Listed]] = {}
        for rules, begun in groupby(self.begun, lambda of: of[0]):
            for outer_nest in undominated(rules, [nests for _, nests in begun], meter):
                listed.setdefault(outer_nest.signature, []).append((rules.search, outer_nest))
        return listed


@dataclass
class KeyList(ClassList):
    """Loops above shared tensors that the outer nests of a signature class have, which are looked at, but not kept."""

    keys: NestKeys = field(default_factory=NestKeys)

    def keep(self, rules: NestRules, nests: OuterNests) -> None:
        """Keep the loops above shared tensors."""
        self.keys.add(rules, nests)


@dataclass
class GrowingFront:
    """The front of a signature while it is searched."""

    signature: FusionSignature
    archive: Archive


def by_search(
    nests: Mapping[FusionSignature, Sequence[Listed]], limits: Mapping[FusionSignature, Remainder | None]
) -> list[list[list[Listed]]]:
    """Outer nests of some signatures by search and dataplacement, those that promise most first.

    What cannot be a part of anything good, up to the limit of its signature, is left out.
    """
    found: dict[PathSearch, dict[TemplateTables, list[Listed]]] = {}
    for signature, remainder in limits.items():
        for search, nest in nests[signature]:
            if remainder is None or not remainder.exceeds_cutoff(nest.least[None, :])[0]:
                found.setdefault(search, {}).setdefault(nest.compiled, []).append((search, nest))
    each = ([sorted(of_plan, key=_promise) for of_plan in plans.values()] for plans in found.values())
    return [sorted(plans, key=lambda of_plan: _promise(of_plan[0])) for plans in each]


def _promise(listed: Listed) -> float:
    """The least first objective of an outer nest."""
    return float(listed[1].least[0])
