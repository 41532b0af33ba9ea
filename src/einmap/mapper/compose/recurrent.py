"""The best mapping of a cascade with recurrences: fused over the steps of each, one loop above all its Einsums."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from einmap.errors import NoMappingError, NotSupportedError
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.problem.memory_limit import left_of
from einmap.mapper.problem.options import Options
from einmap.mapper.result.result import Found, MapResult, best_of
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.spec import Spec


def recurrent_result(spec: Spec, asked: Options, progress: Progress | None) -> MapResult:
    """Search the cascade, its recurrences below loops over their steps.

    Raises NotSupportedError for Einsums that this search does not know, NoMappingError when no mapping fits, or none is
    found in time.
    """
    # Here, not above: they import the compiler, which only a search needs
    from einmap.mapper.compose.fused_result import fused_result, not_searched_by
    from einmap.mapper.compose.shared_inputs import not_shared
    from einmap.mapper.compose.step_by_step import step_by_step
    from einmap.mapper.compose.stopped_search import AT_LEAST, reserved
    from einmap.mapper.compose.tie_search import with_best_of_tie
    from einmap.mapper.fusion.search import FusedSearch
    from einmap.mapper.fusion.steps import has_readers, with_steps, without_tokens
    from einmap.mapper.independent.first import LONGEST

    left_out = not_shared(spec, None, "the cascade has a recurrence") if asked.share_inputs else ()
    asked = replace(asked, memory=left_of(asked.memory, None), ceiling=asked.memory, share_inputs=False)
    start = time.perf_counter()
    token = (progress or Progress()).within(asked.time_limit if np.isfinite(asked.time_limit) else None)
    # what is there when time is over is found first, as far as there is time for it
    early = step_by_step(spec, asked, reserved(token)) if token.deadline is not None else []
    searches: list[FusedSearch] = []
    points: list[Found] = []
    ways = (False, True) if has_readers(spec) else (False,)

    def found(search: FusedSearch, mapping: LoopTree) -> Found:
        tree = without_tokens(mapping, search.steps)
        return Found(evaluate(spec, tree, asked.rules), tree, spec)

    for number, readers in enumerate(ways):
        extended, steps = with_steps(spec, readers=readers)
        search = FusedSearch(extended, asked, steps=steps)
        if searches:
            search.begin_with(searches[-1])
        most = (asked.max_evaluations or np.inf) / len(ways)
        trees = search.run(share_of(token, 1 / (len(ways) - number)), most)
        _refuse_tried(spec, search)
        points += [found(search, mapping) for mapping in trees]
        searches.append(search)
    stopped = any(search.budget.cut for search in searches) or token.stopped
    if stopped:
        points += early
    if not points and not all(search.complete for search in searches):
        points = step_by_step(spec, asked, Progress(token.callback).within(AT_LEAST if stopped else LONGEST))
    if not points:
        raise _nothing(spec, stopped=stopped, pruned=not_searched_by(searches))
    front = best_of(points, asked.goals) if len(points) > 1 else points
    result = fused_result(searches, front, asked, start, left_out)
    return result if stopped else with_best_of_tie(result, searches, asked, token, found)


def _refuse_tried(spec: Spec, search: Any) -> None:
    """Raise NotSupportedError for an Einsum of a recurrence that tables cannot search."""
    for member in search.members:
        why = member.chains.why_brute_force
        if why is not None and member.einsum.name in search.steps.of:
            text = (
                f"Einsum {member.einsum.name!r} is a part of a recurrence, and is searched mapping by mapping ({why})"
            )
            raise NotSupportedError(f"{text}; that is not supported yet", at=spec.place_of_einsum(member.einsum.name))


def _nothing(spec: Spec, *, stopped: bool, pruned: Sequence[str]) -> NoMappingError:
    recurrence = spec.workload.recurrences[0]
    names, at = ", ".join(recurrence.einsums), spec.place_of_einsum(recurrence.einsums[0])
    if stopped:
        text = f"no mapping was found in time: the Einsums {names} are a recurrence, which is mapped as a whole"
        return NoMappingError(text, at=at, hint="give more time, or allow fewer fused loops (max_fused_loops)")
    below = f"in which {names} run step by step below one loop over {recurrence.variable}"
    if pruned:
        text = f"no mapping was found {below}; not searched: {', nor '.join(pruned)}"
        return NoMappingError(text, at=at, hint="raise what limits the search")
    text = f"no mapping fits {below}"
    return NoMappingError(text, at=at, hint="enlarge memories, or let the outermost one keep all tensors")
