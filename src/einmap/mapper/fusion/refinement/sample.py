"""Trials beside a search of all: a few of all loops, and what is simpler where that was put off."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from einmap.mapper.fusion.meter import Meter
from einmap.mapper.fusion.problem import Member
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.problem import Known
from einmap.mapping.mapping import Mapping as LoopTree

APART, FOR_SAMPLE = (64, 8), 1 / 3
"""By which factors tile shapes of fused loops are apart where there are too many: with few of them first; the part of a
limited time that this takes.
"""
USES, FAR_ABOVE = 32, 1.1
"""How many uses of the fanouts are looked at with two loops, where the best known is so many times the bound."""
LATE = 1 / 3
"""Part of a limited time that is left where what is simpler is asked for that can hardly be better."""


class Search(Protocol):
    """The search of a cascade, as far as this has to know it."""

    options: Options
    known: Known
    distinct: list[Member]
    meter: Meter
    proving: bool
    value: float
    best_so_far: list[LoopTree]

    def ask_simple(self) -> None:
        """Have what is simpler looked for, unless that was asked for, or can be no better than what is found."""

    def in_part(self, fraction: float, what: Callable[[], list[LoopTree]]) -> list[LoopTree]:
        """Mappings that are found in a part of the time that is left, the best so far where that is over."""

    def begin_again(self, most: float, apart: int = 1, uses: float = ...) -> None:
        """Look at chains with so many fused loops from here on; `apart`, `uses`: see Fronts."""

    def within(self, most: float | None, *, at_once: bool = False) -> Sequence[LoopTree]:
        """The best mappings whose objective is at most `most`, or all good ones; `at_once`: all nests are listed."""


@dataclass
class Sample:
    """A few of all loops. `late_left`: seconds that are left where what is simpler has waited long enough."""

    search: Search
    late_left: float

    @property
    def is_late(self) -> bool:
        """Whether it is time for what is simpler, which nothing that was found makes needless."""
        return self.search.known.simple is not None and self.search.meter.progress.seconds_left() <= self.late_left

    def value(self, bound: float) -> float:
        """The least objective once all loops were looked at, but with a few tile shapes, for a part of the time.

        Where it is late what is simpler is looked at instead.
        """
        search = self.search
        if self.is_late:
            search.ask_simple()
            return search.value
        back = [member.chains.put_aside() for member in search.distinct]
        search.proving, two = False, search.value > FAR_ABOVE * bound
        try:
            search.best_so_far = search.in_part(FOR_SAMPLE, lambda: self._few(two=two))
        finally:
            search.proving = True
            for put_back in back:
                put_back()
        return search.value

    def _few(self, *, two: bool) -> list[LoopTree]:
        """The best so far once all loops were looked at, but with a few tile shapes in one order; `two`: two before."""
        search = self.search
        if two:
            search.begin_again(min(2, search.options.most_fused), APART[0], USES)
            search.best_so_far = list(search.within(search.value, at_once=True)) or search.best_so_far
        for apart in APART:
            search.begin_again(search.options.most_fused, apart)
            search.best_so_far = list(search.within(search.value)) or search.best_so_far
        return search.best_so_far
