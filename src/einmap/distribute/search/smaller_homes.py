"""Of homes that cost a plan the same, those with the smallest buffers.

Where a block is cut from a tensor nothing is sent, so a search that makes time small finds no difference between a
weight on every PE and a weight of which each PE has what it reads.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from einmap.distribute.search.homes import Homes
from einmap.distribute.search.memory import home_bytes, memory_limits
from einmap.distribute.search.problem import Problem, selection_problem, with_limits
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.selection.problem import Choice
from einmap.einsum.einsum import TensorName

EQUAL = 1e-12
"""Part of a tensor's cost by which equal costs may differ."""


def with_smaller_homes(
    space: SearchSpace, found: SearchSpace, problem: Problem, choice: Choice, memory: float | None
) -> tuple[SearchSpace, Problem, Choice]:
    """The plan of `choice` with other homes from the whole `space`, at the same cost and within `memory` bytes, as the
    choice of a space with the ways of this plan alone. `found`: the space that `problem` and `choice` are of.
    """
    smaller = _of_these_ways(space, found, problem, choice)
    costs = selection_problem(smaller)
    if memory is not None:
        costs = with_limits(costs, memory_limits(smaller, costs, memory))
    picked = [0] * len(choice)
    for tensor in costs.nodes.tensors:
        node = costs.nodes.tensor(tensor)
        before = _number_of(found.homes[tensor], choice[problem.nodes.tensor(tensor)], smaller.homes[tensor])
        # cutting a result that nobody reads would be one more step, and matching ends stay so
        is_free = bool(space.context.workload.consumers[tensor]) and not any(tensor in ends for ends in space.same)
        picked[node] = _smallest(smaller, costs, tensor, before) if is_free else before
    if costs.selection.excess(picked) > 0:
        return found, problem, choice
    return smaller, costs, tuple(picked)


def _of_these_ways(space: SearchSpace, found: SearchSpace, problem: Problem, choice: Choice) -> SearchSpace:
    """All homes, and the way of each Einsum. Where pairs of homes are not listed, the pair and single homes."""
    ways, homes = {}, dict(space.homes)
    for name, some in found.ways.items():
        chosen = choice[problem.nodes.einsum(name)]
        ways[name] = some.only(np.arange(len(some.choices)) == chosen)
    for tensor, every in space.homes.items():
        if every.cut:
            pair, number = found.homes[tensor], choice[problem.nodes.tensor(tensor)]
            first = np.concatenate([pair.first[[number]], every.first])
            second = np.concatenate([pair.second[[number]], every.first])
            homes[tensor] = Homes.listed(every.paths, every.role, first, second)
    return replace(space, ways=ways, homes=homes, cut=())


def _number_of(homes: Homes, number: int, among: Homes) -> int:
    same = (among.first == homes.first[number]) & (among.second == homes.second[number])
    return int(np.nonzero(same)[0][0])


def _smallest(space: SearchSpace, costs: Problem, tensor: TensorName, before: int) -> int:
    """The home with the fewest bytes that costs no more than that of number `before`, which is kept if it has those."""
    node = costs.nodes.tensor(tensor)
    total = costs.selection.nodes[node].copy()
    for number in costs.edges_of[node]:
        total += costs.selection.edges[number].costs[0]
    equal = total <= total[before] * (1 + EQUAL)
    sizes = np.where(equal, home_bytes(space, tensor), np.inf)
    return before if sizes[before] <= sizes.min() else int(sizes.argmin())
