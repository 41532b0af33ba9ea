"""Lower bounds for a cascade of which only some mappings were searched: each Einsum at its best.

Every tensor that might stay inside between Einsums comes for free from whatever memory may keep it, and nothing has
to fit beside other Einsums. So whatever way of fusing is chosen, no Einsum costs less.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from einmap.einsum.einsum import Einsum
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.independent.independent_search import IndependentSearch
from einmap.mapper.objective.pareto_sums import PARTS
from einmap.mapper.problem.searchable import why_not_fused
from einmap.progress import Progress
from einmap.spec.spec import Spec

TOLERANCE = 0.01
"""How far bounds may be below the least cost."""
MOST_WORK = 2_000_000
"""Choices that are looked at for each bound of an Einsum."""


def relaxed_bound(whole: IndependentSearch, spec: Spec, goal: str, token: Progress) -> float | None:
    """Lower bound of the goal (J, s, J*s) if intermediate tensors of `spec` may stay inside; None if not known.

    `whole`: the Einsums as they were searched, of this specification or of the one before inputs were copied. Einsums
    that a given mapping is for keep nothing inside, and are bounded by what was found.
    """
    parts = PARTS.get(goal)
    if parts is None:
        return None
    total = np.zeros(len(parts))
    bounds: dict[object, tuple[float, ...]] = {}
    for name, part in whole.parts.items():
        einsum = spec.workload.by_name[name]
        shared = einsum.tensors & free_tensors(spec, whole.given)
        key = part.same_as or name, tuple(access.tensor in shared for access in einsum.accesses)
        if key not in bounds:
            least = _searched_least(whole, part.einsum, parts) if not shared else ()
            bounds[key] = least or _relaxed_least(whole, spec, einsum, shared, parts, token)
        total += np.array(bounds[key]) * whole.weight(part.einsum)
    known_all = np.isfinite(total).all() and (len(parts) == 1 or (total >= 0).all())
    return float(total.prod()) if known_all else None


def free_tensors(spec: Spec, given: Mapping[str, object]) -> frozenset[str]:
    """Intermediate tensors that may stay inside: those of a given mapping's Einsums do not."""
    fixed = [spec.workload.by_name[name].tensors for name in given]
    return spec.workload.intermediates.difference(*fixed)


def _searched_least(whole: IndependentSearch, einsum: Einsum, parts: tuple[str, ...]) -> tuple[float, ...]:
    """Least costs of an Einsum by its own search; nothing where that had other objectives."""
    if not set(parts) <= set(whole.goals):
        return ()
    bound = dict(zip(whole.goals, _eased(whole.optimum(einsum), whole.options.objective_tolerance), strict=True))
    return tuple(bound[part] for part in parts)


def _relaxed_least(
    whole: IndependentSearch,
    spec: Spec,
    einsum: Einsum,
    shared: frozenset[str],
    parts: tuple[str, ...],
    token: Progress,
) -> tuple[float, ...]:
    """The least cost of one instance with the shared tensors kept wherever that is best."""
    arch = spec.bound[einsum.name].arch
    floor = least_costs(einsum, arch, parts)
    if token.stopped or whole.options.brute_force or why_not_fused(einsum, arch, parts) is not None:
        return floor
    given = whole.request(einsum.name)
    asked = replace(given, given=None, shared=shared, intermediates=shared, uncut=frozenset())
    search = EinsumSearch.over_all(einsum, arch, asked, token)
    if any(path.lanes_above() for path in search.paths):
        return floor
    bounds = []
    for part, least in zip(parts, floor, strict=True):
        if token.stopped:
            # a search that begins too late would go on until it has a mapping
            bounds.append(least)
            continue
        optimum = search.alone(part, TOLERANCE, token, MOST_WORK)
        (bound,) = _eased(optimum, TOLERANCE)
        bounds.append(max(least, bound) if math.isfinite(bound) else least)
    return tuple(bounds)


def _eased(optimum: Optimum, tolerance: float) -> tuple[float, ...]:
    """Bounds of a search that did not look for what is better by less than the tolerance."""
    return tuple(bound - abs(bound) * tolerance for bound in optimum.bound)
