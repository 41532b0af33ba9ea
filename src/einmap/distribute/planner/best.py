"""The best plan for a request: of the search, or in turns where these need less memory."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from einmap.distribute.derive import no_way
from einmap.distribute.planner.chosen import ChosenPlan, chosen_plan
from einmap.distribute.planner.planning import Planning
from einmap.distribute.planner.turned import best_in_turns
from einmap.distribute.search.search import Found, NotFound, cheapest, thriftiest
from einmap.distribute.search.space import SearchSpace
from einmap.errors import SpecError
from einmap.progress import Progress
from einmap.visible import brief

LEAST_SLACK = 1e-6
"""Part of the least memory that is added to it when the cheapest of the thriftiest plans is searched."""
LESS = 5e-9
"""Part of the memory of a plan below which others are less: within what proves a cost, above what sums are wrong by."""


@dataclass(frozen=True)
class Best:
    """The best plan in its space, and the best one without the limit on memory, where the limit costs something.

    `memory`: bytes that no plan may exceed, None: any; `chosen`: None where no plan was found within it; `proven`: of
    plans without turns it is the best, or there is none; `least_peak`: for the metric `memory`, bytes that every plan
    without turns needs at least; `thriftiest`: where no plan was found within the memory, one that needs least, if that
    is known.
    """

    __repr__ = brief

    space: SearchSpace
    memory: float | None
    chosen: ChosenPlan | None
    proven: bool
    unlimited: ChosenPlan | None = None
    least_peak: float | None = None
    thriftiest: ChosenPlan | None = None


def best_plan(planning: Planning, progress: Progress | None = None) -> Best:
    """The best plan. Where nothing else keeps to the memory, and for the metric `memory` where that needs less, it is a
    plan in turns, of which nothing is proven. Raises SpecError where no plan does what is asked, whatever the memory,
    and where none was found in time.
    """
    best = _searched(planning, progress)
    if best.chosen is not None and planning.request.metric != "memory":
        return best
    if best.chosen is None and best.proven:
        best = replace(best, thriftiest=thriftiest_plan(planning, progress))
    memory = best.memory if best.memory is not None else np.inf
    bases = [one for one in (best.unlimited, best.chosen, best.thriftiest) if one is not None]
    turned = best_in_turns(planning, bases, memory, progress)
    if turned is None or (best.chosen is not None and turned.peak.bytes >= best.chosen.peak.bytes):
        return best
    return replace(best, chosen=turned, memory=turned.peak.bytes if planning.request.metric == "memory" else memory)


def _searched(planning: Planning, progress: Progress | None) -> Best:
    """The best plan without turns."""
    request, model = planning.request, planning.model
    progress = (progress or Progress()).within(request.time_limit)
    free = planning.space(progress=progress)
    _tell(progress, "plans in any memory")
    unlimited = _in_any_memory(planning, free, progress)
    best_free, limit = chosen_plan(free, unlimited, model), request.limit
    if request.metric != "memory" and (limit is None or best_free.peak.bytes <= limit):
        return Best(free, limit, best_free, best_free.proven)
    space = planning.space(True, progress)
    _tell(progress, "plans within the memory")
    if request.metric == "memory":
        return _thriftiest(planning, space, best_free, progress)
    found = cheapest(space, limit, request.time_limit, progress=progress)
    if isinstance(found, NotFound):
        return Best(space, limit, None, found.proven, best_free)
    # less memory is never cheaper
    found = replace(found, bound=max(found.bound, unlimited.bound))
    return Best(space, limit, chosen_plan(space, found, model), found.proven, best_free)


def _in_any_memory(planning: Planning, space: SearchSpace, progress: Progress | None) -> Found:
    found = cheapest(space, None, planning.request.time_limit, progress=progress)
    if isinstance(found, Found):
        return found
    if found.proven:
        raise no_way(planning.context, space, planning.asked)
    raise SpecError("no plan was found in the time there was, nor that there is none", hint="allow more time")


def _thriftiest(planning: Planning, space: SearchSpace, best_free: ChosenPlan, progress: Progress | None) -> Best:
    """The fastest of the plans with the least peak memory, as far as that is known."""
    request, limit, model = planning.request, planning.request.limit, planning.model
    least = _least_memory(planning, space, request.time_limit / 2, progress)
    least_peak = least.bound if isinstance(least, Found) else 0.0
    if isinstance(least, Found):
        limit = min(limit or np.inf, least.cost * (1 + LEAST_SLACK))
    found = cheapest(space, limit, request.time_limit, progress=progress)
    if isinstance(found, Found):
        chosen = chosen_plan(space, found, model)
    elif isinstance(least, Found) and least.cost <= (limit or np.inf):
        chosen = _timed(chosen_plan(space, least, model))
    else:
        return Best(space, limit, None, found.proven, best_free, least_peak=least_peak)
    if not (chosen.proven and least.proven):
        # a plan with less memory is not the faster one
        chosen = replace(chosen, proven=False, bound=min(chosen.bound, best_free.bound))
    return Best(space, limit, chosen, chosen.proven, best_free, least_peak=least_peak)


def _least_memory(
    planning: Planning, space: SearchSpace, seconds: float, progress: Progress | None
) -> Found | NotFound:
    """A plan with the least peak memory; its cost is that peak in bytes.

    Where pairs of homes are not listed, some plans are left out, so that nothing is known of any plan. Then less
    and less memory is asked for in bands, in which all pairs are, until no plan keeps to it.
    """
    timed = (progress or Progress()).within(seconds)
    least = thriftiest(space, seconds, timed)
    while space.cut and space.floor is None and isinstance(least, Found) and not (least.proven or timed.stopped):
        limit = least.cost * (1 - LESS)
        less = cheapest(space, limit, timed.seconds_left(), progress=timed)
        if isinstance(less, NotFound):
            return replace(least, bound=limit) if less.proven else least
        peak = chosen_plan(space, less, planning.model).peak.bytes
        least = replace(less, cost=min(peak, limit), bound=0.0)
    return least


def _timed(chosen: ChosenPlan) -> ChosenPlan:
    """A plan whose cost is its peak memory with what it costs in s."""
    return replace(chosen, cost=sum(part.cost for part in chosen.parts), proven=False)


def thriftiest_plan(planning: Planning, progress: Progress | None = None) -> ChosenPlan | None:
    """A plan with the least peak memory, as far as it is known; None where none was found in time."""
    space = planning.space(True, progress)
    least = _least_memory(planning, space, planning.request.time_limit, progress)
    return None if isinstance(least, NotFound) else chosen_plan(space, least, planning.model)


def _tell(progress: Progress | None, what: str) -> None:
    if progress is not None:
        progress.report(what, 0)
