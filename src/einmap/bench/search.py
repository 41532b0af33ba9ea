"""The mapping that `einmap bench` runs: searched, spread over cores, refined."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

from einmap.bench.refine import SECONDS, cost_of, refined
from einmap.bench.spread import best_spread
from einmap.emit.fast.fast_c import fast_nest
from einmap.errors import NoMappingError, NotSupportedError
from einmap.mapper.mapper import best_mappings
from einmap.progress import Progress
from einmap.spec.spec import Spec

COARSER = (2, 4)
"""By how many times tile shapes differ at least, in searches after one that finds no mapping."""
LEAST = 1.0
"""Seconds that a search for several cores has at least, where there is a mapping of one core that can be spread."""


@dataclass(frozen=True, slots=True)
class Way:
    """A specification that is to be mapped. `alone`: the same for one core, where it is for several."""

    spec: Spec
    alone: Spec | None = None


def best_mapped(ways: Sequence[Way], time_limit_s: float, options: Mapping[str, object], progress: Progress) -> Spec:
    """The first of several specifications that has a mapping that fast code can run, with it; NoMappingError for none.

    Each has the time.
    """
    *fused, last = ways
    for way in fused:
        try:
            found = _of_way(way, time_limit_s, options, progress, coarser=())
            fast_nest(found)
        except (NoMappingError, NotSupportedError):
            continue
        return found
    return _of_way(last, time_limit_s, options, progress, coarser=COARSER)


def mapped(
    spec: Spec,
    time_limit_s: float,
    options: Mapping[str, object],
    progress: Progress,
    *,
    coarser: Sequence[int] = COARSER,
) -> Spec:
    """The specification with the best mapping that is found within the time, refined; NoMappingError for none.

    Where a search ends without one, and it is not known that there is none, it begins again, for as long, with fewer
    tile shapes: `coarser`, their `tiling_coarseness`.
    """
    result = None
    tries = [options, *({**options, "tiling_coarseness": n} for n in coarser if "tiling_coarseness" not in options)]
    for asked in tries:
        try:
            result = best_mappings(spec, progress=progress, time_limit_s=time_limit_s, **asked)  # type: ignore[arg-type]
            break
        except NoMappingError as error:
            if asked is tries[-1] or error.remedies or progress.stopped:
                raise
    assert result is not None
    return refined(result.spec.with_mapping(result.mapping), result.metrics[0], progress)


def _of_way(
    way: Way, time_limit_s: float, options: Mapping[str, object], progress: Progress, *, coarser: Sequence[int]
) -> Spec:
    """The best mapping of a way: one of one core that is spread, or one that is found in what time is then left.

    Of the two the one with fewer predicted seconds.
    """
    if way.alone is None:
        return mapped(way.spec, time_limit_s, options, progress, coarser=coarser)
    begun, spread = time.monotonic(), None
    try:
        alone = mapped(way.alone, time_limit_s, options, progress, coarser=coarser)
        spread = best_spread(alone, way.spec)
    except NoMappingError:
        if progress.stopped:
            raise
    left = time_limit_s - (time.monotonic() - begun)
    if spread is None:
        return mapped(way.spec, max(left, time_limit_s / 2), options, progress, coarser=coarser)
    spread = refined(spread, SECONDS, progress)
    if left < LEAST or progress.stopped:
        return spread
    try:
        found = mapped(way.spec, left, options, progress, coarser=())
    except NoMappingError:
        return spread
    return min(spread, found, key=lambda spec: cost_of(spec, SECONDS) or (inf, inf))
