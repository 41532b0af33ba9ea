"""Ties of one Einsum: of the mappings that are equally good by energy or by latency the best by the other one."""

from __future__ import annotations

import math
from copy import deepcopy
from dataclasses import replace

from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.branch_and_bound.listed_search import ListingRun, among_listed, lists
from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.cost_bounds.relaxed_bounds import Bounds
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.mapspace.lanes.fanout_table import FEW_USES
from einmap.mapper.objective.tolerances import Tied, tie_breaker, tied
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.request import Remainder
from einmap.mapper.templates.statistics import SubspaceTally
from einmap.progress import Progress

AT_FLOOR = 0.3
"""Part of a limited time, and of the choices that may be looked at, for what is as fast as the first bounds say."""


def as_fast_as_bounds(search: EinsumSearch, options: Options, floor: float) -> tuple[Optimum | None, int]:
    """The least energy of what takes no longer than bounds without tables say, and the choices looked at.

    `floor`: seconds of one instance that no mapping is below.
    Latency mostly is what the busiest component needs in any case: then one search finds the best, ties broken. None
    where another metric is asked for, or where nothing that is so fast was found.
    """
    asked, progress = search.request, share_of(search.progress, AT_FLOOR)
    is_asked = asked.goals == ("latency",) and options.breaks_ties and not options.objective_tolerance
    if not is_asked or asked.remainder is not None or any(path.pruned for path in search.paths):
        return None, 0
    least = max(floor, _least_latency(search, progress))
    if least <= 0:
        return None, 0
    limits = tied(math.inf, least)
    request = replace(asked, goals=("energy", "latency"), remainder=Remainder(limits.rows, -1.0))
    paths = [path.with_plans(request, path.plans) for path in search.paths]
    most, tally = search.max_work * AT_FLOOR, deepcopy(search.tally)
    found = EinsumSearch(
        search.einsum, search.arch, request, progress, paths, search.instances, most, tally=tally
    ).run()
    as_fast = [i for i, values in enumerate(found.values) if limits.takes(*values)]
    if not as_fast:
        return None, found.work
    best = min(as_fast, key=lambda i: found.values[i][0])
    latency = (found.values[best][1],)
    # whether a better one by energy was looked for to the end or not
    broken = replace(found, complete=True, bound=latency, cut=False, ties_broken=found.complete)
    return replace(broken, values=[latency], mappings=[found.mappings[best]]), found.work


def _least_latency(search: EinsumSearch, progress: Progress) -> float:
    """Seconds of one instance that no mapping is below, without tables; 0 where that takes long."""
    least = math.inf
    for path in search.paths:
        for group in path.groups():
            if len(group.lanes) > FEW_USES:
                return 0.0
            bounds = Bounds(path, group.plans, group.lanes, progress, needed=True)
            least = min(least, float(bounds.values.min(initial=math.inf)))
    return least if math.isfinite(least) else 0.0


def run_at_floor_first(search: EinsumSearch, options: Options, floor: float) -> Optimum:
    """The result of a search, with ties of latency broken where something is as fast as the first bounds say.

    `floor`: seconds of one instance that no mapping is below.
    """
    found, work = as_fast_as_bounds(search, options, floor)
    if found is not None:
        return found
    search.max_work -= work
    is_listed = options.breaks_ties and tie_breaker(search.request.goals) is not None and lists(search)
    optimum = ListingRun(search).optimum() if is_listed else search.run()
    return replace(optimum, work=optimum.work + work)


def with_ties_broken(
    search: EinsumSearch | None, found: Optimum, options: Options, token: Progress, left: float
) -> Optimum:
    """Result of a complete search for energy or latency, with the mapping that is as good, and best by the other one.

    What the search has `listed` and its bounds leave is searched once more for that, the whole Einsum where that is not
    known or too much; a least sum over Einsums has the best of each. `search`: None where brute
    force found it, which breaks ties itself; `left`: choices that may be looked at.
    """
    is_wanted = options.breaks_ties and not options.objective_tolerance and found.mappings and not found.ties_broken
    listed, found = found.listed, replace(found, listed=None)
    if search is None or not is_wanted or left <= 0 or token.stopped:
        return found
    breaker = tie_breaker(search.request.goals)
    if breaker is None:
        return found
    energy, latency = search.cost_of(found)
    limits = tied(energy if breaker == "energy" else latency, found.values[0][0])
    request = replace(search.request, goals=(breaker, *search.request.goals), remainder=Remainder(limits.rows, -1.0))
    bounded = None if listed is None else listed.within(limits.most)
    if bounded is not None:
        others = among_listed(search, bounded, request, token, left)
        found = replace(found, work=found.work + others.work, nodes=found.nodes + others.nodes)
        if others.complete:
            return _broken(found, others, limits)
        left -= others.work
    paths = [path.with_plans(request, path.plans) for path in search.paths]
    again = replace(search, request=request, progress=token, paths=paths, max_work=left, tally=SubspaceTally())
    others = again.run()
    return _broken(replace(found, work=found.work + others.work, nodes=found.nodes + others.nodes), others, limits)


def _broken(found: Optimum, others: Optimum, limits: Tied) -> Optimum:
    """The best of what was found and of what another search has found within the limits of its tie."""
    better = [i for i, values in enumerate(others.values) if limits.takes(*values)]
    if not better:
        return replace(found, ties_broken=others.complete)
    best = min(better, key=lambda i: others.values[i][0])
    return replace(
        found,
        values=[(others.values[best][1],)],
        mappings=[others.mappings[best]],
        tables=others.tables[best : best + 1],
        ties_broken=others.complete,
    )
