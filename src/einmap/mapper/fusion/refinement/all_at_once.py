"""Lists all outer nests that good cascades may have at once.

With few fused loops or tile shapes they are few, and keys are told apart from the first graph on. Step by step a bound
rises slowly as long as signature classes stand for what is not listed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement.front_listing import FrontListing
from einmap.mapper.fusion.refinement.good_cascades import Turns
from einmap.mapper.fusion.refinement.option_floors import OptionFloors
from einmap.mapper.fusion.refinement.relaxation import Relaxation

AT_ONCE = 1_000
"""Outer nests of a signature class that are listed at most; larger ones stay as they are."""


class Refinement(Protocol):
    """The search that nests are listed in, as far as that has to know it."""

    cascade: CascadeProblem
    floors: OptionFloors
    listing: FrontListing
    turns: Turns

    def bound(self) -> Relaxation | None:
        """The graph of all that is listed and of all that is not, and what cascades cost at least."""

    def refine(self, relaxed: Relaxation, unknown: Mapping[tuple[int, int], float]) -> None:
        """List or complete options, each up to a limit."""


def list_all(refinement: Refinement, limit: float) -> None:
    """List the outer nests that cascades up to a limit may have; a good cascade of them is looked for next."""
    listing, refinement.floors.cutoff = refinement.listing, limit
    most, listing.most = listing.most, dict.fromkeys(listing.most, AT_ONCE)
    relaxed = refinement.bound()
    if relaxed is not None:
        every = ((k, o) for k in relaxed.places for o in relaxed.near(k, limit))
        refinement.refine(relaxed, {(k, o): limit for k, o in every if relaxed.options(k)[o].unexpanded})
    listing.most, listing.too_large = most, {}
    refinement.turns.at_once = True


def list_when_long(refinement: Refinement, limit: float) -> None:
    """List all outer nests where many graphs were bounded, and nothing is to be proven."""
    if refinement.turns.is_long(refinement.cascade, limit):
        list_all(refinement, limit)
