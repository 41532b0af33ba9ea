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
    """

    progress: Progress
    most: float = math.inf
    work: int = 0
    nodes: int = 0
    listed: int = 0
    cut: bool = False

    @property
    def left(self) -> float:
        """Choices that may still be looked at, at least one."""
        return max(self.most - self.work - self.listed, 1.0)

    @property
    def stopped(self) -> bool:
        """Whether time or budget is over; from then on the search is not complete."""
        if self.progress.stopped or self.work + self.listed >= self.most:
            self.cut = True
        return self.cut

    def go_on(self) -> None:
        """Raises StoppedError when time or budget is over."""
        if self.stopped:
            raise StoppedError
