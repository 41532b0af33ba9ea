"""How much of a search of a cascade has been done: progress, nodes and work so far, and whether it was stopped."""

from __future__ import annotations

import math
from dataclasses import dataclass

from einmap.progress import Progress


class StoppedError(Exception):
    """A step that is of no use unless it is done whole was stopped."""


@dataclass
class Meter:
    """How much of a search has been done, and whether it may go on.

    `most`: choices that may be looked at, `work`: that have been; outer nests that were listed (`listed`) count too.
    `most_listed`: outer nests after which the search ends, where a proof is worth no more.
    """

    progress: Progress
    most: float = math.inf
    work: int = 0
    nodes: int = 0
    listed: int = 0
    cut: bool = False
    most_listed: float = math.inf

    @property
    def left(self) -> float:
        """Choices that may still be looked at, at least one."""
        return max(self.most - self.work - self.listed, 1.0)

    @property
    def stopped(self) -> bool:
        """Whether time or budget is over; from then on the search is not complete."""
        if self.progress.stopped or self.work + self.listed >= self.most or self.has_enough:
            self.cut = True
        return self.cut

    @property
    def has_enough(self) -> bool:
        """Whether so many outer nests were listed that the search ends."""
        return self.listed >= self.most_listed

    def allow(self, nests: int) -> None:
        """End the search once so many more outer nests are listed, or as many as were allowed before."""
        self.most_listed = min(self.most_listed, self.listed + nests)

    def go_on(self) -> None:
        """Raises StoppedError when time or budget is over."""
        if self.stopped:
            raise StoppedError
