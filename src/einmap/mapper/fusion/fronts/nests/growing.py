"""State of an Einsum's chains so far: lists of outer nests, and fronts."""

from __future__ import annotations

from dataclasses import dataclass, field

from einmap.mapper.branch_and_bound.path_search import PathSearch
from einmap.mapper.fusion.fronts.nests.met_loops import MetLoops
from einmap.mapper.fusion.fronts.nests.outer_nests import OuterNest
from einmap.mapper.fusion.fronts.nests.signatures import FusionSignature
from einmap.mapper.objective.pareto_archive import Archive
from einmap.mapper.problem.request import Remainder

type Listed = tuple[PathSearch, OuterNest]
"""An outer nest and the search that it is of."""


@dataclass
class ClassList:
    """The outer nests of a signature class while they are listed; `n`: how many were good.

    `met`: the keys that others can meet.
    """

    met: MetLoops
    by_signature: dict[FusionSignature, list[Listed]] = field(default_factory=dict)
    n: int = 0


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
