"""Lower bounds of the chains of an Einsum, by its own search: its shared tensors are free above their backing nodes.

Tables bound what each tensor needs as if it had the memories to itself; where several tensors fill one, such a bound
may be a half of what there is. A search by itself knows that they have to fit beside each other, in milliseconds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch, SearchRun
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.fusion.fronts.einsum_fronts import EinsumFronts
from einmap.mapper.fusion.fronts.nests.signatures import SignatureClass
from einmap.mapper.fusion.fronts.planned_einsum import PlannedEinsum
from einmap.mapper.fusion.fronts.protocol import Fronts
from einmap.mapper.fusion.problem import CascadeProblem
from einmap.mapper.objective.metrics import METRICS
from einmap.mapper.problem.request import Waiting
from einmap.progress import Progress

TOLERANCE = 0.01
"""How far floors may be below the least cost."""
MOST_WORK = 2_000_000
"""Choices that are looked at for each of them."""
RAISED = 1.1
"""By how much a floor must exceed the bounds by tables to be of use."""


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
    sizes: dict[str, Floats] = {}
    for einsum, first in zip(cascade.workload.einsums, cascade.firsts, strict=False):
        costs = np.array(least_costs(einsum, cascade.spec.bound[einsum.name].arch, cascade.goals))
        sizes[first] = sizes.get(first, 0.0) + cascade.times(einsum) * np.where(np.isfinite(costs), costs, 0.0)
    whole = np.maximum(np.sum([*sizes.values()], axis=0), np.finfo(float).tiny)
    floors: dict[str, Floats] = {}
    for name in sorted(sizes, key=lambda name: -float((sizes[name] / whole).sum())):
        part = cascade.parts[name]
        if token.stopped:
            break
        if name not in known and isinstance(part, PlannedEinsum) and part.has_all and is_bounded_alone(part):
            floors[name] = least_alone(part, token)
    return floors


def is_bounded_alone(part: PlannedEinsum) -> bool:
    """Whether a search of the Einsum by itself bounds its chains: not where these wait for others."""
    request = part.request
    waits = request.waiting != Waiting() or request.steps is not None
    return not waits and METRICS.keys() >= set(request.goals) and all(path.machine is None for path in part.paths)


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
