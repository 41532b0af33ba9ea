"""Fused mappings of cascades whose tensors have zeros: the best one by expected costs, or a bound for all.

What an Einsum costs depends on its chain alone, so the search of cascades finds the best one by expected costs
(`zeros.fused_search`). Where that is stopped, or the model does not know all mappings, an easier machine, on which each
action costs as if every saving were as great as it can be, has a lower bound for all (`zeros.dense_bound`). What is
best there, with dense tensors, and with dense tensors where memories with formats have room for all, is evaluated with
the zeros; so is what is best where actions cost what they do in the best mapping of these (`zeros.as_found`). A mapping
that costs no more than the bound is proven; of others there is a gap.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from einmap.errors import CapacityError, EinmapError, MappingError, NoMappingError, NotSupportedError
from einmap.mapper.compose.combinators import tie_broken
from einmap.mapper.compose.left_open.best_formats import FEW_COMBINATIONS
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.mapper.problem.problem import NOTHING, Budget, Known, NotTogetherError, Problem
from einmap.mapper.result.outcome import Outcome, ended_after, evaluated, narrowed_by
from einmap.mapper.result.result import Found, MapStats, best_of, objective
from einmap.mapper.zeros.as_found import as_found
from einmap.mapper.zeros.dense_bound import easier, with_room
from einmap.mapper.zeros.expected_cost import limits_of_blocks
from einmap.mapper.zeros.fused_search import ZerosFusedSearch
from einmap.spec.spec import Spec

if TYPE_CHECKING:
    from einmap.mapper.compose.combinators import Search

MOST_AGAIN = 3
"""Times that machines like the best mapping so far are made, at most."""
FOR_FUSED = 20.0
"""Seconds for them, or as long as the search of the Einsums one by one took."""
SLIGHTLY_MORE = 1 + 1e-6
"""Factor of the best mapping of the Einsums one by one up to which fused ones are looked for: as good ones, too."""
LEFT_OUT = "fused mappings but the best ones of dense machines, since the search beside zeros of tensors was not ended"
OPEN_FORMATS = "fused mappings but the best ones of dense machines, since formats of tensors are left open"
NO_ROOM = "fused mappings that may fit, since formats of what several Einsums share take room that was not known"


def with_fused(one_by_one: Search, cascade: Search) -> Search:
    """The best fused mappings by expected costs; where their search is stopped, those of the Einsums one by one, or
    what is better of the fused ones that were tried.

    `cascade` searches dense tensors; its bound on the easier machine is that of a search that was stopped.
    """

    def run(problem: Problem, budget: Budget) -> Outcome:
        if not problem.may_fuse or len(problem.spec.workload.einsums) == 1:
            return one_by_one(problem, budget)
        if 1 < problem.choices <= FEW_COMBINATIONS:
            raise NotTogetherError
        if problem.known is not NOTHING:
            # with other formats something is known: mostly nothing is better
            fused = tie_broken(search_fused)(problem, budget.share(0.5))
            if fused.is_complete:
                return fused if fused.points else replace(fused, ties_broken=True)
            problem, budget = replace(problem, known=NOTHING), budget.after(fused.stats.evaluated)
        try:
            outcome = one_by_one(problem, budget.share(0.5))
        except NoMappingError:
            # together they may need less room than each by itself
            fused = tie_broken(search_fused)(problem, budget.share(0.7))
            if not fused.points or problem.formats:
                raise
            return fused
        left = budget.after(outcome.stats.evaluated)
        if problem.formats:
            return _with_tried(problem, cascade, outcome, replace(outcome, points=(), bound=None), left)
        known = Known(outcome.value * SLIGHTLY_MORE) if len(outcome.goals) == 1 else NOTHING
        fused = tie_broken(search_fused)(replace(problem, known=known), left.share(0.7))
        evaluations = outcome.stats.evaluated + fused.stats.evaluated
        stats = replace(outcome.stats, evaluated=evaluations, steps={**outcome.stats.steps, **fused.stats.steps})
        if fused.is_complete:
            return replace(fused, stats=stats, points=fused.points or outcome.points, unfused=outcome)
        outcome = replace(outcome, stats=stats)
        return _with_tried(problem, cascade, outcome, fused, left.after(fused.stats.evaluated))

    return run


def search_fused(problem: Problem, budget: Budget) -> Outcome:
    """All fused mappings by their expected costs; only those that are better than what is known.

    The bound is that of a search that was stopped. Incomplete where the model does not know some mappings.
    """
    options, start = problem.options, time.perf_counter()
    search = ZerosFusedSearch(problem.spec, options, known=problem.known)
    left_out: list[str] = []
    try:
        trees = search.run(budget.progress, budget.work)
        left_out += search.unknown
    except NotSupportedError as error:
        trees, left_out = [], [f"fused mappings ({error.message})"]
    points = []
    for tree in trees:
        try:
            points.append(evaluated(problem.spec, tree, options.rules, strict=True))
        except (CapacityError, MappingError, NotSupportedError):
            left_out.append(NO_ROOM)
    bound = None
    if len(options.goals) == 1 and search.prepared and all(one.chains.covers_mapspace for one in search.members):
        bound = search.value if search.complete else search.lower_bound()
        if points and objective(points[0].cost, options.goals[0]) > search.value * (1 + ROUNDING):
            left_out.append(NO_ROOM)
    is_cut = search.meter.cut or any(member.chains.is_cut for member in search.members)
    stats = MapStats(evaluated=search.meter.work, seconds=time.perf_counter() - start, steps=search.seconds)
    return Outcome(
        options.goals,
        tuple(points),
        stats,
        every="other fused mapping" if left_out else "fused mapping",
        narrowed=(*narrowed_by(options, fused=True), *limits_of_blocks(problem.spec)),
        ended=ended_after(search.meter.work) if is_cut else None,
        left_out=tuple(dict.fromkeys(left_out)),
        bound=bound,
        ties_broken=search.known.limit is not None and search.complete,
        planned={search.names: search.nearly_best()} if search.knows_nearly_best and not left_out else {},
    )


def _with_tried(problem: Problem, cascade: Search, outcome: Outcome, fused: Outcome, left: Budget) -> Outcome:
    """The best of the Einsums one by one, of a fused search that did not come to its end, and of what is tried."""
    left = replace(left, progress=left.progress.within(max(FOR_FUSED, outcome.stats.seconds)))
    found, bound, left = _tried(problem, cascade, left)
    goals = problem.options.goals
    points = best_of([*outcome.points, *fused.points, *found], goals)
    bound = bound if len(goals) == 1 and not outcome.narrowed else None
    if fused.bound is not None and (bound is None or bound < fused.bound):
        bound = fused.bound
    if len(goals) == 1 and (bound is None or bound < objective(points[0].cost, goals[0]) * (1 - ROUNDING)):
        points = best_of([*points, *_again(problem, cascade, points, left)], goals)
    tried = replace(outcome, points=tuple(points), bound=bound, ties_broken=False, unfused=outcome)
    if bound is not None and bound >= tried.value * (1 - ROUNDING):
        # whatever was not listed is no better
        return replace(tried, every="fused mapping", ended=None, left_out=(), by_trying=False)
    why = fused.left_out or (OPEN_FORMATS if problem.formats else LEFT_OUT,)
    own = (text for text in outcome.left_out if not text.startswith("fused mappings"))
    return replace(tried, left_out=tuple(dict.fromkeys([*own, *why])))


def _tried(problem: Problem, cascade: Search, budget: Budget) -> tuple[list[Found], float | None, Budget]:
    """Fused mappings that are valid, with their costs, the least that any mapping costs, None where not known, and
    what is left of a budget.
    """
    dense, sparsities = problem.spec.dense(), problem.spec.sparsity
    stored = {memory for sparsity in sparsities.values() for memory, _ in sparsity.formats}
    easy = dense.with_einsums(dense.workload, lambda name, arch: with_room(easier(arch, sparsities[name]), stored))
    roomy = dense.with_altered_archs(lambda arch: with_room(arch, stored))
    found: list[Found] = []
    bound: float | None = None
    machines = (easy, dense, roomy) if stored else (easy, dense)
    for number, spec in enumerate(machines):
        if number and budget.is_over:
            break
        # the bound takes up to a half of the time
        part = 1 / (len(machines) - number + MOST_AGAIN) if number else 0.5
        outcome = _best_on(spec, problem, cascade, budget.share(part))
        if outcome is None:
            continue
        bound = bound if number else outcome.lower_bound
        found += _with_zeros(problem, outcome)
        budget = budget.after(outcome.stats.evaluated)
    return found, bound, budget


def _again(problem: Problem, cascade: Search, points: Sequence[Found], budget: Budget) -> list[Found]:
    """Mappings that are best on machines like the best mapping so far, as long as they are better than that.

    `points`: mappings that are known.
    """
    found: list[Found] = []
    goal = problem.options.goals[0]
    best = min(points, key=lambda point: objective(point.cost, goal))
    for number in range(MOST_AGAIN):
        spec = None if budget.is_over else as_found(problem, best)
        if spec is None:
            break
        outcome = _best_on(spec, problem, cascade, budget.share(1 / (MOST_AGAIN - number)))
        new = _with_zeros(problem, outcome) if outcome else []
        if outcome is None or not new:
            break
        found += new
        budget = budget.after(outcome.stats.evaluated)
        better = min(new, key=lambda point: objective(point.cost, goal))
        if objective(better.cost, goal) >= objective(best.cost, goal) * (1 - ROUNDING):
            break
        best = better
    return found


def _best_on(spec: Spec, problem: Problem, cascade: Search, budget: Budget) -> Outcome | None:
    """The best fused mappings of dense tensors on other architectures, None where there are none."""
    try:
        return cascade(replace(problem, spec=spec, formats=()), budget)
    except EinmapError:
        return None


def _with_zeros(problem: Problem, outcome: Outcome) -> list[Found]:
    """The mappings of an outcome that are valid with the zeros, and what they cost."""
    found = []
    for point in outcome.points:
        if point.copies:
            continue
        try:
            found.append(evaluated(problem.spec, point.mapping, problem.options.rules, strict=True))
        except (CapacityError, MappingError, NotSupportedError):
            continue
    return found
