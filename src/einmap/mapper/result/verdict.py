"""What a result may claim: whether it is proven, for which mappings, and how far it may be from the best.

Each search says what it covered; `reason`, `optimal` and the lower bound of a result are made of that here, and
nowhere else.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from einmap.mapper.objective.pareto_sums import PARTS
from einmap.mapper.objective.tolerances import tie_breaker
from einmap.mapper.problem.options import Options
from einmap.mapper.result.result import Found, MapResult, MapStats, objective
from einmap.visible import listed

NOT_SEARCHED = "; not searched: "
"""What a reason says before the parts that were left out."""
NO_GAP = "; no gap is known: "
"""What it says before the cause."""


@dataclass(frozen=True)
class Coverage:
    """What a search covered.

    `every`: the mappings that were searched, in words that stand behind "every"; `by_trying`: each was evaluated, none
    ruled out by a bound. `narrowed`: in words, what mappings have that the options of the call ask for.
    `ended`: why the search ended before all of them were covered, None where they were. `pruned`: what of the
    mapspace that was asked for was not searched, in words.
    `bound`: what the one metric is at least for every mapping that was asked for (J, s, J*s), None where that is not
    known; where nothing is left out it is the best found.
    """

    every: str
    by_trying: bool = False
    narrowed: tuple[str, ...] = ()
    ended: str | None = None
    pruned: tuple[str, ...] = ()
    bound: float | None = None


def ended_after(evaluated: int) -> str:
    """Why a search ended that had evaluated so many choices, and not all."""
    return f"stopped after {evaluated:,} choice{'' if evaluated == 1 else 's'}"


def narrowed_by(options: Options, fused: bool) -> tuple[str, ...]:
    """What the options of a call ask for: mappings with nothing but this."""
    limits = []
    if options.coarseness > 1:
        limits.append(f"the tile shapes that tiling_coarseness {options.coarseness:g} keeps")
    if options.stalls:
        limits.append("stalls that can be counted turn by turn")
    elif fused and math.isfinite(options.most_fused):
        loops = "loop" if options.most_fused == 1 else "loops"
        limits.append(f"at most {options.most_fused:g} fused {loops} (max_fused_loops)")
    if fused and options.most_fused_per_variable not in (1, math.inf):
        most = options.most_fused_per_variable
        limits.append(f"at most {most:g} fused loops over each rank variable (max_fused_loops_per_rank_variable)")
    return tuple(limits)


def judged(
    front: Sequence[Found], goals: tuple[str, ...], covered: Coverage, stats: MapStats, tolerance: float = 0.0
) -> MapResult:
    """The result of a search. `tolerance`: mappings that are better by no more than this part may have been ignored."""
    whole = covered.ended is None and not covered.pruned
    optimal = whole and not tolerance
    bound: float | None = None
    if len(goals) == 1:
        best = objective(front[0].cost, goals[0])
        least = covered.bound
        if whole:
            least = best if optimal else _eased(best, tolerance, len(PARTS.get(goals[0], goals)))
        bound = None if least is None else min(least, best)
    reason = _reason(covered, tolerance)
    if not optimal and (bound is None or bound <= 0):
        reason += NO_GAP + _no_gap(goals, bound)
    if len(goals) > 1 and covered.ended is not None:
        reason += "; a search for one of the metrics alone may find better"
    return MapResult(
        tuple(map(without_advice, front)),
        goals,
        optimal,
        bound,
        reason,
        stats,
        not_searched=covered.pruned,
        stopped=covered.ended is not None,
    )


def ending(result: MapResult) -> str:
    """Why a search ended, without what it did not search and why its gap is not known."""
    return result.reason.partition(NOT_SEARCHED)[0].partition(NO_GAP)[0]


def with_ties(result: MapResult, *, broken: bool) -> MapResult:
    """A result that says so where others may be as good by its one metric, energy or latency, and better by the other.

    `broken`: of the mappings that are as good it is proven to be the best by the other metric. A result that is not
    complete says what it lacks anyway.
    """
    breaker = tie_breaker(result.metrics)
    if breaker is None or result.stopped:
        return result
    if broken:
        return replace(result, ties_broken=True)
    worse = "less energy" if breaker == "energy" else "less time"
    text = f"another mapping with the same {result.metrics[0]} may take {worse}"
    return replace(result, reason=f"{result.reason}; {text}")


def with_pipelines(
    result: MapResult, front: Sequence[Found], stages: int, *, ended: bool, in_stage: int = 1
) -> MapResult:
    """The result of a search and of one for Pipelines beside it, which may have `ended` before it was complete.

    `front`: the best of both; `stages`: how many a Pipeline had at most; `in_stage`: how many Einsums each.
    """
    optimal = result.optimal and not ended
    each = f" and {in_stage} Einsums in each" if in_stage > 1 else ""
    searched = f"cascade of Pipelines of at most {stages} stages{each}, which exchange through the outermost memory,"
    text = f"not every {searched} was" if ended else f"every {searched} was, too"
    one = len(result.metrics) == 1
    return replace(
        result,
        front=tuple(map(without_advice, front)),
        optimal=optimal,
        lower_bound=objective(front[0].cost, result.metrics[0]) if one and optimal else None,
        reason=f"{result.reason}; {text}",
        stopped=result.stopped or ended,
    )


def without_advice(point: Found) -> Found:
    """What a search found, without what would make a mapping better that somebody wrote: that was its own task."""
    notes = tuple(note for note in point.cost.notes if note.kind != "advice")
    return replace(point, cost=replace(point.cost, notes=notes)) if len(notes) < len(point.cost.notes) else point


def _eased(best: float, tolerance: float, factors: int) -> float | None:
    """What the optimum is at least if each of so many factors may be better by the tolerance."""
    return best / (1 + tolerance) ** factors if best >= 0 else None


def _reason(covered: Coverage, tolerance: float) -> str:
    """Why the search ended, and for which mappings it speaks."""
    text = covered.ended
    if text is None:
        kept = " and ".join(covered.narrowed)
        text = f"every {covered.every}{f' with {kept}' if kept else ''} was evaluated"
        text += "" if covered.by_trying else " or ruled out by a bound"
        text += f", but for what objective_tolerance {tolerance:g} allows" if tolerance else ""
    return NOT_SEARCHED.join([text, *([listed(covered.pruned, between=", nor ")] if covered.pruned else [])])


def _no_gap(goals: tuple[str, ...], bound: float | None) -> str:
    if len(goals) > 1:
        return "there are several metrics"
    if bound is not None:
        return f"the lower bound is {bound:g}"
    return f"there is no lower bound of {goals[0].replace('_', ' ')} for what was not searched"
