"""When a fused search is stopped before it has found anything: Einsums one by one, and what nothing is below."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from einmap.errors import NoMappingError
from einmap.mapper.fusion.fused import FusedSearch
from einmap.mapper.fusion.fused_result import bound_of, left_out_by
from einmap.mapper.listing import share_of
from einmap.mapper.options import Options
from einmap.mapper.result import Found, MapResult, MapStats, objective
from einmap.mapper.unfused import Whole
from einmap.mapper.verdict import Coverage, judged
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.spec import Spec

RESERVE = 0.4
"""Part of a limited time that is kept for the Einsums one by one, should nothing fused be found."""
MOST_RESERVED = 3.0
"""Seconds that are enough for that."""
AFTER_STOP = 2.0
"""Seconds that it may take when somebody has stopped the search."""


def all_but_reserve(token: Progress) -> Progress:
    """The token for the time that a fused search may take."""
    if token.deadline is None:
        return token
    left = max(token.deadline - time.monotonic(), 0.0)
    return token.within(left - min(left * RESERVE, MOST_RESERVED))


def unfused_soon(
    spec: Spec, asked: Options, searches: Sequence[FusedSearch], token: Progress, start: float
) -> MapResult:
    """A good mapping that fuses nothing, not proven. Raises NoMappingError when there is none, or none in time."""
    if token.stopped:
        token = Progress(token.callback).within(AFTER_STOP)
    whole = Whole(spec, asked)
    try:
        mapping = whole.soon(share_of(token, 0.75))
    except NoMappingError as error:
        text = f"the search was stopped before any fused mapping was found; Einsum by Einsum: {error.message}"
        raise NoMappingError(text, at=error.at, hint="give it more time or evaluations") from None
    found = Found(evaluate(spec, mapping, asked.rules), mapping, spec)
    by_einsum = {name: {**row, "complete": False} for name, row in whole.stats().items()}
    own = [part for part in by_einsum.values() if part["same_as"] is None]
    stats = MapStats(
        mapspace_size=float(sum(part["mapspace_size"] for part in by_einsum.values())),
        templates=sum(part["templates"] for part in own),
        evaluated=sum(search.effort.work for search in searches) + sum(part["evaluated"] for part in own),
        seconds=time.perf_counter() - start,
        by_einsum=by_einsum,
    )
    reason = "stopped before any fused mapping was found, so each Einsum is mapped by itself"
    covered = Coverage("fused mapping", ended=reason, left_out=left_out_by(searches), bound=bound_of(searches))
    return judged([found], asked.goals, covered, stats)


def better_unfused(
    result: MapResult, spec: Spec, asked: Options, searches: Sequence[FusedSearch], token: Progress, start: float
) -> MapResult:
    """What a search found before it was stopped, or a mapping that fuses nothing where that is better."""
    if len(asked.goals) != 1:
        return result
    try:
        other = unfused_soon(spec, asked, searches, token, start)
    except NoMappingError:
        return result
    goal = asked.goals[0]
    if objective(other.cost, goal) >= objective(result.cost, goal):
        return replace(result, stats=replace(result.stats, seconds=other.stats.seconds))
    reason = "stopped; each Einsum mapped by itself is better than what was found fused"
    covered = Coverage("fused mapping", ended=reason, left_out=left_out_by(searches), bound=bound_of(searches))
    return judged(other.front, asked.goals, covered, other.stats)
