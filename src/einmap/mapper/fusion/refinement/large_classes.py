"""Signature classes with too many outer nests to list them at once: those of which neighbours leave few come first.

They wait until nothing else is open. What is listed of one says which keys its neighbours can meet, so that mostly less
is left of these.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from einmap.mapper.fusion.refinement.front_listing import FrontListing
from einmap.mapper.fusion.refinement.met_keys import MetKeys
from einmap.mapper.fusion.refinement.relaxation import Relaxation

type Place = tuple[int, int]
"""An Einsum and an option of it, by number."""


@dataclass
class LargeClasses:
    """Large signature classes in one graph. `most`: what cascades may cost."""

    relaxed: Relaxation
    listing: FrontListing
    most: float

    def __post_init__(self) -> None:
        self._met = MetKeys(self.relaxed, self.most)

    def has(self, place: Place, limit: float) -> bool:
        """Whether an option is a signature class with too many outer nests for now, up to a limit."""
        (k, o), cascade = place, self.relaxed.cascade
        member, signature_class = cascade.members[k], self.relaxed.stages[k].step.options[o].signature_class
        sample = None if signature_class is None else self.listing.too_large.get((member.chains, signature_class))
        if sample is None or signature_class is None:
            return False
        most, times = limit if math.isfinite(limit) else None, cascade.times(member.einsum)
        remainder = cascade.remainder(self.relaxed.rests[k][o], times, most)
        return sample.is_left(remainder, self._met.of(member.chains, signature_class))

    def neighbours(self) -> dict[Place, float]:
        """Signature classes of which all may be known: then less is left of large ones, which have to meet them."""
        relaxed = self.relaxed
        return {
            (k, o): self.most
            for k in relaxed.places
            for o in relaxed.near(k, self.most)
            if relaxed.stages[k].step.options[o].unexpanded and not self.has((k, o), self.most)
        }

    def more(self, large: Sequence[Place], share: Callable[[int], float]) -> list[Place]:
        """The large classes that are listed next, all of one Einsum: they may have more outer nests from here on.

        It is one that was looked at least far, with a class of which others can meet the fewest keys. `share`: how
        large a part of the objective an Einsum makes up; of several that which costs most.
        """
        chains = [self.relaxed.cascade.members[k].chains for k, _ in large]

        def turn(i: int) -> tuple[float, tuple[int, int], float]:
            k, o = large[i]
            of = self.relaxed.stages[k].step.options[o].signature_class or ()
            return self.listing.most[chains[i]], self._met.of(chains[i], of).size(len(of)), -share(k)

        first = chains[min(range(len(large)), key=turn)]
        self.listing.more(first)
        return [place for place, of in zip(large, chains, strict=True) if of is first]
