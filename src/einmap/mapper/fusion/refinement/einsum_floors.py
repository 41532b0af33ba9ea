"""Lower bounds of the chains of an Einsum, by its own search: its shared tensors are free above their backing nodes.

Tables bound what each tensor needs as if it had the memories to itself; where several tensors fill one, such a bound
may be a half of what there is. A search by itself knows that they have to fit beside each other, in milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from einmap.arrays import Floats
from einmap.einsum.einsum import Einsum
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch, SearchRun
from einmap.mapper.cost_bounds.before_plans.floors import floors_of
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.fronts.nests.signatures import SignatureClass
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.fronts.protocol import Fronts
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.objective.metrics import METRICS
from einmap.mapper.problem.request import Request, Waiting
from einmap.mapper.problem.searchable import why_not_fused
from einmap.progress import Progress

TOLERANCE = 0.01
"""How far floors may be below the least cost."""
MOST_WORK = 2_000_000
"""Choices that are looked at for each of them."""
MOST_USES = 21_000
"""Dataplacements with uses of the fanouts of a signature class, on average, beyond which their tables take too long."""
RAISED = 1.1
"""By how much a floor must exceed the bounds by tables to be of use."""
TRIED = 2
"""Signature classes of an Einsum that are bounded in vain; so many more for each one that is not."""


def raised_with(cascade: CascadeProblem, chains: Fronts, signature_class: SignatureClass) -> Iterator[SignatureClass]:
    """Bound a signature class by a search of its own, once, and where its bound rises all others of the Einsum.

    Gives those whose bounds rise. Where tables say nearly as much there are no more of the Einsum.
    """
    of, n = chains.statistics, max(len(chains.signature_classes), 1)
    if of.templates * of.lanes > MOST_USES * n:
        return
    tried = cascade.floored.setdefault(chains, {})
    for each in (signature_class, *(other for other in chains.signature_classes if other != signature_class)):
        raised = sum(tried.values())
        if each in tried or len(tried) - raised >= TRIED * (1 + raised):
            continue
        cascade.meter.go_on()
        tried[each] = raise_floor(chains, each, cascade.meter.progress)
        if tried[each]:
            yield each
        if not any(tried.values()):
            break


def raise_floor(chains: Fronts, signature_class: SignatureClass, progress: Progress) -> bool:
    """Bound a signature class of an Einsum by its own search; whether that raised a bound by more than a little.

    One of which nothing fits is a signature class of the Einsum no more.
    """
    if not isinstance(chains, EinsumFronts) or not is_bounded_alone(chains.planned):
        return False
    rows = chains.signature_classes[signature_class]
    floor = least_by_tables(chains, progress, signature_class)
    if floor is None:
        floor = least_alone(chains.planned, progress, signature_class)
    if np.isinf(floor).any():
        # nothing of it fits; a weight of 0 would make infinite costs no number
        del chains.signature_classes[signature_class]
        return True
    chains.signature_classes[signature_class] = np.maximum(rows, floor)
    return bool((floor > rows.min(axis=0) * RAISED).any())


def floors_in_time(cascade: CascadeProblem, token: Progress, known: Collection[str] = ()) -> dict[str, Floats]:
    """Least costs of one instance, a column for each objective, by the name of the first Einsum that is alike.

    `known`: those that need none. Those of the largest Einsums come first; the others are missing where time is over.
    """
    floors: dict[str, Floats] = {}
    alike = list(zip(cascade.firsts, cascade.workload.einsums, strict=False))
    for name in by_size(cascade, alike):
        part = cascade.parts[name]
        if token.stopped:
            break
        if name not in known and isinstance(part, PlannedEinsum) and part.has_all and is_bounded_alone(part):
            floors[name] = least_alone(part, token)
    return floors


def floors_before_plans(
    cascade: CascadeProblem, token: Progress, inside: frozenset[str] | None = None
) -> dict[str, Floats]:
    """Rows of costs of one instance such that all chains of an Einsum are no better than some row, by its name.

    They need no lists of choices. Those of the largest Einsums come first; others are missing where time is over, or
    where there is no such bound. `inside`: tensors that may be kept inside, in place of those of the cascade.
    """
    alike: dict[Any, list[Einsum]] = {}
    for einsum in cascade.workload.einsums:
        alike.setdefault(cascade.written(einsum), []).append(einsum)
    found: dict[str, Floats] = {}
    for key in by_size(cascade, [(key, einsum) for key, einsums in alike.items() for einsum in einsums]):
        if token.stopped:
            break
        first, request = alike[key][0], cascade.request(alike[key][0], inside=inside)
        arch = cascade.spec.bound[first.name].arch
        has_tables = not first.is_copy and why_not_fused(first, arch, cascade.goals) is None
        rows = floors_of(first, arch, request) if has_tables and may_be_alone(request) else None
        found |= {einsum.name: rows for einsum in alike[key] if rows is not None}
    return found


def least_apart(chains: Fronts, weights: Floats) -> Floats:
    """For each row of weights what chains cost at least that keep all shared tensors in the outermost memory."""
    classes = chains.signature_classes
    if not classes:
        return chains.least(weights)
    is_apart = [not any(chains.may_stand_below_loops(memory) for _, memory in each) for each in classes]
    rows = [of_class for of_class, apart in zip(classes.values(), is_apart, strict=True) if apart]
    least: Floats = (np.concatenate(rows) @ weights.T).min(axis=0) if rows else np.zeros(len(weights))
    return least


def by_size[T](cascade: CascadeProblem, einsums: Iterable[tuple[T, Einsum]]) -> list[T]:
    """Kinds of Einsums, with each of them, by what they cost together at least: those that cost most first."""
    sizes: dict[T, Floats] = {}
    for kind, einsum in einsums:
        costs = np.array(least_costs(einsum, cascade.spec.bound[einsum.name].arch, cascade.goals))
        sizes[kind] = sizes.get(kind, 0.0) + cascade.times(einsum) * np.where(np.isfinite(costs), costs, 0.0)
    whole = np.maximum(np.sum([*sizes.values()], axis=0), np.finfo(float).tiny)
    return sorted(sizes, key=lambda kind: -float((sizes[kind] / whole).sum()))


def may_be_alone(request: Request) -> bool:
    """Whether the chains of an Einsum do not wait for others, and have costs that add up."""
    waits = request.waiting != Waiting() or request.steps is not None
    return not waits and METRICS.keys() >= set(request.goals)


def is_bounded_alone(part: PlannedEinsum) -> bool:
    """Whether a search of the Einsum by itself bounds its chains: not where these wait for others."""
    return part.has_floors and may_be_alone(part.request) and all(path.machine is None for path in part.paths)


def least_alone(part: PlannedEinsum, progress: Progress, signature_class: SignatureClass | None = None) -> Floats:
    """Least cost of one instance by each objective, in one signature class or in all of them."""
    paths = []
    for path in part.paths:
        plans = [plan for plan in path.plans if signature_class in (None, part.signature_class(plan))]
        if plans:
            paths.append(path.with_plans(path.request, plans))
    search = EinsumSearch(part.einsum, part.arch, part.request, progress, paths)
    return _eased([search.alone(goal, TOLERANCE, progress, MOST_WORK).bound[0] for goal in part.request.goals])


def least_by_tables(chains: EinsumFronts, progress: Progress, signature_class: SignatureClass) -> Floats | None:
    """As `least_alone`, from tables that are made already; None where some are not."""
    request, part = chains.request, chains.planned
    searches = chains.kept_searches(signature_class)
    if searches is None:
        return None
    runs = []
    for goal in request.goals:
        asked = replace(request, goals=(goal,), tolerance=TOLERANCE, remainder=None)
        runs.append(SearchRun(EinsumSearch(part.einsum, part.arch, asked, progress, [], max_work=MOST_WORK)))
    for search, compiled in searches:
        for run in runs:
            run.search_plans(search.asking(run.request, compiled), defaultdict(float))
    return _eased([run.bound[0] for run in runs])


def _eased(bounds: Sequence[float]) -> Floats:
    """Bounds less the tolerance: what is better by less is not looked for. Where nothing fits they stay infinite."""
    least = np.array(bounds)
    tolerance = np.abs(least, where=np.isfinite(least), out=np.zeros(len(least))) * TOLERANCE
    floors: Floats = least - tolerance
    return floors
