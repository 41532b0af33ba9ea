"""Find the best mapping of a workload.

Steps: read the options; search the cascade as a whole (`fusion`), or each distinct Einsum by itself (`independent`:
branch and bound with cost-to-go tables, one point of each front, the parts in one tree); evaluate what is best.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from einmap.arch.component import Memory, Toll
from einmap.errors import At, MappingError, NoMappingError, SpecError
from einmap.gc_pause import set_aside
from einmap.mapper.capabilities import Call, refuse_unknown
from einmap.mapper.compose.joint_latency import is_joint, joint_result
from einmap.mapper.compose.recurrent import recurrent_result
from einmap.mapper.given.pattern import Pattern
from einmap.mapper.given.read import Given, patterns_of
from einmap.mapper.mapspace.enumeration import share_of
from einmap.mapper.problem.memory_limit import left_of
from einmap.mapper.problem.options import Options, read_options
from einmap.mapper.result.result import Found, MapResult, best_of, objective
from einmap.mapper.result.result_cache import ResultCache
from einmap.mapper.result.verdict import Coverage, ending, judged, with_pipelines, with_ties
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.open_layouts import Choice, open_layouts
from einmap.spec.shared_inputs import shareable
from einmap.spec.spec import Spec

if TYPE_CHECKING:
    from einmap.mapper.compose.shared_inputs import Sharing
    from einmap.mapper.fusion.search import FusedSearch
    from einmap.mapper.independent.independent_search import IndependentSearch

PERFECT = 2 / 3
"""Part of what is left of the time for fused mappings with perfect factors, where imperfect ones are asked for."""
MOST_HOLDERS = 60
"""Memories and tolls above a Compute."""


def best_mappings(
    spec: Spec,
    *,
    given: Given | None = None,
    fuse: bool = True,
    cache: ResultCache | None = None,
    progress: Progress | None = None,
    **options: Any,
) -> MapResult:
    """The best mapping of a workload, or a Pareto front: what `einmap.map_workload` does once files are read.

    `options`: the other keywords of `einmap.map_workload`, by their names. Raises SpecError for bad options,
    MappingError for a given mapping that cannot be, NoMappingError when no mapping fits.
    """
    if choices := open_layouts(spec):
        return _over_layouts(spec, choices, given=given, fuse=fuse, cache=cache, progress=progress, **options)
    asked = read_options(spec, **options)
    _check_depth(spec)
    patterns = patterns_of(given, spec)
    refuse_unknown(Call(spec, asked, is_given=bool(patterns), fuse=fuse))
    entry = cache.entry(spec, asked, patterns, fuse) if cache is not None else None
    kept = entry.read() if entry is not None else None
    if kept is not None:
        return kept
    with set_aside():
        result = _searched(spec, asked, patterns, fuse, progress)
        if asked.most_stages > 1:
            result = _pipelined(spec, asked, progress, result)
    if entry is not None:
        entry.write(result)
    return result


def _over_layouts(spec: Spec, choices: Sequence[Choice], *, progress: Progress | None, **options: Any) -> MapResult:
    """The best mapping over all layouts that are left open. `options`: of `best_mappings`."""
    from einmap.mapper.compose.best_layouts import best_layouts

    settled = spec.with_layouts({c.memory: {o.tensor: [] for o in choices if o.memory == c.memory} for c in choices})
    own = {name: value for name, value in options.items() if name not in ("given", "fuse", "cache")}
    asked = read_options(settled, **own)

    def search(chosen: Spec, limits: Options) -> MapResult:
        limited = {"time_limit_s": limits.time_limit, "max_evaluations": limits.max_evaluations}
        return best_mappings(chosen, progress=progress, **{**options, **limited})

    return best_layouts(spec, choices, asked, search)


def _pipelined(spec: Spec, asked: Options, progress: Progress | None, result: MapResult) -> MapResult:
    """The best of a result and of all cascades of Pipelines, for what is left of the time.

    Raises NotSupportedError for what is not known of Pipelines.
    """
    from einmap.mapper.pipelined.cascade_search import CascadeSearch

    begin = time.perf_counter()
    left = max(asked.time_limit - result.stats.seconds, 0.0)
    search = CascadeSearch(spec, asked, asked.most_stages)
    trees = search.run((progress or Progress()).within(left if np.isfinite(left) else None))
    found = [Found(evaluate(spec, mapping, asked.rules), mapping, spec) for mapping in trees]
    front = best_of([*result.front, *found], asked.goals)
    seconds = result.stats.seconds + time.perf_counter() - begin
    stats = replace(result.stats, evaluated=result.stats.evaluated + search.budget.work, seconds=seconds)
    result = replace(result, stats=stats)
    result = with_pipelines(result, front, asked.most_stages, ended=search.cut, in_stage=asked.most_in_stage)
    return with_ties(replace(result, ties_broken=False), broken=False)


def _check_depth(spec: Spec) -> None:
    """What memories keep is chosen from the outside in, one choice within another. Raises SpecError."""
    for arch in spec.archs.values():
        for unit in arch.computes:
            holders = [leaf for leaf in arch.path(unit.name) if isinstance(leaf, Memory | Toll)]
            if len(holders) > MOST_HOLDERS:
                raise SpecError(
                    f"{len(holders)} memories and tolls stand above the Compute {unit.name!r}; "
                    f"the mapper takes at most {MOST_HOLDERS}",
                    at=spec.place_of_component(holders[MOST_HOLDERS].name),
                )


def _place_of_memory_limit(spec: Spec, asked: Options) -> At | None:
    """Where the specification sets the limit that holds; None where it was given with the call."""
    for name in ("memory_limit", "memory_limit_per_process"):
        if getattr(spec.mapper_options, name) == asked.memory:
            return spec.provenance(f"mapper.{name}")
    return None


def _searched(
    spec: Spec, asked: Options, patterns: Mapping[str, Pattern], fuse: bool, progress: Progress | None
) -> MapResult:
    if spec.workload.recurrences:
        _make_ready(spec, asked, progress)
        return recurrent_result(spec, asked, progress)
    if fuse and is_joint(spec, asked) and may_fuse(spec, asked, patterns):
        return joint_result(
            spec,
            asked,
            lambda other, options: _added_up(other, options, patterns, fuse, progress),
            progress or Progress(),
        )
    return _added_up(spec, asked, patterns, fuse, progress)


def _make_ready(spec: Spec, asked: Options, progress: Progress | None) -> None:
    """Compile the kernels, once on a machine: that is not searching, and its time is not counted."""
    # Here, not above: it imports the compiler, which only a search needs
    from einmap.mapper.warm import needs_all, warm

    bounds = [[bound for _, bound in einsum.bounds] for einsum in spec.workload.einsums]
    everything = bool(np.isfinite(asked.memory)) or needs_all(bounds)
    warm(progress, everything=everything, cascades=len(spec.workload.einsums) > 1)


def _added_up(
    spec: Spec, asked: Options, patterns: Mapping[str, Pattern], fuse: bool, progress: Progress | None
) -> MapResult:
    """Search mappings whose costs are sums over Einsums."""
    # Here, not above: they import the compiler, which only a search needs
    from einmap.mapper.compose.unfused_result import unsearched
    from einmap.mapper.independent.independent_search import IndependentSearch

    _make_ready(spec, asked, progress)
    asked = replace(asked, memory=left_of(asked.memory, _place_of_memory_limit(spec, asked)), ceiling=asked.memory)
    start = time.perf_counter()
    token = (progress or Progress()).within(asked.time_limit if np.isfinite(asked.time_limit) else None)
    if fuse and may_fuse(spec, asked, patterns):
        return _fused(spec, asked, token, start)
    whole = IndependentSearch(spec, asked, patterns)
    even = replace(asked, uneven_loops=False, uneven_lanes=False)
    also_even = fuse and even != asked and may_fuse(spec, even, patterns)
    try:
        unfused = _unfused(whole, asked, patterns, token, start, fuse=fuse)
    except NoMappingError as error:
        fused = _with_perfect_factors(whole, even, token, start) if also_even else None
        if fused is None:
            raise error.with_message(error.message + unsearched(whole, fuse=fuse)) from None
        return fused
    fused = _with_perfect_factors(whole, even, token, start, unfused) if also_even and unfused.not_searched else None
    return unfused if fused is None else fused


def _with_perfect_factors(
    whole: IndependentSearch, even: Options, token: Progress, start: float, unfused: MapResult | None = None
) -> MapResult | None:
    """The best of `unfused`, found with imperfect factors, of all fused mappings with perfect ones, and of some fused
    ones with imperfect ones.

    `even`: the options without imperfect factors. None where no fused mapping with perfect factors is valid.
    """
    from einmap.mapper.compose.padded import LEAST_WORK, Padding
    from einmap.mapper.compose.unfused_result import cause, few_sizes, not_fused

    try:
        fused = _fused(whole.spec, even, share_of(token, PERFECT), start)
    except NoMappingError:
        return None
    goals = even.goals
    front = best_of([*(unfused.front if unfused else ()), *fused.front], goals)
    padding = Padding(whole.spec, whole.options, even, max(fused.stats.evaluated, LEAST_WORK))
    front = best_of([*front, *padding.found(objective(front[0].cost, goals[0]), token)], goals)
    is_fused = unfused is None or any(point not in unfused.front for point in front)
    parts = [fused, *([unfused] if unfused else [])]
    why, stopped = cause(whole), [part for part in parts if part.stopped]
    pruned = [text for part in parts for text in part.not_searched if text not in not_fused(whole, why)]
    covered = Coverage(
        every="fused mapping with perfect factors and every unfused one",
        ended=ending(stopped[0]) if stopped else None,
        pruned=tuple(
            dict.fromkeys([*pruned, *not_fused(whole, few_sizes(whole), "some mappings with imperfect factors")])
        ),
        bound=unfused.lower_bound if unfused else None,
    )
    evaluated = fused.stats.evaluated + (unfused.stats.evaluated if unfused else 0)
    stats = (fused if is_fused or unfused is None else unfused).stats
    stats = replace(stats, evaluated=evaluated, seconds=time.perf_counter() - start)
    return with_ties(judged(front, goals, covered, stats), broken=all(part.ties_broken for part in parts))


def _unfused(
    whole: IndependentSearch,
    asked: Options,
    patterns: Mapping[str, Pattern],
    token: Progress,
    start: float,
    *,
    fuse: bool,
) -> MapResult:
    """Search each Einsum by itself. Raises NoMappingError."""
    from einmap.mapper.compose.unfused_result import unfused_result

    try:
        whole.run(token)
    except NoMappingError as error:
        if not error.remedies:
            raise
        from einmap.mapper.compose.cascade_sizes import explain_infeasible_cascade

        raise explain_infeasible_cascade(whole.spec, asked, error, token, fuse=False) from None
    try:
        return unfused_result(whole, start, token, fuse=fuse)
    except MappingError as error:
        return _side_by_side(whole.spec, asked, patterns, token, start, error)


def _side_by_side(
    spec: Spec, asked: Options, patterns: Mapping[str, Pattern], token: Progress, start: float, error: MappingError
) -> MapResult:
    """The best unfused mapping where the best ones of the Einsums do not fit beside each other.

    Raises NoMappingError, with what is wrong (`error`) where the options are such that this cannot be searched.
    """
    from einmap.mapper.compose.fused_result import fused_result
    from einmap.mapper.compose.tie_search import with_best_of_tie
    from einmap.mapper.fusion.search import FusedSearch

    unfit = NoMappingError(
        f"the Einsums' best mappings do not fit together: {error.message}",
        at=error.at,
        hint="let the outermost memory keep all tensors, or leave out what keeps Einsums from being fused",
    )
    if not searches_whole(asked, patterns):
        raise unfit
    options = replace(asked, most_fused=0)
    search = FusedSearch(spec, options, inside=False)

    def found(_: FusedSearch, mapping: LoopTree) -> Found:
        return Found(evaluate(spec, mapping, asked.rules), mapping, spec)

    points = [found(search, mapping) for mapping in search.run(token)]
    if not points:
        raise unfit
    return with_best_of_tie(fused_result([search], points, asked, start), [search], options, token, found)


def may_fuse(spec: Spec, asked: Options, patterns: Mapping[str, Pattern]) -> bool:
    """Whether there is anything to fuse, and the options are such that the fused search knows them."""
    several = bool(spec.workload.intermediates) or (asked.share_inputs and bool(shareable(spec.workload)))
    return several and searches_whole(asked, patterns)


def searches_whole(asked: Options, patterns: Mapping[str, Pattern]) -> bool:
    """Whether the options are such that a cascade can be searched as a whole."""
    simple = not (asked.brute_force or patterns or asked.uneven_loops or asked.uneven_lanes)
    return simple and "resource_usage" not in asked.goals


def _fused(spec: Spec, asked: Options, token: Progress, start: float) -> MapResult:
    """Search the cascade as a whole, with copies of inputs that several Einsums read."""
    from einmap.mapper.compose.cascade_sizes import explain_infeasible_cascade
    from einmap.mapper.compose.fused_result import fused_result
    from einmap.mapper.compose.shared_inputs import not_shared, sharing
    from einmap.mapper.compose.stopped_search import Early, all_but_reserve, begun, for_fused
    from einmap.mapper.compose.tie_search import with_best_of_tie
    from einmap.mapper.compose.unfused_result import unfused_result
    from einmap.mapper.fusion.search import FusedSearch
    from einmap.mapper.independent.independent_search import IndependentSearch

    shared = sharing(spec) if asked.share_inputs else None

    def found(search: FusedSearch, mapping: LoopTree) -> Found:
        own_spec, settled, inputs = spec, mapping, tuple[str, ...]()
        if shared is not None and search.spec is shared.spec:
            own_spec, settled, inputs = shared.settled(mapping)
        return Found(evaluate(own_spec, settled, asked.rules), settled, own_spec, inputs)

    searches: list[FusedSearch] = []
    points: list[Found] = []
    one_by_one, worth = begun(spec, asked, token)
    limited = all_but_reserve(token) if worth else token.within(0)
    if shared is not None:
        searches.append(FusedSearch(shared.spec, asked, frozenset(shared.copies.values())))
        part = 1.0 if shared.covers else 1 / 2
        points += _ends_of_front(searches[-1], shared, limited, part * for_fused(asked))
        best = searches[-1].run(share_of(limited, part), part * for_fused(asked))
        points += [found(searches[-1], mapping) for mapping in best]
    if shared is None or not shared.covers:
        left = max(for_fused(asked) - sum(search.budget.work for search in searches), 1.0)
        searches.append(FusedSearch(spec, asked))
        points += _ends_of_front(searches[-1], None, limited, left)
        best = searches[-1].run(limited, left)
        points += [found(searches[-1], mapping) for mapping in best]
    if not points and any(search.budget.cut for search in searches):
        return Early(spec, asked, searches, token, start, one_by_one).unfused()
    if not points:
        # nothing fits: the Einsums one by one tell why
        whole = IndependentSearch(spec, asked, together=False)
        alone = [search.impossible for search in searches if search.impossible in spec.workload.by_name]
        complete = all(search.complete for search in searches)
        try:
            # what was left out of a search may be what fits
            if alone and alone[0] is not None and complete:
                raise whole.why_nothing(alone[0], token)
            whole.run(token)
            kind = "mapping of the fused search" if complete else "fused mapping that was looked at"
            why = f"no {kind} fits"
            return unfused_result(whole, start, token, fuse=True, why=why)
        except (MappingError, NoMappingError) as error:
            raise explain_infeasible_cascade(spec, asked, error, token, fuse=True) from None
    front = best_of(points, asked.goals) if len(searches) > 1 or len(asked.goals) > 1 else points
    left_out = not_shared(spec, shared) if asked.share_inputs else ()
    result = fused_result(searches, front, asked, start, left_out)
    if any(search.budget.cut for search in searches):
        return Early(spec, asked, searches, token, start, one_by_one).better(result)
    return with_best_of_tie(result, searches, asked, token, found)


def _ends_of_front(search: FusedSearch, shared: Sharing | None, token: Progress, most: float) -> list[Found]:
    """The best mapping for each of several metrics by itself, for a half of the time and of the choices (`most`).

    The front begins with them: so one that is stopped is hardly beaten by a search for one of its metrics. The search
    of the front need not look for what is no better.
    """
    from einmap.mapper.fusion.search import FusedSearch

    asked, ends = search.options, []
    if len(asked.goals) == 1:
        return []
    for number, goal in enumerate(asked.goals):
        part = share_of(token, 1 / (2 * len(asked.goals) - number))
        own_most = (most / 2 - search.spent) / (len(asked.goals) - number)
        alone = FusedSearch(search.spec, replace(asked, goals=(goal,)), search.optional)
        mappings = alone.run(part, max(own_most, 1.0))
        search.spent += alone.budget.work
        for mapping in mappings:
            own_spec, settled, inputs = shared.settled(mapping) if shared is not None else (search.spec, mapping, ())
            ends.append(Found(evaluate(own_spec, settled, asked.rules), settled, own_spec, inputs))
    if search.goals == asked.goals and ends:
        search.seeds = np.array([[objective(end.cost, goal) for goal in asked.goals] for end in ends])
    return ends
