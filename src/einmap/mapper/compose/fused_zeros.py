"""Fused mappings of cascades whose tensors have zeros: those that are best on dense machines, and a bound for all.

The search of cascades knows no zeros. On an easier machine, on which each action costs as if every saving were as great
as it can be, its optimum is a lower bound for all mappings (`zeros.dense_bound`). What is best there, with dense
tensors, and with dense tensors where memories with formats have room for all, is evaluated with the zeros; so is what
is best where actions cost what they do in the best mapping of these (`zeros.as_found`). A mapping that costs no more
than the bound is proven; of others there is a gap.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from einmap.errors import CapacityError, EinmapError, MappingError, NotSupportedError
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.mapper.problem.problem import Budget, Problem
from einmap.mapper.result.outcome import Outcome, evaluated
from einmap.mapper.result.result import Found, best_of, objective
from einmap.mapper.zeros.as_found import as_found
from einmap.mapper.zeros.dense_bound import easier, with_room
from einmap.spec.spec import Spec

if TYPE_CHECKING:
    from einmap.mapper.compose.combinators import Search

MOST_AGAIN = 3
"""Times that machines like the best mapping so far are made, at most."""
FOR_FUSED = 20.0
"""Seconds for fused mappings, or as long as the search of the Einsums one by one took."""
LEFT_OUT = "fused mappings but the best ones of dense machines, since they are not searched beside zeros of tensors yet"


def with_fused(one_by_one: Search, cascade: Search) -> Search:
    """The outcome of the search of the Einsums one by one, or what is better of the fused mappings that were tried.

    `cascade` searches dense tensors; its bound on the easier machine is that of the outcome.
    """

    def run(problem: Problem, budget: Budget) -> Outcome:
        if not problem.may_fuse or len(problem.spec.workload.einsums) == 1:
            return one_by_one(problem, budget)
        outcome = one_by_one(problem, budget.share(0.5))
        left = budget.after(outcome.stats.evaluated)
        left = replace(left, progress=left.progress.within(max(FOR_FUSED, outcome.stats.seconds)))
        found, bound, left = _tried(problem, cascade, left)
        goals = problem.options.goals
        points = best_of([*outcome.points, *found], goals)
        bound = bound if len(goals) == 1 and not outcome.narrowed else None
        if len(goals) == 1 and (bound is None or bound < objective(points[0].cost, goals[0]) * (1 - ROUNDING)):
            points = best_of([*points, *_again(problem, cascade, points, left)], goals)
        tried = replace(outcome, points=tuple(points), bound=bound, ties_broken=False, unfused=outcome)
        if bound is not None and bound >= tried.value * (1 - ROUNDING):
            # whatever was not listed is no better
            return replace(tried, every="fused mapping", ended=None, left_out=(), by_trying=False)
        return replace(
            tried,
            left_out=(*(text for text in outcome.left_out if not text.startswith("fused mappings")), LEFT_OUT),
        )

    return run


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
