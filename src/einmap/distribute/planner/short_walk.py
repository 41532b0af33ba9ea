"""A plan when the time of an integer program is over: a short Metropolis walk meets one in less than a second."""

from __future__ import annotations

from dataclasses import replace

from einmap.distribute.search.search import Found, NotFound
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.walk.walk import WalkOptions, walk

OPTIONS = WalkOptions(evaluations=20_000, seconds=2.0)
"""Half a second for a layer of a transformer."""
MAX_PAIRS = 3_000_000
"""Ways and homes that go together or not, from which on the tables of a walk take too long to make."""


def found_or_met(space: SearchSpace, memory: float | None, found: Found | NotFound) -> Found | NotFound:
    """What an exact search found within `memory` bytes; where it was ended before its proof, that or the plan that a
    short walk meets, whichever costs less, with the bound of the search.
    """
    if found.proven or not _is_walked_quickly(space):
        return found
    met = walk(space, OPTIONS, memory).found
    if met is None or (isinstance(found, Found) and found.cost <= met.cost):
        return found
    return replace(met, bound=max(met.bound, found.bound if isinstance(found, Found) else 0.0))


def _is_walked_quickly(space: SearchSpace) -> bool:
    if any(ways.slow is not None for ways in space.ways.values()):
        return False
    pairs = 0
    for einsum in space.context.workload.einsums:
        ways = len(space.ways[einsum.name].choices)
        pairs += sum(ways * len(space.homes[access.tensor].first) for access in einsum.accesses)
    return pairs <= MAX_PAIRS
