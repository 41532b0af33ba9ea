"""A search as if a cascade were known that costs hardly more than the bound: mostly there is one, and it is soon found.

Up to a limit next to the bound few options are left, and few keys that others can meet, so that little of large
signature classes is listed. What is found is the best of all. Where nothing is found the bound is the limit: then
another one is tried, and the search goes on with what was listed before.
"""

# Where the best is a few thousandths above the bound, and many loops stand above shared tensors, most of the time went
# into outer nests that only cascades near the best known could have.

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from einmap.mapper.fusion.paths.label_setting import Answer
from einmap.mapper.fusion.paths.options import OptionTable
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.fusion.refinement.front_listing import FrontListing
from einmap.mapper.fusion.refinement.good_cascades import Turns
from einmap.mapper.fusion.refinement.met_keys import LatestMetKeys
from einmap.mapper.fusion.refinement.option_bounds import OptionBounds
from einmap.mapper.fusion.refinement.option_floors import OptionFloors
from einmap.mapper.objective.tolerances import ROUNDING

PATIENCE = 1
"""Graphs whose bound was no higher than those before, when it is time."""
GRAPHS = 40
"""Graphs that are bounded for one limit at most."""
SOON = 20
"""Where that took no more of them the next limit is further away."""
FEW, PART = 5, 2
"""Limits that took too many graphs after which each next one is rarer; outer nests listed for them, in parts of all
others, beyond which there is none.
"""
CLOSE, FAR, NEAR = 1 / 16, 1 / 4, 1 / 1024
"""How far above the bound the first limit is, in parts of how far the best known is; how far one is at most; how far
above the bound, in parts of it, the best known is where it is the limit itself.
"""
AT_ONCE, MOST_OF = 0.005, 7 / 8
"""How far above the bound, in parts of it, the best known is where limits are tried before anything else; part of the
way to a limit after which it is left for the next one.
"""


class Refinement(Protocol):
    """The search that limits are tried in, as far as that has to know it."""

    cascade: CascadeProblem
    option_bounds: OptionBounds
    listing: FrontListing
    met_keys: LatestMetKeys
    floors: OptionFloors
    option_table: OptionTable
    turns: Turns
    known_bound: float
    suppositions: Suppositions
    found: Callable[[Answer], float]

    def within(self, reached: float) -> Answer | None:
        """The best whose objective is at most `reached`; None when there is none."""


class TooLongError(Exception):
    """A limit needs more graphs than it may have."""


class RisenError(Exception):
    """A bound has nearly come to its limit: the rest of the way takes longer than the next limit."""


@dataclass
class Suppositions:
    """When it is time for a limit, and which. `bound`: the highest so far; it is that of the last `still` graphs.

    `wait`: graphs before the next one; `close`: how far above the bound it is, in parts of how far the best known is;
    `in_vain`: limits that took too many graphs; `listed`: outer nests that were listed for them.
    """

    bound: float = 0.0
    still: int = 0
    wait: float = 0
    close: float = CLOSE
    in_vain: int = 0
    listed: int = 0
    known: float = -math.inf
    """The best known, where it is above the limit: what is better is of use."""
    last: FrontListing | None = None
    """The listing for the last limit: what was too large for it is too large for a higher one."""

    def is_due(self, refinement: Refinement, bound: float, reached: float) -> bool:
        """Whether it is time, one more graph being bounded: the best known is near, or a good cascade was looked for
        and the bound does not rise.

        `reached`: the best known. It may be the best of all: then only the search as it was ends, which has at least
        half of the work.
        """
        listed = refinement.cascade.meter.listed
        self.still = 0 if bound > self.bound else self.still + 1
        self.bound = max(bound, self.bound)
        self.wait -= 1
        has_share = self.listed <= PART * (listed - self.listed) and math.isfinite(reached)
        is_stuck = refinement.turns.tried and self.still >= PATIENCE
        return (is_stuck or reached <= bound * (1 + AT_ONCE)) and self.wait <= 0 and has_share

    def tried(self, refinement: Refinement, reached: float) -> tuple[Answer | None, float]:
        """The best cascade if it costs no more than the next limits; the least objective that is known then.

        Where there is no such cascade the bound is the limit, or nearly so, and the next one is tried, unless that took
        too many graphs. But for its bound the refinement is as before.
        """
        while True:
            answer, value, refuted = self.tried_once(refinement, reached)
            reached = min(reached, value)
            if answer is not None or not refuted or self.wait > 0 or refinement.known_bound >= reached * (1 - ROUNDING):
                return answer, reached

    def tried_once(self, refinement: Refinement, reached: float) -> tuple[Answer | None, float, bool]:
        """As `tried`, for one limit; and whether no cascade is within it, or within most of the way to it."""
        bound, meter = refinement.known_bound, refinement.cascade.meter
        before = meter.listed
        limit, limited = self.limit(bound, reached), _Limited(known=reached)
        if limit < reached:
            limited.enough = bound + MOST_OF * (limit - bound)
        put_back = [member.chains.put_aside() for member in refinement.cascade.distinct]
        other, values = _copied(refinement), [reached]
        if self.last is not None:
            other.listing.keys.update(self.last.keys)
            other.listing.too_large.update(self.last.too_large)
        other.suppositions = limited

        def found(answer: Answer) -> float:
            values.append(refinement.found(answer))
            limited.known = values[-1]
            return values[-1]

        other.found = found
        answer, refuted = None, False
        try:
            answer = other.within(limit)
            refuted = answer is None
            other.known_bound = limit if answer is None else other.known_bound
        except RisenError:
            refuted = True
        except TooLongError:
            pass
        finally:
            refinement.known_bound = max(bound, min(other.known_bound, limit))
        if answer is None:
            for back in put_back:
                back()
            # what was found not to fit anywhere is no option any more
            refinement.listing.changed.update(member.chains for member in refinement.cascade.distinct)
            self.listed += 0 if refuted else meter.listed - before
            self.last = other.listing
            self._choose(limited.left, rose=refinement.known_bound > bound)
        return answer, min(values), refuted

    def limit(self, bound: float, reached: float) -> float:
        """The next limit above a bound: what is reached, where that is near."""
        return bound + (reached - bound) * (1.0 if reached <= bound * (1 + NEAR) else self.close)

    def _choose(self, left: int, *, rose: bool) -> None:
        """The next limit. `left`: graphs that could still have been bounded, below 0 where these were too few.

        `rose`: whether the bound is higher than before.
        """
        self.in_vain += left < 0
        self.wait = 2**self.in_vain if self.in_vain > FEW else 0
        if left < 0:
            self.wait, self.close = self.wait if rose else max(GRAPHS, self.wait), self.close / 4
        elif left >= GRAPHS - SOON:
            self.close = min(2 * self.close, FAR)


class _Limited(Suppositions):
    """In a search for one limit: there are no others, so many graphs are `left`, and a bound of `enough` ends it."""

    left: int = GRAPHS
    enough: float = math.inf

    def is_due(self, refinement: Refinement, bound: float, reached: float) -> bool:
        """Never. Raises RisenError where the bound is high enough, TooLongError where no graph is left."""
        del refinement
        if self.enough <= bound < reached:
            raise RisenError
        self.left -= 1
        if self.left < 0:
            raise TooLongError
        return False


def _copied(refinement: Refinement) -> Refinement:
    """A refinement that knows the same, and leaves the other one as it is."""
    other = copy.copy(refinement)
    other.option_bounds = refinement.option_bounds.copied()
    other.listing = refinement.listing.copied(other.option_bounds)
    other.met_keys = LatestMetKeys(other.listing.keys)
    other.floors, other.option_table = refinement.floors.copied(), refinement.option_table.copied()
    other.turns = replace(refinement.turns)
    return other
