"""Find the best mapping of a workload: which searches are put together for it.

- einsums: `einsum_by_einsum`; of tensors with zeros `with_fused(with_zeros, fused)`, with `tie_broken(search_fused)`
- fused: otherwise(tie_broken(with_fallback(over(shared inputs, cascade), one by one)), why nothing fits)
- stepwise, for recurrences: the same over the readers of states, with a loop over the steps
- joint, where latency is not a sum over Einsums: overlapping(fused), or waiting(fused)
- uneven: with_imperfect_factors(fused, exact=einsums), with_imperfect_factors(stepwise)
- whole: over rewrites of the cascade, over open formats, over open layouts, cached(best_of(one of these, pipelines))
"""

from __future__ import annotations

import math
import time
from collections.abc import Hashable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from einmap.arch.component import Memory, Toll
from einmap.errors import At, SpecError
from einmap.gc_pause import importing, set_aside
from einmap.mapper.capabilities import refuse_unknown
from einmap.mapper.given.read import Given, patterns_of
from einmap.mapper.objective.metrics import added_metric
from einmap.mapper.problem.memory_limit import left_of
from einmap.mapper.problem.options import read_options
from einmap.mapper.problem.problem import NOTHING, Budget, Known, Problem
from einmap.mapper.result.outcome import Outcome
from einmap.mapper.result.result import MapResult, by_added_metric
from einmap.mapper.result.result_cache import ResultCache, cached
from einmap.progress import Progress
from einmap.spec.open_formats import FormatChoice, open_formats
from einmap.spec.open_layouts import Choice, open_layouts
from einmap.spec.spec import Spec

if TYPE_CHECKING:
    from einmap.mapper.compose.combinators import Search

MOST_HOLDERS = 60
"""Memories and tolls above a Compute."""


def best_mappings(
    spec: Spec,
    *,
    given: Given | None = None,
    fuse: bool = True,
    cache: ResultCache | None = None,
    progress: Progress | None = None,
    rewrites: Sequence[str] = (),
    **options: Any,
) -> MapResult:
    """The best mapping of a workload, or a Pareto front: what `einmap.map_workload` does once files are read.

    `options`: the other keywords of `einmap.map_workload`, by their names. Raises SpecError for bad options,
    MappingError for a given mapping that cannot be, NoMappingError when no mapping fits.
    """
    if (added := added_metric(options.get("metrics"))) is not None:
        asked = {**options, "metrics": added.rises_with}
        front = best_mappings(spec, given=given, fuse=fuse, cache=cache, progress=progress, rewrites=rewrites, **asked)
        return by_added_metric(front, added)
    if rewrites and given is not None:
        raise SpecError("a given mapping is for the Einsums as they are written", hint="leave out rewrites, or given")

    kept = dict[Hashable, object]()

    def outcome_of(
        settled: Spec, /, formats: tuple[FormatChoice, ...] = (), below: float = math.inf, **limits: Any
    ) -> Outcome:
        asked = read_options(settled, **{**options, **limits})
        problem = _checked(Problem(settled, asked, patterns_of(given, settled), fuse, NOTHING, formats, kept))
        if math.isfinite(below) and problem.has_zeros:
            # a result that rests on what is known of other formats is not kept
            return _searched(replace(problem, known=Known(below)), progress)
        return cached(lambda: _searched(problem, progress), cache, problem)

    def whole(one: Spec, /, **limits: Any) -> Outcome:
        if formats := open_formats(one):
            from einmap.mapper.compose.left_open.best_formats import best_formats, first_formats, one_by_one, together

            first = one.with_formats(first_formats(formats))
            layouts = open_layouts(first)
            named = {name: limit for name, limit in limits.items() if name != "below"}
            asked = read_options(_plain(first, layouts), **{**options, **named})
            if not layouts and (found := together(first, formats, outcome_of, limits)) is not None:
                return found
            # those of one Einsum are chosen in its search, for each combination of the others
            return best_formats(one, one_by_one(first, formats, fuse), asked, whole)
        if choices := open_layouts(one):
            from einmap.mapper.compose.left_open.best_layouts import best_layouts

            limits.pop("below", None)
            return best_layouts(one, choices, read_options(_plain(one, choices), **{**options, **limits}), outcome_of)
        return outcome_of(one, **limits)

    if rewrites:
        from einmap.mapper.compose.left_open.best_rewrites import best_rewrites

        return best_rewrites(spec, rewrites, read_options(spec, **options), whole).result()
    return whole(spec).result()


def search_of(problem: Problem) -> Search:
    """The search that knows a problem."""
    # Here, not above: they import the compiler, which only a search needs
    from einmap.mapper.compose.combinators import best_of
    from einmap.mapper.compose.einsum_by_einsum import einsum_by_einsum

    if problem.given_stage is not None:
        from einmap.mapper.compose.einsum_by_einsum import like_given_stages

        return like_given_stages
    if problem.has_zeros:
        from einmap.mapper.compose.fused_zeros import with_fused
        from einmap.mapper.zeros.with_zeros import with_zeros

        return with_fused(with_zeros, _search_of_cascade(problem, adds_up=True)) if problem.may_fuse else with_zeros
    recurs = bool(problem.spec.workload.recurrences)
    adds_up = recurs or not problem.fuse or problem.adds_up
    is_whole = recurs or problem.asking(uneven_loops=False, uneven_lanes=False).may_fuse
    search: Search = _search_of_cascade(problem, adds_up) if is_whole else einsum_by_einsum
    if problem.options.most_stages > 1:
        from einmap.mapper.pipelined.cascade_search import pipelines

        search = best_of(search, pipelines)
    return search


def _search_of_cascade(problem: Problem, adds_up: bool) -> Search:
    """The search of a cascade as a whole. `adds_up`: whether costs are sums over Einsums."""
    from einmap.mapper.compose.cascade import cascade
    from einmap.mapper.compose.combinators import otherwise, over, tie_broken, with_fallback
    from einmap.mapper.compose.einsum_by_einsum import einsum_by_einsum
    from einmap.mapper.compose.joint_latency import overlapping, waiting
    from einmap.mapper.compose.padded import with_imperfect_factors
    from einmap.mapper.compose.stopped_search import OneByOne, StepByStep, no_steps, nothing_fused
    from einmap.mapper.compose.ways import as_it_is, with_recurrences, with_shared_inputs

    is_uneven = problem.options.uneven_loops or problem.options.uneven_lanes
    fused = otherwise(tie_broken(with_fallback(over(with_shared_inputs, cascade), OneByOne)), nothing_fused)
    stepwise = otherwise(tie_broken(with_fallback(over(with_recurrences, cascade), StepByStep)), no_steps)
    if problem.spec.workload.recurrences:
        return with_imperfect_factors(stepwise, with_recurrences) if is_uneven else stepwise
    if is_uneven:
        return with_imperfect_factors(fused, as_it_is, exact=einsum_by_einsum)
    if adds_up:
        return fused
    return (overlapping if problem.spec.model_options.overlap_einsums else waiting)(fused)


def _searched(problem: Problem, progress: Progress | None) -> Outcome:
    """Search with what the options allow of time and memory."""
    with set_aside():
        with importing():
            _make_ready(problem, progress)
        start, options = time.perf_counter(), problem.options
        left = left_of(options.memory, _place_of_memory_limit(problem))
        from einmap.mapper.cost_bounds.cost_to_go.kept_room import KEPT_ROOM

        try:
            outcome = search_of(problem)(
                problem.asking(memory=left, ceiling=options.memory), Budget.of(options, progress)
            )
        finally:
            KEPT_ROOM.clear()
        return replace(outcome, stats=replace(outcome.stats, seconds=time.perf_counter() - start))


def _make_ready(problem: Problem, progress: Progress | None) -> None:
    """Compile the kernels, once on a machine: that is not searching, and its time is not counted."""
    # Here, not above: it imports the compiler, which only a search needs
    from einmap.mapper.warm import needs_all, warm

    einsums = problem.spec.workload.einsums
    bounds = [[bound for _, bound in einsum.bounds] for einsum in einsums]
    warm(progress, everything=bool(np.isfinite(problem.options.memory)) or needs_all(bounds), cascades=len(einsums) > 1)


def _plain(spec: Spec, choices: Sequence[Choice]) -> Spec:
    """The specification in which tensors whose layouts are open move value by value."""
    return spec.with_layouts({c.memory: {o.tensor: [] for o in choices if o.memory == c.memory} for c in choices})


def _checked(problem: Problem) -> Problem:
    """The problem. What memories keep is chosen from the outside in, one choice within another.

    Raises SpecError where there are too many, NotSupportedError for what no search knows.
    """
    spec = problem.spec
    for arch in spec.archs.values():
        for unit in arch.computes:
            holders = [leaf for leaf in arch.path(unit.name) if isinstance(leaf, Memory | Toll)]
            if len(holders) > MOST_HOLDERS:
                raise SpecError(
                    f"{len(holders)} memories and tolls stand above the Compute {unit.name!r}; "
                    f"the mapper takes at most {MOST_HOLDERS}",
                    at=spec.place_of_component(holders[MOST_HOLDERS].name),
                )
    refuse_unknown(problem)
    return problem


def _place_of_memory_limit(problem: Problem) -> At | None:
    """Where the specification sets the limit that holds; None where it was given with the call."""
    for name in ("memory_limit", "memory_limit_per_process"):
        if getattr(problem.spec.mapper_options, name) == problem.options.memory:
            return problem.spec.provenance(f"mapper.{name}")
    return None
