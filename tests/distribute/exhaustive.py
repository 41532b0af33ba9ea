"""Every plan of the space of a small problem: all ways of its Einsums, all sequences of moves."""

from functools import cache
from itertools import combinations, permutations, product

import numpy as np

from einmap.distribute.costs.cost_model import hop_cost
from einmap.distribute.placements.placement import Placement
from einmap.distribute.steps.naming import named_plan

INF = float("inf")


def loop_partitions(space, einsum):
    """The ways of an Einsum that differ in loops, as (variable, axes): all assignments of axes in all orders."""
    axes = [name for name, size in space.context.mesh.axes if size > 1]
    variables = list(einsum.rank_variables)
    made = set()
    for owners in product([None, *variables], repeat=len(axes)):
        by_variable = [[axis for axis, owner in zip(axes, owners, strict=True) if owner == v] for v in variables]
        for orders in product(*(list(permutations(group)) for group in by_variable)):
            made.add(tuple((v, order) for v, order in zip(variables, orders, strict=True) if order))
    return made


class Moves:
    """Moves of one tensor, from the list of all of them."""

    def __init__(self, space, tensor, cost):
        places, bits = space.homes[tensor].paths.places, space.bits[tensor]
        self.between = np.full((len(places.placements),) * 2, INF)
        np.fill_diagonal(self.between, 0)
        for here, there, hop in places.hops:
            price = hop_cost(cost, places.mesh, hop, bits)
            self.between[here, there] = min(self.between[here, there], price)
        for _ in range(len(places.placements)):  # one move more each time, until nothing changes
            longer = (self.between[:, :, None] + self.between[None, :, :]).min(axis=1)
            if (longer == self.between).all():
                break
            self.between = longer
        self.tree = cache(self.tree)

    def tree(self, needs):
        """From each placement, the least cost of making all of `needs`, whatever is made on the way.

        Dreyfus and Wagner, "The Steiner problem in graphs", 1971.
        """
        if not needs:
            return np.zeros(len(self.between))
        if len(needs) == 1:
            return self.between[:, min(needs)]
        parts = [frozenset(part) for length in range(1, len(needs)) for part in combinations(sorted(needs), length)]
        forked = np.min([self.tree(part) + self.tree(needs - part) for part in parts], axis=0)
        return (self.between + forked).min(axis=1)


def least_cost(space, cost, starts):
    """The least cost without a limit. `starts`: for graph inputs, the placements that they may have."""
    workload = space.context.workload
    moves = {tensor: Moves(space, tensor, cost) for tensor in workload.tensors}
    least = INF
    ways = [
        list(zip(space.ways[e.name].costs, zip(*space.ways[e.name].lies, strict=True), strict=True))
        for e in workload.einsums
    ]
    for picked in product(*ways):
        total = sum(price for price, _ in picked)
        lies = {
            (einsum.name, access.tensor): number
            for einsum, (_, numbers) in zip(workload.einsums, picked, strict=True)
            for access, number in zip(einsum.accesses, numbers, strict=True)
        }
        for tensor in workload.tensors:
            if total >= least:
                break
            total += tensor_cost(space, moves[tensor], tensor, lies, starts)
        least = min(least, total)
    return least


def tensor_cost(space, moves, tensor, lies, starts):
    """What moving one tensor costs."""
    workload = space.context.workload
    needs = frozenset(lies[reader, tensor] for reader in workload.consumers[tensor])
    if tensor not in workload.producers:
        return moves.tree(needs)[starts[tensor]].min()
    produced = lies[workload.producers[tensor], tensor]
    return min(moves.tree(needs | ({end} if end is not None else set()))[produced] for end in starts[tensor])


def plan_for(space, at, actions):
    """The plan with these homes of graph inputs and these steps."""
    context = space.context
    sizes = {tensor: tuple(ranks.items()) for tensor, ranks in context.sizes.items()}
    inputs: dict[str, Placement] = {
        tensor: space.homes[tensor].paths.places.placements[at[tensor]]
        for tensor in context.workload.tensors
        if tensor not in context.workload.producers
    }
    return named_plan(context.mesh, context.workload, sizes, inputs, actions, "float64")


def n_plans(space):
    """How many combinations of ways there are."""
    return int(np.prod([float(len(space.ways[name].costs)) for name in space.context.workload.einsum_names]))
