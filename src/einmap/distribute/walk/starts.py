"""Where chains begin: data parallel, and at random."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np

from einmap.distribute.search.homes import Costs
from einmap.distribute.search.problem import Problem
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.selection.problem import Choice
from einmap.einsum.einsum import Einsum, TensorName

EQUAL = 1e-12
"""Part of a cost by which sums of equal costs may differ."""
TRIES = 100
"""Random choices that are drawn until one can be."""


def data_parallel(space: SearchSpace, problem: Problem) -> Choice | None:
    """Weights whole on every PE, the work over as many PEs as that allows, operands where they lie already if they can.

    Weights are graph inputs beside the first operand of an Einsum. None where what is asked for does not allow it.
    """
    lies: dict[TensorName, int] = {}
    ways: dict[str, int] = {}
    for einsum in space.context.workload.einsums:
        offered = space.ways[einsum.name]
        possible = np.isfinite(offered.costs) & np.isfinite(_moved(space, einsum, lies))
        whole = possible & _weights_whole(space, einsum)
        allowed = np.nonzero(whole if whole.any() else possible)[0]
        if not len(allowed):
            return None
        moved, points = _moved(space, einsum, lies), np.array([choice.points.busiest for choice in offered.choices])
        way = int(min(allowed, key=lambda way: (points[way], moved[way], offered.costs[way], way)))
        ways[einsum.name] = way
        for access, numbers in zip(einsum.accesses, offered.lies, strict=True):
            lies.setdefault(access.tensor, int(numbers[way]))
    return with_best_homes(space, problem, [ways[name] for name in problem.nodes.einsums])


def at_random(space: SearchSpace, problem: Problem, rng: Random) -> Choice | None:
    """A way for each Einsum and a home for each tensor, each uniform among those that what was drawn before allows;
    None where TRIES draws led nowhere.
    """
    for _ in range(TRIES):
        drawn = _drawn(space, problem, rng)
        if drawn is not None:
            return drawn
    return None


def with_best_homes(space: SearchSpace, problem: Problem, ways: Sequence[int]) -> Choice | None:
    """These ways, and for each tensor the home that costs least with them; None where there is none."""
    choice = [*ways, *(0 for _ in problem.nodes.tensors)]
    for node in range(len(ways), len(choice)):
        choice[node], cost = cheapest_home(space, problem, node, choice)
        if not np.isfinite(cost):
            return None
    return tuple(choice)


def cheapest_home(space: SearchSpace, problem: Problem, node: int, choice: Sequence[int]) -> tuple[int, float]:
    """The home of a tensor that costs least with the ways of `choice`, of equal ones the smallest, and its cost."""
    costs = home_costs(problem, node, choice)
    least = costs.min()
    if not np.isfinite(least):
        return 0, np.inf
    cheap = np.nonzero(costs <= least * (1 + EQUAL))[0]
    if len(cheap) > 1:
        homes = space.homes[problem.nodes.tensors[node - len(problem.nodes.einsums)]]
        values = homes.paths.places.values
        held = values[homes.first[cheap]] + np.where(
            homes.first[cheap] == homes.second[cheap], 0, values[homes.second[cheap]]
        )
        cheap = cheap[held.argmin() :]
    return int(cheap[0]), float(least)


def home_costs(problem: Problem, node: int, choice: Sequence[int]) -> Costs:
    """What each home of a tensor costs with the ways of `choice`: of itself, and of moves from and to its Einsums."""
    selection = problem.selection
    costs = selection.nodes[node]
    for number in problem.edges_of[node]:
        edge = selection.edges[number]
        costs = costs + edge.costs[choice[edge.first]]
    return costs


def _moved(space: SearchSpace, einsum: Einsum, lies: dict[TensorName, int]) -> Costs:
    """What each way costs to bring its operands from where they lie; inf where they cannot be."""
    offered = space.ways[einsum.name]
    total: Costs = np.zeros(len(offered.choices))
    for access, numbers in zip(einsum.accesses, offered.lies, strict=True):
        if access.output:
            continue
        homes = space.homes[access.tensor]
        if access.tensor in lies:
            reached = homes.paths.distances[lies[access.tensor], numbers]
            # a graph input may also be brought from its home anew
            if access.tensor not in space.context.workload.producers:
                reached = np.minimum(reached, homes.reach[:, numbers].min(axis=0))
            total = total + reached
        else:
            total = total + homes.reach[:, numbers].min(axis=0)
    return total


def _weights_whole(space: SearchSpace, einsum: Einsum) -> np.ndarray:
    """Which ways read every weight whole."""
    offered = space.ways[einsum.name]
    whole = np.ones(len(offered.choices), dtype=bool)
    operands = [access.tensor for access in einsum.accesses if not access.output]
    for access, numbers in zip(einsum.accesses, offered.lies, strict=True):
        if access.tensor in operands[1:] and access.tensor not in space.context.workload.producers:
            placements = space.homes[access.tensor].paths.places.placements
            whole &= np.array([not placements[number].splits for number in numbers])
    return whole


def _drawn(space: SearchSpace, problem: Problem, rng: Random) -> Choice | None:
    lies: dict[TensorName, int] = {}
    choice: list[int] = []
    for einsum in space.context.workload.einsums:
        offered = space.ways[einsum.name]
        possible = np.isfinite(offered.costs) & np.isfinite(_moved(space, einsum, lies))
        if not possible.any():
            return None
        way = int(rng.choice(np.nonzero(possible)[0].tolist()))
        choice.append(way)
        for access, numbers in zip(einsum.accesses, offered.lies, strict=True):
            if access.output:
                lies[access.tensor] = int(numbers[way])
    for node in range(len(choice), len(problem.selection.nodes)):
        finite = np.nonzero(np.isfinite(home_costs(problem, node, choice)))[0]
        if not len(finite):
            return None
        choice.append(int(rng.choice(finite.tolist())))
    return tuple(choice)
