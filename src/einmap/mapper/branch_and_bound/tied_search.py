"""Ties of one Einsum: of the mappings that are equally good by energy or by latency the best by the other one."""

from __future__ import annotations

from dataclasses import replace

from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.objective.tolerances import tie_breaker, tied
from einmap.mapper.problem.options import Options
from einmap.mapper.problem.request import Remainder
from einmap.progress import Progress


def with_ties_broken(
    search: EinsumSearch | None, found: Optimum, options: Options, token: Progress, left: float
) -> Optimum:
    """Result of a complete search for energy or latency, with the mapping that is as good, and best by the other one.

    The Einsum is searched once more for that; a least sum over Einsums has the best of each. `search`: None where brute
    force found it, which breaks ties itself; `left`: choices that may be looked at.
    """
    is_wanted = options.breaks_ties and not options.objective_tolerance and found.mappings
    if search is None or not is_wanted or left <= 0 or token.stopped:
        return found
    breaker = tie_breaker(search.request.goals)
    if breaker is None:
        return found
    energy, latency = search.cost_of(found.mappings[0])
    limits = tied(energy if breaker == "energy" else latency, found.values[0][0])
    goals = (breaker, *search.request.goals)
    request = replace(search.request, goals=goals, remainder=Remainder(limits.rows, -1.0))
    paths = [path.with_plans(request, path.plans) for path in search.paths]
    others = EinsumSearch(search.einsum, search.arch, request, token, paths, search.instances, left).run()
    better = [i for i, values in enumerate(others.values) if limits.takes(*values)]
    result = replace(
        found, work=found.work + others.work, nodes=found.nodes + others.nodes, ties_broken=others.complete
    )
    if not better:
        return result
    best = min(better, key=lambda i: others.values[i][0])
    return replace(result, values=[(others.values[best][1],)], mappings=[others.mappings[best]])
