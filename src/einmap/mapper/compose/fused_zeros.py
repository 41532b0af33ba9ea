"""Fused mappings of cascades whose tensors have zeros: those that are best on dense machines, and a bound for all.

The search of cascades knows no zeros. On an easier machine, on which each action costs as if every saving were as great
as it can be, its optimum is a lower bound for all mappings (`zeros.dense_bound`). What is best there, with dense
tensors, and with dense tensors where memories with formats have room for all, is evaluated with the zeros.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import TYPE_CHECKING

from einmap.arch.component import Memory
from einmap.arch.tree import Architecture
from einmap.errors import CapacityError, EinmapError, MappingError, NotSupportedError
from einmap.mapper.problem.problem import Budget, Problem
from einmap.mapper.result.outcome import Outcome, evaluated
from einmap.mapper.result.result import Found, best_of
from einmap.mapper.zeros.dense_bound import easier_for_all

if TYPE_CHECKING:
    from einmap.mapper.compose.combinators import Search

FOR_FUSED = 10.0
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
        found, bound = _tried(problem, cascade, left)
        goals = problem.options.goals
        points = best_of([*outcome.points, *found], goals)
        is_known = len(goals) == 1 and not outcome.narrowed
        return replace(
            outcome,
            points=tuple(points),
            bound=bound if is_known else None,
            left_out=(*(text for text in outcome.left_out if not text.startswith("fused mappings")), LEFT_OUT),
            ties_broken=False,
            unfused=outcome,
        )

    return run


def _with_room(arch: Architecture, memories: Collection[str]) -> Architecture:
    """An architecture on which some memories have room for everything: formats may make it."""
    for name, unit in arch.components.items():
        if isinstance(unit, Memory) and name in memories:
            arch = arch.with_leaf(replace(unit, size_bits=math.inf))
    return arch


def _tried(problem: Problem, cascade: Search, budget: Budget) -> tuple[list[Found], float | None]:
    """Fused mappings that are valid, with their costs, and the least that any mapping costs; None where not known."""
    dense = problem.spec.dense()
    sparsities = list(problem.spec.sparsity.values())
    easy = dense.with_altered_archs(lambda arch: easier_for_all(arch, sparsities))
    stored = {memory for sparsity in sparsities for memory, _ in sparsity.formats}
    roomy = dense.with_altered_archs(lambda arch: _with_room(arch, stored))
    found: list[Found] = []
    bound: float | None = None
    machines = (easy, dense, roomy) if stored else (easy, dense)
    for number, spec in enumerate(machines):
        if number and budget.is_over:
            break
        try:
            share = budget.share(1 / (len(machines) - number))
            outcome = cascade(replace(problem, spec=spec, formats=()), share)
        except EinmapError:
            continue
        bound = bound if number else outcome.lower_bound
        for point in outcome.points:
            if point.copies:
                continue
            try:
                found.append(evaluated(problem.spec, point.mapping, problem.options.rules, strict=True))
            except (CapacityError, MappingError, NotSupportedError):
                continue
        budget = budget.after(outcome.stats.evaluated)
    return found, bound
