"""The search of a cascade as a whole, on one way, and what it leaves out: Einsums that tables cannot search, and what
had no room.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from einmap.arrays import Floats
from einmap.errors import NotSupportedError
from einmap.mapper.compose.ways import Way
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.fusion.cascade_objective import with_slopes
from einmap.mapper.fusion.paths.lower_envelope import corners
from einmap.mapper.fusion.refinement.einsum_floors import floors_in_time
from einmap.mapper.fusion.refinement.floors_with_room import least_weighted
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.objective.pareto_sums import PARTS
from einmap.mapper.objective.tolerances import ROUNDING, tie_breaker
from einmap.mapper.problem.problem import Budget, Known, Problem
from einmap.mapper.problem.searchable import why_not_fused
from einmap.mapper.result.outcome import Outcome, ended_after, narrowed_by
from einmap.mapper.result.result import Found, MapStats, objective
from einmap.progress import Progress

FOR_BOUNDS = 0.3
"""Part of a limited time that is kept for bounds of the Einsums, in case that the search does not come to its end."""
MOST_FOR_BOUNDS = 2.0
"""Seconds that are enough for them."""
FOR_TIES = 1 / 3
"""Part of a limit in which a mapping that reaches the first bound is looked for."""
AT_LEAST = 0.5
"""Seconds for them where somebody has stopped the search."""


def cascade(problem: Problem, budget: Budget, way: Way) -> tuple[Outcome, Known]:
    """Search a cascade on one way, and say what the search of the next one need not look for.

    A front begins with the best mapping for each metric by itself. Raises NotSupportedError for an Einsum of a
    recurrence that tables cannot search.
    """
    start = time.perf_counter()
    ends, work = _ends_of_front(problem, budget, way)
    goals, known = problem.options.goals, problem.known
    if ends and all(PARTS.get(goal, (goal,)) == (goal,) for goal in goals):
        rows = np.array([[objective(end.cost, goal) for goal in goals] for end in ends])
        known = replace(known, rows=rows if known.rows is None else np.concatenate([known.rows, rows]))
    is_bounded = len(goals) == 1 and known.limit is None
    if is_bounded and _may_reach_bound(problem, way):
        found, known, work = _at_bound(problem, budget, way)
        if found is not None:
            return found, replace(known, value=found.value)
    search = way.search(problem.options, known)
    trees = search.run(_but_for_bounds(budget.progress) if is_bounded else budget.progress, budget.after(work).work)
    _refuse_tried(search)
    points = (*ends, *(way.point(tree, problem.options) for tree in trees))
    begin = time.perf_counter()
    bound = known_bound(search, budget.progress) if is_bounded else None
    search.passed("bounds", begin)
    outcome = replace(_outcome(search, points, work, start), bound=bound)
    if points and bound is not None and bound >= outcome.value * (1 - ROUNDING):
        # whatever was not listed is no better
        outcome = replace(outcome, ended=None, left_out=())
    if is_bounded and tie_breaker(goals) is not None and search.knows_nearly_best:
        outcome = replace(outcome, planned={search.names: search.nearly_best()})
    return outcome, search.reached()


def _may_reach_bound(problem: Problem, way: Way) -> bool:
    """Whether what is as fast as the first bound says may be looked for, by tables and with the least energy."""
    options, einsums = problem.options, [einsum for einsum in way.spec.workload.einsums if not einsum.is_copy]
    return (
        options.goals == ("latency",) and options.breaks_ties and problem.known.limit is None and not way.steps.of
    ) and not any(why_not_fused(einsum, way.spec.bound[einsum.name].arch, ("energy", "latency")) for einsum in einsums)


def _at_bound(problem: Problem, budget: Budget, way: Way) -> tuple[Outcome | None, Known, int]:
    """The least energy of what is as fast as the first bound says, None where there is none; plans and work by then.

    Latency mostly is what the busiest component needs in any case, and many mappings are as fast: which of them are is
    of no use to know where the one with the least energy is wanted.
    """
    options, start = problem.options, time.perf_counter()
    known = Known(limit=("latency", math.inf), doubtful=True)
    search = way.search(replace(options, goals=("energy",)), known)
    least, part = search.limit_to_bound(_but_for_bounds(budget.progress), budget.work), budget.share(FOR_TIES)
    trees = [] if least is None else search.run(part.progress, part.work)
    if not trees:
        known = replace(problem.known, planned={search.names: search.plans} if search.prepared else {})
        return None, known, search.meter.work
    outcome = _outcome(search, [way.point(tree, options) for tree in trees], 0, start)
    # as good as the bound it is in any case, whether a better one by energy was looked for to the end or not
    return replace(outcome, goals=options.goals, bound=least, ended=None), problem.known, 0


def _but_for_bounds(token: Progress) -> Progress:
    """A limited time but for what a stopped search needs to bound each Einsum by itself."""
    if token.deadline is None:
        return token
    left = token.seconds_left()
    return token.within(left - min(left * FOR_BOUNDS, MOST_FOR_BOUNDS))


def _ends_of_front(problem: Problem, budget: Budget, way: Way) -> tuple[list[Found], int]:
    """The best mapping for each of several metrics by itself, for a half of the time and of the choices.

    Also the choices that were looked at. A front that is stopped is then hardly beaten by a search for one of its
    metrics, and its search need not look for what is no better.
    """
    goals, ends, work = problem.options.goals, list[Found](), 0
    # fronts of recurrences are small: their ends take more choices than they save
    for number, goal in enumerate(goals if len(goals) > 1 and not way.steps.of else ()):
        part = budget.share(1 / (2 * len(goals) - number))
        search = way.search(replace(problem.options, goals=(goal,)))
        trees = search.run(part.progress, max((budget.work / 2 - work) / (len(goals) - number), 1.0))
        ends += [way.point(tree, problem.options) for tree in trees]
        work += search.meter.work
    return ends, work


def _refuse_tried(search: FusedSearch) -> None:
    """Raise NotSupportedError for an Einsum of a recurrence that tables cannot search."""
    for member in search.members:
        why, name = member.chains.why_brute_force, member.einsum.name
        if why is not None and name in search.steps.of:
            text = f"Einsum {name!r} is a part of a recurrence, and is searched mapping by mapping ({why})"
            raise NotSupportedError(f"{text}; that is not supported yet", at=search.spec.place_of_einsum(name))


def _outcome(search: FusedSearch, points: Sequence[Found], work: int, start: float) -> Outcome:
    """Outcome of a search. `work`: choices that were looked at before; `start`: when it began."""
    by_einsum, total = _by_einsum(search), time.perf_counter() - start
    kept = {name for found in points for name in found.spec.workload.by_name}
    kept |= {part["same_as"] for name, part in by_einsum.items() if name in kept}
    stats = MapStats(
        mapspace_size=float(sum(part["mapspace_size"] for part in by_einsum.values())),
        templates=sum(part["templates"] for part in by_einsum.values() if part["same_as"] is None),
        evaluated=search.meter.work + work,
        seconds=total,
        by_einsum={name: part for name, part in by_einsum.items() if name in kept},
        steps={**search.seconds, "evaluation": max(total - sum(search.seconds.values()), 0.0)},
    )
    # it was stopped, or had no time to list all dataplacements
    is_cut = search.meter.cut or any(member.chains.is_cut for member in search.distinct)
    left_out = tuple(dict.fromkeys(_not_searched(search)))
    loops = ", a recurrence below one loop over its steps" if search.steps.of else ""
    like = " like the given one" if search.given else ""
    kind = f"fused mapping{like}" if search.inside else f"unfused mapping{like} (each Einsum by itself{loops})"
    return Outcome(
        search.options.goals,
        tuple(points),
        stats,
        every=f"other {kind}" if left_out else kind,
        narrowed=narrowed_by(search.options, fused=search.inside),
        ended=ended_after(stats.evaluated) if is_cut else None,
        left_out=left_out,
        # what breaks a tie was asked for, and all of it is found
        ties_broken=search.known.limit is not None and search.complete,
        unfit=search.impossible,
        tie_bound=search.lower_bound() if search.meter.has_enough else None,
    )


def _by_einsum(search: FusedSearch) -> dict[str, dict[str, Any]]:
    """How the search of each Einsum went."""
    by_einsum: dict[str, dict[str, Any]] = {}
    for member in search.members:
        chains = member.chains
        statistics = chains.statistics
        by_einsum[member.einsum.name] = {
            "mapspace_size": statistics.mapspace_size,
            "templates": statistics.templates,
            "lanes": statistics.lanes,
            "outlines": len(chains.signatures),
            "heads": statistics.outer_nests,
            "complete": chains.complete and not search.meter.cut,
            "same_as": member.same_as,
            "brute_force": chains.why_brute_force,
        }
    return by_einsum


def known_bound(search: FusedSearch, token: Progress) -> float | None:
    """Lower bound of the one objective of a search, also where it was stopped or had to leave something out."""
    members = {member.einsum.name: member for member in search.members}
    proven, covered = 0.0, all(member.chains.covers_mapspace for member in search.members)
    if search.least and covered:
        proven = search.lower_bound()
    floors, before = search.floors, search.floors_before_plans
    if search.meter.cut or not covered:
        # a search that somebody ended has some time for it in any case, as its fallback has
        late = token.stopped and token.deadline is None
        brief = Progress(token.callback).within(AT_LEAST if late else max(token.seconds_left(), AT_LEAST))
        before.learn(brief)
        token = brief if late else token
        if search.lists.are_few:
            before.learn_room(search.value, token)
            before.learn_room(search.value, token, closely=True)
        if len(floors) < len(search.parts):
            floors |= floors_in_time(search, token, floors)

    def total(weights: Floats) -> Floats:
        every, of_each = np.zeros(len(weights)), dict[str, Floats]()
        for number, einsum in enumerate(search.workload.einsums):
            member = members.get(einsum.name)
            costs = np.array([least_costs(einsum, search.spec.bound[einsum.name].arch, search.goals)])
            least = least_weighted(weights, costs)
            if number < len(search.firsts) and search.firsts[number] in floors:
                least = np.fmax(least_weighted(weights, floors[search.firsts[number]][None]), least)
            for rows in before.of(einsum):
                least = np.fmax(least_weighted(weights, rows), least)
            if member is not None and member.chains.covers_mapspace and member.chains in search.least:
                # where there was no time for bounds it is nothing
                least = np.fmax(member.chains.least(weights), least)
            every += search.times(einsum) * least
            of_each[einsum.name] = least
        return every + before.of_copies(weights, of_each)

    weights = search.weights
    least = total(weights)
    if len(weights) == 2:
        weights = with_slopes(weights, least)
        least = total(weights)
    if (least == -np.inf).any():
        return proven if proven > 0 else None
    if not np.isfinite(least).all():
        # no cascade is better than the best one known
        return search.value
    return min(max(proven, float(corners(weights, least[None])[0].prod(axis=1).min())), search.value)


def _not_searched(search: FusedSearch) -> list[str]:
    texts: list[str] = []
    for member in search.distinct:
        chains, name = member.chains, member.einsum.name
        texts += chains.omissions
        if chains.why_brute_force is not None and chains.request.intermediates:
            texts.append(
                f"mappings that keep {_kept(search, name)} inside tile by tile, and some that keep them whole: "
                f"{_alone(search, name, chains.why_brute_force)}"
            )
    return texts


def _alone(search: FusedSearch, name: str, why: str) -> str:
    """Why an Einsum is searched by brute force."""
    alike = sum(name in (member.einsum.name, member.same_as) for member in search.members) - 1
    others = f" and {alike} like it" if alike else ""
    return f"Einsum {name!r}{others} is searched mapping by mapping ({why})"


def _kept(search: FusedSearch, name: str) -> str:
    """Intermediate tensors of an Einsum."""
    copies = [search.workload.by_name[copy] for copy in search.optional]
    copied = {t: source for copy in copies for t in copy.outputs for source in copy.inputs}
    einsum = search.workload.by_name[name]
    inside = [a.tensor for a in einsum.accesses if a.tensor in search.workload.intermediates]
    return " or ".join(f"a copy of {copied[t]}" if t in copied else t for t in dict.fromkeys(inside))
