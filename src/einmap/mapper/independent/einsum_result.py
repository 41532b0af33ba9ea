"""Result of the search of one Einsum of a workload, and how it went."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from einmap.einsum.einsum import Einsum
from einmap.errors import NoMappingError
from einmap.mapper.branch_and_bound.einsum_search import EinsumSearch
from einmap.mapper.branch_and_bound.optimum import Optimum
from einmap.mapper.templates.statistics import STEPS
from einmap.mapping.mapping import Mapping as LoopTree
from einmap.visible import listed


@dataclass
class EinsumResult:
    """One Einsum: how it is searched, whose result it shares, and what was found.

    `search`: None where brute force is needed (`why`), or where there was no time to plan a search. `budget`: choices
    that may be looked at; `spent`: those that were looked at before the search. `early`: mappings that were found
    before the search; `alone`: what is nearly the best for an objective by itself.
    """

    einsum: Einsum
    search: EinsumSearch | None
    why: str | None
    same_as: str | None = None
    optimum: Optimum | None = None
    budget: float = math.inf
    spent: int = 0
    early: list[LoopTree] = field(default_factory=list)
    alone: dict[str, Optimum] = field(default_factory=dict)

    @property
    def is_planned(self) -> bool:
        """Whether it is known how it is searched, and all choices are listed as far as there is room."""
        return self.why is not None or (self.search is not None and not any(path.cut for path in self.search.paths))


def optimum_of(parts: Mapping[str, EinsumResult], name: str) -> Optimum:
    """Optimum of an Einsum, or of the one that it is like."""
    part = parts[name]
    optimum = parts[part.same_as].optimum if part.same_as else part.optimum
    assert optimum is not None
    return optimum


def statistics_of(parts: Mapping[str, EinsumResult]) -> dict[str, dict[str, Any]]:
    """How the search of each Einsum went, by its name."""
    statistics: dict[str, dict[str, Any]] = {}
    for name, part in parts.items():
        optimum = optimum_of(parts, name)
        statistics[name] = {
            "mapspace_size": optimum.size,
            "templates": optimum.plans,
            "searched": optimum.searched,
            "lanes": optimum.lanes,
            "nodes": optimum.nodes,
            "evaluated": optimum.work,
            "complete": optimum.complete,
            "same_as": part.same_as,
            "brute_force": part.why,
        }
        if optimum.tally is not None:
            statistics[name] |= {
                "lattice_points": optimum.points,
                "loops": optimum.tally.loops,
                "loops_removed": optimum.tally.loops_removed,
                "outcomes": optimum.tally.outcomes(),
            }
    return statistics


def seconds_of(parts: Mapping[str, EinsumResult]) -> dict[str, float]:
    """Wall time (s) of the steps of all searches; empty where brute force searched."""
    tallies = [part.search.tally for part in parts.values() if part.search is not None]
    return {step: math.fsum(tally.seconds[step] for tally in tallies) for step in STEPS if tallies}


def not_found(part: EinsumResult, coarseness: float) -> NoMappingError:
    """The error for an Einsum without a mapping in what was searched, where there was more to search.

    `coarseness`: see `lattice_of`; it is why, if the search came to its end.
    """
    assert part.optimum is not None
    name, optimum = part.einsum.name, part.optimum
    if optimum.complete:
        text = (
            f"no mapping of Einsum {name!r} was found with the tile shapes that tiling_coarseness {coarseness:g} keeps"
        )
        return NoMappingError(text, hint="make it smaller")
    left_out = part.search.pruned if part.search is not None and not optimum.cut else ()
    if left_out:
        text = f"no mapping of Einsum {name!r} was found; not searched: {listed(left_out)}"
        return NoMappingError(text, hint="raise what limits the search, or ask for factors that divide")
    text = f"the search was stopped before any mapping of Einsum {name!r} was found"
    return NoMappingError(text, hint="give it more time or evaluations")
