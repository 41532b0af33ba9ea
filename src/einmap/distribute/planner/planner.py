"""The best plan and the best ones that differ from it."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from einmap.distribute.costs.cost_model import operations_per_point
from einmap.distribute.planner.best import Best, best_plan
from einmap.distribute.planner.chosen import ChosenPlan, chosen_plan
from einmap.distribute.planner.matching_ends import Ends
from einmap.distribute.planner.planning import Planning, PlanRequest
from einmap.distribute.planner.too_little import too_little
from einmap.distribute.planner.what_if import Change, what_changes
from einmap.distribute.search.search import Found, cheapest
from einmap.einsum.workload import Workload
from einmap.progress import Progress
from einmap.visible import brief

HEAVIEST = 4
"""Einsums of which other ways are tried, those with the most operations."""
ALTERNATIVES = 3


@dataclass(frozen=True)
class Planned:
    """The best plan; the best that differ from it in the spread of a heavy Einsum; and the best without the limit on
    memory, where the limit costs something. `changes`: what one change of memory or links would alter, if asked for;
    `least_peak`: for the metric `memory`, bytes that every plan without turns needs at least; `only_turns`: it is
    proven that without turns no plan keeps to the memory; `same`: results that lie as graph inputs do.
    """

    __repr__ = brief

    request: PlanRequest
    memory: float | None
    best: ChosenPlan
    others: tuple[ChosenPlan, ...]
    unlimited: ChosenPlan | None
    changes: tuple[Change, ...] = ()
    least_peak: float | None = None
    only_turns: bool = False
    same: Ends = ()


def plan_workload(
    workload: Workload, request: PlanRequest, progress: Progress | None = None, what_if: float | None = None
) -> Planned:
    """The best plan: placements of all tensors and loops of all Einsums, graph inputs wherever they serve best.

    `progress` may stop the search, which then gives the best so far with a bound; `what_if`: seconds for planning again
    with other memory and other links. Raises SpecError where the mesh does not fit the cluster, a placement is wrong,
    or no plan keeps to the memory: how much is missing, for which tensors, and the least change that helps.
    """
    planning = Planning(workload, request)
    best = best_plan(planning, progress)
    if best.chosen is None:
        raise too_little(planning, best, progress)
    timed = (progress or Progress()).within(request.time_limit)
    others = () if best.chosen.turns else _others(planning, best, best.chosen, timed)
    chosen, others = _best_first(best.chosen, others)
    changes = () if what_if is None else what_changes(planning, best, what_if, progress)
    only_turns = best.chosen.turns is not None and best.proven
    known = best.unlimited, changes, best.least_peak, only_turns
    return Planned(request, best.memory, chosen, others, *known, planning.asked.same)


def _best_first(chosen: ChosenPlan, others: tuple[ChosenPlan, ...]) -> tuple[ChosenPlan, tuple[ChosenPlan, ...]]:
    """The best of all, which may be another one where the time was over before the proof, and the rest."""
    if chosen.proven or not others or chosen.cost <= others[0].cost:
        return chosen, others
    best = replace(others[0], bound=min(chosen.bound, others[0].cost), proven=False)
    return best, tuple(sorted((chosen, *others[1:]), key=lambda one: one.cost))


def _others(planning: Planning, best: Best, chosen: ChosenPlan, progress: Progress | None) -> tuple[ChosenPlan, ...]:
    """The best plans in each of which one heavy Einsum is spread in another way than in the best plan."""
    made: list[ChosenPlan] = []
    space, request = best.space, planning.request
    limit = None if best.unlimited is None else best.memory
    einsums = sorted(planning.workload.einsums, key=lambda one: -one.n_computes * operations_per_point(one))
    for number, einsum in enumerate(einsums[:HEAVIEST]):
        if progress is not None:
            progress.report("plans that differ", number, min(HEAVIEST, len(einsums)))
            if progress.stopped:
                break
        taken = chosen.loops[einsum.name]
        same = np.array(
            [
                {loop.variable: loop.axes for loop in choice.loops if loop.is_split} == taken
                for choice in space.ways[einsum.name].choices
            ]
        )
        found = cheapest(space, limit, request.time_limit, {einsum.name: same}, progress=progress)
        if isinstance(found, Found):
            other = chosen_plan(space, found, planning.model)
            if all(other.loops != earlier.loops for earlier in made):
                made.append(other)
    return tuple(sorted(made, key=lambda one: one.cost)[:ALTERNATIVES])
