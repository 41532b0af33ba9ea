"""Ties of fused mappings: of cascades that are equally good by energy or by latency the best by the other one."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from einmap.mapper.compose.stopped_search import for_fused
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.objective.tolerances import Tied, tie_breaker, tied
from einmap.mapper.problem.options import Options
from einmap.mapper.result.result import Found, MapResult, objective
from einmap.mapper.result.verdict import with_ties, without_advice
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.progress import Progress


def with_best_of_tie(
    result: MapResult,
    searches: Sequence[FusedSearch],
    asked: Options,
    token: Progress,
    found: Callable[[FusedSearch, LoopTree], Found],
) -> MapResult:
    """The result with the mapping that is as good by its one metric, and best by the other one.

    The cascade is searched once more for that. `searches`: those that came to the result; `found`: evaluates a mapping
    of one of them.
    """
    breaker = tie_breaker(asked.goals)
    if breaker is None or not asked.breaks_ties or result.stopped:
        return with_ties(result, broken=False)
    (first,), best, start = asked.goals, result.front[0], time.perf_counter()
    work = sum(search.budget.work for search in searches)
    proven, most = True, for_fused(asked)
    for search in searches:
        proven = proven and work < most and not token.stopped
        if not proven:
            break
        limits = tied(objective(best.cost, breaker), objective(best.cost, first))
        again = _limited(search, replace(asked, goals=(breaker,)), first, limits)
        for mapping in again.run(token, most - work):
            point = found(again, mapping)
            if limits.takes(objective(point.cost, breaker), objective(point.cost, first)):
                best = point
        work += again.budget.work
        proven = again.complete
    seconds = time.perf_counter() - start
    stats = replace(
        result.stats,
        evaluated=work,
        seconds=result.stats.seconds + seconds,
        steps={**result.stats.steps, "ties": seconds},
    )
    return with_ties(replace(result, front=(without_advice(best),), stats=stats), broken=proven)


def _limited(search: FusedSearch, options: Options, first: str, limits: Tied) -> FusedSearch:
    """A search of the same cascade for what breaks a tie."""
    again = FusedSearch(
        search.spec, options, search.optional, search.inside, search.steps, limited=(first, limits.most)
    )
    again.value, again.seeds = limits.below, limits.rows
    return again
