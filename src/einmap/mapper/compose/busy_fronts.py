"""Fused Einsums that overlap: the front of all that their latency is the largest of, for small cascades.

A cascade takes at least as long as each component is busy for all Einsums, and as long as they take in turn with what
is their own (`model.overlap`); with one split it takes no longer. Each of these is a sum over Einsums: the seconds of
each latency form of a component, of the operations on each compute, and what is own of each. So the search of cascades
finds the front of these sums, and the least largest sum on it is a lower bound.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from einmap.arrays import Floats
from einmap.mapper.compose.shared_inputs import not_shared, sharing
from einmap.mapper.cost_bounds.columns import columns_of
from einmap.mapper.exhaustive.compulsory_traffic import least_costs
from einmap.mapper.fusion.search import FusedSearch
from einmap.mapper.objective.objectives import OWN, busy_form, operations_of
from einmap.mapper.objective.tolerances import TIE
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.searchable import why_not_fused
from einmap.mapper.result.result import Found
from einmap.model.evaluate import evaluate
from einmap.progress import Progress
from einmap.spec.spec import Spec

ENERGY = "energy"


@dataclass(frozen=True)
class BusyFront:
    """Mappings of the front, as they are, and what all mappings cost at least; None where the search did not end."""

    found: tuple[Found, ...]
    bound: float | None
    work: int


def busy_front(spec: Spec, asked: Options, best: float, token: Progress, most: float) -> BusyFront | None:
    """The front for latency, or the energy-delay product; None for other metrics, and Einsums without tables.

    `best`: the least value known; `token`, `most`: how long it may take, and how many choices it may look at.
    """
    if asked.goals not in (("latency",), ("energy_delay_product",)):
        return None
    einsums = [einsum for einsum in spec.workload.einsums if not einsum.is_copy]
    if any(why_not_fused(e, spec.bound[e.name].arch, asked.goals) for e in einsums):
        return None
    with_energy = asked.goals != ("latency",)
    goals = ((ENERGY,) if with_energy else ()) + (OWN, *_forms(spec))
    options = replace(asked, goals=goals)
    shared = sharing(spec) if asked.share_inputs else None
    searches = [] if shared is None else [FusedSearch(shared.spec, options, frozenset(shared.copies.values()))]
    if shared is None or not shared.covers:
        searches.append(FusedSearch(spec, options))
    found: list[Found] = []
    bounds = [best]
    for search in searches:
        search.seeds = _seeds(spec, goals, best)
        for mapping in search.run(token, most / len(searches)):
            is_shared = shared is not None and search.spec is shared.spec
            own_spec, settled, inputs = shared.settled(mapping) if shared and is_shared else (spec, mapping, ())
            found.append(Found(evaluate(own_spec, settled, asked.rules), settled, own_spec, inputs))
        values = search.all_reached
        if len(values):
            seconds = values[:, with_energy:].max(axis=1)
            bounds.append(float((seconds * values[:, 0] if with_energy else seconds).min()))
    whole = all(search.complete and search.impossible is None for search in searches)
    whole &= not (asked.share_inputs and not_shared(spec, shared))
    work = sum(search.budget.work for search in searches)
    return BusyFront(tuple(found), min(bounds) if whole else None, work)


def _forms(spec: Spec) -> list[str]:
    """The names of all sums of seconds."""
    names: dict[str, None] = {}
    for einsum in spec.workload.einsums:
        arch = spec.bound[einsum.name].arch
        for unit in arch.computes:
            if not unit.enabled:
                continue
            leaves = arch.path(unit.name)
            for component, places in columns_of(einsum, leaves).of_components(leaves).items():
                names |= dict.fromkeys(busy_form(component, number) for number in range(len(places)))
            names[operations_of(unit.name)] = None
    return list(names)


def _seeds(spec: Spec, goals: tuple[str, ...], best: float) -> Floats:
    """Points: what is not better than one of them is not better than the best known value.

    That is all of which one sum of seconds is as long as the best, or with the least energy has its product.
    """
    if not math.isfinite(best):
        return np.zeros((0, len(goals)))
    least, timed = 1.0, [i for i, goal in enumerate(goals) if goal != ENERGY]
    if ENERGY in goals:
        least = sum(
            least_costs(e, spec.bound[e.name].arch, (ENERGY,))[0] * spec.workload.n_instances * e.n_instances
            for e in spec.workload.einsums
        )
    rows = np.zeros((len(timed) if least > 0 else 0, len(goals)))
    for row, i in zip(rows, timed, strict=False):
        row[i] = best / least * (1 + TIE)
    return rows
