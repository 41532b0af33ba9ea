"""Every plan of a small problem: all loop partitions, all sequences of moves."""

from functools import cache
from itertools import combinations, permutations, product

import numpy as np

from einmap.distribute.actions import Computed, Moved
from einmap.distribute.choices import Choice
from einmap.distribute.lifetimes import peak_memory
from einmap.distribute.naming import named_plan
from einmap.distribute.placement import Placement

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
            price = 0.0
            if hop.kind != "slice":
                price = cost.move(hop.kind, places.mesh, hop.axes, hop.operand * bits, hop.result * bits)
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


def least_cost_within(space, cost, memory):
    """The least cost of all plans whose tensors have one home, within a limit on the memory of a PE."""
    workload = space.context.workload
    least = INF
    ways = [range(len(space.ways[e.name].costs)) for e in workload.einsums]
    kept = {t: sorted({int(n) for n in space.homes[t].first}) for t in workload.tensors}
    for homes in product(*kept.values()):
        at = dict(zip(kept, homes, strict=True))
        for picked in product(*ways):
            price = _price(space, at, dict(zip(workload.einsum_names, picked, strict=True)))
            if price < least and _peak(space, at, dict(zip(workload.einsum_names, picked, strict=True))) <= memory:
                least = price
    return least


def _price(space, at, picked):
    total = 0.0
    for einsum in space.context.workload.einsums:
        ways, way = space.ways[einsum.name], picked[einsum.name]
        total += ways.costs[way]
        for access, lies in zip(einsum.accesses, ways.lies, strict=True):
            distances = space.homes[access.tensor].paths.distances
            home = at[access.tensor]
            total += distances[lies[way], home] if access.output else distances[home, lies[way]]
    return total


def _peak(space, at, picked):
    workload = space.context.workload
    actions = []

    def move(tensor, start, end):
        paths = space.homes[tensor].paths
        before = paths.places.placements[start]
        for hop in paths.route(start, end).hops:
            actions.append(Moved(tensor, before, hop))
            before = hop.after

    for einsum in workload.einsums:
        ways, way = space.ways[einsum.name], picked[einsum.name]
        choice: Choice = ways.choices[way]
        lies = {access.tensor: numbers[way] for access, numbers in zip(einsum.accesses, ways.lies, strict=True)}
        placed = {a.tensor: p for a, p in zip(einsum.accesses, choice.placements, strict=True)}
        for access in einsum.accesses:
            if not access.output:
                move(access.tensor, at[access.tensor], lies[access.tensor])
        actions.append(
            Computed(
                einsum.name,
                choice.loops,
                tuple((t, placed[t]) for t in placed if t in einsum.inputs),
                tuple((t, placed[t]) for t in placed if t in einsum.outputs),
            )
        )
        for tensor in placed:
            if tensor in einsum.outputs:
                move(tensor, lies[tensor], at[tensor])
    return peak_memory(plan_for(space, at, actions), space.bits).bytes


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
