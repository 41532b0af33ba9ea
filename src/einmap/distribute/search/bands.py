"""Large spaces, searched in bands: of what no better plan is without, only what is near the lower bound is kept.

A plan that costs at most the bound and a band has only ways and homes whose slack is within the band. So the cheapest
plan among these is the cheapest of all if it costs no more than that; otherwise its cost says how wide the band has to
be.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from einmap.distribute.search.bounds import possible, slack_of
from einmap.distribute.search.homes import Homes
from einmap.distribute.search.narrowed import narrowed
from einmap.distribute.search.problem import Nodes, Problem
from einmap.distribute.search.space import SearchSpace, Ways
from einmap.distribute.selection.elimination import MAX_WORK, elimination_order
from einmap.distribute.selection.problem import Selected
from einmap.progress import Progress

SMALL_WORK, QUICK_WORK, SMALL_TABLES = 20_000_000, 20_000_000, 3_000_000
"""Sums of the elimination up to which a space is searched as a whole, and a band before the bounds are tightened;
entries of the tables of moves up to which a space is searched as a whole.
"""
MAX_TABLES = 60_000_000
"""Entries of the tables of moves up to which a band is searched."""
FIRST_BAND = 1e-6
"""The first band, as a part of the bound."""
WIDER = 4.0
FIRST_SWEEPS = 1
"""Sweeps for the bounds of the whole space: more cost more time than wider bands."""
NARROWER = 0.9
"""Part of the strategies that have to be left for new bounds to be worth their time."""
ROUNDING = 1e-9
"""Part of a cost that bounds and costs may be wrong by."""


@dataclass(frozen=True, eq=False)
class Searched:
    """A selection, and the space and the problem that its numbers are of."""

    space: SearchSpace
    problem: Problem
    selected: Selected


def is_small(space: SearchSpace) -> bool:
    """Whether it is quickest to search the whole space."""
    return _fits(space, SMALL_TABLES, SMALL_WORK)


def _fits(space: SearchSpace, tables: int, work: int) -> bool:
    """Whether all pairs of homes are listed and the space can be searched with so much memory and work."""
    if space.cut or _entries(space) > tables:
        return False
    workload = space.context.workload
    nodes = Nodes(workload.einsum_names, workload.tensors)
    number = {key: position for position, key in enumerate((*nodes.einsums, *((t,) for t in nodes.tensors)))}
    sizes = [len(space.ways[name].choices) for name in nodes.einsums]
    sizes += [len(space.homes[name].first) for name in nodes.tensors]
    edges = [(number[e.name], number[access.tensor,]) for e in workload.einsums for access in e.accesses]
    edges += [(number[result,], number[tensor,]) for result, tensor in space.same]
    return elimination_order(sizes, edges, work) is not None


def _entries(space: SearchSpace) -> int:
    """Entries of all tables of moves; equal Einsums share theirs."""
    sizes: dict[tuple[Ways, int, Homes], int] = {}
    for einsum in space.context.workload.einsums:
        ways = space.ways[einsum.name]
        for position, access in enumerate(einsum.accesses):
            homes = space.homes[access.tensor]
            sizes[ways, position, homes] = len(ways.choices) * len(homes.first)
    return sum(sizes.values())


def _strategies(space: SearchSpace) -> int:
    """Ways and homes, of pairs that are not listed all."""
    homes = (len(h.first) * (len(h.paths.distances) if h.cut else 1) for h in space.homes.values())
    return sum(len(ways.choices) for ways in space.ways.values()) + sum(homes)


def in_bands(
    space: SearchSpace, solved: Callable[[SearchSpace], Searched], time_limit: float, progress: Progress | None = None
) -> Searched | None:
    """The cheapest plan with a bound of all plans; None: no plan does what is asked, whatever the memory.

    After `time_limit` seconds no wider band is begun.
    """
    consistent = _consistent(space)
    if consistent is None:
        return None
    return _Bands(consistent, solved, time_limit, progress).searched()


def _consistent(space: SearchSpace) -> SearchSpace | None:
    """Without ways and homes that go with none of a neighbour's; None where nothing is left."""
    while True:
        kept = {
            key: np.isfinite(slack)
            for key, slack in possible(space).items()
            if isinstance(key, str) or not space.homes[key[0]].cut
        }
        if not all(mask.any() for mask in kept.values()):
            return None
        if all(mask.all() for mask in kept.values()):
            return space
        space = narrowed(space, kept)


class _Bands:
    """The best plan so far, and what is known of all plans."""

    def __init__(
        self,
        space: SearchSpace,
        solved: Callable[[SearchSpace], Searched],
        time_limit: float,
        progress: Progress | None,
    ) -> None:
        self._space, self._solved, self._progress = space, solved, progress
        self._slack = slack_of(space, self._stopped, FIRST_SWEEPS)
        self._end = time.monotonic() + time_limit
        self._best: Searched | None = None
        self._width = 0.0
        """Of the widest band that has been searched above the bounds that hold."""
        self._bound = self._slack.bound

    def searched(self) -> Searched:
        """The cheapest plan, as far as time and tables allow, with a bound of all plans."""
        band = self._slack.bound * FIRST_BAND
        for work in (QUICK_WORK, MAX_WORK):
            while not self._is_over():
                width = min(band, self._gap())
                inner = self._within(width)
                if _fits(inner, MAX_TABLES, work):
                    self._take(self._solved(inner), width)
                    band = max(band * WIDER, self._next_slack(width))
                elif not self._tightened(self._gap()):
                    break
        if self._best is None:
            self._take(self._solved(self._within(self._slack.bound * FIRST_BAND)), 0.0)
        assert self._best is not None
        selected = self._best.selected
        return replace(self._best, selected=replace(selected, bound=min(self._bound, selected.cost)))

    def _stopped(self) -> bool:
        return self._progress is not None and self._progress.stopped

    def _is_over(self) -> bool:
        """Whether the best plan is proven to be that, or the time is over."""
        if self._best is None:
            return self._stopped()
        return self._gap() <= self._width or self._stopped() or time.monotonic() > self._end

    def _gap(self) -> float:
        """How wide the band has to be that has every plan that costs less than the best one."""
        if self._best is None:
            return np.inf
        cost = self._best.selected.cost
        return cost - self._slack.bound + ROUNDING * abs(cost)

    def _within(self, band: float) -> SearchSpace:
        return narrowed(self._space, {key: slack <= band for key, slack in self._slack.slack.items()})

    def _take(self, searched: Searched, width: float) -> None:
        """A plan, the cheapest of a band as far as its bound says."""
        if self._best is None or searched.selected.cost < self._best.selected.cost:
            self._best = searched
        self._width = width
        rounded = ROUNDING * abs(self._slack.bound)
        self._bound = max(self._bound, min(searched.selected.bound, self._slack.bound + width - rounded))
        if self._progress is not None:
            best = self._best.selected.cost
            self._progress.report("plans near the bound", 0, None, f"{best:.6g}, at least {self._bound:.6g}")

    def _next_slack(self, band: float) -> float:
        """The least slack beyond the band."""
        return min((float(s[s > band].min(initial=np.inf)) for s in self._slack.slack.values()), default=np.inf)

    def _tightened(self, gap: float) -> bool:
        """Whether the bound of the plans that may be better than the best one is now closer."""
        inner = _consistent(self._within(gap)) if np.isfinite(gap) else None
        if inner is None or _strategies(inner) >= NARROWER * _strategies(self._space):
            return False
        self._space = inner
        self._slack = slack_of(inner, self._stopped)
        self._width = 0.0
        assert self._best is not None
        self._bound = max(self._bound, min(self._slack.bound, self._best.selected.cost))
        return True
