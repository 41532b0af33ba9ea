"""Refines by one graph what several would ask for one after the other, where the best known is near the bound.

There most of the time goes into graphs: a bound rises by little, and each asks for a few options more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from einmap.mapper.fusion.problem import CascadeProblem, Member
from einmap.mapper.fusion.refinement.front_listing import FrontListing
from einmap.mapper.fusion.refinement.relaxation import Relaxation

BESIDE = 1.03
"""How far above the bound the best known may be, in parts of it."""
FURTHEST = 64
"""How many times as far as at first is looked."""
OF_GRAPH, OF_FRONT = 2, 50
"""Outer nests that are listed in as much time as a graph takes for each of its options, and as a front takes."""

type Limits = Mapping[tuple[int, int], float]
"""By Einsum and option how far it is to be known."""


class Refinement(Protocol):
    """The search that options are refined in, as far as that has to know it."""

    cascade: CascadeProblem
    members: list[Member]
    listing: FrontListing

    def open_options(
        self, relaxed: Relaxation, least: float, most: float, wider: float = 1.0
    ) -> tuple[dict[tuple[int, int], float], list[tuple[int, int]]]:
        """Options that are not known well enough, with limits, and large signature classes."""

    def refine(self, relaxed: Relaxation, unknown: Limits) -> None:
        """List or complete options, each up to a limit."""


def refine_near(refinement: Refinement, relaxed: Relaxation, wanted: Limits, least: float, most: float) -> None:
    """List or complete options; near the best also further ones, for about as much work as a graph takes.

    `least`, `most`: the bound, and the best known.
    """
    meter, wider, work = refinement.cascade.meter, 1.0, 0.0
    enough = OF_GRAPH * sum(len(relaxed.options(k)) for k in relaxed.places)
    for k in relaxed.places:
        relaxed.known_limits(k)  # by these others tell which keys can be met: the graph has nothing that comes later
    while wanted:
        listed = meter.listed
        refinement.refine(relaxed, wanted)
        fronts = sum(not relaxed.options(k)[o].unexpanded for k, o in wanted)
        work += meter.listed - listed + OF_FRONT * fronts + 1
        wanted = {}
        while not wanted and wider <= FURTHEST and work < enough and most < least * BESIDE:
            # large signature classes wait for the next graph: often that leaves few of them
            options, _ = refinement.open_options(relaxed, least, most, wider)
            wanted = {
                (k, o): up_to for (k, o), up_to in options.items() if _may_refine(refinement, relaxed, k, o, up_to)
            }
            wider *= 1 if wanted else 2


def _may_refine(refinement: Refinement, relaxed: Relaxation, k: int, o: int, limit: float) -> bool:
    """Whether an option was not asked for so far up to a limit; a signature must still be listed."""
    is_there = relaxed.options(k)[o].unexpanded or refinement.members[k].chains not in refinement.listing.changed
    return is_there and relaxed.asked.get((k, o), 0.0) < limit
