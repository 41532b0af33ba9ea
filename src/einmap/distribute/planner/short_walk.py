"""A plan when the time of an integer program is over: short Metropolis walks meet one in a second or two."""

from __future__ import annotations

from dataclasses import replace

from einmap.distribute.search.search import Found, NotFound
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.walk.walk import WalkOptions, walk

OPTIONS = WalkOptions(evaluations=20_000, seconds=2.0)
"""Half a second for a layer of a transformer."""
SHORTER = WalkOptions(evaluations=2000, seconds=1.0)
STEP = 0.95
"""Part of the memory that the next of several walks is given."""
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


def thriftiest_or_met(space: SearchSpace, memory: float, found: Found | NotFound) -> Found | NotFound:
    """What an exact search for the least peak memory found; where it was ended before its proof, that or what walks
    within less and less memory meet, until one meets nothing.

    `memory`: bytes that some plan is known to need at most. The cost of what is given is its peak in bytes, or a little
    more.
    """
    if found.proven or not _is_walked_quickly(space):
        return found
    best, bound = found, 0.0
    if isinstance(found, Found):
        memory, bound = min(memory, found.cost), found.bound
    while (met := walk(space, SHORTER, STEP * memory).found) is not None:
        memory *= STEP
        best = replace(met, cost=memory, bound=bound)
    return best


def _is_walked_quickly(space: SearchSpace) -> bool:
    if space.same or any(ways.slow is not None for ways in space.ways.values()):
        return False
    pairs = 0
    for einsum in space.context.workload.einsums:
        ways = len(space.ways[einsum.name].choices)
        pairs += sum(ways * len(space.homes[access.tensor].first) for access in einsum.accesses)
    return pairs <= MAX_PAIRS
