"""A choice of ways and homes as steps: moves and local Einsums."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from einmap.distribute.placements.placement import Placement
from einmap.distribute.search.homes import Homes
from einmap.distribute.search.problem import Nodes
from einmap.distribute.search.space import SearchSpace
from einmap.distribute.selection.problem import Choice
from einmap.distribute.steps.actions import Computed, Moved, PlanAction
from einmap.einsum.einsum import TensorName


def chosen_homes(space: SearchSpace, nodes: Nodes, choice: Choice) -> dict[TensorName, tuple[Placement, ...]]:
    """Where each tensor is kept."""
    homes: dict[TensorName, tuple[Placement, ...]] = {}
    for tensor in nodes.tensors:
        offered, number = space.homes[tensor], choice[nodes.tensor(tensor)]
        placements = offered.paths.places.placements
        pair = placements[offered.first[number]], placements[offered.second[number]]
        homes[tensor] = tuple(dict.fromkeys(pair))
    return homes


def chosen_actions(space: SearchSpace, nodes: Nodes, choice: Choice) -> tuple[PlanAction, ...]:
    """The steps, in the order of `memory`."""
    return tuple(_actions(space, nodes, choice))


def _actions(space: SearchSpace, nodes: Nodes, choice: Choice) -> Iterator[PlanAction]:
    workload = space.context.workload
    for einsum in workload.einsums:
        ways, way = space.ways[einsum.name], choice[nodes.einsum(einsum.name)]
        picked = ways.choices[way]
        lies = {a.tensor: int(numbers[way]) for a, numbers in zip(einsum.accesses, ways.lies, strict=True)}
        placed = dict(zip((access.tensor for access in einsum.accesses), picked.placements, strict=True))
        for access in einsum.accesses:
            if not access.output:
                homes, number = space.homes[access.tensor], choice[nodes.tensor(access.tensor)]
                readers = workload.consumers[access.tensor]
                if access.tensor not in workload.producers and readers[0] == einsum.name:
                    yield from _moves(access.tensor, homes, int(homes.first[number]), int(homes.second[number]))
                here = homes.second if homes.nearest[number, lies[access.tensor]] else homes.first
                yield from _moves(access.tensor, homes, int(here[number]), lies[access.tensor])
        operands = tuple((a.tensor, placed[a.tensor]) for a in einsum.accesses if not a.output)
        results = tuple((a.tensor, placed[a.tensor]) for a in einsum.accesses if a.output)
        yield Computed(einsum.name, picked.loops, operands, results)
        for tensor, _ in results:
            homes, number = space.homes[tensor], choice[nodes.tensor(tensor)]
            first, second = int(homes.first[number]), int(homes.second[number])
            yield from _moves(tensor, homes, lies[tensor], first)
            yield from _moves(tensor, homes, first, second)


def _moves(tensor: TensorName, homes: Homes, start: int, end: int) -> Iterator[Moved]:
    if start == end:
        return
    route = homes.paths.route(start, end)
    before = route.start
    for hop in route.hops:
        yield Moved(tensor, before, hop)
        before = hop.after
    assert np.isfinite(homes.paths.distances[start, end])
