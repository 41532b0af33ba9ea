"""Ties from what the search for the least energy or latency has listed: what its tables leave is searched, not all."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from einmap.arrays import Bools, Floats
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch, SearchRun
from einmap.mapper.branch_and_bound.optimum import Bounded, Listed, Optimum
from einmap.mapper.branch_and_bound.path_search import PathSearch
from einmap.mapper.cost_bounds.compute_path import Path
from einmap.mapper.mapspace.lanes.fanout_table import LaneTable
from einmap.mapper.problem.request import Request
from einmap.mapper.templates.chain_template import ChainTemplate
from einmap.mapper.templates.groups import Group
from einmap.mapper.templates.statistics import Loops, SubspaceTally
from einmap.progress import Progress

MOST_CHOICES = 5_000_000
"""Choices that are looked at among what is left, about 0.1 s: tables of the other metric rule out more."""


class ListingRun(SearchRun):
    """One run of a search for one objective, which keeps what its tables bound: `listed` of what it finds."""

    def __init__(self, search: EinsumSearch) -> None:
        super().__init__(search)
        self.listed: list[Bounded] = []
        """Dataplacements and uses of the fanouts that had tables."""
        self.least_else = math.inf
        """Least bound of what was ruled out without tables."""
        self.has_tables = False

    def ruled_out(self, rows: Floats) -> Bools:
        """Whether what was found is as good as each bound."""
        flags = super().ruled_out(rows)
        if not self.has_tables:
            self.least_else = min(self.least_else, float(rows[flags, 0].min(initial=math.inf)))
        return flags

    def search_plans(self, search: PathSearch, weights: dict[Loops, float]) -> None:
        """Plans that have their tables."""
        self.has_tables = True
        super().search_plans(search, weights)
        self.has_tables = False

    def table_bounds(self, search: PathSearch) -> list[Floats]:
        """Objectives that no mapping of each plan is below."""
        bounds = super().table_bounds(search)
        for compiled, bound in zip(search.compiled, bounds, strict=True):
            self.listed.append(Bounded(compiled.plan, search.lanes, float(bound[0])))
        return bounds

    def result(self) -> Optimum:
        """The archive as mappings, sorted by the objectives."""
        optimum = super().result()
        return replace(optimum, listed=Listed(self.listed, self.least_else)) if optimum.complete else optimum


class ListedRun(SearchRun):
    """One run of a search among what another one has listed."""

    def __init__(self, search: EinsumSearch, listed: list[Bounded]) -> None:
        super().__init__(search)
        self.listed = sorted(listed, key=lambda one: one.least)

    def groups_of(self, path: Path) -> Iterable[Group]:
        """Dataplacements of a path with their uses of the fanouts, those of the least bounds first."""
        own, parts = set(path.plans), dict[LaneTable, list[ChainTemplate]]()
        for one in self.listed:
            if one.plan in own:
                parts.setdefault(one.lanes, []).append(one.plan)
        return [Group(plans, lanes, path.lattice) for lanes, plans in parts.items()]


def lists(search: EinsumSearch) -> bool:
    """Whether a search can keep what its tables bound, and what it leaves out is no better by the other metric."""
    asked = search.request
    is_plain = type(search) is EinsumSearch and asked.remainder is None and len(asked.goals) == 1
    return is_plain and not any(p.is_sparse or p.prunes_uses or p.machine for p in search.paths)


def among_listed(
    search: EinsumSearch, listed: list[Bounded], request: Request, token: Progress, left: float
) -> Optimum:
    """The best for a request among what a search has listed, by tables of the columns of cost that it had tables of.

    `left`: choices that may be looked at. Not complete where they are too few.
    """
    paths = []
    for path in search.paths:
        other = path.with_plans(request, path.plans)
        other.of_tables = path.of_tables
        paths.append(other)
    most, tally = min(left, MOST_CHOICES), SubspaceTally()
    again = replace(search, request=request, progress=token, paths=paths, max_work=most, tally=tally)
    return ListedRun(again, listed).optimum()
