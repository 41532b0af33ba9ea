"""Changes of the cascade that a search may choose: a softmax over keys in blocks, or as it is written.

Each cascade is searched by itself, with an even part of the time; the best mapping of all is the result.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from einmap.einsum.rewrites.softmax import softmax_ranks
from einmap.einsum.workload import Workload
from einmap.errors import EinmapError, NoMappingError
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.problem import Budget
from einmap.mapper.result.outcome import Outcome, united
from einmap.spec.forms.rewritten import rewritten
from einmap.spec.spec import Spec

BEST = "best"
"""In place of a change: those that `alternatives` lists."""
AS_WRITTEN = "as written"
"""Name of the cascade that is not changed."""
KEYS_OF_BLOCKS = (128, 512, 2048)
"""About how many keys the blocks have that are tried."""


SECONDS_WITHOUT_LIMIT = 300.0
"""Seconds for each cascade that a change has made, where no limit is asked for: a search over blocks may take days."""


def best_rewrites(spec: Spec, texts: Sequence[str], asked: Options, search: Callable[..., Outcome]) -> Outcome:
    """The best mapping, or the front, of the cascade as it is written and after each of some changes.

    `texts`: changes, `online_softmax P=512`, or `best`; `search`: searches one specification within `time_limit_s` and
    `max_evaluations`. Without any limit each cascade that is changed has SECONDS_WITHOUT_LIMIT. The outcome is complete
    where that of each cascade is. Raises SpecError for changes that cannot be done, NoMappingError where no cascade has
    a mapping.
    """
    cascades = dict(_cascades(spec, texts))
    budget, outcomes, failed = Budget.of(asked, None), list[Outcome](), list[NoMappingError]()
    for done, (text, cascade) in enumerate(cascades.items()):
        left = budget.after(sum(outcome.stats.evaluated for outcome in outcomes)).share(1 / (len(cascades) - done))
        most, seconds = None if math.isinf(left.work) else int(left.work), left.progress.seconds_left()
        if text and most is None and math.isinf(seconds):
            seconds = SECONDS_WITHOUT_LIMIT
        try:
            found = search(cascade, time_limit_s=seconds, max_evaluations=most)
        except NoMappingError as error:
            failed.append(error)
            continue
        outcomes.append(replace(found, points=tuple(replace(p, rewrites=(text,) * bool(text)) for p in found.points)))
    if not outcomes:
        raise failed[0]
    best = united(outcomes)
    chosen = " and ".join(dict.fromkeys(text for point in best.points for text in point.rewrites or (AS_WRITTEN,)))
    tried = ", ".join([AS_WRITTEN, *(text for text in cascades if text)])
    said = (
        f"the best cascade of these is {chosen}: {tried}" if len(cascades) > 1 else "no rewrite of the cascade applies"
    )
    return replace(best, notes=(*best.notes, said))


def _cascades(spec: Spec, texts: Sequence[str]) -> Iterator[tuple[str, Spec]]:
    """The specification as it is, and after each change."""
    yield "", spec
    for text in texts:
        if text != BEST:
            yield text, spec.with_workload(rewritten(spec.workload, [text]))
            continue
        for alternative in alternatives(spec.workload):
            try:
                changed = rewritten(spec.workload, [alternative])
            except EinmapError:
                continue  # a mask that this form does not take, names that are taken
            yield alternative, spec.with_workload(changed)


def alternatives(workload: Workload) -> list[str]:
    """Changes worth trying: each softmax in one pass and in blocks apart, with blocks of several sizes that divide it.

    The sizes are the divisors nearest to KEYS_OF_BLOCKS, as quotients, of those that make more than one block.
    """
    found = []
    for rank in softmax_ranks(workload):
        keys = max(workload.rank_sizes[rank].values())
        divisors = [size for size in range(2, keys) if keys % size == 0]
        sizes = {min(divisors, key=lambda size: abs(math.log(size / about))) for about in KEYS_OF_BLOCKS if divisors}
        found += [f"{kind}_softmax {rank}={size}" for kind in ("online", "split") for size in sorted(sizes)]
    return found
