"""The search of each Einsum by itself, and what that leaves out where fusion was asked for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace

from einmap.arch.component import is_carrying
from einmap.arch.tree import Architecture
from einmap.errors import MappingError, NoMappingError
from einmap.mapper.compose.shared_inputs import not_shared, sharing
from einmap.mapper.given.pattern import Pattern
from einmap.mapper.independent.einsum_result import seconds_of, statistics_of
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.independent.unfused_bound import free_tensors, relaxed_bound
from einmap.mapper.mapspace.lanes.spatial_mappings import first_routed
from einmap.mapper.objective.tolerances import ROUNDING
from einmap.mapper.problem.options import units_of
from einmap.mapper.problem.problem import Budget, Problem
from einmap.mapper.result.outcome import Outcome, ended_after, evaluated, narrowed_by, united
from einmap.mapper.result.result import MapStats
from einmap.progress import Progress
from einmap.spec.shared_inputs import shareable
from einmap.spec.spec import Spec
from einmap.visible import listed

LEAST_TIME, MOST_TIME = 1.0, 10.0
"""Seconds that a lower bound may take in all, within what is left of the time limit."""


def einsum_by_einsum(problem: Problem, budget: Budget) -> Outcome:
    """The best unfused mappings. Raises NoMappingError, which names what was not searched.

    Tables know what crosses networks below lanes in the order in which they list these. Where lanes are given those
    found are evaluated in the order that is given, and the bound is that of a machine whose networks cost nothing.
    """
    ordered = tuple(name for name, given in problem.given.items() if _orders_lanes(given, problem.spec.arch(name)))
    if not ordered:
        return _each_by_itself(problem, budget)
    found = united([_each_by_itself(problem, budget)])
    free = replace(problem, spec=problem.spec.with_altered_archs(_without_networks)).asking(breaks_ties=False)
    easier = _each_by_itself(free, budget.after(found.stats.evaluated))
    pays = all(action.energy >= 0 for _, unit in units_of(problem.spec) if is_carrying(unit) for action in unit.actions)
    bound = easier.lower_bound if pays else None
    stats = replace(found.stats, evaluated=found.stats.evaluated + easier.stats.evaluated)
    found = replace(found, bound=bound, ties_broken=False, stats=stats)
    if bound is not None and found.value <= bound * (1 + ROUNDING):
        return found
    return replace(found, left_out=(*found.left_out, f"lanes of {listed(ordered)} in other orders than tables list"))


def _orders_lanes(given: Pattern, arch: Architecture) -> bool:
    """Whether loops are given for lanes that are places of a network."""
    paths = [arch.path(unit.name) for unit in arch.computes if any(map(is_carrying, arch.path(unit.name)))]
    placed = {leaf.name for path in paths for leaf in path[first_routed(path) :]}
    return any(component in placed for component, _ in given.dimensions)


def _without_networks(arch: Architecture) -> Architecture:
    for leaf in arch.leaves.values():
        if is_carrying(leaf):
            arch = arch.with_leaf(replace(leaf, enabled=False))
    return arch


def _each_by_itself(problem: Problem, budget: Budget) -> Outcome:
    """The best unfused mappings, at the costs of tables where these are exact. Raises NoMappingError."""
    whole, start = IndependentSearch(problem.spec, problem.options, problem.given), time.perf_counter()
    try:
        try:
            whole.run(budget.progress, budget.work)
        except NoMappingError as error:
            if not error.remedies:
                raise
            # Here, not above: the search of cascades takes long to import, which only few searches of Einsums need
            from einmap.mapper.compose.nothing_fits.cascade_sizes import explain_infeasible_cascade

            raise explain_infeasible_cascade(problem, error, budget.progress, fuse=False) from None
        try:
            return unfused_outcome(problem, whole, budget.progress, start)
        except MappingError as error:
            return _side_by_side(problem, budget, error)
    except NoMappingError as error:
        parts = not_fused(problem, cause(problem) if problem.fuse else "fusion was not asked for")
        left_out = f"; not searched: {', nor '.join(parts)}" if parts else ""
        raise error.with_message(error.message + left_out) from None


def like_given_stages(problem: Problem, budget: Budget) -> Outcome:
    """The best mappings with the Pipelines that are given, each Einsum that is in none of them by itself or in another.

    Raises NoMappingError where there is none, NotSupportedError for stages that are not searched.
    """
    from einmap.mapper.pipelined.cascade_search import pipelines
    from einmap.mapper.pipelined.given_stages import check_given_stages

    at = check_given_stages(problem)
    outcome = pipelines(problem, budget)
    if not outcome.points and outcome.ended is None:
        hint = "leave more of the mapping open with !Any {}, or enlarge a memory"
        raise NoMappingError("no mapping has a Pipeline like the given one and fits its memories", at=at, hint=hint)
    if not outcome.points:
        raise NoMappingError("no mapping like the given one was found in time", at=at, hint="give more time")
    left_out = not_fused(problem, cause(problem)) if problem.fuse else ()
    every = "mapping like the given one, in which no other tensor stays inside between Einsums,"
    notes = outcome.notes if problem.options.most_stages > 1 else ()
    return replace(outcome, every=every, left_out=left_out, notes=notes)


def _side_by_side(problem: Problem, budget: Budget, error: MappingError) -> Outcome:
    """The best unfused mapping where the best ones of the Einsums do not fit beside each other.

    Raises NoMappingError, with what is wrong (`error`) where the options are such that this cannot be searched.
    """
    from einmap.mapper.compose.cascade import cascade
    from einmap.mapper.compose.combinators import over, tie_broken
    from einmap.mapper.compose.ways import unfused_whole

    if problem.knows_cascades:
        search = tie_broken(over(unfused_whole, cascade))
        outcome = search(problem, budget)
        if outcome.points:
            return outcome
    raise NoMappingError(
        f"the Einsums' best mappings do not fit together: {error.message}",
        at=error.at,
        hint="let the outermost memory keep all tensors, or leave out what keeps Einsums from being fused",
    )


def unfused_outcome(
    problem: Problem, whole: IndependentSearch, token: Progress, start: float, why: str = ""
) -> Outcome:
    """Mappings found by `IndependentSearch`, evaluated.

    `why`: why fused mappings were not searched if not for the options; `start`: when the search began. Raises
    MappingError where the Einsums' mappings do not fit together.
    """
    options = whole.options
    # what one Einsum keeps in the outermost memory another one may have to keep out of it
    strict = not (whole.single or whole.given)
    mappings, searched = whole.best(), time.perf_counter()
    front = tuple([evaluated(whole.spec, mapping, options.rules, strict=strict) for mapping in mappings])
    stats = statistics(whole)
    stats = replace(stats, steps={**stats.steps, "evaluation": time.perf_counter() - searched})
    fused = not_fused(problem, why or cause(problem)) if problem.fuse else ()
    left_out = whole.pruned()
    limited = _limited(whole, token, time.perf_counter() - start)
    return Outcome(
        options.goals,
        front,
        stats,
        every=f"{'other ' if left_out else ''}{_searched(whole)}",
        by_trying=all(part["brute_force"] for part in stats.by_einsum.values() if part["same_as"] is None),
        narrowed=narrowed_by(options, fused=False),
        ended=_ended(stats, whole.cut()),
        left_out=(*left_out, *fused),
        bound=_bound(whole, fused=bool(fused), token=limited) if len(options.goals) == 1 else None,
        tolerance=options.objective_tolerance,
        ties_broken=all(whole.optimum(part.einsum).ties_broken for part in whole.distinct),
    )


def statistics(whole: IndependentSearch) -> MapStats:
    """How the search of the Einsums went."""
    by_einsum = statistics_of(whole.parts)
    return MapStats(
        mapspace_size=float(sum(part["mapspace_size"] for part in by_einsum.values())),
        templates=sum(part["templates"] for part in by_einsum.values()),
        evaluated=sum(part["evaluated"] for part in by_einsum.values() if part["same_as"] is None),
        by_einsum=by_einsum,
        steps=seconds_of(whole.parts),
    )


def not_fused(problem: Problem, why: str, kind: str = "mappings") -> tuple[str, ...]:
    """Mappings left out when Einsums are mapped one by one although fusion was asked for, in words.

    `kind`: the mappings that are meant. What an Einsum with a given mapping uses stays in its outermost memory.
    """
    spec, given = problem.spec, problem.given
    fixed = frozenset[str]().union(*(spec.workload.by_name[name].tensors for name in given))
    inside, shared = free_tensors(spec, given), frozenset(shareable(spec.workload)) - fixed
    kinds = []
    if inside:
        kinds.append(f"{kind} that keep {_names(inside, spec)} inside between Einsums")
    if shared and problem.options.share_inputs:
        kinds.append(f"{kind} that fill {_names(shared, spec)} once for all Einsums that read it")
    return (*kinds[:-1], f"{kinds[-1]}, since {why}") if kinds else ()


def _names(tensors: frozenset[str], spec: Spec) -> str:
    """Names in the order of the workload; at most four of them."""
    ordered = [t for t in spec.workload.tensors if t in tensors]
    shown = [*ordered[:4], f"{len(ordered) - 4} more"] if len(ordered) > 4 else ordered
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def cause(problem: Problem) -> str:
    """Why each Einsum is mapped by itself, by the options of the call."""
    return f"each Einsum is mapped by itself with {_causes(problem)}"


def few_sizes(problem: Problem) -> str:
    """Why not all fused mappings with imperfect factors are searched, by the options of the call."""
    return f"with {_causes(problem)} only those are searched that are perfect in slightly larger ranks"


def _causes(problem: Problem) -> str:
    options = problem.options
    names = {
        "brute_force": options.brute_force,
        "a given mapping": bool(problem.given),
        "explore_imperfect_temporal_loops": options.uneven_loops,
        "explore_imperfect_spatial_loops": options.uneven_lanes,
    }
    return " and ".join(name for name, is_so in names.items() if is_so)


def _searched(whole: IndependentSearch) -> str:
    like = " like the given one" if whole.given else ""
    if whole.single:
        return f"mapping{like} of the Einsum"
    return f"unfused mapping{like} (each Einsum by itself)"


def _ended(stats: MapStats, cut: Sequence[str]) -> str | None:
    """Why the search of some Einsums ended early, if it did."""
    if not cut:
        return None
    text = ended_after(stats.evaluated)
    if all(part["mapspace_size"] for part in stats.by_einsum.values()):
        text += f" in a mapspace of {stats.mapspace_size:.1e} mappings"
    return f"{text}; {listed(cut)} not covered"


def _bound(whole: IndependentSearch, *, fused: bool, token: Progress) -> float | None:
    """Lower bound of the one metric, also for mappings that fuse if these were asked for but not searched."""
    (goal,) = whole.options.goals
    if not fused:
        return None if goal == "resource_usage" else whole.bound()
    specs = [whole.spec]
    if whole.options.share_inputs:
        shared = sharing(whole.spec)
        if not_shared(whole.spec, shared):
            return None
        specs += [shared.spec] if shared is not None else []
    bounds = [relaxed_bound(whole, spec, goal, token) for spec in specs]
    return None if None in bounds else min(bound for bound in bounds if bound is not None)


def _limited(whole: IndependentSearch, token: Progress, spent: float) -> Progress:
    """As long as the search took (s), at least a second; by work alone where results are not to depend on time."""
    if whole.options.max_evaluations is not None:
        return token
    return token.within(min(max(spent, LEAST_TIME), MOST_TIME, token.seconds_left()))
