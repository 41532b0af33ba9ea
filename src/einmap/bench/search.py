"""The mapping that `einmap bench` runs: searched, spread over cores, refined."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import inf

from einmap.bench.predict import core_of
from einmap.bench.refine import SECONDS, cost_of, refined
from einmap.bench.register_tile import in_registers
from einmap.bench.spread import best_spread
from einmap.emit.fast.fast_c import fast_nest
from einmap.emit.fast.nest import Nest
from einmap.errors import EinmapError, NoMappingError, NotSupportedError
from einmap.mapper.mapper import best_mappings
from einmap.mapper.result.result import objective
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.spec import Spec

COARSER = (4, 2)
"""By how many times tile shapes differ at least, in searches after one that proves nothing: the quickest first."""
FIRST = 0.5
"""The part of the time left that a search has, where another one may follow."""
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

    A search that proves nothing, as of a convolution with its seven rank variables, is followed by others with fewer
    tile shapes, which end sooner: `coarser`, their `tiling_coarseness`. Of what they find the mapping counts whose code
    should take the least time, or, where that is not known, that with the least cost.
    """
    found = list(_searches(spec, time_limit_s, options, progress, coarser))
    return min(found, key=_cost)[0] if len(found) > 1 else found[0][0]


def _searches(
    spec: Spec, time_limit_s: float, options: Mapping[str, object], progress: Progress, coarser: Sequence[int]
) -> Iterator[tuple[Spec, str]]:
    """Mappings that the searches find, refined, each with the metric that it makes least."""
    tries = [options, *({**options, "tiling_coarseness": n} for n in coarser if "tiling_coarseness" not in options)]
    end, are_some = time.monotonic() + time_limit_s, False
    for asked in tries:
        is_last = asked is tries[-1]
        left = max(end - time.monotonic(), 0.0) * (1 if is_last else FIRST)
        try:
            result = best_mappings(spec, progress=progress, time_limit_s=left, **asked)  # type: ignore[arg-type]
        except NoMappingError as error:
            if not are_some and (is_last or error.remedies or progress.stopped):
                raise
            continue
        metric, are_some = result.metrics[0], True
        found = in_registers(result.spec.with_mapping(result.mapping))
        yield refined(found, SECONDS if _is_predicted(found) else metric, progress), metric
        if result.optimal or progress.stopped:
            return


def _is_predicted(spec: Spec) -> bool:
    """Whether seconds are predicted from the nest of a mapping: then its tile shapes are refined by them."""
    try:
        nest = fast_nest(spec)
    except EinmapError:
        return False
    return isinstance(nest, Nest) and core_of(spec, nest) is not None


def _cost(found: tuple[Spec, str]) -> tuple[float, float]:
    """Seconds that the code should take, infinite where they are not known, and the cost by the metric."""
    spec, metric = found
    seconds, _ = cost_of(spec, SECONDS) or (inf, inf)
    return seconds, objective(evaluate(spec), metric)


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
