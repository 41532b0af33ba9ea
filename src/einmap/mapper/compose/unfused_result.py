"""The result of a search that maps each Einsum by itself, and what that leaves out where fusion was asked for."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence

from einmap.mapper.compose.shared_inputs import not_shared, sharing
from einmap.mapper.independent.einsum_result import seconds_of, statistics_of
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.independent.unfused_bound import free_tensors, relaxed_bound
from einmap.mapper.problem.options import Options
from einmap.mapper.result.result import Found, MapResult, MapStats
from einmap.mapper.result.verdict import Coverage, ended_after, judged, narrowed_by, with_ties
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.shared_inputs import shareable
from einmap.spec.spec import Spec
from einmap.visible import listed

LEAST_TIME, MOST_TIME = 1.0, 10.0
"""Seconds that a lower bound may take in all, within what is left of the time limit."""


def unfused_result(whole: IndependentSearch, start: float, token: Progress, *, fuse: bool, why: str = "") -> MapResult:
    """What `IndependentSearch` found, evaluated.

    `fuse`: whether mappings that fuse were asked for, `why`: why they were not searched if not for the options;
    `start`: when the search began. Raises MappingError where the Einsums' mappings do not fit together.
    """
    options, goals = whole.options, whole.options.goals
    best, searched = whole.best(), time.perf_counter()
    # what one Einsum keeps in the outermost memory another one may have to keep out of it
    strict = not (whole.single or whole.given)
    front = [
        Found(evaluate(whole.spec, mapping, options.rules, strict=strict), mapping, whole.spec) for mapping in best
    ]
    steps = {**seconds_of(whole.parts), "evaluation": time.perf_counter() - searched}
    fused = not_fused(whole, why or cause(whole)) if fuse else ()
    bound = _bound(whole, fused=bool(fused), token=_limited(whole, token, start)) if len(goals) == 1 else None
    by_einsum = statistics_of(whole.parts)
    distinct = [part for part in by_einsum.values() if part["same_as"] is None]
    stats = MapStats(
        mapspace_size=float(sum(part["mapspace_size"] for part in by_einsum.values())),
        templates=sum(part["templates"] for part in by_einsum.values()),
        evaluated=sum(part["evaluated"] for part in distinct),
        seconds=time.perf_counter() - start,
        by_einsum=by_einsum,
        steps=steps,
    )
    pruned = whole.pruned()
    covered = Coverage(
        every=f"{'other ' if pruned else ''}{_searched(whole)}",
        by_trying=all(part["brute_force"] for part in distinct),
        narrowed=narrowed_by(options, fused=False),
        ended=_ended(stats, whole.cut()),
        pruned=(*pruned, *fused),
        bound=bound,
    )
    result = judged(front, goals, covered, stats, options.objective_tolerance)
    return with_ties(result, broken=all(whole.optimum(part.einsum).ties_broken for part in whole.distinct))


def may_be_fused(spec: Spec, given: Mapping[str, object]) -> tuple[frozenset[str], frozenset[str]]:
    """Intermediate tensors that a mapping could keep inside, and graph inputs that one could copy for all users.

    What an Einsum with a given mapping uses stays in its outermost memory.
    """
    fixed = frozenset[str]().union(*(spec.workload.by_name[name].tensors for name in given))
    return free_tensors(spec, given), frozenset(shareable(spec.workload)) - fixed


def not_fused(whole: IndependentSearch, why: str, kind: str = "mappings") -> tuple[str, ...]:
    """What is left out when Einsums are mapped one by one although fusion was asked for, in words.

    `kind`: the mappings that are meant.
    """
    inside, shared = may_be_fused(whole.spec, whole.given)
    kinds = []
    if inside:
        kinds.append(f"{kind} that keep {_names(inside, whole)} inside between Einsums")
    if shared and whole.options.share_inputs:
        kinds.append(f"{kind} that fill {_names(shared, whole)} once for all Einsums that read it")
    return (*kinds[:-1], f"{kinds[-1]}, since {why}") if kinds else ()


def unsearched(whole: IndependentSearch, *, fuse: bool) -> str:
    """What follows the reason for which no unfused mapping is valid: that fused ones were not looked at.

    `fuse`: whether fusion was asked for. Empty where no tensor could stay inside.
    """
    parts = not_fused(whole, cause(whole) if fuse else "fusion was not asked for")
    return f"; not searched: {', nor '.join(parts)}" if parts else ""


def _names(tensors: frozenset[str], whole: IndependentSearch) -> str:
    """Names in the order of the workload; at most four of them."""
    ordered = [t for t in whole.workload.tensors if t in tensors]
    shown = [*ordered[:4], f"{len(ordered) - 4} more"] if len(ordered) > 4 else ordered
    return " or ".join([", ".join(shown[:-1]), shown[-1]] if len(shown) > 1 else shown)


def cause(whole: IndependentSearch) -> str:
    """Why each Einsum is mapped by itself, by the options of the call."""
    return f"each Einsum is mapped by itself with {_causes(whole)}"


def few_sizes(whole: IndependentSearch) -> str:
    """Why not all fused mappings with imperfect factors are searched, by the options of the call."""
    return f"with {_causes(whole)} only those are searched that are perfect in slightly larger ranks"


def _causes(whole: IndependentSearch) -> str:
    options: Options = whole.options
    names = {
        "brute_force": options.brute_force,
        "a given mapping": bool(whole.given),
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
    """What the one metric is at least, also for mappings that fuse if these were asked for but not searched."""
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


def _limited(whole: IndependentSearch, token: Progress, start: float) -> Progress:
    """As long as the search took, at least a second; by work alone where results are not to depend on time."""
    if whole.options.max_evaluations is not None:
        return token
    left = math.inf if token.deadline is None else token.deadline - time.monotonic()
    spent = time.perf_counter() - start
    return token.within(max(min(max(spent, LEAST_TIME), MOST_TIME, left), 0.0))
